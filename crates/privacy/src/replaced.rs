use std::collections::BTreeSet;

/// What was replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// How many times something was replaced.
    pub count: usize,
    /// The labels of the tokens.
    pub labels: BTreeSet<String>,
}
