use crate::names::{Spellings, ToolNames};
use crate::pattern::Match;
use crate::{Pattern, PatternError};
use coracle_types::Decision;
use std::sync::Arc;

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
/// together, and the strictest of them decides. Their order means nothing. Two spellings of one name are equal.
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule that decides about the tool of these names.
    pub fn decisive(&self, names: &ToolNames) -> Option<&Rule> {
        let about: Vec<(&Read, Match)> = self
            .rules
            .iter()
            .filter_map(|read| Some((read, read.pattern.matches(names, read.rule.decision)?)))
            .collect();
        // Two tools of one server that are spelled alike are told apart by their exact names, and by nothing else.
        let has_twin = !names.server.is_unique() || !names.tool.is_unique();
        let most_specific = about.iter().filter(|(read, found)| {
            let beaten = about.iter().any(|(other, of_other)| {
                let is_exact = has_twin && of_other < found && other.pattern.is_same_as(&read.pattern);
                is_exact || other.pattern.is_more_specific_than(&read.pattern)
            });
            !beaten
        });
        let strictest = most_specific.max_by_key(|(read, _)| (read.rule.decision, &read.rule.pattern));
        strictest.map(|(read, _)| &read.rule)
    }

    /// Rules that match no tool, although all tools are known of each server that they are about.
    pub fn without_effect(&self, servers: &[KnownServer]) -> Vec<&Rule> {
        let has_no_effect = |read: &&Read| {
            let about: Vec<&KnownServer> =
                servers.iter().filter(|known| read.pattern.matches_server(&known.server)).collect();
            let matches = |known: &&KnownServer| match &known.tools {
                // There may be one.
                None => true,
                Some(tools) => tools.iter().any(|tool| {
                    let names = ToolNames { server: Arc::clone(&known.server), tool: Arc::clone(tool) };
                    read.pattern.matches(&names, read.rule.decision).is_some()
                }),
            };
            !about.is_empty() && !about.iter().any(matches)
        };
        self.rules.iter().filter(has_no_effect).map(|read| &read.rule).collect()
    }

    /// Rules that name a server which is none of these.
    pub fn without_server(&self, servers: &[Arc<Spellings>]) -> Vec<&Rule> {
        let is_without = |read: &&Read| {
            read.pattern.names_one_server() && !servers.iter().any(|server| read.pattern.matches_server(server))
        };
        self.rules.iter().filter(is_without).map(|read| &read.rule).collect()
    }
}

/// A server and the tools that it is known to have.
#[derive(Clone, Debug)]
pub struct KnownServer {
    /// The names of the server.
    pub server: Arc<Spellings>,
    /// The names of its tools; `None` if they are not known.
    pub tools: Option<Vec<Arc<Spellings>>>,
}
