//! Paths that callers may use.

use super::error::{FileError, shown};
use std::fmt;

/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 4_095;
/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 255;
/// Maximum number of nested folders. With one more, the sandbox would reject the workspace as too deep.
const MAX_DEPTH: usize = 250;

/// Path at which code sees its workspace.
pub(crate) const SEEN_AT: &str = "/workspace";

/// Prefix of files that are not complete yet.
pub(crate) const UNFINISHED: &str = ".coracle-unfinished-";

/// A path below the workspace, as plain names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InWorkspace {
    names: Vec<String>,
}

impl InWorkspace {
    /// Parses a path, relative to the workspace or as code sees it. The result has no `..`.
    pub(crate) fn new(text: &str) -> Result<Self, FileError> {
        let refused = |reason: &str| FileError::Path { path: shown(text), reason: reason.to_owned() };
        if text.contains('\0') {
            return Err(refused("it holds a zero byte"));
        }
        if text.len() > MAX_PATH {
            return Err(refused(&format!("it has {} bytes, and at most {MAX_PATH} are taken", text.len())));
        }
        let below = match text.strip_prefix(SEEN_AT) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
            _ if text.starts_with('/') => {
                return Err(refused("it is absolute: name it relative to the workspace, or below /workspace"));
            }
            _ => text,
        };
        let mut names = Vec::new();
        for name in below.split('/') {
            match name {
                "" | "." => {}
                ".." => return Err(refused("it goes up by `..`: name it from the workspace down")),
                name if name.len() > MAX_NAME => {
                    return Err(refused(&format!("a name in it is longer than {MAX_NAME} bytes")));
                }
                name => names.push(name.to_owned()),
            }
        }
        if names.len() > MAX_DEPTH {
            return Err(refused(&format!("it is nested deeper than {MAX_DEPTH} folders")));
        }
        Ok(Self { names })
    }

    /// The same for an entry to be created, whose name must be readable in a list.
    pub(crate) fn to_make(text: &str) -> Result<Self, FileError> {
        let path = Self::new(text)?;
        let refused = |reason: &str| FileError::Path { path: shown(text), reason: reason.to_owned() };
        if path.names.iter().any(|name| name.chars().any(char::is_control)) {
            return Err(refused("it holds a control character"));
        }
        if path.names.iter().any(|name| name.starts_with(UNFINISHED)) {
            return Err(refused("names that begin like this are Coracle's own"));
        }
        Ok(path)
    }

    /// Whether it is the workspace itself.
    pub(crate) fn is_root(&self) -> bool {
        self.names.is_empty()
    }

    /// The folder, and the name in it.
    pub(crate) fn split(&self) -> Result<(Self, &str), FileError> {
        match self.names.split_last() {
            Some((name, folder)) => Ok((Self { names: folder.to_vec() }, name)),
            None => {
                Err(FileError::Path { path: ".".to_owned(), reason: "it is the workspace itself, no file".to_owned() })
            }
        }
    }

    /// The path of an entry of this folder.
    pub(crate) fn join(&self, name: &str) -> Self {
        let mut names = self.names.clone();
        names.push(name.to_owned());
        Self { names }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

/// Relative to the workspace.
impl fmt::Display for InWorkspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { "" })?;
        f.write_str(&self.names.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::InWorkspace;

    #[test]
    fn paths_lead_down_and_nowhere_else() {
        for (text, expected) in [
            ("a.txt", "a.txt"),
            ("./a/./b//c/", "a/b/c"),
            ("/workspace/a", "a"),
            ("/workspace", "."),
            ("/workspace/", "."),
            ("", "."),
            (".", "."),
            ("...", "..."),
            ("a\\..\\b", "a\\..\\b"),
            ("ü/\u{202e}x", "ü/\u{202e}x"),
            ("%2e%2e", "%2e%2e"),
        ] {
            assert_eq!(InWorkspace::new(text).unwrap().to_string(), expected, "{text:?}");
        }
        let long = "x".repeat(256);
        let deep = "d/".repeat(251);
        let longer = "xy/".repeat(2_000);
        for text in [
            "..",
            "../x",
            "a/../b",
            "a/..",
            "/",
            "/etc/passwd",
            "/workspacex",
            "/workspace/../x",
            "a\0b",
            &long,
            &deep,
            &longer,
        ] {
            let error = InWorkspace::new(text).unwrap_err();
            assert_eq!(error.code(), "invalid_path", "{text:?}: {error}");
        }
    }

    #[test]
    fn odd_names_can_be_read_and_are_not_made() {
        for text in ["a\nb", "\u{7f}", ".coracle-unfinished-1"] {
            assert!(InWorkspace::new(text).is_ok());
            assert_eq!(InWorkspace::to_make(text).unwrap_err().code(), "invalid_path");
        }
        assert!(InWorkspace::to_make(".hidden/ä b").is_ok());
    }
}
