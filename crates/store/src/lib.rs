//! What survives a restart: everything that Coracle keeps below its data folder, `CORACLE_HOME`.
//!
//! Start at [`Store`], the seam: [`SqliteStore`] is what a machine of its own uses, [`MemoryStore`] what forgets.
//! [`Blobs`] holds bytes under the digest of their content. [`Home`] says what lies where on disk, [`Environments`] which Python packages.
//!
//! What must hold: owners never see each other's rows; a write is whole or not there, whatever kills the process;
//! a secret is on disk only sealed, and only under the owner and name that it was put; a key that is lost or wrong is
//! said aloud and never replaced while there is something that only it can open.

mod accounts;
mod artifacts;
mod backup;
mod blobs;
mod bounds;
mod environments;
mod error;
mod home;
mod journal;
mod key;
mod memory;
mod migrations;
mod moment;
mod owner;
mod records;
mod seal;
mod sqlite;
mod store;

pub use accounts::{
    Accounts, ApiKey, Belongings, BrowserSession, ForeignIdentity, KeyScope, MAX_ACCOUNT_TEXT_BYTES, Renamed, Role,
    SignInLink, TokenDigest, UnknownWord, User,
};
pub use artifacts::{
    ArtifactRecord, ArtifactUsage, ArtifactVersion, Artifacts, LEAST_CHARGE, MAX_VERSIONS, NewArtifact,
};
pub use backup::{BackedUp, BackupError, Restored, backup, restore, restore_with_key};
pub use blobs::{BlobError, BlobId, Blobs};
pub use bounds::{
    KEPT_CHECKPOINTS, KEPT_EXECUTIONS, KEPT_RECORDINGS, KEPT_SESSIONS, KEPT_TASKS, Kept, MAX_CODE_BYTES,
    MAX_CONTEXT_BYTES, MAX_NAME_BYTES, MAX_OUTCOME_BYTES, MAX_PAGE, MAX_PATH_BYTES, MAX_PREVIEW_BYTES,
    MAX_RECORDING_BYTES, MAX_SECRET_BYTES, MAX_SHAPE_BYTES, MAX_TOOLS_BYTES,
};
pub use environments::{
    ChangingEnvironments, Environment, EnvironmentError, Environments, NewEnvironment, Package, UsedEnvironment,
    WantedPackages,
};
pub use error::{Fault, KeyError, StoreError};
pub use home::{Claim, Home};
pub use journal::{Checkpoint, Journal, LostTask, NewTask, SessionRecord, TaskEnd, TaskRecord, TaskState};
pub use key::KeySource;
pub use memory::MemoryStore;
pub use migrations::schema_version;
pub use owner::Owner;
pub use records::{ExecutionRecord, ListedTools, Shape, ToolDecision};
pub use sqlite::SqliteStore;
pub use store::Store;
