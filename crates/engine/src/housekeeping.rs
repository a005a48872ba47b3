//! Deletes unused workspaces.
//!
//! A workspace is deleted only if a notice about it was logged and stored, some time has passed, and it has not been used
//! in the meantime. A dry run only gives notices. A notice is stored beside the workspace, where code cannot write.

use crate::active::Active;
use crate::workspace::OUTPUT_FOLDER;
use coracle_sandbox::{FolderUsage, folder_usage, remove_folder};
use coracle_store::{Store, StoreError};
use coracle_types::UserId;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The folders that are deleted: workspace and artifacts. Skills, sessions and accounts stay.
const DELETED: [&str; 2] = ["files", "artifacts"];
/// The notice, in a user's folder.
const NOTICE: &str = "cleanup.json";
/// Prefix of folders that are being deleted, in a user's folder.
const TRASH: &str = ".trash-";

/// Conditions under which workspaces are deleted.
#[derive(Clone, Copy, Debug)]
pub struct Cleanup {
    /// Minimum time without use.
    pub after: Duration,
    /// Minimum time since the notice.
    pub notice: Duration,
    /// Whether anything is deleted at all.
    pub mode: CleanupMode,
}

/// Whether anything is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupMode {
    /// Notices are given, but nothing is deleted.
    DryRun,
    /// Workspaces are deleted when they are due.
    Delete,
}

/// Disk space and last use of a user's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceUse {
    /// The user.
    pub user: UserId,
    /// Disk space of the workspace, in bytes.
    pub bytes: u64,
    /// Number of files, folders and links in the workspace.
    pub files: u64,
    /// Disk space of the artifacts, in bytes.
    pub artifact_bytes: u64,
    /// Disk space of output that was too long to return, in bytes; part of the workspace.
    pub output_bytes: u64,
    /// When code ran or a file was written for the last time.
    pub last_used: SystemTime,
}

/// Outcome of a clean-up for an unused workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CleanupStep {
    /// A notice was given just now.
    Noticed,
    /// A notice was given before, and the time is not up yet.
    Waiting,
    /// It would have been deleted now, but this is a dry run.
    Due,
    /// It was deleted.
    Deleted,
    /// It could not be deleted.
    Failed(String),
}

/// The result of a clean-up for one unused workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// The workspace.
    pub workspace: WorkspaceUse,
    /// Outcome of the clean-up.
    pub step: CleanupStep,
    /// When it may be deleted.
    pub due: SystemTime,
}

/// Finds and deletes unused workspaces.
#[derive(Clone, Debug)]
pub struct Housekeeping {
    workspaces: PathBuf,
    store: Arc<dyn Store>,
    active: Active,
}

#[derive(Debug, Serialize, Deserialize)]
struct Notice {
    noticed_at_ms: u64,
    last_used_ms: u64,
}

impl Housekeeping {
    /// For the workspaces in this folder. A process that runs code uses [`Engine::housekeeping`](crate::Engine::housekeeping)
    /// instead, which knows what is running.
    pub fn new(workspaces: PathBuf, store: Arc<dyn Store>) -> Self {
        Self { workspaces, store, active: Active::default() }
    }

    pub(crate) fn knowing(self, active: Active) -> Self {
        Self { active, ..self }
    }

    /// Disk space and last use of all workspaces, by user.
    pub async fn list(&self) -> io::Result<Vec<WorkspaceUse>> {
        let workspaces = self.workspaces.clone();
        let mut users = blocking(move || users(&workspaces)).await?;
        users.sort();
        let mut list = Vec::new();
        for user in users {
            list.push(self.used(user).await?);
        }
        Ok(list)
    }

    /// Disk space and last use of a user's workspace.
    pub async fn used(&self, user: UserId) -> io::Result<WorkspaceUse> {
        let newest = self.store.executions(&user, 1, None).await.map_err(from_store)?;
        let executed = newest.first().map_or(SystemTime::UNIX_EPOCH, |execution| execution.started_at);
        let folder = self.workspaces.join(user.as_str());
        blocking(move || {
            let (files, files_changed) = look(&folder.join("files"));
            let (artifacts, artifacts_changed) = look(&folder.join("artifacts"));
            let last_used = executed.max(files_changed).max(artifacts_changed).min(SystemTime::now());
            let artifact_bytes = artifacts.bytes;
            let output = folder.join("files").join(OUTPUT_FOLDER);
            // Code may have put a link there, and the host follows none.
            let is_real = fs::symlink_metadata(&output).is_ok_and(|metadata| metadata.is_dir());
            let output_bytes = if is_real { look(&output).0.bytes } else { 0 };
            Ok(WorkspaceUse { user, bytes: files.bytes, files: files.files, artifact_bytes, output_bytes, last_used })
        })
        .await
    }

    /// Gives notice of unused workspaces, and deletes those whose notice was given long enough ago.
    pub async fn clean(&self, cleanup: Cleanup) -> io::Result<Vec<Cleaned>> {
        let mut all = Vec::new();
        for workspace in self.list().await? {
            if let Some(cleaned) = self.clean_one(workspace, cleanup).await? {
                all.push(cleaned);
            }
        }
        Ok(all)
    }

    async fn clean_one(&self, workspace: WorkspaceUse, cleanup: Cleanup) -> io::Result<Option<Cleaned>> {
        let folder = self.workspaces.join(workspace.user.as_str());
        let is_empty = workspace.files == 0 && workspace.artifact_bytes == 0;
        let idle = workspace.last_used.elapsed().unwrap_or_default();
        let notice = folder.join(NOTICE);
        if is_empty || idle < cleanup.after || self.active.is(&workspace.user) {
            // An earlier notice is void.
            return blocking(move || removed(&notice).map(|()| None)).await;
        }
        let last_used_ms = millis(workspace.last_used);
        let known = {
            let notice = notice.clone();
            blocking(move || Ok(read(&notice))).await?.filter(|known| known.last_used_ms == last_used_ms)
        };
        let Some(known) = known else {
            let now = SystemTime::now();
            let text = Notice { noticed_at_ms: millis(now), last_used_ms };
            tracing::warn!(
                user = %workspace.user, bytes = workspace.bytes, files = workspace.files, idle_days = days(idle),
                "this workspace is unused and will be deleted"
            );
            blocking(move || write(&notice, &text)).await?;
            return Ok(Some(Cleaned { workspace, step: CleanupStep::Noticed, due: now + cleanup.notice }));
        };
        let due = SystemTime::UNIX_EPOCH + Duration::from_millis(known.noticed_at_ms) + cleanup.notice;
        let step = if due > SystemTime::now() {
            CleanupStep::Waiting
        } else if cleanup.mode == CleanupMode::DryRun {
            tracing::warn!(user = %workspace.user, bytes = workspace.bytes, "this workspace would be deleted now");
            CleanupStep::Due
        } else {
            self.delete(&workspace, idle).await
        };
        Ok(Some(Cleaned { workspace, step, due }))
    }

    async fn delete(&self, workspace: &WorkspaceUse, idle: Duration) -> CleanupStep {
        let user = &workspace.user;
        // No code of this user starts while the workspace is being deleted.
        let Some(_held) = self.active.hold(user) else { return CleanupStep::Waiting };
        tracing::warn!(
            %user, bytes = workspace.bytes, files = workspace.files, idle_days = days(idle),
            "deleting an unused workspace"
        );
        let folder = self.workspaces.join(user.as_str());
        let gone = async {
            // Records are deleted first: a file without a record does no harm, but a record without its file does.
            self.store.delete_artifacts(user).await.map_err(from_store)?;
            blocking(move || {
                for name in DELETED {
                    put_away(&folder, name)?;
                }
                sweep(&folder)?;
                removed(&folder.join(NOTICE))
            })
            .await
        };
        match gone.await {
            Ok(()) => CleanupStep::Deleted,
            Err(error) => {
                tracing::warn!(%user, %error, "a workspace could not be deleted");
                CleanupStep::Failed(error.to_string())
            }
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn from_store(error: StoreError) -> io::Error {
    io::Error::other(error.to_string())
}

/// The users who have a folder. Other entries are ignored.
fn users(workspaces: &Path) -> io::Result<Vec<UserId>> {
    let entries = match fs::read_dir(workspaces) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut users = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Some(user) = entry.file_name().to_str().and_then(|name| UserId::new(name).ok())
        {
            users.push(user);
        }
    }
    Ok(users)
}

/// Disk use of a folder, and the time of the last change according to the file system, which code cannot set.
fn look(folder: &Path) -> (FolderUsage, SystemTime) {
    let usage = folder_usage(folder).unwrap_or_default();
    let own = fs::symlink_metadata(folder).map_or(0, |metadata| metadata.ctime());
    let changed = u64::try_from(usage.changed.max(own)).unwrap_or_default();
    (usage, SystemTime::UNIX_EPOCH + Duration::from_secs(changed))
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn days(duration: Duration) -> u64 {
    duration.as_secs() / (24 * 3600)
}

/// A notice that cannot be read counts as not given.
fn read(path: &Path) -> Option<Notice> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write(path: &Path, notice: &Notice) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(notice)?)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    fs::File::open(folder)?.sync_all()
}

fn removed(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Renames a folder, so that it is gone at once, however long removing it takes.
fn put_away(folder: &Path, name: &str) -> io::Result<()> {
    let away = folder.join(format!("{TRASH}{name}-{}", millis(SystemTime::now())));
    match fs::rename(folder.join(name), away) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::File::open(folder)?.sync_all(),
    }
}

/// Removes folders that were renamed, now or before a crash.
fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(TRASH)) {
            remove_folder(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Active, Cleaned, Cleanup, CleanupMode, CleanupStep, Housekeeping};
    use coracle_store::MemoryStore;
    use coracle_types::UserId;
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    const NOW: Cleanup = Cleanup { after: Duration::ZERO, notice: Duration::ZERO, mode: CleanupMode::Delete };

    fn fill(home: &Path, user: &str) {
        for folder in ["files/deep/er", "artifacts/exec-1", "skills"] {
            fs::create_dir_all(home.join(user).join(folder)).unwrap();
            fs::write(home.join(user).join(folder).join("file"), "x").unwrap();
        }
    }

    fn steps(cleaned: &[Cleaned]) -> Vec<(&str, CleanupStep)> {
        cleaned.iter().map(|one| (one.workspace.user.as_str(), one.step.clone())).collect()
    }

    fn keeper(home: &Path) -> Housekeeping {
        Housekeeping::new(home.to_owned(), Arc::new(MemoryStore::new()))
    }

    #[tokio::test]
    async fn nothing_is_deleted_without_a_notice_that_is_old_enough() {
        let home = tempfile::tempdir().unwrap();
        fill(home.path(), "ada");
        fs::create_dir_all(home.path().join("empty/files")).unwrap();
        fs::create_dir(home.path().join(".hidden")).unwrap();
        let keeper = keeper(home.path());
        let young = Cleanup { after: Duration::from_hours(1), ..NOW };
        assert_eq!(keeper.clean(young).await.unwrap(), [], "somebody uses it");
        let dry = Cleanup { mode: CleanupMode::DryRun, ..NOW };
        assert_eq!(steps(&keeper.clean(dry).await.unwrap()), [("ada", CleanupStep::Noticed)]);
        assert_eq!(steps(&keeper.clean(dry).await.unwrap()), [("ada", CleanupStep::Due)]);
        let patient = Cleanup { notice: Duration::from_hours(1), ..NOW };
        assert_eq!(steps(&keeper.clean(patient).await.unwrap()), [("ada", CleanupStep::Waiting)]);
        assert!(home.path().join("ada/files/deep/er/file").exists());
        assert_eq!(steps(&keeper.clean(NOW).await.unwrap()), [("ada", CleanupStep::Deleted)]);
        let left: Vec<_> = fs::read_dir(home.path().join("ada")).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["skills"]);
        assert_eq!(keeper.clean(NOW).await.unwrap(), []);
    }

    #[tokio::test]
    async fn use_makes_a_notice_void() {
        let home = tempfile::tempdir().unwrap();
        fill(home.path(), "ada");
        let keeper = keeper(home.path());
        assert_eq!(steps(&keeper.clean(NOW).await.unwrap()), [("ada", CleanupStep::Noticed)]);
        // The times of files are compared in whole seconds.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        fs::write(home.path().join("ada/files/new"), "x").unwrap();
        assert_eq!(steps(&keeper.clean(NOW).await.unwrap()), [("ada", CleanupStep::Noticed)]);
        fs::write(home.path().join("ada/cleanup.json"), "garbage").unwrap();
        assert_eq!(steps(&keeper.clean(NOW).await.unwrap()), [("ada", CleanupStep::Noticed)]);
        let young = Cleanup { after: Duration::from_hours(1), ..NOW };
        assert_eq!(keeper.clean(young).await.unwrap(), []);
        assert!(!home.path().join("ada/cleanup.json").exists());
    }

    #[tokio::test]
    async fn what_runs_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        fill(home.path(), "ada");
        let active = Active::default();
        let keeper = keeper(home.path()).knowing(active.clone());
        keeper.clean(NOW).await.unwrap();
        let ada = UserId::new("ada").unwrap();
        let running = active.begin(&ada).unwrap();
        assert_eq!(keeper.clean(NOW).await.unwrap(), []);
        drop(running);
        let held = active.hold(&ada).unwrap();
        assert!(active.begin(&ada).is_none());
        drop(held);
        assert!(active.begin(&ada).is_some());
        assert_eq!(steps(&keeper.clean(NOW).await.unwrap()), [("ada", CleanupStep::Noticed)], "from the beginning");
    }
}
