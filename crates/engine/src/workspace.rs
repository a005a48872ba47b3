//! Where a user's files are on the host. Ids are validated by their type, so they cannot leave the folder.

use coracle_types::UserId;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A user's folders, `<workspaces>/<user>/…`.
#[derive(Clone, Debug)]
pub(crate) struct UserFolders {
    base: PathBuf,
}

impl UserFolders {
    pub(crate) fn of(workspaces: &Path, user: &UserId) -> Self {
        Self { base: workspaces.join(user.as_str()) }
    }

    /// What becomes `/workspace`; made when it is missing.
    pub(crate) fn files(&self) -> io::Result<PathBuf> {
        self.made("files")
    }

    /// Where artifacts are kept.
    pub(crate) fn artifacts(&self) -> io::Result<PathBuf> {
        self.made("artifacts")
    }

    fn made(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.base.join(name);
        if !folder.is_dir() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        }
        Ok(folder)
    }
}
