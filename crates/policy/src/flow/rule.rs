//! One rule: `SOURCE -> SINK: DECISION [KINDS]`.

use super::end::{End, EndError};
use coracle_types::Decision;
use std::collections::BTreeSet;
use std::fmt;

/// The maximum length of a rule.
const MAX_RULE_BYTES: usize = 2 << 10;
/// The maximum number of kinds in a rule.
const MAX_KINDS: usize = 100;

/// Why a text is not a flow rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowSyntax {
    /// There is no arrow.
    #[error("{text:?} has no `->` between the source and the sink")]
    NoArrow {
        /// The rule.
        text: String,
    },
    /// There is no decision.
    #[error("{text:?} does not end with `: allow`, `: ask` or `: deny`")]
    NoDecision {
        /// The rule.
        text: String,
    },
    /// A source or a sink is invalid.
    #[error(transparent)]
    End(#[from] EndError),
    /// The kinds are invalid.
    #[error("the kinds of {text:?} are not a list such as [EMAIL, PERSON]")]
    Kinds {
        /// The rule.
        text: String,
    },
    /// There is no such kind.
    #[error("there is no kind {kind:?}")]
    UnknownKind {
        /// The kind.
        kind: String,
        /// The kinds that there are.
        known: String,
    },
    /// There are more than two sources.
    #[error("{text:?} has more than two sources")]
    Sources {
        /// The rule.
        text: String,
    },
    /// Two sources and kinds.
    #[error("{text:?} has two sources and kinds: a value is not from both")]
    KindsOfTwo {
        /// The rule.
        text: String,
    },
    /// The rule is too long.
    #[error("the rule is {bytes} bytes long: the maximum is {MAX_RULE_BYTES}")]
    TooLong {
        /// Length in bytes.
        bytes: usize,
    },
}

impl FlowSyntax {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        "flow_syntax"
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UnknownKind { known, .. } => format!("there are: {known}"),
            Self::End(error) => return error.hint(),
            Self::Sources { .. } => "write one rule for each pair of sources".to_owned(),
            Self::KindsOfTwo { .. } => "write a rule with one source for kinds".to_owned(),
            _ => "write a rule such as \"crm -> mail: allow [EMAIL, PERSON]\"".to_owned(),
        })
    }
}

/// A rule that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowRule {
    /// The rule in its usual spelling.
    pub(super) text: String,
    /// Where the rule is, for people.
    pub(super) origin: String,
    pub(super) source: End,
    /// The second source, if data has to come from both.
    pub(super) second: Option<End>,
    pub(super) sink: End,
    pub(super) decision: Decision,
    /// The kinds of personal data that it names.
    pub(super) kinds: Option<BTreeSet<String>>,
}

impl FlowRule {
    /// Reads a rule. Kinds have to be among `known`.
    pub(super) fn parse(text: &str, origin: &str, known: &BTreeSet<String>) -> Result<Self, FlowSyntax> {
        let owned = || text.to_owned();
        if text.len() > MAX_RULE_BYTES {
            return Err(FlowSyntax::TooLong { bytes: text.len() });
        }
        let arrow = text.split_once("->").or_else(|| text.split_once('→'));
        let (sources, rest) = arrow.ok_or_else(|| FlowSyntax::NoArrow { text: owned() })?;
        let (sink, verdict) = rest.rsplit_once(':').ok_or_else(|| FlowSyntax::NoDecision { text: owned() })?;
        let (word, kinds) = match verdict.split_once('[') {
            None => (verdict.trim(), None),
            Some((word, kinds)) => (word.trim(), Some(kinds)),
        };
        let decision = match word {
            "allow" => Decision::Allow,
            "ask" => Decision::Ask,
            "deny" => Decision::Deny,
            _ => return Err(FlowSyntax::NoDecision { text: owned() }),
        };
        let kinds = kinds.map(|kinds| read_kinds(text, kinds, known)).transpose()?;
        let mut sources = sources.split('&').map(End::source);
        let Some(source) = sources.next() else { return Err(FlowSyntax::NoArrow { text: owned() }) };
        let (source, second) = (source?, sources.next().transpose()?);
        if sources.next().is_some() {
            return Err(FlowSyntax::Sources { text: owned() });
        }
        if second.is_some() && kinds.is_some() {
            return Err(FlowSyntax::KindsOfTwo { text: owned() });
        }
        let sink = End::sink(sink)?;
        let mut rule = Self { text: String::new(), origin: origin.to_owned(), source, second, sink, decision, kinds };
        rule.text = rule.to_string();
        Ok(rule)
    }

    /// What the rule decides about data of this kind, whose source and sink match; `None` if the kind does not match.
    pub(super) fn about(&self, kind: Option<&str>) -> Option<Applied> {
        let applied = |decision, is_listed| Some(Applied { decision, is_listed });
        match (kind, &self.kinds) {
            (_, None) => applied(self.decision, false),
            (Some(kind), Some(kinds)) if kinds.contains(kind) => applied(self.decision, true),
            // Only these kinds are allowed.
            (Some(_), Some(_)) if self.decision == Decision::Allow => applied(Decision::Deny, false),
            (None, Some(_)) if self.decision == Decision::Allow => applied(Decision::Allow, false),
            (_, Some(_)) => None,
        }
    }

    /// Whether this rule, applied like this, is more specific than the other one.
    pub(super) fn beats(&self, applied: Applied, other: &Self, of_other: Applied) -> bool {
        let kinds = |one: &Self, one_applied: Applied, other: &Self, other_applied: Applied| match (
            one_applied.is_listed,
            other_applied.is_listed,
        ) {
            (true, true) => one.kinds.as_ref().zip(other.kinds.as_ref()).is_some_and(|(a, b)| a.is_subset(b)),
            (false, true) => false,
            (_, false) => true,
        };
        let within = self.ends_within(other) && kinds(self, applied, other, of_other);
        within && !(other.ends_within(self) && kinds(other, of_other, self, applied))
    }

    /// Whether the other rule matches everything that this one does, but for kinds.
    fn ends_within(&self, other: &Self) -> bool {
        let sources = match (&self.second, &other.second) {
            (None, None) => self.source.is_within(&other.source),
            (Some(second), Some(of_other)) => {
                let straight = self.source.is_within(&other.source) && second.is_within(of_other);
                let crossed = self.source.is_within(of_other) && second.is_within(&other.source);
                straight || crossed
            }
            _ => false,
        };
        sources && self.sink.is_within(&other.sink)
    }
}

impl fmt::Display for FlowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        if let Some(second) = &self.second {
            write!(f, " & {second}")?;
        }
        let decision = match self.decision {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        };
        write!(f, " -> {}: {decision}", self.sink)?;
        if let Some(kinds) = &self.kinds {
            let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
            write!(f, " [{}]", kinds.join(", "))?;
        }
        Ok(())
    }
}

/// What a rule decides about some data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) decision: Decision,
    /// Whether the rule names the kind.
    pub(super) is_listed: bool,
}

fn read_kinds(rule: &str, text: &str, known: &BTreeSet<String>) -> Result<BTreeSet<String>, FlowSyntax> {
    let wrong = || FlowSyntax::Kinds { text: rule.to_owned() };
    let inside = text.trim_end().strip_suffix(']').ok_or_else(wrong)?;
    let mut kinds = BTreeSet::new();
    for kind in inside.split(',') {
        let kind = kind.trim().to_ascii_uppercase();
        if kind.is_empty() || kinds.len() == MAX_KINDS {
            return Err(wrong());
        }
        if !known.contains(&kind) {
            let known = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(FlowSyntax::UnknownKind { kind, known });
        }
        kinds.insert(kind);
    }
    Ok(kinds)
}
