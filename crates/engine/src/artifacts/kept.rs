//! The artifacts of all users: files in their folders, and their records in the store.

use super::collect::{Author, FULL, Left, Taken, discard};
use super::kind::BYTES;
use super::lasting::Lasting;
use super::{Address, ArtifactError, MAX_READ, described, place, shown};
use crate::files::{FileError, FileInfo, Quota, Usages, WorkspaceFiles};
use crate::hint::with_hint;
use crate::workspace::Workspaces;
use coracle_store::{ArtifactRecord, ArtifactUsage, ArtifactVersion, Store, StoreError};
use coracle_types::{Artifact, ArtifactId, ExecutionId, UserId};
use std::fs::File;
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Default maximum size of all artifacts of a user.
const MAX_BYTES: u64 = 1_024_000_000;

/// Maximum number of artifacts that an execution reports; all are kept.
const MAX_TOLD: usize = 100;

/// Stores the artifacts of all users and returns them on request.
#[derive(Debug)]
pub(crate) struct Artifacts {
    workspaces: Arc<Workspaces>,
    store: Arc<dyn Store>,
    /// The store in which artifacts are recorded if `store` is only in memory.
    lasting: OnceLock<Lasting>,
    /// Maximum size of all artifacts of a user.
    most: AtomicU64,
}

impl Artifacts {
    pub(crate) fn new(workspaces: Arc<Workspaces>, store: Arc<dyn Store>) -> Self {
        Self { workspaces, store, lasting: OnceLock::new(), most: MAX_BYTES.into() }
    }

    /// Records artifacts in another store from now on. Only the first call has an effect.
    pub(crate) fn keep_in(&self, lasting: Lasting) {
        let _ = self.lasting.set(lasting);
    }

    /// The store that was passed to [`Artifacts::keep_in`], if it has been opened.
    pub(crate) fn opened(&self) -> Option<&Arc<dyn Store>> {
        self.lasting.get().and_then(Lasting::opened)
    }

    /// The store that artifacts are recorded in.
    async fn recorded_in(&self) -> Result<Arc<dyn Store>, StoreError> {
        match self.lasting.get() {
            Some(lasting) => lasting.store().await,
            None => Ok(Arc::clone(&self.store)),
        }
    }

    /// Sets the maximum size of all artifacts of a user.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.most.store(bytes, Ordering::Relaxed);
    }

    /// Maximum size of all artifacts of a user, in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// A user's artifacts with the newest version of each, those changed last first.
    pub(crate) async fn list(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ArtifactId>,
    ) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        Ok(self.store.artifacts(user, limit, before).await?)
    }

    /// The artifacts changed last, in the form in which executions report them.
    pub(crate) async fn newest(&self, user: &UserId) -> Vec<Artifact> {
        match self.list(user, coracle_store::MAX_PAGE, None).await {
            Ok(records) => records.iter().filter_map(described).collect(),
            Err(error) => {
                tracing::warn!(%error, "cannot list artifacts");
                Vec::new()
            }
        }
    }

    /// An artifact with its versions.
    pub(crate) async fn versions(&self, user: &UserId, id: &ArtifactId) -> Result<ArtifactRecord, ArtifactError> {
        let found = self.store.artifact(user, id).await?;
        found.ok_or_else(|| ArtifactError::missing(id.as_str()))
    }

    /// One version of an artifact, by default the newest: its record and the open file.
    pub(crate) async fn open(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: Option<u64>,
    ) -> Result<(ArtifactRecord, ArtifactVersion, File), ArtifactError> {
        let found = match version {
            Some(version) => self.store.artifact_version(user, id, version).await?,
            None => self.store.artifact(user, id).await?,
        };
        let missing = || ArtifactError::missing(id.as_str());
        let record = found.ok_or_else(missing)?;
        let version = record.versions.first().cloned().ok_or_else(missing)?;
        let path = place(&version.execution_id, &record.name);
        let (_, file) = self.open_kept(user, id.as_str(), path).await?;
        Ok((record, version, file))
    }

    /// The content of the artifact with this address.
    pub(crate) async fn read(&self, user: &UserId, uri: &str) -> Result<(Artifact, Vec<u8>), ArtifactError> {
        let missing = || ArtifactError::missing(uri);
        let (artifact, file) = match Address::new(uri).ok_or_else(missing)? {
            Address::Version(id, version) => {
                let (record, _, file) = self.open(user, &id, version).await?;
                (described(&record).ok_or_else(missing)?, file)
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
            return Err(ArtifactError::TooLarge { uri: shown(uri), bytes: artifact.bytes });
        }
        Ok((artifact, bytes))
    }

    /// A file that an execution has written. Folders of earlier versions of Coracle are not in the store.
    async fn written(
        &self,
        user: &UserId,
        uri: &str,
        folder: &str,
        name: String,
    ) -> Result<(Artifact, File), ArtifactError> {
        let known = match ExecutionId::new(folder) {
            Ok(execution) => self.store.artifact_of(user, &execution, &name).await?,
            Err(_) => None,
        };
        let (info, file) = self.open_kept(user, uri, format!("{folder}/{name}")).await?;
        let artifact = known.as_ref().and_then(described).unwrap_or_else(|| Artifact {
            path: format!("/artifacts/{name}"),
            name,
            mime: BYTES.to_owned(),
            bytes: info.bytes,
            uri: uri.to_owned(),
            id: None,
            version: None,
        });
        Ok((artifact, file))
    }

    async fn open_kept(&self, user: &UserId, uri: &str, path: String) -> Result<(FileInfo, File), ArtifactError> {
        let kept = self.workspaces.of(user).artifacts().map_err(|error| ArtifactError::unreadable(uri, &error))?;
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
    pub(crate) async fn delete(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: Option<u64>,
    ) -> Result<(), ArtifactError> {
        let deleted = self.store.delete_artifact(user, id, version).await?;
        let record = deleted.ok_or_else(|| ArtifactError::missing(id.as_str()))?;
        let kept =
            self.workspaces.of(user).artifacts().map_err(|error| ArtifactError::unreadable(id.as_str(), &error))?;
        let discarded = tokio::task::spawn_blocking(move || {
            for version in &record.versions {
                discard(&kept, &version.execution_id, &record.name);
            }
        });
        discarded.await.map_err(|error| ArtifactError::unreadable(id.as_str(), &std::io::Error::other(error)))
    }

    /// Disk usage of a user's artifacts.
    pub(crate) async fn usage(&self, user: &UserId) -> Result<ArtifactUsage, ArtifactError> {
        Ok(self.recorded_in().await?.artifact_usage(user).await?)
    }

    /// Keeps the files that a run has left in `/artifacts`, and reports those that could not be kept.
    pub(crate) async fn take_over(self: &Arc<Self>, user: &UserId, author: Author, left: Left) -> Taken {
        let (own, user, names) = (Arc::clone(self), user.clone(), left.names());
        // Runs in a separate task, so that it completes even if this future is dropped: a file without a record could
        // neither be found nor deleted.
        let taken = tokio::spawn(async move { own.take_all(&user, author, left).await });
        match taken.await {
            Ok(taken) => taken,
            Err(error) => not_kept(names, &error),
        }
    }

    async fn take_all(&self, user: &UserId, author: Author, left: Left) -> Taken {
        let names = left.names();
        let kept = match self.workspaces.of(user).artifacts() {
            Ok(kept) => kept,
            Err(error) => {
                let folder = self.workspaces.root().display();
                return not_kept(names, &format!("a folder in {folder} cannot be made: {error}"));
            }
        };
        let most = self.limit();
        let room = match self.usage(user).await {
            Ok(usage) => most.saturating_sub(usage.bytes),
            Err(ArtifactError::Store(error)) => return not_kept(names, &with_hint(&error)),
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
        let added = match self.recorded_in().await {
            Ok(store) => store.add_artifacts(user, &new, most).await,
            Err(error) => Err(error),
        };
        let (added, why) = match added {
            // Another run may have used the space in the meantime.
            Ok(added) => (added, FULL.to_owned()),
            Err(error) => {
                taken.again.extend(new.iter().map(|new| new.name.clone()));
                (vec![None; new.len()], with_hint(&error))
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
                told.extend(described(&record));
            } else {
                discard(&kept, &author.execution, &new.name);
                taken.warnings.push(format!("/artifacts/{} was not kept as an artifact: {why}", new.name));
            }
        }
        told.sort_by(|one, other| one.name.cmp(&other.name));
        told.truncate(MAX_TOLD);
        taken.artifacts = told;
        taken
    }
}

/// The result if none of the files could be kept.
fn not_kept(again: Vec<String>, error: &dyn std::fmt::Display) -> Taken {
    Taken { artifacts: Vec::new(), warnings: vec![format!("artifacts were not kept: {error}")], again }
}
