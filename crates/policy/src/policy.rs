use crate::configuration_line::allow_line;
use crate::{FlowVerdict, Quorum, Rules, ToolNames, render};
use coracle_types::{Decision, Tool};
use std::fmt;

/// The rules and the default. Decides without asking anyone.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Rules,
}

/// The decision of a policy about a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the tool may be called.
    pub decision: Decision,
    /// The reason.
    pub reason: Reason,
    /// The configuration line that would allow this tool and no other.
    pub allow_line: String,
    /// The people who must approve the call, if it is not the person whose code makes it.
    pub quorum: Option<Quorum>,
}

/// The reason of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A rule matches the tool.
    Rule {
        /// The pattern of the rule.
        pattern: String,
        /// Where the rule is.
        origin: String,
    },
    /// The user wants to be asked, although the policy allows the tool.
    Wish,
    /// A rule about the flow of data.
    Flow(Box<FlowVerdict>),
    /// No rule matches the tool.
    Default {
        /// The tool is marked as destructive.
        destructive: bool,
    },
}

impl Policy {
    /// Creates a policy with these rules.
    pub fn new(rules: Rules) -> Self {
        Self { rules }
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Decides whether the tool with these names may be called.
    ///
    /// Without a rule, a tool is allowed unless its server marks it as destructive and not as read-only: then a person
    /// is asked. These marks are claims of the server.
    ///
    /// Where a group has to approve, that is so whatever the rules allow.
    pub fn decide(&self, tool: &Tool, names: &ToolNames) -> Verdict {
        let mut verdict = self.decide_alone(tool, names);
        if verdict.decision == Decision::Deny {
            return verdict;
        }
        if let Some((quorum, line)) = self.rules.approvers().about(names) {
            if verdict.decision == Decision::Allow {
                verdict.decision = Decision::Ask;
                verdict.reason = Reason::Rule { pattern: line.pattern.clone(), origin: line.origin.clone() };
            }
            verdict.quorum = Some(quorum);
        }
        verdict
    }

    /// The decision of the rules, without approvers.
    fn decide_alone(&self, tool: &Tool, names: &ToolNames) -> Verdict {
        let allow_line = allow_line(tool);
        if let Some(rule) = self.rules.decisive(names) {
            let reason = Reason::Rule { pattern: rule.pattern.clone(), origin: rule.origin.clone() };
            return Verdict { decision: rule.decision, reason, allow_line, quorum: None };
        }
        let destructive = tool.hints.destructive == Some(true) && tool.hints.read_only != Some(true);
        let decision = if destructive { Decision::Ask } else { Decision::Allow };
        Verdict { decision, reason: Reason::Default { destructive }, allow_line, quorum: None }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { pattern, origin } => write!(f, "rule {:?} ({origin})", render::name(pattern)),
            Self::Flow(verdict) => verdict.fmt(f),
            Self::Wish => f.write_str("the user wants to be asked about this tool"),
            Self::Default { destructive: true } => f.write_str("the tool is marked as destructive"),
            Self::Default { destructive: false } => f.write_str("no rule matches"),
        }
    }
}
