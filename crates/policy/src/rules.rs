use crate::names::{Spellings, ToolNames};
use crate::pattern::Match;
use crate::{ApproverRules, Pattern, PatternError};
use coracle_types::Decision;
use std::sync::Arc;

/// The maximum number of rules.
pub const MAX_RULES: usize = 10_000;

/// One line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The pattern, as [`Pattern`] reads it.
    pub pattern: String,
    /// The decision about the tools that match.
    pub decision: Decision,
    /// Where the rule is, for people: a file and a line, or a variable.
    pub origin: String,
}

/// Why rules cannot be used. One bad rule rejects all of them, so that no rule that denies is lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// A pattern is invalid.
    #[error("{origin}: {error}")]
    Pattern {
        /// Where the rule is.
        origin: String,
        /// The error in the pattern.
        error: PatternError,
    },
    /// There are too many rules.
    #[error("there are {count} rules for tools: the maximum is {MAX_RULES}")]
    TooMany {
        /// The number of rules.
        count: usize,
    },
}

impl RulesError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Pattern { error, .. } => error.code(),
            Self::TooMany { .. } => "rules_too_many",
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Pattern { error, .. } => error.hint(),
            Self::TooMany { .. } => Some("use patterns: \"server.*\" matches all tools of a server".to_owned()),
        }
    }
}

/// The operator's rules for tools.
///
/// The most specific rule that matches a tool decides. A rule is more specific than another if the other matches all
/// the same tools and more. If several matching rules are equally specific, like `git.*` and `*.delete`, the strictest
/// of them decides. The order of rules does not matter. Two spellings of one name are equal.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Read>,
    approvers: ApproverRules,
}

#[derive(Clone, Debug)]
struct Read {
    pattern: Pattern,
    rule: Rule,
}

impl Rules {
    /// Parses the patterns.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RulesError> {
        if rules.len() > MAX_RULES {
            return Err(RulesError::TooMany { count: rules.len() });
        }
        let read = rules.into_iter().map(|rule| match rule.pattern.parse() {
            Ok(pattern) => Ok(Read { pattern, rule }),
            Err(error) => Err(RulesError::Pattern { origin: rule.origin, error }),
        });
        Ok(Self { rules: read.collect::<Result<_, _>>()?, approvers: ApproverRules::default() })
    }

    /// Sets who approves calls.
    #[must_use]
    pub fn with_approvers(self, approvers: ApproverRules) -> Self {
        Self { approvers, ..self }
    }

    /// Who approves calls.
    pub fn approvers(&self) -> &ApproverRules {
        &self.approvers
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules with their patterns.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = (&Pattern, &Rule)> {
        self.rules.iter().map(|read| (&read.pattern, &read.rule))
    }

    /// The rule that decides about the tool with these names.
    pub fn decisive(&self, names: &ToolNames) -> Option<&Rule> {
        let about: Vec<(&Read, Match)> = self
            .rules
            .iter()
            .filter_map(|read| Some((read, read.pattern.matches(names, read.rule.decision)?)))
            .collect();
        // Two tools of a server whose names look alike are told apart only by their exact names.
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

    /// The rules that name the tool with these names, and no other.
    pub fn about_tool<'a>(&'a self, names: &'a ToolNames) -> impl Iterator<Item = &'a Rule> {
        let is_about =
            |read: &&Read| read.pattern.names_one_tool() && read.pattern.matches(names, read.rule.decision).is_some();
        self.rules.iter().filter(is_about).map(|read| &read.rule)
    }

    /// Rules that match no tool, although the tools of every server that they match are known.
    pub fn without_effect(&self, servers: &[KnownServer]) -> Vec<&Rule> {
        let has_no_effect = |read: &&Read| {
            let about: Vec<&KnownServer> =
                servers.iter().filter(|known| read.pattern.matches_server(&known.server)).collect();
            let matches = |known: &&KnownServer| match &known.tools {
                // The server may have such a tool.
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

    /// Rules that name a server which is not in `servers`.
    pub fn without_server(&self, servers: &[Arc<Spellings>]) -> Vec<&Rule> {
        let is_without = |read: &&Read| {
            read.pattern.names_one_server() && !servers.iter().any(|server| read.pattern.matches_server(server))
        };
        self.rules.iter().filter(is_without).map(|read| &read.rule).collect()
    }
}

/// A server and its tools, as far as they are known.
#[derive(Clone, Debug)]
pub struct KnownServer {
    /// The names of the server.
    pub server: Arc<Spellings>,
    /// The names of its tools, or `None` if they are not known.
    pub tools: Option<Vec<Arc<Spellings>>>,
}
