//! The users' workspaces: where they are on the host, and how the host reads and writes them (`files.rs`). Ids are
//! validated by their type, so they cannot leave the folder.

mod output;

pub(crate) use output::OUTPUT_FOLDER;

use crate::files::{FileError, Quota, Usages, WorkspaceFiles};
use coracle_types::{Limits, UserId};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Links in a workspace to the modules that code imports. They are valid inside a sandbox only: the host never follows
/// them.
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

    /// The folder that becomes `/workspace`, which need not exist.
    pub(crate) fn folder(&self) -> PathBuf {
        self.base.join("files")
    }

    /// The folder that becomes `/workspace`. It and the links in it are created if they are missing.
    pub(crate) fn files(&self) -> io::Result<PathBuf> {
        let files = self.made("files")?;
        for (name, target) in LINKS {
            match symlink(target, files.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    // They are a convenience, and nothing depends on them.
                    tracing::debug!(%error, name, "cannot create a link in a workspace");
                }
                _ => {}
            }
        }
        Ok(files)
    }

    /// The folder for artifacts, created if it is missing.
    pub(crate) fn artifacts(&self) -> io::Result<PathBuf> {
        self.made("artifacts")
    }

    /// The folder for logs of calls, which need not exist.
    pub(crate) fn calls(&self) -> PathBuf {
        self.base.join("calls")
    }

    /// The folder for what plans keep, which need not exist.
    pub(crate) fn plans(&self) -> PathBuf {
        self.base.join("plans")
    }

    fn made(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.base.join(name);
        if !folder.is_dir() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        }
        Ok(folder)
    }
}

/// The workspaces of all users.
#[derive(Debug)]
pub(crate) struct Workspaces {
    root: PathBuf,
    /// Disk use of the workspaces, so that not every write has to measure it.
    usages: Usages,
    /// A folder that file tools must not reach: Coracle's own data.
    hidden: OnceLock<PathBuf>,
}

impl Workspaces {
    /// Users have their folders in `root`.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, usages: Usages::default(), hidden: OnceLock::new() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn of(&self, user: &UserId) -> UserFolders {
        UserFolders::of(&self.root, user)
    }

    /// The files of a user's workspace, or of the `folder` that is used instead of it.
    pub(crate) fn files(
        &self,
        user: &UserId,
        folder: Option<&Path>,
        limits: &Limits,
    ) -> Result<WorkspaceFiles, FileError> {
        let path = match folder {
            Some(folder) => folder.to_owned(),
            None => self.of(user).files().map_err(|error| FileError::failed(&".", "made", &error))?,
        };
        let files = WorkspaceFiles::open(path, Quota::of(limits), self.usages.clone())?;
        // A user's own folder is inside the data folder, and never contains it.
        Ok(files.without(folder.and(self.hidden.get()).map(PathBuf::as_path)))
    }

    /// Hides a folder from file tools in workspaces that contain it. Only the first call has an effect.
    pub(crate) fn hide(&self, folder: &Path) {
        // A folder that does not exist yet is hidden under the path it will have.
        let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let _ = self.hidden.set(folder);
    }

    /// Writes output that is too long to return into the workspace; returns its path as code sees it.
    pub(crate) fn keep_output(
        &self,
        user: &UserId,
        folder: Option<&Path>,
        limits: &Limits,
        name: &str,
        bytes: &[u8],
    ) -> Result<String, FileError> {
        output::keep(&self.files(user, folder, limits)?, name, bytes)
    }
}
