use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a text is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} is not valid: use 1 to {MAX_ID} {alphabet}")]
pub struct IdError {
    kind: &'static str,
    text: String,
    alphabet: &'static str,
}

/// Ids become file names: no longer than this many bytes.
const MAX_ID: usize = 64;

const ALPHABET: &str = "letters, digits, '-', '_' or '.', not starting with '.' or '-'";
const WITHOUT_DOTS: &str = "letters, digits, '-' or '_', not starting with '-'";

/// Ids become file names and log fields, so the alphabet is narrow and no id can be `.` or `..`.
fn validated(kind: &'static str, text: &str, alphabet: &'static str) -> Result<String, IdError> {
    let dots = alphabet == ALPHABET;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || (dots && c == '.');
    let valid = !text.is_empty() && text.len() <= MAX_ID && text.chars().all(plain) && !text.starts_with(['.', '-']);
    if valid { Ok(text.to_owned()) } else { Err(IdError { kind, text: text.chars().take(MAX_ID).collect(), alphabet }) }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $alphabet:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes a text that is a valid id.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                validated($kind, text.as_ref(), $alphabet).map(Self)
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
    /// A file that code has left for its user, whatever its version.
    ArtifactId,
    "artifact id",
    WITHOUT_DOTS
);
id!(
    /// One execution of one piece of code.
    ExecutionId,
    "execution id",
    ALPHABET
);
id!(
    /// An upstream server, as the configuration calls it. In `server.tool` it ends at the first dot, so it has none.
    ServerName,
    "server name",
    WITHOUT_DOTS
);
id!(
    /// A session whose interpreter lives on between executions: its id, or a name that somebody gave it.
    SessionId,
    "session",
    ALPHABET
);
id!(
    /// A person or a tenant: owns a workspace, never meets another.
    UserId,
    "user id",
    ALPHABET
);

impl ExecutionId {
    /// Made from a number that the caller drew at random.
    pub fn from_random(number: u64) -> Self {
        Self(format!("exec-{number:016x}"))
    }
}

impl SessionId {
    /// Made from a number that the caller drew at random.
    pub fn from_random(number: u128) -> Self {
        Self(format!("{MINTED}{number:032x}"))
    }

    /// Whether it has the form of one that was minted, and is no name that somebody gave.
    pub fn is_minted(&self) -> bool {
        let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        self.0.strip_prefix(MINTED).is_some_and(|digits| digits.len() == 32 && digits.bytes().all(lower))
    }
}

/// How ids of sessions begin.
const MINTED: &str = "ses-";

impl ArtifactId {
    /// Made from a number that the caller drew at random.
    pub fn from_random(number: u128) -> Self {
        Self(format!("art-{number:032x}"))
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
    use super::{ServerName, SessionId};

    #[test]
    fn ids_that_could_leave_a_folder_are_refused() {
        for bad in ["", ".", "..", "a/b", "../x", "-rf", "a\0b", "é", &"x".repeat(65)] {
            assert!(SessionId::new(bad).is_err(), "{bad:?} was taken");
        }
        for good in ["a", "session_001", "A-1.b", &"x".repeat(64)] {
            assert_eq!(SessionId::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_minted_id_is_told_from_a_name() {
        assert!(SessionId::from_random(7).is_minted() && SessionId::from_random(u128::MAX).is_minted());
        for name in ["ses-7", "analysis", &format!("ses-{}", "A".repeat(32)), &format!("ses-{}", "a".repeat(33))] {
            assert!(!SessionId::new(name).unwrap().is_minted(), "{name}");
        }
    }

    #[test]
    fn a_server_name_ends_at_the_first_dot() {
        assert_eq!(ServerName::new("git_hub-2").unwrap().as_str(), "git_hub-2");
        assert_eq!(
            ServerName::new("git.hub").unwrap_err().to_string(),
            "server name \"git.hub\" is not valid: use 1 to 64 letters, digits, '-' or '_', not starting with '-'"
        );
    }
}
