use crate::StoreError;
use async_trait::async_trait;
use coracle_types::{ArtifactId, ExecutionId, Preview, SessionId, UserId};
use std::fmt;
use std::time::SystemTime;

/// The least that a version counts for, however small it is.
pub const LEAST_CHARGE: u64 = 4_096;

/// A version of an artifact that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArtifact {
    /// The id that its artifact gets, if there is none of this name yet. Nobody can guess it.
    pub id: ArtifactId,
    /// Its path below `/artifacts`.
    pub name: String,
    /// Who wrote it. An execution writes a name once.
    pub execution_id: ExecutionId,
    /// In which session.
    pub session: Option<SessionId>,
    /// What it is.
    pub mime: String,
    /// How long it is.
    pub bytes: u64,
    /// Digest of its content, in hexadecimal.
    pub sha256: String,
    /// When it was kept.
    pub created_at: SystemTime,
    /// What can be shown of it at a glance.
    pub preview: Option<Preview>,
}

impl NewArtifact {
    /// What it counts for.
    pub fn charge(&self) -> u64 {
        self.bytes.max(LEAST_CHARGE)
    }
}

/// One version of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactVersion {
    /// Counts from 1; a number is given once.
    pub version: u64,
    /// Who wrote it.
    pub execution_id: ExecutionId,
    /// In which session.
    pub session: Option<SessionId>,
    /// What it is.
    pub mime: String,
    /// How long it is.
    pub bytes: u64,
    /// Digest of its content, in hexadecimal.
    pub sha256: String,
    /// When it was kept.
    pub created_at: SystemTime,
    /// What can be shown of it at a glance.
    pub preview: Option<Preview>,
}

/// An artifact with some of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactRecord {
    /// Nobody can guess it.
    pub id: ArtifactId,
    /// Its path below `/artifacts`.
    pub name: String,
    /// How many versions there are.
    pub count: u64,
    /// The newest first.
    pub versions: Vec<ArtifactVersion>,
}

/// What a user's artifacts amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArtifactUsage {
    /// What they count for: their length, and at least [`LEAST_CHARGE`] each.
    pub bytes: u64,
    /// How many versions there are.
    pub versions: u64,
}

/// Which artifacts there are; what is in them is kept elsewhere.
///
/// Contract: as that of [`crate::Store`]. A user never sees, names or deletes what is another's.
#[async_trait]
pub trait Artifacts: Send + Sync + fmt::Debug {
    /// Adds versions, one after the other; `None` for those with which the user would have more than `most` bytes.
    async fn add_artifacts(
        &self,
        user: &UserId,
        new: &[NewArtifact],
        most: u64,
    ) -> Result<Vec<Option<(ArtifactId, u64)>>, StoreError>;

    /// A user's artifacts with their newest version each: those changed last come first, and those of the same
    /// millisecond by falling id. At most `limit`, never more than [`crate::MAX_PAGE`]; only those that come after
    /// `before` in this order, if it is given. An unknown `before` has none after it.
    async fn artifacts(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ArtifactId>,
    ) -> Result<Vec<ArtifactRecord>, StoreError>;

    /// An artifact with all its versions; of very many the newest [`MAX_VERSIONS`].
    async fn artifact(&self, user: &UserId, id: &ArtifactId) -> Result<Option<ArtifactRecord>, StoreError>;

    /// One version of an artifact.
    async fn artifact_version(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: u64,
    ) -> Result<Option<ArtifactRecord>, StoreError>;

    /// The version of a name that an execution wrote.
    async fn artifact_of(
        &self,
        user: &UserId,
        execution: &ExecutionId,
        name: &str,
    ) -> Result<Option<ArtifactRecord>, StoreError>;

    /// Deletes an artifact, or one version of it; with its last version an artifact is gone. Returns what was deleted.
    async fn delete_artifact(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: Option<u64>,
    ) -> Result<Option<ArtifactRecord>, StoreError>;

    /// Deletes all of a user's.
    async fn delete_artifacts(&self, user: &UserId) -> Result<(), StoreError>;

    /// What a user's artifacts amount to.
    async fn artifact_usage(&self, user: &UserId) -> Result<ArtifactUsage, StoreError>;
}

/// So many versions of one artifact are listed.
pub const MAX_VERSIONS: usize = 1_000;
