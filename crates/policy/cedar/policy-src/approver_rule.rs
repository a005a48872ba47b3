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
        let groups: Vec<String> = match (one.groups.is_empty(), other.groups.is_empty()) {
            (true, _) => other.groups.clone(),
            (_, true) => one.groups.clone(),
            _ => one.groups.iter().filter(|group| other.groups.contains(group)).cloned().collect(),
        };
        if groups.is_empty() && !(one.groups.is_empty() && other.groups.is_empty()) {
            return Err(());
        }
        Ok(Some(Self { groups, count: one.count.max(other.count) }))
    }
}

#[cfg(test)]
mod tests {
    use super::ApproverRule;

    #[test]
    fn the_stricter_rule_counts() {
        let rule = |groups: &[&str], count| {
            Some(ApproverRule { groups: groups.iter().map(|group| (*group).to_owned()).collect(), count })
        };
        assert_eq!(ApproverRule::both(None, rule(&["a"], 1)), Ok(rule(&["a"], 1)));
        assert_eq!(ApproverRule::both(rule(&[], 2), rule(&["a"], 1)), Ok(rule(&["a"], 2)));
        assert_eq!(ApproverRule::both(rule(&["b", "a"], 1), rule(&["a", "c"], 1)), Ok(rule(&["a"], 1)));
        assert_eq!(ApproverRule::both(rule(&["a"], 1), rule(&["b"], 1)), Err(()));
    }
}
