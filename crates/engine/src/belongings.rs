//! Deletes everything that a user has.
//!
//! The order makes an interruption harmless: rows are deleted before files, the folder disappears at once because it is
//! renamed first, and the renamed folder has a fixed name, so that the next attempt finds what the last one left.

use crate::active::Active;
use coracle_sandbox::remove_folder;
use coracle_store::{Store, StoreError};
use coracle_types::UserId;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Prefix of the folder of a user who is being deleted. No user ID begins with a dot.
const REMOVING: &str = ".removing-";

/// Deletes the data of users.
#[derive(Clone, Debug)]
pub struct Belongings {
    workspaces: PathBuf,
    store: Arc<dyn Store>,
    active: Active,
}

/// Why the data of a user could not be deleted. What was deleted stays deleted: try again.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// Code of the user is running.
    #[error("code of {user} is running")]
    Running {
        /// The user.
        user: UserId,
    },
    /// Files could not be deleted.
    #[error("cannot delete {}: {error}", path.display())]
    Files {
        /// The folder.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether the account is deleted too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountFate {
    /// The account stays, with its password and keys.
    Kept,
    /// The account is deleted.
    Deleted,
}

impl Belongings {
    /// For users whose folders are in `workspaces`. A process that runs code uses
    /// [`Engine::belongings`](crate::Engine::belongings) instead, which knows what is running.
    pub fn new(workspaces: PathBuf, store: Arc<dyn Store>) -> Self {
        Self { workspaces, store, active: Active::default() }
    }

    pub(crate) fn knowing(self, active: Active) -> Self {
        Self { active, ..self }
    }

    /// The folder of a user.
    pub fn folder(&self, user: &UserId) -> PathBuf {
        self.workspaces.join(user.as_str())
    }

    /// Whether there is a folder of a user, or what an interrupted deletion left of it.
    pub fn has_files(&self, user: &UserId) -> bool {
        [self.folder(user), self.removing(user)].iter().any(|folder| folder.symlink_metadata().is_ok())
    }

    fn removing(&self, user: &UserId) -> PathBuf {
        self.workspaces.join(format!("{REMOVING}{user}"))
    }

    /// Deletes everything that a user has, and removes it from the disk. No code of the user can start meanwhile.
    pub async fn delete(&self, user: &UserId, account: AccountFate) -> Result<(), DeleteError> {
        let Some(_held) = self.active.hold(user) else { return Err(DeleteError::Running { user: user.clone() }) };
        if account == AccountFate::Deleted {
            // The user cannot come back while this takes its time. There may be no account, which is fine.
            self.store.set_disabled(user, true).await?;
        }
        self.store.delete_user_data(user).await?;
        let (folder, away) = (self.folder(user), self.removing(user));
        let removed = tokio::task::spawn_blocking(move || remove(&folder, &away)).await;
        removed
            .map_err(io::Error::other)
            .and_then(|removed| removed)
            .map_err(|error| DeleteError::Files { path: self.folder(user), error })?;
        // Once more, for what an execution that has just ended wrote. The account goes last: until then, the next
        // attempt still finds the user.
        self.store.delete_user_data(user).await?;
        self.store.erase_deleted().await?;
        if account == AccountFate::Deleted {
            self.store.delete_user(user).await?;
            self.store.erase_deleted().await?;
        }
        Ok(())
    }
}

/// Removes a folder, and what an interrupted attempt has left. A link in its place is removed, and not followed.
fn remove(folder: &Path, away: &Path) -> io::Result<()> {
    remove_any(away)?;
    match fs::rename(folder, away) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    }
    if let Some(parent) = folder.parent() {
        File::open(parent)?.sync_all()?;
    }
    remove_any(away)
}

fn remove_any(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => Ok(remove_folder(path)?),
        Ok(_) => fs::remove_file(path),
    }
}

#[cfg(test)]
mod tests {
    use super::{AccountFate, Belongings, DeleteError};
    use crate::active::Active;
    use coracle_store::MemoryStore;
    use coracle_types::UserId;
    use std::fs;
    use std::sync::Arc;

    #[tokio::test]
    async fn an_interrupted_deletion_is_completed_and_running_code_prevents_it() {
        let home = tempfile::tempdir().unwrap();
        let (ann, bob) = (UserId::new("ann").unwrap(), UserId::new("bob").unwrap());
        let active = Active::default();
        let belongings = Belongings::new(home.path().to_owned(), Arc::new(MemoryStore::new())).knowing(active.clone());
        // The last attempt ended after the folder was renamed, and a new one exists.
        for folder in [".removing-ann/files", "ann/files", "bob/files"] {
            fs::create_dir_all(home.path().join(folder)).unwrap();
            fs::write(home.path().join(folder).join("file"), "x").unwrap();
        }
        let running = active.begin(&ann).unwrap();
        let refused = belongings.delete(&ann, AccountFate::Kept).await.unwrap_err();
        assert!(matches!(refused, DeleteError::Running { .. }), "{refused}");
        assert!(home.path().join("ann/files/file").exists());
        drop(running);
        belongings.delete(&ann, AccountFate::Kept).await.unwrap();
        belongings.delete(&ann, AccountFate::Deleted).await.unwrap();
        assert!(!belongings.has_files(&ann) && belongings.has_files(&bob));
        assert!(active.begin(&ann).is_some(), "code can run again");
    }
}
