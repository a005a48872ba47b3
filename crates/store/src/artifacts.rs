use crate::StoreError;
use async_trait::async_trait;
use coracle_types::{ArtifactId, ExecutionId, Preview, SessionId, UserId};
use std::fmt;
use std::time::SystemTime;

/// The minimum size that a version is charged for.
pub const LEAST_CHARGE: u64 = 4_096;

/// A new version of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArtifact {
    /// The ID of the artifact, if there is none with this name yet. It cannot be guessed.
    pub id: ArtifactId,
    /// The path below `/artifacts`.
    pub name: String,
    /// The execution that wrote it. An execution writes each name once.
    pub execution_id: ExecutionId,
    /// The session of the execution.
    pub session: Option<SessionId>,
    /// The media type.
    pub mime: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Digest of the content, in hexadecimal.
    pub sha256: String,
    /// When it was stored.
    pub created_at: SystemTime,
    /// A preview.
    pub preview: Option<Preview>,
}

impl NewArtifact {
    /// The size that the version is charged for.
    pub fn charge(&self) -> u64 {
        self.bytes.max(LEAST_CHARGE)
    }
}

/// One version of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactVersion {
    /// The version number, from 1. Numbers are not reused.
    pub version: u64,
    /// The execution that wrote it.
    pub execution_id: ExecutionId,
    /// The session of the execution.
    pub session: Option<SessionId>,
    /// The media type.
    pub mime: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Digest of the content, in hexadecimal.
    pub sha256: String,
    /// When it was stored.
    pub created_at: SystemTime,
    /// A preview.
    pub preview: Option<Preview>,
}

/// An artifact with some of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactRecord {
    /// The artifact ID, which cannot be guessed.
    pub id: ArtifactId,
    /// The path below `/artifacts`.
    pub name: String,
    /// The number of versions.
    pub count: u64,
    /// Versions, newest first.
    pub versions: Vec<ArtifactVersion>,
}

/// The total size of a user's artifacts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArtifactUsage {
    /// The charged size: the length of each version, but at least [`LEAST_CHARGE`].
    pub bytes: u64,
    /// The number of versions.
    pub versions: u64,
}

/// The index of artifacts. Their contents are stored elsewhere.
///
/// Contract: that of [`crate::Store`]. Users never see, address or delete artifacts of other users.
#[async_trait]
pub trait Artifacts: Send + Sync + fmt::Debug {
    /// Adds versions in order. Returns `None` for each with which the user would have more than `most` bytes.
    async fn add_artifacts(
        &self,
        user: &UserId,
        new: &[NewArtifact],
        most: u64,
    ) -> Result<Vec<Option<(ArtifactId, u64)>>, StoreError>;

    /// The artifacts of a user with their newest version: most recently changed first, and those of the same
    /// millisecond by descending ID. At most `limit`, and never more than [`crate::MAX_PAGE`]. If `before` is given,
    /// only those after it in this order, and none if it is unknown.
    async fn artifacts(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ArtifactId>,
    ) -> Result<Vec<ArtifactRecord>, StoreError>;

    /// An artifact with all its versions, or the newest [`MAX_VERSIONS`] if there are more.
    async fn artifact(&self, user: &UserId, id: &ArtifactId) -> Result<Option<ArtifactRecord>, StoreError>;

    /// One version of an artifact.
    async fn artifact_version(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: u64,
    ) -> Result<Option<ArtifactRecord>, StoreError>;

    /// The version that an execution wrote under a name.
    async fn artifact_of(
        &self,
        user: &UserId,
        execution: &ExecutionId,
        name: &str,
    ) -> Result<Option<ArtifactRecord>, StoreError>;

    /// Deletes an artifact, or one version of it. Deleting the last version deletes the artifact. Returns what was
    /// deleted.
    async fn delete_artifact(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: Option<u64>,
    ) -> Result<Option<ArtifactRecord>, StoreError>;

    /// Deletes all artifacts of a user.
    async fn delete_artifacts(&self, user: &UserId) -> Result<(), StoreError>;

    /// The total size of a user's artifacts.
    async fn artifact_usage(&self, user: &UserId) -> Result<ArtifactUsage, StoreError>;
}

/// The maximum number of versions of an artifact that are listed.
pub const MAX_VERSIONS: usize = 1_000;
