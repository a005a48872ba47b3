use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Files that code leaves for its user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Artifacts {
    /// What all artifacts of one user may amount to, with all their versions, in MB. What is beyond it is not kept, and
    /// the execution says so.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub max_mb: u64,
}

impl Default for Artifacts {
    fn default() -> Self {
        Self { max_mb: 1_024 }
    }
}

/// How much of what has run is kept. The oldest goes first; a session that is in use is never dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct History {
    /// Executions of each user.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub executions: u64,
    /// Sessions of each user, with their tasks.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub sessions: u64,
    /// Tasks of each session.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tasks: u64,
    /// Sessions of each user that keep an interpreter at once. A further one is refused until one of them has ended or
    /// nobody has used it for 30 minutes.
    #[schemars(range(min = 1, max = 100_000))]
    pub live_sessions: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { executions: 1_000, sessions: 1_000, tasks: 1_000, live_sessions: 2_000 }
    }
}

/// The folders of users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Workspaces {
    /// What happens to workspaces that nobody uses. `coracle up` looks after them every hour, `coracle workspaces clean`
    /// when it is asked to.
    pub cleanup: WorkspacesCleanup,
}

/// What happens to workspaces that nobody uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkspacesCleanup {
    /// `off`; `dry_run`, which only logs what would be deleted; or `delete`.
    pub mode: CleanupMode,
    /// Nobody has used it for so many days.
    #[schemars(range(min = 1, max = 36_500))]
    pub after_days: u64,
    /// Nothing is deleted sooner than so many hours after a notice about it was logged.
    #[schemars(range(min = 1, max = 8_760))]
    pub notice_hours: u64,
}

impl Default for WorkspacesCleanup {
    fn default() -> Self {
        Self { mode: CleanupMode::Off, after_days: 90, notice_hours: 72 }
    }
}

/// What happens to workspaces that nobody uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanupMode {
    /// Nothing.
    #[default]
    Off,
    /// What would be deleted is logged.
    DryRun,
    /// They are deleted, some time after a notice was logged.
    Delete,
}
