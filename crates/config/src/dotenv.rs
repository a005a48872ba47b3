//! Reads `.env` files.

use crate::reader::{MAX_FILE_BYTES, is_foreign, read_text};
use crate::{Origin, Warning};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The name of the file.
pub(crate) const FILE_NAME: &str = ".env";

/// The variables of one file.
#[derive(Clone, Default)]
pub(crate) struct DotEnv {
    pub(crate) path: PathBuf,
    /// Values with their lines, by name.
    pub(crate) variables: BTreeMap<String, (String, u64)>,
}

impl fmt::Debug for DotEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.variables.keys().collect();
        f.debug_struct("DotEnv").field("path", &self.path).field("names", &names).finish_non_exhaustive()
    }
}

impl DotEnv {
    /// The origin of a variable.
    pub(crate) fn origin(&self, name: &str) -> Origin {
        let line = self.variables.get(name).map_or(0, |(_, line)| *line);
        Origin::DotEnv { path: self.path.clone(), line, name: name.to_owned() }
    }

    /// Reads the file of a folder, unless it belongs to another user.
    pub(crate) fn of_folder(folder: &Path, warnings: &mut Vec<Warning>) -> Self {
        let path = folder.join(FILE_NAME);
        if is_foreign(&path) {
            let message = format!("{} belongs to another user and is not read", path.display());
            warnings.push(Warning { origin: Origin::Default, message });
            return Self::default();
        }
        match read_text(&path, MAX_FILE_BYTES) {
            Ok(Some(text)) => Self::parse(&path, &text, warnings),
            Ok(None) => Self::default(),
            Err(reason) => {
                let message = format!("cannot read {}: {reason}", path.display());
                warnings.push(Warning { origin: Origin::Default, message });
                Self::default()
            }
        }
    }

    /// Parses a file as far as possible. Of two lines with the same name the last counts, as in a shell.
    pub(crate) fn parse(path: &Path, text: &str, warnings: &mut Vec<Warning>) -> Self {
        let mut variables = BTreeMap::new();
        // The parser would lose a last line that ends with a blank instead of a line ending.
        let ended = format!("{text}\n");
        for item in dotenvy::from_read_iter(ended.as_bytes()) {
            match item {
                Ok((name, value)) => {
                    let line = line_of(text, &name);
                    variables.insert(name, (value, line));
                }
                // The line may hold a credential, so only its number is reported.
                Err(dotenvy::Error::LineParse(line, _)) => {
                    let place = match text.find(line.trim_end()) {
                        Some(at) => format!("{}:{}", path.display(), text[..at].matches('\n').count() + 1),
                        None => path.display().to_string(),
                    };
                    let message = format!("{place}: this line is not NAME=VALUE and is ignored");
                    warnings.push(Warning { origin: Origin::Default, message });
                }
                Err(_) => break,
            }
        }
        Self { path: path.to_owned(), variables }
    }
}

/// The last line that sets a variable.
fn line_of(text: &str, name: &str) -> u64 {
    let sets = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])).unwrap_or(line);
        line.trim_start().strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let found = text.lines().enumerate().filter(|(_, line)| sets(line)).last();
    found.map_or(0, |(index, _)| index as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_exports_comments_and_bad_lines() {
        let text = "\
# a comment
A=1
export B=two # why
C='single $A # kept'
D=\"double\\nline ${A}\"
E=
this is no assignment canary
A=3
F = spaced
";
        let mut warnings = Vec::new();
        let read = DotEnv::parse(Path::new("/x/.env"), text, &mut warnings);
        insta::assert_debug_snapshot!((&read.variables, &warnings));
        assert!(!format!("{read:?}{warnings:?}").contains("canary"));
    }
}
