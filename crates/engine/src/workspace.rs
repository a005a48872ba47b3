//! Where a user's files are on the host. Ids are validated by their type, so they cannot leave the folder.

use coracle_types::UserId;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Links in a workspace to what code imports, as code sees it. The host never follows them: to it they lead nowhere, or to
/// something else.
const LINKS: [(&str, &str); 2] = [("servers", "/coracle/servers"), ("skills", "/coracle/skills")];

/// A user's folders, `<workspaces>/<user>/…`.
#[derive(Clone, Debug)]
pub(crate) struct UserFolders {
    base: PathBuf,
}

impl UserFolders {
    pub(crate) fn of(workspaces: &Path, user: &UserId) -> Self {
        Self { base: workspaces.join(user.as_str()) }
    }

    /// What becomes `/workspace`; made when it is missing, and so are the links in it.
    pub(crate) fn files(&self) -> io::Result<PathBuf> {
        let files = self.made("files")?;
        for (name, target) in LINKS {
            match symlink(target, files.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    // Nothing but comfort depends on them.
                    tracing::debug!(%error, name, "a link in a workspace could not be made");
                }
                _ => {}
            }
        }
        Ok(files)
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
