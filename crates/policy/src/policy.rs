use crate::cedar::{CedarPolicies, CedarVerdict};
use crate::checks::{CheckVerdict, Checks};
use crate::configuration_line::allow_line;
use crate::facts::{ExecutionFacts, Facts};
use crate::limits::{LimitVerdict, Limits};
use crate::{ApproverRule, Call, FlowVerdict, Groups, Quorum, Rules, ServerLabels, ToolNames, render};
use coracle_types::{Decision, Tool};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// The maximum length of a message of a policy, in characters.
const MAX_MESSAGE_CHARS: usize = 300;

/// The operator's policies and the default. Decides without asking anyone.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Rules,
    cedar: Option<Arc<CedarPolicies>>,
    checks: Arc<Checks>,
    limits: Arc<Limits>,
    groups: Arc<Groups>,
    labels: Arc<ServerLabels>,
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
    /// Whether the decision depends on this call, so that earlier answers about the tool do not count for it.
    pub is_about_this_call: bool,
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
    /// A Cedar policy, a condition or a limit.
    Named {
        /// What it is.
        kind: PolicyKind,
        /// Its name.
        name: String,
        /// Where it is.
        origin: String,
        /// The operator's explanation.
        message: Option<String>,
        /// Why it could not be evaluated, if that is why it decides so.
        error: Option<String>,
    },
}

/// The kind of a policy with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// A Cedar policy.
    Cedar,
    /// A rule on arguments.
    Check,
    /// A limit on calls in a period.
    Limit,
}

impl PolicyKind {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cedar => "cedar",
            Self::Check => "condition",
            Self::Limit => "limit",
        }
    }
}

impl From<Rules> for Policy {
    fn from(rules: Rules) -> Self {
        Self::new(rules)
    }
}

impl Policy {
    /// Creates a policy with these rules.
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Adds groups of users.
    #[must_use]
    pub fn with_groups(self, groups: Groups) -> Self {
        Self { groups: Arc::new(groups), ..self }
    }

    /// Adds Cedar policies.
    #[must_use]
    pub fn with_cedar(self, cedar: CedarPolicies) -> Self {
        Self { cedar: Some(Arc::new(cedar)).filter(|cedar| !cedar.is_empty()), ..self }
    }

    /// Adds rules on arguments.
    #[must_use]
    pub fn with_checks(self, checks: Checks) -> Self {
        Self { checks: Arc::new(checks), ..self }
    }

    /// Adds limits on calls.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits: Arc::new(limits), ..self }
    }

    /// Adds the labels of servers.
    #[must_use]
    pub fn with_labels(self, labels: ServerLabels) -> Self {
        Self { labels: Arc::new(labels), ..self }
    }

    /// What a decision about a call is made from, now.
    pub fn facts<'a>(&self, call: &Call<'a>) -> Facts<'a> {
        let Call { user, session, tool, names, arguments, circumstances, .. } = *call;
        let labels = self.labels.of_tool(&tool.server, tool.hints);
        Facts { user, session, tool, names, arguments, labels, circumstances, at: SystemTime::now() }
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The Cedar policies, if there are any.
    pub fn cedar(&self) -> Option<&CedarPolicies> {
        self.cedar.as_deref()
    }

    /// The rules on arguments.
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// The limits on calls.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The groups of users.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Whether a decision may depend on the names of a tool.
    pub fn reads_names(&self) -> bool {
        !self.rules.is_empty() || self.cedar.is_some() || !self.checks.is_empty() || !self.limits.is_empty()
    }

    /// Decides about a tool by the rules for tools only, without regard to a call.
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
            return Verdict { decision: rule.decision, reason, allow_line, quorum: None, is_about_this_call: false };
        }
        let destructive = tool.hints.destructive == Some(true) && tool.hints.read_only != Some(true);
        let decision = if destructive { Decision::Ask } else { Decision::Allow };
        Verdict {
            decision,
            reason: Reason::Default { destructive },
            allow_line,
            quorum: None,
            is_about_this_call: false,
        }
    }

    /// Decides about a call: the strictest decision of the rules for tools, of the conditions and of the Cedar policies
    /// counts. Limits are charged later, by [`Approvals::charge`](crate::Approvals::charge).
    pub fn decide_call(&self, facts: &Facts<'_>) -> Verdict {
        let mut verdict = self.decide(facts.tool, facts.names);
        if let Some(check) = self.checks.decide(&self.groups, facts) {
            verdict = verdict.and(check.decision, check.into(), true);
        }
        let Some(mut cedar) = self.cedar.as_ref().and_then(|cedar| cedar.decide(facts)) else { return verdict };
        let both = ApproverRule::both(verdict.quorum.as_ref().map(ApproverRule::from), cedar.approvers.take());
        if let Ok(rule) = both {
            verdict.quorum = rule.map(|rule| Quorum::of(&rule, &self.groups));
        } else {
            cedar.decision = Decision::Deny;
            cedar.error = Some("it and policy.approvers require approvers of different groups".to_owned());
        }
        let reads_context = cedar.reads_context;
        verdict.and(cedar.decision, cedar.into(), reads_context)
    }

    /// The condition or the Cedar policy that denies an execution, if there is one.
    pub fn denies_execution(&self, facts: &ExecutionFacts<'_>) -> Option<Reason> {
        let check = self.checks.denies_execution(&self.groups, facts).map(Reason::from);
        check.or_else(|| self.cedar.as_ref()?.decide_execution(facts).map(Reason::from))
    }
}

impl Verdict {
    /// The stricter of two decisions. Of two that are the same, the later one gives the reason.
    fn and(self, decision: Decision, reason: Reason, is_about_this_call: bool) -> Self {
        if decision < self.decision {
            return self;
        }
        let is_about_this_call = is_about_this_call || (decision == self.decision && self.is_about_this_call);
        Self { decision, reason, is_about_this_call, ..self }
    }
}

impl Reason {
    /// Whether a configuration line for the tool would change the decision.
    pub(crate) fn yields_to_rules(&self) -> bool {
        matches!(self, Self::Rule { .. } | Self::Default { .. })
    }
}

impl From<CedarVerdict> for Reason {
    fn from(cedar: CedarVerdict) -> Self {
        let CedarVerdict { id: name, origin, message, error, .. } = cedar;
        Self::Named { kind: PolicyKind::Cedar, name, origin, message, error }
    }
}

impl From<CheckVerdict> for Reason {
    fn from(check: CheckVerdict) -> Self {
        let CheckVerdict { name, origin, message, error, .. } = check;
        Self::Named { kind: PolicyKind::Check, name, origin, message, error }
    }
}

impl From<LimitVerdict> for Reason {
    fn from(limit: LimitVerdict) -> Self {
        let LimitVerdict { name, origin, error } = limit;
        let message = error.is_none().then(|| "it is used up for now".to_owned());
        Self::Named { kind: PolicyKind::Limit, name, origin, message, error }
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
            Self::Named { kind, name, origin, message, error } => {
                let what = match kind {
                    PolicyKind::Cedar => "policy",
                    PolicyKind::Check => "condition",
                    PolicyKind::Limit => "limit",
                };
                write!(f, "{what} {:?}", render::name(name))?;
                if name != origin {
                    write!(f, " ({origin})")?;
                }
                if let Some(message) = message {
                    write!(f, ": {}", render::prose(message, MAX_MESSAGE_CHARS))?;
                }
                error.iter().try_for_each(|error| {
                    write!(f, ": it cannot be evaluated: {}", render::prose(error, MAX_MESSAGE_CHARS))
                })
            }
        }
    }
}
