use crate::configuration_line::allow_line;
use crate::{Rules, ToolNames, render};
use coracle_types::{Decision, Tool};
use std::fmt;

/// What the rules and the default say; nobody is asked.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Rules,
}

/// What a policy says of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it may be called.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// The line of configuration that would allow it, and nothing else.
    pub allow_line: String,
}

/// Why a policy says what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A rule is about the tool.
    Rule {
        /// Its pattern.
        pattern: String,
        /// Where it stands.
        origin: String,
    },
    /// No rule is.
    Default {
        /// The tool says that it may destroy something.
        destructive: bool,
    },
}

impl Policy {
    /// A policy of these rules.
    pub fn new(rules: Rules) -> Self {
        Self { rules }
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether the tool, which goes by these names, may be called.
    ///
    /// Without a rule: only if a person says so for a tool that says that it is destructive and not that it only reads,
    /// and yes for all others. What a tool says of itself is a claim of its server.
    pub fn decide(&self, tool: &Tool, names: &ToolNames) -> Verdict {
        let allow_line = allow_line(tool);
        if let Some(rule) = self.rules.decisive(names) {
            let reason = Reason::Rule { pattern: rule.pattern.clone(), origin: rule.origin.clone() };
            return Verdict { decision: rule.decision, reason, allow_line };
        }
        let destructive = tool.hints.destructive == Some(true) && tool.hints.read_only != Some(true);
        let decision = if destructive { Decision::Ask } else { Decision::Allow };
        Verdict { decision, reason: Reason::Default { destructive }, allow_line }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { pattern, origin } => write!(f, "rule {:?} ({origin})", render::name(pattern)),
            Self::Default { destructive: true } => f.write_str("the tool says that it may destroy something"),
            Self::Default { destructive: false } => f.write_str("no rule is about it"),
        }
    }
}
