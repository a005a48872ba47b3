use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Set of tools that is offered to clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Three tools: run code, find a tool, read its definition.
    #[default]
    Code,
    /// Every tool, resource and prompt of every server, unchanged.
    Direct,
    /// All of Coracle's own tools.
    Full,
}

impl Profile {
    const ALL: [Self; 3] = [Self::Code, Self::Direct, Self::Full];

    /// The name of this profile.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Direct => "direct",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error for an unknown profile name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a profile: use code, direct or full")]
pub struct UnknownProfile(String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let found = Self::ALL.into_iter().find(|profile| profile.as_str() == text);
        found.ok_or_else(|| UnknownProfile(text.chars().take(40).collect()))
    }
}
