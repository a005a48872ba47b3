//! The one use case: run this code, for this user, in a sandbox.
//!
//! Start at [`Engine::execute`]. A Rust program can embed the engine: create a [`Backend`](coracle_sandbox::Backend), pass
//! it to [`Engine::new`], and execute [`Request`]s. `examples/embed.rs` is such a program. [`Engine`] is a thin front; the
//! components behind it own the state:
//!
//! - `execution.rs` runs code, `sandboxes.rs` opens sandboxes for it;
//! - `sessions.rs` has the interpreters and the log of sessions (`journal.rs`, read through [`History`]);
//! - `tools.rs` gives code the tools of a [`Toolbox`]: every call passes through `broker.rs` to [`Servers`], and through
//!   `recording.rs` if they are logged: in a [`CallLog`] of the caller, or in a file (`call_file.rs`);
//! - `plans.rs` collects what code would change, and `plan_runs.rs` does it when a person has approved;
//! - `network.rs` gives code the network through a proxy: the broker decides about each request;
//! - `workspace.rs` and `artifacts.rs` have the users' files and artifacts;
//! - `skills.rs` saves, tries out and finds skills, `skill_store.rs` keeps them.
//!
//! Invariants: every request ends in exactly one [`Execution`](coracle_types::Execution), whatever the code does; a
//! sandbox that has run one user's code is never given to another; every call that code makes to the host goes through
//! one [`HostCalls`]; claims of the guest are trusted only if they are about the guest itself. The engine knows nothing
//! of HTTP or MCP.

mod active;
mod answer;
mod artifacts;
mod audience;
mod audit;
mod belongings;
mod broker;
mod call_file;
mod call_log;
mod capture;
mod clock;
mod complaint;
mod embedder;
mod engine;
mod execution;
mod files;
mod guards;
mod hint;
mod history;
mod host_calls;
mod housekeeping;
mod ids;
mod in_process;
mod journal;
mod json;
mod ledger;
mod listener;
mod network;
mod outbox;
mod plan_runs;
mod plans;
mod privacy;
mod recording;
mod records;
mod replay;
mod request;
mod run;
mod sandboxes;
mod servers;
mod sessions;
mod skill_store;
mod skills;
mod sources;
mod toolbox;
mod tools;
mod under_way;
mod verdict;
mod waiting;
mod workspace;

pub use artifacts::{ArtifactError, Lasting, OpenStore, content_type, percent_decoded, percent_encoded};
pub use audience::Audience;
pub use belongings::{AccountFate, Belongings, DeleteError};
pub use call_file::{Program, ResumeError, Resumption};
pub use call_log::{CallAnswer, CallLog, CallLogError, EarlierCall, LoggedCall};
pub use capture::{Output, left_out, output_lines};
pub use coracle_guardrails::{Access, Guardrails};
pub use coracle_store::{ArtifactRecord, ArtifactUsage, ArtifactVersion};
pub use embedder::{EmbedError, Embedder};
pub use engine::{Engine, EngineConfig};
pub use files::{
    Existing, FileError, FileInfo, FileKind, FileList, FileVersion, Listed, MAX_ENTRIES, Quota, Unfinished,
    WorkspaceFiles,
};
pub use history::{History, ShownTask};
pub use host_calls::{HostCallError, HostCalls, NoCalls};
pub use housekeeping::{Cleaned, Cleanup, CleanupMode, CleanupStep, Housekeeping, WorkspaceUse};
pub use in_process::{Handler, InProcess};
pub use network::{BoundCredential, NETWORK_SERVER, Network, NetworkConfig, NetworkError};
pub use plan_runs::{PlanApproval, PlanError, hide_in_plan};
pub use plans::{PlanSettings, PlanSettingsError, ToolEffect};
pub use privacy::{Privacy, PrivacyModes, tokenize_message};
pub use replay::{Difference, Replay, ReplayError, ReplayFiles, ReplayedTask};
pub use request::{CallLogging, DirectCall, DirectError, DirectRequest, MAX_CODE_BYTES, Request};
pub use servers::Servers;
pub use skill_store::{
    CodeSkill, DeclaredTool, HelperModule, InvalidSkillName, Library, MAX_BODY_BYTES, Origin, Shelved, SkillError,
    SkillFile, SkillFolder, SkillLanguage, SkillName, SkillSource, helper_modules,
};
pub use skills::{
    Change, Drift, FoundSkill, ListedSkill, LoadedSkill, MAX_SKILL_BYTES, SkillDraft, SkillKind, split_tags,
};
pub use toolbox::{
    CallCaps, EmbedderConfig, FoundTool, Inventory, Listing, ToolSearch, Toolbox, ToolboxConfig, described, digest,
    fingerprint, without_effect,
};
