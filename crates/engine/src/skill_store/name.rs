//! Names of code skills, which are names of modules and of files on the host.

use crate::host_calls::quoted;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum length of a name.
const MAX_NAME: usize = 64;

/// Keywords of Python, which cannot be imported.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// A text that cannot be the name of a skill.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is not a valid skill name: use 1 to 64 ASCII letters, digits and underscores, beginning with a letter, and not a Python keyword"
)]
pub struct InvalidSkillName(String);

/// The name of a code skill: what `from skills.NAME import …` says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillName(String);

impl SkillName {
    /// Accepts a text that can be imported, and that is a plain file name.
    pub fn new(text: &str) -> Result<Self, InvalidSkillName> {
        if is_name(text) { Ok(Self(text.to_owned())) } else { Err(InvalidSkillName(told(text))) }
    }

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text that was refused, and a similar one that would be accepted.
fn told(text: &str) -> String {
    let similar: String =
        text.chars().take(MAX_NAME).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let near = if is_name(&similar) { format!("; {similar:?} would do") } else { String::new() };
    format!("{}{near}", quoted(text))
}

fn is_name(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    begins_well && text.len() <= MAX_NAME && text.chars().all(letters) && !KEYWORDS.contains(&text)
}

impl fmt::Display for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SkillName {
    type Error = InvalidSkillName;

    fn try_from(text: String) -> Result<Self, InvalidSkillName> {
        Self::new(&text)
    }
}

impl From<SkillName> for String {
    fn from(name: SkillName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::SkillName;

    #[test]
    fn names_that_cannot_be_imported_or_would_leave_the_folder_are_refused() {
        let long = "x".repeat(65);
        for bad in [
            "", ".", "..", "../x", "/x", "a/b", "a\\b", "a.b", "a b", "a\0b", "-x", "_x", "__init__", "1a", "é",
            "аdmin", "class", "None", "a\n", "x.py", "ｘ", &long,
        ] {
            assert!(SkillName::new(bad).is_err(), "{bad:?} was taken");
        }
        for good in ["a", "clean_csv", "Report2", &"x".repeat(64)] {
            assert_eq!(SkillName::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_name_that_would_do_is_told() {
        let error = SkillName::new("clean-csv").unwrap_err().to_string();
        assert!(error.contains("\"clean_csv\" would do"), "{error}");
    }
}
