use crate::{ApproverRule, Groups, MAX_APPROVALS, Quorum};
use cedar_policy::Policy;

/// The annotations of a policy, except `@id`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Annotations {
    /// Why a person is asked. Without it, the policy denies.
    pub(crate) ask: Option<String>,
    /// What people and programs whose calls are refused are told.
    pub(crate) message: Option<String>,
    /// Who has to approve.
    pub(crate) approvers: Option<ApproverRule>,
}

impl Annotations {
    /// The names that have a meaning.
    pub(crate) const KNOWN: [&'static str; 6] = ["id", "ask", "message", "approvers", "approvals", "description"];

    /// Reads the annotations of a policy. The error says what is wrong with them.
    pub(crate) fn of(policy: &Policy, groups: &Groups) -> Result<Self, String> {
        if let Some((name, _)) = policy.annotations().find(|(name, _)| !Self::KNOWN.contains(name)) {
            return Err(format!("the annotation @{name} has no meaning here; known: @{}", Self::KNOWN.join(", @")));
        }
        let text = |name: &str| policy.annotation(name).map(str::to_owned);
        let named = text("approvers").map(|list| {
            list.split(',').map(|group| group.trim().to_owned()).filter(|group| !group.is_empty()).collect::<Vec<_>>()
        });
        if let Some(missing) = named.iter().flatten().find(|group| !groups.exists(group)) {
            return Err(format!("@approvers names the group {missing:?}, which is not in policy.groups"));
        }
        if named.as_ref().is_some_and(Vec::is_empty) {
            return Err("@approvers names no group".to_owned());
        }
        let count = match policy.annotation("approvals").map(str::parse::<u32>) {
            None => None,
            Some(Ok(count)) if (1..=MAX_APPROVALS).contains(&count) => Some(count),
            Some(_) => return Err(format!("@approvals must be a number from 1 to {MAX_APPROVALS}, in quotes")),
        };
        let ask = text("ask");
        let approvers = match (named, count) {
            (None, None) => None,
            (None, Some(_)) => return Err("@approvals needs @approvers: a group whose members approve".to_owned()),
            (Some(groups), count) => Some(ApproverRule { groups, count: count.unwrap_or(1) }),
        };
        if let Some(rule) = &approvers {
            let quorum = Quorum::of(rule, groups);
            if quorum.members.len() < usize::try_from(quorum.count).unwrap_or(usize::MAX) {
                let (count, names, members) = (quorum.count, quorum.names(), quorum.members.len());
                return Err(format!("{count} approvals are required, and {names} has {members} members"));
            }
        }
        if approvers.is_some() && ask.is_none() {
            return Err("@approvers and @approvals need @ask: without it, the policy denies".to_owned());
        }
        Ok(Self { ask, message: text("message"), approvers })
    }
}
