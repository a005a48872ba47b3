//! The one use case: run this code, for this user, in a sandbox.
//!
//! Start at [`Engine::execute`]. A Rust program can embed it: make a [`Backend`](coracle_sandbox::Backend), hand it to
//! [`Engine::new`], and execute [`Request`]s. A [`Toolbox`] gives the code other people's tools: `broker.rs` is what every
//! call of one passes, and [`Servers`] what it passes them on to.
//!
//! Invariants: every request ends in exactly one [`Execution`](coracle_types::Execution), whatever the code does; a
//! sandbox that has run one user's code is never given to another; every call that code makes to the host goes through
//! one [`HostCalls`]; nothing the guest says is believed beyond what it says about itself. Knows no HTTP and no MCP.

mod answer;
mod artifacts;
mod broker;
mod capture;
mod clock;
mod complaint;
mod embedder;
mod engine;
mod files;
mod hint;
mod history;
mod host_calls;
mod housekeeping;
mod in_process;
mod journal;
mod ledger;
mod outbox;
mod records;
mod replay;
mod request;
mod run;
mod servers;
mod services;
mod session;
mod skills;
mod toolbox;
mod under_way;
mod verdict;
mod waiting;
mod workspace;

pub use artifacts::{ArtifactError, content_type, percent_decoded, percent_encoded};
pub use coracle_store::{ArtifactRecord, ArtifactUsage, ArtifactVersion};
pub use embedder::{EmbedError, Embedder};
pub use engine::{Engine, EngineConfig, Lasting, OpenStore};
pub use files::{
    Existing, FileError, FileInfo, FileKind, FileList, Listed, MAX_ENTRIES, Quota, Unfinished, WorkspaceFiles,
};
pub use history::{History, ShownTask};
pub use host_calls::{HostCallError, HostCalls, NoCalls};
pub use housekeeping::{Cleaned, Cleanup, CleanupMode, CleanupStep, Housekeeping, WorkspaceUse};
pub use in_process::{Handler, InProcess};
pub use replay::{Difference, Replay, ReplayError, ReplayFiles, ReplayedTask};
pub use request::{DirectCall, DirectError, MAX_CODE_BYTES, Request};
pub use servers::Servers;
pub use skills::{
    Change, CodeSkill, DeclaredTool, Drift, FoundSkill, HelperModule, InvalidSkillName, Library, ListedSkill,
    LoadedSkill, MAX_BODY_BYTES, MAX_SKILL_BYTES, Origin, Shelved, SkillDraft, SkillError, SkillFile, SkillFolder,
    SkillKind, SkillLanguage, SkillName, SkillSource, helper_modules, split_tags,
};
pub use toolbox::{
    CallCaps, EmbedderConfig, FoundTool, Inventory, Listing, ToolSearch, Toolbox, ToolboxConfig, described, digest,
    fingerprint, without_effect,
};
