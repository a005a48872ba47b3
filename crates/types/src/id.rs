use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a text is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} {text:?} is not valid: use 1 to {MAX_ID} letters, digits, '-', '_' or '.', not starting with '.' or '-'"
)]
pub struct IdError {
    kind: &'static str,
    text: String,
}

/// Ids become file names: no longer than this many bytes.
const MAX_ID: usize = 64;

/// Ids become file names and log fields, so the alphabet is narrow and no id can be `.` or `..`.
fn validated(kind: &'static str, text: &str) -> Result<String, IdError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let valid = !text.is_empty() && text.len() <= MAX_ID && text.chars().all(plain) && !text.starts_with(['.', '-']);
    if valid { Ok(text.to_owned()) } else { Err(IdError { kind, text: text.chars().take(MAX_ID).collect() }) }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes a text that is a valid id.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                validated($kind, text.as_ref()).map(Self)
            }

            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

id!(
    /// One execution of one piece of code.
    ExecutionId,
    "execution id"
);
id!(
    /// An upstream server, as the configuration calls it.
    ServerName,
    "server name"
);
id!(
    /// A session whose interpreter lives on between executions.
    SessionId,
    "session"
);
id!(
    /// A person or a tenant: owns a workspace, never meets another.
    UserId,
    "user id"
);

impl ExecutionId {
    /// Made from a number that the caller drew at random.
    pub fn from_random(number: u64) -> Self {
        Self(format!("exec-{number:016x}"))
    }
}

impl UserId {
    /// The one user of a local, single-user Coracle.
    pub fn local() -> Self {
        Self("local".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::SessionId;

    #[test]
    fn ids_that_could_leave_a_folder_are_refused() {
        for bad in ["", ".", "..", "a/b", "../x", "-rf", "a\0b", "é", &"x".repeat(65)] {
            assert!(SessionId::new(bad).is_err(), "{bad:?} was taken");
        }
        for good in ["a", "session_001", "A-1.b", &"x".repeat(64)] {
            assert_eq!(SessionId::new(good).unwrap().as_str(), good);
        }
    }
}
