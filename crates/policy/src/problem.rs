use std::fmt;

/// An error in the operator's policies, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// Where the error is: a file and a line, or a variable.
    pub origin: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl PolicyProblem {
    pub(crate) fn new(origin: impl Into<String>, message: impl Into<String>) -> Self {
        Self { origin: origin.into(), message: message.into(), hint: None }
    }

    pub(crate) fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}

/// Why policies cannot be used. One error rejects all of them, so that no policy that denies is lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.0))]
pub struct PolicyError(pub Vec<PolicyProblem>);

impl PolicyError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        "policy_invalid"
    }
}

impl From<PolicyProblem> for PolicyError {
    fn from(problem: PolicyProblem) -> Self {
        Self(vec![problem])
    }
}

fn list(problems: &[PolicyProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
