use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A language that a sandbox can run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// CPython 3.10 or later.
    #[default]
    Python,
    /// GNU bash.
    Bash,
    /// TypeScript or JavaScript, on QuickJS.
    TypeScript,
}

/// The name is not a language that Coracle runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown language {0:?}: use one of python, bash, typescript")]
pub struct UnknownLanguage(pub String);

impl Language {
    /// All languages.
    pub const ALL: [Self; 3] = [Self::Python, Self::Bash, Self::TypeScript];

    /// The name, which is the same on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Bash => "bash",
            Self::TypeScript => "typescript",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "python" | "python3" | "py" => Ok(Self::Python),
            "bash" | "sh" | "shell" => Ok(Self::Bash),
            "typescript" | "ts" | "javascript" | "js" => Ok(Self::TypeScript),
            _ => Err(UnknownLanguage(name.chars().take(64).collect())),
        }
    }
}
