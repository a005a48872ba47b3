use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A folder of a user that sandboxes may use, at the same path as on the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The absolute path, without symbolic links.
    pub path: PathBuf,
    /// What sandboxes may do.
    pub access: Access,
}

/// What sandboxes may do with a [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Read, and run programs.
    Read,
    /// Read, run programs, and write.
    Write,
}

/// The maximum number of places.
pub const MOST_PLACES: usize = 16;

/// What sandboxes have of their own, so that nothing of the host can be there.
const TAKEN: [&str; 7] = ["/proc", "/sys", "/dev", "/tmp", "/coracle", "/workspace", "/artifacts"];

impl Place {
    /// Why a sandbox cannot have this place, if so.
    pub(crate) fn fault(&self) -> Option<String> {
        let path = &self.path;
        if !path.is_absolute() {
            return Some("is not an absolute path".to_owned());
        }
        if path.parent().is_none() {
            return Some("would show all files: name the folders that are needed".to_owned());
        }
        let taken = TAKEN.iter().map(Path::new).find(|taken| path.starts_with(taken));
        taken.map(|taken| format!("cannot be shown: sandboxes have a {} of their own", taken.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Place};

    #[test]
    fn places_that_sandboxes_have_themselves_are_rejected() {
        let fault = |path: &str| Place { path: path.into(), access: Access::Read }.fault();
        for path in ["/", "/tmp/a", "/proc", "relative", "/workspace"] {
            assert!(fault(path).is_some(), "{path}");
        }
        for path in ["/home/ann/notes", "/usr/local/share", "/tmpfiles", "/opt"] {
            assert_eq!(fault(path), None, "{path}");
        }
    }
}
