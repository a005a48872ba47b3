use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a string is not a valid ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} is not valid: use 1 to {MAX_ID} {alphabet}")]
pub struct IdError {
    kind: &'static str,
    text: String,
    alphabet: &'static str,
}

/// The maximum length of an ID in bytes. IDs become file names.
const MAX_ID: usize = 64;

const ALPHABET: &str = "letters, digits, '-', '_' or '.', not starting with '.' or '-'";
const WITHOUT_DOTS: &str = "letters, digits, '-' or '_', not starting with '-'";

/// Checks an ID. IDs become file names and log fields, so the alphabet is narrow, and no ID can be `.` or `..`.
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
            /// Validates a string as an ID.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                validated($kind, text.as_ref(), $alphabet).map(Self)
            }

            /// The ID as a string.
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
    /// The ID of a file that code left for its user, in all its versions.
    ArtifactId,
    "artifact id",
    WITHOUT_DOTS
);
id!(
    /// The ID of a conversation with the agent.
    ConversationId,
    "conversation id",
    WITHOUT_DOTS
);
id!(
    /// The ID of one execution.
    ExecutionId,
    "execution id",
    ALPHABET
);
id!(
    /// The ID of an item of a conversation: a message, a call or its result.
    ItemId,
    "item id",
    WITHOUT_DOTS
);
id!(
    /// The ID of a plan: what a program would change.
    PlanId,
    "plan id",
    WITHOUT_DOTS
);
id!(
    /// The ID of a run of the agent.
    RunId,
    "run id",
    WITHOUT_DOTS
);
id!(
    /// The name of an upstream server in the configuration. It has no dots, because in `server.tool` the first dot ends
    /// it.
    ServerName,
    "server name",
    WITHOUT_DOTS
);
id!(
    /// A session whose interpreter is kept between executions: its ID or its label.
    SessionId,
    "session",
    ALPHABET
);
id!(
    /// A person or a tenant. Each one has a separate workspace.
    UserId,
    "user id",
    ALPHABET
);

impl ExecutionId {
    /// Creates an ID from a number that the caller drew at random.
    pub fn from_random(number: u64) -> Self {
        Self(format!("exec-{number:016x}"))
    }
}

impl SessionId {
    /// Creates an ID from a number that the caller drew at random.
    pub fn from_random(number: u128) -> Self {
        Self(format!("{MINTED}{number:032x}"))
    }

    /// Whether this has the form of a generated ID rather than a label.
    pub fn is_minted(&self) -> bool {
        let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        self.0.strip_prefix(MINTED).is_some_and(|digits| digits.len() == 32 && digits.bytes().all(lower))
    }
}

/// The prefix of generated session IDs.
const MINTED: &str = "ses-";

impl PlanId {
    /// Creates an ID from a number that the caller drew at random.
    pub fn from_random(number: u128) -> Self {
        Self(format!("plan_{number:032x}"))
    }
}

impl RunId {
    /// Creates an ID from a number that the caller drew at random.
    pub fn from_random(number: u128) -> Self {
        Self(format!("resp_{number:032x}"))
    }
}

impl ConversationId {
    /// Creates an ID from a number that the caller drew at random.
    pub fn from_random(number: u128) -> Self {
        Self(format!("conv_{number:032x}"))
    }
}

impl ArtifactId {
    /// Creates an ID from a number that the caller drew at random.
    pub fn from_random(number: u128) -> Self {
        Self(format!("art-{number:032x}"))
    }
}

impl UserId {
    /// The only user of a local, single-user Coracle.
    pub fn local() -> Self {
        Self("local".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{ServerName, SessionId};

    #[test]
    fn ids_that_could_escape_a_folder_are_rejected() {
        for bad in ["", ".", "..", "a/b", "../x", "-rf", "a\0b", "é", &"x".repeat(65)] {
            assert!(SessionId::new(bad).is_err(), "{bad:?} was taken");
        }
        for good in ["a", "session_001", "A-1.b", &"x".repeat(64)] {
            assert_eq!(SessionId::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_generated_id_differs_from_a_label() {
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
