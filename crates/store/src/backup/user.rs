use super::write::Archive;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

/// A tar archive of the data of one user. Its last entry is `end.json`, without which it is incomplete.
///
/// Files of a workspace may be hostile and may change while they are read: no link is followed, and what cannot be read
/// is listed in the last entry.
pub struct UserArchive<W: Write>(Archive<W>);

impl<W: Write> fmt::Debug for UserArchive<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserArchive").finish_non_exhaustive()
    }
}

impl<W: Write> UserArchive<W> {
    /// An archive that is written to `writer`.
    pub fn new(writer: W) -> Self {
        Self(Archive::of_user(writer))
    }

    /// Adds a file with JSON.
    pub fn json(&mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        self.0.json(name, value)
    }

    /// Adds a folder with everything in it, if it exists.
    pub fn folder(&mut self, name: &str, folder: &Path) -> io::Result<()> {
        self.0.tree(name, folder)
    }

    /// Completes the archive.
    pub fn finish(self) -> io::Result<W> {
        self.0.close()
    }
}
