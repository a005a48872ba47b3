//! Persistent data: everything that Coracle keeps in its data folder, `CORACLE_HOME`.
//!
//! Start at the trait [`Store`]: [`SqliteStore`] is the implementation for one machine, and [`MemoryStore`] forgets
//! everything when the process ends. [`Blobs`] stores bytes under the digest of their content. [`Home`] defines the
//! layout of the data folder, and [`Environments`] manages the Python packages.
//!
//! Invariants: owners never see each other's rows. A write is complete or absent, however the process ends. A secret is
//! stored only encrypted, and bound to its owner and name. A missing or wrong key is reported, and never replaced while
//! there are secrets that only it can decrypt.

mod accounts;
mod approvals;
mod artifacts;
mod backup;
mod blobs;
mod bounds;
mod conversations;
mod derived;
mod environments;
mod error;
mod home;
mod journal;
mod key;
mod key_command;
mod limit_use;
mod memory;
mod migrations;
mod moment;
mod owner;
mod plans;
mod provenance;
mod records;
mod runs;
mod seal;
mod sqlite;
mod store;
mod token_use;
mod token_vault;

pub use accounts::{
    Accounts, ApiKey, Belongings, BrowserSession, ForeignIdentity, KeyScope, MAX_ACCOUNT_TEXT_BYTES, Renamed, Role,
    SignInLink, TokenDigest, UnknownWord, User,
};
pub use approvals::{ApprovalLog, ApprovalOutcome, ApprovalRecord, KEPT_APPROVALS, MAX_APPROVAL_TEXT_BYTES};
pub use artifacts::{
    ArtifactRecord, ArtifactUsage, ArtifactVersion, Artifacts, LEAST_CHARGE, MAX_VERSIONS, NewArtifact,
};
pub use backup::{BackedUp, BackupError, Restored, UserArchive, backup, restore, restore_with_key};
pub use blobs::{BlobError, BlobId, Blobs};
pub use bounds::{
    KEPT_CHECKPOINTS, KEPT_EXECUTIONS, KEPT_RECORDINGS, KEPT_SESSIONS, KEPT_TASKS, Kept, MAX_CODE_BYTES,
    MAX_CONTEXT_BYTES, MAX_ITEM_BYTES, MAX_ITEMS, MAX_NAME_BYTES, MAX_OUTCOME_BYTES, MAX_PAGE, MAX_PATH_BYTES,
    MAX_PREVIEW_BYTES, MAX_QUEUE_BYTES, MAX_RECORDING_BYTES, MAX_RUN_REQUEST_BYTES, MAX_SECRET_BYTES, MAX_SHAPE_BYTES,
    MAX_TOOLS_BYTES,
};
pub use conversations::{Conversations, ForkedItem, MAX_SEARCH_BYTES, QueueRecord};
pub use derived::DerivedKey;
pub use environments::{
    ChangingEnvironments, Environment, EnvironmentError, Environments, NewEnvironment, Package, UsedEnvironment,
    WantedPackages,
};
pub use error::{Fault, KeyError, StoreError};
pub use home::{Claim, Home};
pub use journal::{Checkpoint, Journal, LostTask, NewTask, SessionRecord, TaskEnd, TaskRecord, TaskState};
pub use key::KeySource;
pub use key_command::KeyCommand;
pub use limit_use::{Charged, LimitCharge, LimitUse, Millionths};
pub use memory::MemoryStore;
pub use migrations::schema_version;
pub use owner::Owner;
pub use plans::{KEPT_PLANS, MAX_PLAN_BYTES, PlanRecord, Plans};
pub use provenance::{
    FlowApproval, KEPT_CLIENT_SOURCES, KEPT_VALUE_SOURCES, MAX_FLOW_APPROVALS, MAX_PLACE_SOURCES, Place, PlacedSource,
    Provenance,
};
pub use records::{ExecutionRecord, ListedTools, MAX_ARGUMENT_DECISIONS, Shape, ToolDecision};
pub use runs::{
    ConversationRecord, ItemPage, ItemRecord, ItemsOf, NewItem, NewRun, NewStep, Progress, RunCall, RunEnd, RunRecord,
    RunState, Runs, StepEnd, StepKind, StepRecord,
};
pub use sqlite::SqliteStore;
pub use store::{Store, sign_in_secret};
pub use token_use::{Day, KEPT_TOKEN_DAYS, MAX_DAY_TOKENS, TokenUse};
pub use token_vault::{KEPT_VAULT_VALUES, MAX_VAULT_VALUE_BYTES, TokenVault, VaultValue};
