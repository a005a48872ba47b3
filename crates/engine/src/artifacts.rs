//! Artifacts: files that executions leave in `/artifacts`, in versions.
//!
//! An artifact is identified by user and name. Each execution that writes the name adds a version. The store has the list,
//! and the content is a file, `<user>/artifacts/<execution>/<name>`, which never changes. Names come from code and are
//! hostile, and no link is followed.

mod collect;
mod kept;
mod kind;
mod lasting;

pub(crate) use collect::{ArtifactFolder, Author};
pub(crate) use kept::Artifacts;
pub use kind::mime as content_type;
pub use lasting::{Lasting, OpenStore};

use coracle_store::{ArtifactRecord, StoreError};
use coracle_types::{Artifact, ArtifactId, ExecutionId};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::io;

/// Maximum size of a file that is read into memory.
pub(crate) const MAX_READ: u64 = 16 << 20;

/// Beginning of an artifact's address.
const SCHEME: &str = "coracle://artifacts/";

/// Why an artifact cannot be returned.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// There is no artifact with this address.
    #[error("there is no artifact {uri}")]
    Missing {
        /// Requested address.
        uri: String,
    },
    /// The artifact is too large to be returned in one piece.
    #[error("the artifact {uri} has {bytes} bytes: at most {MAX_READ} are handed out")]
    TooLarge {
        /// Requested address.
        uri: String,
        /// Size in bytes.
        bytes: u64,
    },
    /// The file cannot be read.
    #[error("the artifact {uri} cannot be read: {reason}")]
    Unreadable {
        /// Requested address.
        uri: String,
        /// Error of the system.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ArtifactError {
    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "not_found",
            Self::TooLarge { .. } => "too_large",
            Self::Unreadable { .. } => "unreadable",
            Self::Store(error) => error.code(),
        }
    }

    pub(crate) fn missing(uri: &str) -> Self {
        Self::Missing { uri: shown(uri) }
    }

    pub(crate) fn unreadable(uri: &str, error: &io::Error) -> Self {
        Self::Unreadable { uri: shown(uri), reason: error.to_string() }
    }
}

pub(crate) fn shown(uri: &str) -> String {
    uri.chars().take(300).collect()
}

/// Path of the content of a version, below the folder for artifacts.
pub(crate) fn place(execution: &ExecutionId, name: &str) -> String {
    format!("{execution}/{name}")
}

/// The meaning of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// The file that an execution has written. Earlier versions of Coracle named the folder differently.
    Written {
        /// Execution ID.
        folder: String,
        /// Path below `/artifacts`.
        name: String,
    },
    /// The newest version of an artifact, or the one with this number.
    Version(ArtifactId, Option<u64>),
}

impl Address {
    pub(crate) fn new(uri: &str) -> Option<Self> {
        let path = percent_decoded(uri.strip_prefix(SCHEME)?)?;
        let (first, rest) = match path.split_once('/') {
            Some((first, rest)) => (first, Some(rest)),
            None => (path.as_str(), None),
        };
        if let Some(id) = ArtifactId::new(first).ok().filter(|id| id.as_str().starts_with("art-")) {
            let version = match rest {
                None => None,
                Some(rest) => Some(rest.strip_prefix("versions/")?.parse().ok()?),
            };
            return Some(Self::Version(id, version));
        }
        Some(Self::Written { folder: first.to_owned(), name: rest?.to_owned() })
    }
}

/// The newest version in the record, in the form in which executions report it.
pub(crate) fn described(record: &ArtifactRecord) -> Option<Artifact> {
    let version = record.versions.first()?;
    let name = &record.name;
    Some(Artifact {
        name: name.clone(),
        path: format!("/artifacts/{name}"),
        mime: version.mime.clone(),
        bytes: version.bytes,
        uri: format!("{SCHEME}{}", percent_encoded(&place(&version.execution_id, name))),
        id: Some(record.id.clone()),
        version: Some(version.version),
    })
}

/// The bytes of a path that are encoded: all except those that RFC 3986 calls unreserved, and the slash.
const IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Decodes `%41` to `A`; `None` if a percent sign is not followed by two digits, or if the result is not UTF-8 or
/// contains a NUL.
pub fn percent_decoded(text: &str) -> Option<String> {
    let is_code = |rest: &str| rest.as_bytes().get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_code) {
        return None;
    }
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    (!decoded.contains('\0')).then(|| decoded.into_owned())
}

/// Encodes a path for use in an address.
pub fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, IN_PATHS).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Address, percent_decoded, percent_encoded};
    use coracle_types::ArtifactId;

    #[test]
    fn paths_survive_encoding() {
        let path = "a b/é%41?#&+;~-._/\n.txt";
        assert_eq!(percent_encoded(path), "a%20b/%C3%A9%2541%3F%23%26%2B%3B~-._/%0A.txt");
        assert_eq!(percent_decoded(&percent_encoded(path)).as_deref(), Some(path));
    }

    #[test]
    fn addresses_are_read() {
        let written = |folder: &str, name: &str| Address::Written { folder: folder.to_owned(), name: name.to_owned() };
        let id = || ArtifactId::from_random(7);
        for (uri, expected) in [
            ("coracle://artifacts/exec-1/a%20b/c.png", Some(written("exec-1", "a b/c.png"))),
            ("coracle://artifacts/art-00000000000000000000000000000007", Some(Address::Version(id(), None))),
            (
                "coracle://artifacts/art-00000000000000000000000000000007/versions/3",
                Some(Address::Version(id(), Some(3))),
            ),
            ("coracle://artifacts/art-00000000000000000000000000000007/x", None),
            ("coracle://artifacts/exec-1", None),
            ("coracle://artifacts/exec-1/%00", None),
            ("coracle://artifacts/exec-1/%zz", None),
            ("coracle://artifacts/exec-1/%+5", None),
            ("coracle://artifacts/exec-1/%4", None),
            ("coracle://artifacts/exec-1/%ff", None),
            ("file:///etc/passwd", None),
        ] {
            assert_eq!(Address::new(uri), expected, "{uri}");
        }
    }
}
