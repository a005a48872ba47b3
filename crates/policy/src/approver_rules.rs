//! Groups of people who must approve calls in place of the person whose code makes them.

use crate::names::ToolNames;
use crate::{Groups, Pattern, PatternError};
use coracle_types::{Decision, UserId};
use std::collections::BTreeSet;
use std::fmt;

/// The maximum number of approvals that a call can require.
pub const MAX_APPROVALS: u32 = 5;
/// The maximum number of rules about approvers.
pub const MAX_APPROVER_RULES: usize = 1_000;

/// Who has to approve a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApproverRule {
    /// The groups whose members may approve. Empty if it is the user who is asked.
    pub groups: Vec<String>,
    /// The number of people who have to approve.
    pub count: u32,
}

impl ApproverRule {
    /// The rule that meets both. Fails if no group may approve for both.
    pub(crate) fn both(one: Option<Self>, other: Option<Self>) -> Result<Option<Self>, ()> {
        let (Some(one), Some(other)) = (&one, &other) else { return Ok(one.or(other)) };
        let groups: Vec<String> = one.groups.iter().filter(|group| other.groups.contains(group)).cloned().collect();
        if groups.is_empty() {
            return Err(());
        }
        Ok(Some(Self { groups, count: one.count.max(other.count) }))
    }
}

/// One line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApproverLine {
    /// The pattern of the tools, as [`Pattern`] reads it.
    pub pattern: String,
    /// Who approves calls of these tools.
    pub rule: ApproverRule,
    /// Where the line is, for people.
    pub origin: String,
}

/// Why lines about approvers cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApproversError {
    /// A pattern is invalid.
    #[error("{origin}: {error}")]
    Pattern {
        /// Where the line is.
        origin: String,
        /// The error in the pattern.
        error: PatternError,
    },
    /// There is no such group.
    #[error("{origin}: there is no group {group:?}")]
    NoGroup {
        /// Where the line is.
        origin: String,
        /// The name.
        group: String,
    },
    /// The number of approvals is out of range.
    #[error("{origin}: {count} approvals cannot be required: the number is from 1 to {MAX_APPROVALS}")]
    Count {
        /// Where the line is.
        origin: String,
        /// The number.
        count: u32,
    },
    /// The group has too few members.
    #[error("{origin}: {count} approvals are required, and {groups} has {members} members")]
    TooFew {
        /// Where the line is.
        origin: String,
        /// The number of approvals.
        count: u32,
        /// The groups.
        groups: String,
        /// The number of their members.
        members: usize,
    },
    /// There are too many lines.
    #[error("there are {count} patterns: the maximum is {MAX_APPROVER_RULES}")]
    TooMany {
        /// The number of lines.
        count: usize,
    },
}

impl ApproversError {
    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Pattern { error, .. } => error.hint(),
            Self::NoGroup { group, .. } => Some(format!("add it: policy: {{ groups: {{ {group}: [NAME, …] }} }}")),
            Self::TooFew { .. } => Some("add members to the group in policy.groups".to_owned()),
            Self::Count { .. } => None,
            Self::TooMany { .. } => Some("use patterns: \"server.*\" matches all tools of a server".to_owned()),
        }
    }
}

/// Rules about approvers, and the groups that they name.
#[derive(Clone, Debug, Default)]
pub struct ApproverRules {
    lines: Vec<(Pattern, ApproverLine)>,
    groups: Groups,
}

impl ApproverRules {
    /// Checks the lines. One that cannot be used rejects all of them, so that no call goes to fewer people than meant.
    pub fn new(lines: Vec<ApproverLine>, groups: Groups) -> Result<Self, ApproversError> {
        if lines.len() > MAX_APPROVER_RULES {
            return Err(ApproversError::TooMany { count: lines.len() });
        }
        let checked = lines.into_iter().map(|line| {
            let ApproverLine { rule, origin, .. } = &line;
            let (count, origin) = (rule.count, origin.clone());
            if !(1..=MAX_APPROVALS).contains(&count) {
                return Err(ApproversError::Count { origin, count });
            }
            if let Some(group) = rule.groups.iter().find(|group| !groups.exists(group)) {
                return Err(ApproversError::NoGroup { origin, group: group.clone() });
            }
            let quorum = Quorum::of(rule, &groups);
            let members = quorum.members.len();
            if (!rule.groups.is_empty() || count > 1) && members < as_size(count) {
                return Err(ApproversError::TooFew { origin, count, groups: quorum.names(), members });
            }
            let pattern = line.pattern.parse().map_err(|error| ApproversError::Pattern { origin, error })?;
            Ok((pattern, line))
        });
        Ok(Self { lines: checked.collect::<Result<_, _>>()?, groups })
    }

    /// The people who must approve calls of the tool with these names, and the line that says so. The narrowest pattern decides, and of
    /// equally narrow ones that with the most approvals.
    pub fn about(&self, names: &ToolNames) -> Option<(Quorum, &ApproverLine)> {
        let about: Vec<&(Pattern, ApproverLine)> =
            self.lines.iter().filter(|(pattern, _)| pattern.matches(names, Decision::Ask).is_some()).collect();
        let is_narrowest = |(pattern, _): &&(Pattern, ApproverLine)| {
            !about.iter().any(|(other, _)| other.is_more_specific_than(pattern))
        };
        let narrowest = about.iter().copied().filter(is_narrowest);
        let (_, line) =
            narrowest.max_by_key(|(_, line)| (!line.rule.groups.is_empty(), line.rule.count, &line.pattern))?;
        if line.rule.groups.is_empty() {
            return None;
        }
        Some((self.quorum(&line.rule), line))
    }

    /// The people of a rule, which may come from elsewhere.
    pub fn quorum(&self, rule: &ApproverRule) -> Quorum {
        Quorum::of(rule, &self.groups)
    }
}

/// The people who must approve a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// The names of their groups.
    pub groups: Vec<String>,
    /// The number of members who must approve.
    pub count: u32,
    /// The members.
    pub members: BTreeSet<UserId>,
}

impl Quorum {
    /// The people of a rule. Groups that do not exist have no members: without any, nobody can approve.
    pub fn of(rule: &ApproverRule, groups: &Groups) -> Self {
        let members = rule.groups.iter().flat_map(|group| groups.members(group)).collect();
        Self { groups: rule.groups.clone(), count: rule.count.max(1), members }
    }

    /// The groups, for people.
    pub fn names(&self) -> String {
        if self.groups.is_empty() { "no group".to_owned() } else { self.groups.join(" or ") }
    }

    /// Whether the approval of a user counts for a call of `caller`. Where several people must approve, the caller is none
    /// of them.
    pub fn counts(&self, user: &UserId, caller: &UserId) -> bool {
        self.members.contains(user) && (user != caller || self.count == 1)
    }

    /// Whether these people are enough.
    pub fn is_met(&self, approved: &BTreeSet<UserId>, caller: &UserId) -> bool {
        approved.iter().filter(|user| self.counts(user, caller)).count() >= as_size(self.count)
    }

    /// The number of people whose approval counts for a call of `caller`.
    pub(crate) fn eligible(&self, caller: &UserId) -> usize {
        self.members.iter().filter(|user| self.counts(user, caller)).count()
    }

    /// Whether there are enough people for a call of `caller`.
    pub(crate) fn is_possible(&self, caller: &UserId) -> bool {
        self.eligible(caller) >= as_size(self.count)
    }
}

impl From<&Quorum> for ApproverRule {
    fn from(quorum: &Quorum) -> Self {
        Self { groups: quorum.groups.clone(), count: quorum.count }
    }
}

impl fmt::Display for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "a member of {}", self.names()),
            count => write!(f, "{count} members of {}", self.names()),
        }
    }
}

fn as_size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::ApproverRule;

    #[test]
    fn of_two_rules_the_stricter_one_counts() {
        let rule = |groups: &[&str], count| {
            Some(ApproverRule { groups: groups.iter().map(|group| (*group).to_owned()).collect(), count })
        };
        assert_eq!(ApproverRule::both(None, rule(&["a"], 1)), Ok(rule(&["a"], 1)));
        assert_eq!(ApproverRule::both(rule(&["b", "a"], 1), rule(&["a", "c"], 2)), Ok(rule(&["a"], 2)));
        assert_eq!(ApproverRule::both(rule(&["a"], 1), rule(&["b"], 1)), Err(()));
    }
}
