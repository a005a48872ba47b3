//! What the engine keeps for users: their files and their artifacts.

use super::Engine;
use crate::artifacts::{self, Address, ArtifactError, Author, FULL, Left, MAX_READ};
use crate::files::{Existing, FileError, Quota, Usages, WorkspaceFiles};
use crate::housekeeping::Housekeeping;
use coracle_store::{ArtifactRecord, ArtifactUsage, ArtifactVersion};
use coracle_types::{Artifact, ArtifactId, ExecutionId, Limits, UserId};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What all artifacts of a user may amount to, if nobody says otherwise.
pub(super) const ARTIFACT_BYTES: u64 = 1_024_000_000;

impl Engine {
    /// A user's workspace, or the folder that stands for it. What it may hold is in the limits.
    pub fn files(&self, user: &UserId, workspace: Option<&Path>, limits: &Limits) -> Result<WorkspaceFiles, FileError> {
        let folder = match workspace {
            Some(folder) => folder.to_owned(),
            None => self.folders(user).files().map_err(|error| FileError::failed(&".", "made", &error))?,
        };
        WorkspaceFiles::open(folder, Quota::of(limits), self.inner.usages.clone())
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
        let path = format!("{OUTPUT_FOLDER}/{name}");
        let kept = self.files(user, workspace, limits).and_then(|files| files.write(&path, bytes, Existing::Keep));
        match kept {
            Ok(info) => Some(WorkspaceFiles::seen_at(&info.path)),
            Err(error) => {
                tracing::warn!(%error, name, "what is too long to be shown could not be kept");
                None
            }
        }
    }

    /// Looks after the workspaces, and leaves those alone in which something runs.
    pub fn housekeeping(&self) -> Housekeeping {
        let (workspaces, store) = (self.inner.config.workspaces.clone(), Arc::clone(&self.inner.store));
        Housekeeping::new(workspaces, store).knowing(self.inner.active.clone())
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
        Ok(self.inner.store.artifact_usage(user).await?)
    }

    /// Takes over what a run has left in `/artifacts`: what came of it, and what is to be said about the rest.
    pub(super) async fn take_over(&self, user: &UserId, author: Author, left: Left) -> (Vec<Artifact>, Vec<String>) {
        let (engine, user) = (self.clone(), user.clone());
        // To its end, even if nobody waits for it any more: a file without its entry would be in nobody's way and
        // nobody's.
        let taken = tokio::spawn(async move { engine.take_all(&user, author, left).await });
        match taken.await {
            Ok(taken) => taken,
            Err(error) => (Vec::new(), vec![format!("artifacts were not kept: {error}")]),
        }
    }

    async fn take_all(&self, user: &UserId, author: Author, left: Left) -> (Vec<Artifact>, Vec<String>) {
        let failed = |error: &dyn std::fmt::Display| (Vec::new(), vec![format!("artifacts were not kept: {error}")]);
        let kept = match self.folders(user).artifacts() {
            Ok(kept) => kept,
            Err(error) => return failed(&error),
        };
        let most = self.artifact_limit();
        let room = match self.artifact_usage(user).await {
            Ok(usage) => most.saturating_sub(usage.bytes),
            Err(error) => return failed(&error),
        };
        let (folder, by) = (kept.clone(), author.clone());
        let copied = tokio::task::spawn_blocking(move || left.copy(&folder, &by, room)).await;
        let (new, mut warnings) = match copied {
            Ok(copied) => copied,
            Err(error) => return failed(&error),
        };
        if new.is_empty() {
            return (Vec::new(), warnings);
        }
        let added = match self.inner.store.add_artifacts(user, &new, most).await {
            Ok(added) => added,
            Err(error) => {
                warnings.push(format!("artifacts were not kept: {error}"));
                vec![None; new.len()]
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
                // Another run may have used the room meanwhile.
                warnings.push(format!("/artifacts/{} was not kept as an artifact: {FULL}", new.name));
            }
        }
        told.sort_by(|one, other| one.name.cmp(&other.name));
        told.truncate(MAX_TOLD);
        (told, warnings)
    }
}

/// So many artifacts of one run are told; all are kept.
const MAX_TOLD: usize = 100;

/// Where output that was too long is kept, in the workspace.
const OUTPUT_FOLDER: &str = ".coracle-output";
