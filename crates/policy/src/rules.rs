use crate::{Pattern, PatternError};
use coracle_types::{Decision, Tool};

/// So many rules are taken.
pub const MAX_RULES: usize = 10_000;

/// One line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which tools it is about, as [`Pattern`] reads it.
    pub pattern: String,
    /// What it says of them.
    pub decision: Decision,
    /// Where it stands, for people: a file and its line, or a variable.
    pub origin: String,
}

/// Why rules cannot be used. None of them is then: a rule that denies must not be lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// A pattern is none.
    #[error("{origin}: {error}")]
    Pattern {
        /// Where it stands.
        origin: String,
        /// What is wrong with it.
        error: PatternError,
    },
    /// There are too many.
    #[error("there are {count} rules for tools: at most {MAX_RULES} are taken")]
    TooMany {
        /// How many there are.
        count: usize,
    },
}

impl RulesError {
    /// The stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Pattern { error, .. } => error.code(),
            Self::TooMany { .. } => "rules_too_many",
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Pattern { error, .. } => error.hint(),
            Self::TooMany { .. } => Some("use patterns: \"server.*\" is about all tools of a server".to_owned()),
        }
    }
}

/// What the operator says of tools.
///
/// Of the rules that are about a tool the most specific one counts: a rule is more specific than another if the other is
/// about all the same tools and more. Rules of which neither is more specific, like `git.*` and `*.delete`, count
/// together, and the strictest of them decides. Their order means nothing.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Read>,
}

#[derive(Clone, Debug)]
struct Read {
    pattern: Pattern,
    rule: Rule,
}

impl Rules {
    /// Reads the patterns.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RulesError> {
        if rules.len() > MAX_RULES {
            return Err(RulesError::TooMany { count: rules.len() });
        }
        let read = rules.into_iter().map(|rule| match rule.pattern.parse() {
            Ok(pattern) => Ok(Read { pattern, rule }),
            Err(error) => Err(RulesError::Pattern { origin: rule.origin, error }),
        });
        Ok(Self { rules: read.collect::<Result<_, _>>()? })
    }

    /// The rule that decides about this tool.
    pub fn decisive(&self, tool: &Tool) -> Option<&Rule> {
        let about: Vec<&Read> = self.rules.iter().filter(|read| read.pattern.matches(tool)).collect();
        let most_specific = about.iter().filter(|read| {
            let beaten = about.iter().any(|other| other.pattern.is_more_specific_than(&read.pattern));
            !beaten
        });
        let strictest = most_specific.max_by_key(|read| (read.rule.decision, &read.rule.pattern));
        strictest.map(|read| &read.rule)
    }
}
