//! What the engine keeps for users: their files and their artifacts.

use super::{Engine, Lasting};
use crate::artifacts::{self, Address, ArtifactError, Author, FULL, Left, MAX_READ, Taken};
use crate::files::{Existing, FileError, FileInfo, FileKind, Listed, Quota, Usages, WorkspaceFiles};
use crate::housekeeping::Housekeeping;
use crate::journal::advised;
use coracle_store::{ArtifactRecord, ArtifactUsage, ArtifactVersion, Store, StoreError};
use coracle_types::{Artifact, ArtifactId, ExecutionId, Limits, UserId};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What all artifacts of a user may amount to, if nobody says otherwise.
pub(super) const ARTIFACT_BYTES: u64 = 1_024_000_000;

impl Engine {
    /// A user's workspace, or the folder that stands for it. What it may hold is in the limits.
    pub fn files(&self, user: &UserId, workspace: Option<&Path>, limits: &Limits) -> Result<WorkspaceFiles, FileError> {
        let folder = match workspace {
            Some(folder) => folder.to_owned(),
            None => self.folders(user).files().map_err(|error| FileError::failed(&".", "made", &error))?,
        };
        let files = WorkspaceFiles::open(folder, Quota::of(limits), self.inner.usages.clone())?;
        // A user's own folder lies in the data folder, not the other way round.
        Ok(files.without(workspace.and(self.inner.hidden.get()).map(std::path::PathBuf::as_path)))
    }

    /// Nobody gets at this folder, Coracle's own, if a workspace is named that it lies in.
    pub fn hide(&self, folder: &Path) {
        // One that is not there yet is hidden under the name that it will have.
        let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        // The first word counts.
        let _ = self.inner.hidden.set(folder);
    }

    /// Writes what is too long to be shown into the workspace; names the file as the code sees it.
    pub fn keep(
        &self,
        user: &UserId,
        workspace: Option<&Path>,
        limits: &Limits,
        name: &str,
        bytes: &[u8],
    ) -> Option<String> {
        match self.keep_or_say(user, workspace, limits, name, bytes) {
            Ok(path) => Some(path),
            Err(error) => {
                tracing::warn!(%error, name, "what is too long to be shown could not be kept");
                None
            }
        }
    }

    pub(super) fn keep_or_say(
        &self,
        user: &UserId,
        workspace: Option<&Path>,
        limits: &Limits,
        name: &str,
        bytes: &[u8],
    ) -> Result<String, FileError> {
        let path = format!("{OUTPUT_FOLDER}/{name}");
        let files = self.files(user, workspace, limits)?;
        let info = files.write(&path, bytes, Existing::Keep)?;
        prune_output(&files, &info.path);
        Ok(WorkspaceFiles::seen_at(&info.path))
    }

    /// Looks after the workspaces, and leaves those alone in which something runs.
    pub fn housekeeping(&self) -> Housekeeping {
        let (workspaces, store) = (self.inner.config.workspaces.clone(), Arc::clone(&self.inner.store));
        Housekeeping::new(workspaces, store).knowing(self.inner.active.clone())
    }

    /// Artifacts are entered here, and not in the store of this engine, which does not last.
    pub fn keep_artifacts_in(&self, lasting: Lasting) {
        // The first one stays.
        let _ = self.inner.lasting.set(lasting);
    }

    async fn artifact_store(&self) -> Result<Arc<dyn Store>, StoreError> {
        match self.inner.lasting.get() {
            Some(lasting) => lasting.store().await,
            None => Ok(Arc::clone(&self.inner.store)),
        }
    }

    /// What all artifacts of a user may amount to, from now on.
    pub fn limit_artifacts(&self, bytes: u64) {
        self.inner.artifact_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What all artifacts of a user may amount to.
    pub fn artifact_limit(&self) -> u64 {
        self.inner.artifact_bytes.load(Ordering::Relaxed)
    }

    /// A user's artifacts with the newest version of each, those changed last first.
    pub async fn artifacts(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ArtifactId>,
    ) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        Ok(self.inner.store.artifacts(user, limit, before).await?)
    }

    /// The newest artifacts as executions tell them.
    pub async fn newest_artifacts(&self, user: &UserId) -> Vec<Artifact> {
        match self.artifacts(user, coracle_store::MAX_PAGE, None).await {
            Ok(records) => records.iter().filter_map(artifacts::described).collect(),
            Err(error) => {
                tracing::warn!(%error, "artifacts cannot be listed");
                Vec::new()
            }
        }
    }

    /// An artifact with its versions.
    pub async fn artifact_versions(&self, user: &UserId, id: &ArtifactId) -> Result<ArtifactRecord, ArtifactError> {
        let found = self.inner.store.artifact(user, id).await?;
        found.ok_or_else(|| ArtifactError::missing(id.as_str()))
    }

    /// One version of an artifact, the newest if none is named: what is known of it, and the open file.
    pub async fn open_artifact(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: Option<u64>,
    ) -> Result<(ArtifactRecord, ArtifactVersion, File), ArtifactError> {
        let found = match version {
            Some(version) => self.inner.store.artifact_version(user, id, version).await?,
            None => self.inner.store.artifact(user, id).await?,
        };
        let missing = || ArtifactError::missing(id.as_str());
        let record = found.ok_or_else(missing)?;
        let version = record.versions.first().cloned().ok_or_else(missing)?;
        let path = artifacts::place(&version.execution_id, &record.name);
        let (_, file) = self.open_kept(user, id.as_str(), path).await?;
        Ok((record, version, file))
    }

    /// A file that code has left in `/artifacts`, by its address.
    pub async fn artifact(&self, user: &UserId, uri: &str) -> Result<(Artifact, Vec<u8>), ArtifactError> {
        let missing = || ArtifactError::missing(uri);
        let (artifact, file) = match Address::new(uri).ok_or_else(missing)? {
            Address::Version(id, version) => {
                let (record, _, file) = self.open_artifact(user, &id, version).await?;
                (artifacts::described(&record).ok_or_else(missing)?, file)
            }
            Address::Written { folder, name } => self.written(user, uri, &folder, name).await?,
        };
        let bytes = tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            file.take(MAX_READ + 1).read_to_end(&mut bytes).map(|_| bytes)
        });
        let bytes = bytes.await.map_err(std::io::Error::other).and_then(|read| read);
        let bytes = bytes.map_err(|error| ArtifactError::unreadable(uri, &error))?;
        if bytes.len() as u64 > MAX_READ {
            return Err(ArtifactError::TooLarge { uri: artifacts::shown(uri), bytes: artifact.bytes });
        }
        Ok((artifact, bytes))
    }

    /// What an execution has written. Folders of earlier versions of Coracle are in no index.
    async fn written(
        &self,
        user: &UserId,
        uri: &str,
        folder: &str,
        name: String,
    ) -> Result<(Artifact, File), ArtifactError> {
        let known = match ExecutionId::new(folder) {
            Ok(execution) => self.inner.store.artifact_of(user, &execution, &name).await?,
            Err(_) => None,
        };
        let (info, file) = self.open_kept(user, uri, format!("{folder}/{name}")).await?;
        let artifact = known.as_ref().and_then(artifacts::described).unwrap_or_else(|| Artifact {
            path: format!("/artifacts/{name}"),
            name,
            mime: artifacts::BYTES.to_owned(),
            bytes: info.bytes,
            uri: uri.to_owned(),
            id: None,
            version: None,
        });
        Ok((artifact, file))
    }

    async fn open_kept(
        &self,
        user: &UserId,
        uri: &str,
        path: String,
    ) -> Result<(crate::files::FileInfo, File), ArtifactError> {
        let kept = self.folders(user).artifacts().map_err(|error| ArtifactError::unreadable(uri, &error))?;
        let opened = tokio::task::spawn_blocking(move || {
            WorkspaceFiles::open(kept, Quota::NONE, Usages::default())?.open_file(&path)
        });
        match opened.await {
            Ok(Ok(opened)) => Ok(opened),
            Ok(Err(FileError::Failed { reason, .. })) => {
                Err(ArtifactError::unreadable(uri, &std::io::Error::other(reason)))
            }
            Ok(Err(_)) => Err(ArtifactError::missing(uri)),
            Err(error) => Err(ArtifactError::unreadable(uri, &std::io::Error::other(error))),
        }
    }

    /// Deletes an artifact, or one version of it.
    pub async fn delete_artifact(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: Option<u64>,
    ) -> Result<(), ArtifactError> {
        let deleted = self.inner.store.delete_artifact(user, id, version).await?;
        let record = deleted.ok_or_else(|| ArtifactError::missing(id.as_str()))?;
        let kept = self.folders(user).artifacts().map_err(|error| ArtifactError::unreadable(id.as_str(), &error))?;
        let discarded = tokio::task::spawn_blocking(move || {
            for version in &record.versions {
                artifacts::discard(&kept, &version.execution_id, &record.name);
            }
        });
        discarded.await.map_err(|error| ArtifactError::unreadable(id.as_str(), &std::io::Error::other(error)))
    }

    /// What a user's artifacts amount to.
    pub async fn artifact_usage(&self, user: &UserId) -> Result<ArtifactUsage, ArtifactError> {
        Ok(self.artifact_store().await?.artifact_usage(user).await?)
    }

    /// Takes over what a run has left in `/artifacts`: what came of it, and what is to be said about the rest.
    pub(super) async fn take_over(&self, user: &UserId, author: Author, left: Left) -> Taken {
        let (engine, user, names) = (self.clone(), user.clone(), left.names());
        // To its end, even if nobody waits for it any more: a file without its entry would be in nobody's way and
        // nobody's.
        let taken = tokio::spawn(async move { engine.take_all(&user, author, left).await });
        match taken.await {
            Ok(taken) => taken,
            Err(error) => not_kept(names, &error),
        }
    }

    async fn take_all(&self, user: &UserId, author: Author, left: Left) -> Taken {
        let names = left.names();
        let kept = match self.folders(user).artifacts() {
            Ok(kept) => kept,
            Err(error) => {
                let folder = self.inner.config.workspaces.display();
                return not_kept(names, &format!("a folder in {folder} cannot be made: {error}"));
            }
        };
        let most = self.artifact_limit();
        let room = match self.artifact_usage(user).await {
            Ok(usage) => most.saturating_sub(usage.bytes),
            Err(ArtifactError::Store(error)) => return not_kept(names, &advised(&error)),
            Err(error) => return not_kept(names, &error),
        };
        let (folder, by) = (kept.clone(), author.clone());
        let copied = tokio::task::spawn_blocking(move || left.copy(&folder, &by, room)).await;
        let (new, mut taken) = match copied {
            Ok(copied) => copied,
            Err(error) => return not_kept(names, &error),
        };
        if new.is_empty() {
            return taken;
        }
        let added = match self.artifact_store().await {
            Ok(store) => store.add_artifacts(user, &new, most).await,
            Err(error) => Err(error),
        };
        let (added, why) = match added {
            // Another run may have used the room meanwhile.
            Ok(added) => (added, FULL.to_owned()),
            Err(error) => {
                taken.again.extend(new.iter().map(|new| new.name.clone()));
                (vec![None; new.len()], advised(&error))
            }
        };
        let mut told = Vec::new();
        for (new, added) in new.into_iter().zip(added) {
            if let Some((id, version)) = added {
                let version = ArtifactVersion {
                    version,
                    execution_id: new.execution_id,
                    session: new.session,
                    mime: new.mime,
                    bytes: new.bytes,
                    sha256: new.sha256,
                    created_at: new.created_at,
                    preview: new.preview,
                };
                let record = ArtifactRecord { id, name: new.name, count: version.version, versions: vec![version] };
                told.extend(artifacts::described(&record));
            } else {
                artifacts::discard(&kept, &author.execution, &new.name);
                taken.warnings.push(format!("/artifacts/{} was not kept as an artifact: {why}", new.name));
            }
        }
        told.sort_by(|one, other| one.name.cmp(&other.name));
        told.truncate(MAX_TOLD);
        taken.artifacts = told;
        taken
    }
}

/// None of these could be kept.
fn not_kept(again: Vec<String>, error: &dyn std::fmt::Display) -> Taken {
    Taken { artifacts: Vec::new(), warnings: vec![format!("artifacts were not kept: {error}")], again }
}

/// So many artifacts of one run are told; all are kept.
const MAX_TOLD: usize = 100;

/// Where output that was too long is kept, in the workspace.
pub(crate) const OUTPUT_FOLDER: &str = ".coracle-output";
/// Files of output that stay: so many, so old at most, and so many bytes together.
const KEPT_OUTPUTS: usize = 100;
const KEPT_OUTPUT_AGE: Duration = Duration::from_hours(7 * 24);
const KEPT_OUTPUT_BYTES: u64 = 128 << 20;

/// Deletes output of earlier executions that is old, or too much. `newest` stays.
fn prune_output(files: &WorkspaceFiles, newest: &str) {
    let Ok(list) = files.list(OUTPUT_FOLDER, Listed::Here) else { return };
    let is_ours = |name: &str| name.rsplit('/').next().is_some_and(|name| name.starts_with("exec-"));
    let mut found: Vec<FileInfo> =
        list.files.into_iter().filter(|file| file.kind == FileKind::File && is_ours(&file.path)).collect();
    found.sort_by_key(|file| std::cmp::Reverse(file.modified()));
    let mut bytes = 0_u64;
    for (number, file) in found.iter().enumerate() {
        bytes = bytes.saturating_add(file.bytes);
        let is_old = file.modified().elapsed().is_ok_and(|age| age > KEPT_OUTPUT_AGE);
        if file.path != newest && (number >= KEPT_OUTPUTS || bytes > KEPT_OUTPUT_BYTES || is_old) {
            // Code may have deleted it meanwhile.
            if let Err(error) = files.delete(&file.path, Listed::Here) {
                tracing::debug!(%error, "old output stays");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_OUTPUTS, OUTPUT_FOLDER, prune_output};
    use crate::files::{Quota, Usages, WorkspaceFiles};
    use std::fs::{self, File, FileTimes};
    use std::time::{Duration, SystemTime};

    #[test]
    fn old_output_goes_and_other_files_stay() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(OUTPUT_FOLDER);
        fs::create_dir(&folder).unwrap();
        let put = |name: &str, age: Duration| {
            let file = File::create(folder.join(name)).unwrap();
            file.set_times(FileTimes::new().set_modified(SystemTime::now() - age)).unwrap();
        };
        for number in 0..KEPT_OUTPUTS + 5 {
            put(&format!("exec-{number:03}.txt"), Duration::from_secs(number as u64));
        }
        put("exec-old.txt", Duration::from_hours(24 * 30));
        put("mine.txt", Duration::from_hours(24 * 30));
        let files = WorkspaceFiles::open(home.path().to_owned(), Quota::NONE, Usages::default()).unwrap();
        prune_output(&files, &format!("{OUTPUT_FOLDER}/exec-104.txt"));
        let mut left: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left.len(), KEPT_OUTPUTS + 2, "{left:?}");
        for kept in ["exec-000.txt", "exec-104.txt", "mine.txt"] {
            assert!(left.iter().any(|name| name == kept), "{kept}: {left:?}");
        }
        assert!(!left.iter().any(|name| name == "exec-old.txt" || name == "exec-103.txt"), "{left:?}");
    }
}
