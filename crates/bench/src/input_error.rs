use std::fmt::Display;
use std::path::Path;

/// The arguments, or the files that they name, are invalid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub(crate) String);

impl InputError {
    /// Error about a file in a folder that was named on the command line.
    pub(crate) fn at(path: &Path, error: impl Display) -> Self {
        Self(format!("{}: {error}", path.display()))
    }
}
