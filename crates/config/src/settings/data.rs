use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Artifacts: files that code leaves for its user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Artifacts {
    /// Maximum total size of a user's artifacts, including all versions, in MB (10^6 bytes). Files beyond this limit
    /// are not kept, and the execution reports a warning.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub max_mb: u64,
}

impl Default for Artifacts {
    fn default() -> Self {
        Self { max_mb: 1_024 }
    }
}

/// Retention of executions, sessions and tasks. The oldest are removed first; a session in use is never removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct History {
    /// Maximum number of executions to keep per user.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub executions: u64,
    /// Maximum number of sessions to keep per user, with their tasks.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub sessions: u64,
    /// Maximum number of tasks to keep per session.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tasks: u64,
    /// Maximum number of live sessions (with a running interpreter) per user. Further sessions are refused until one
    /// has ended or has been idle for 30 minutes.
    #[schemars(range(min = 1, max = 100_000))]
    pub live_sessions: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { executions: 1_000, sessions: 1_000, tasks: 1_000, live_sessions: 2_000 }
    }
}

/// User workspaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Workspaces {
    /// Cleanup of unused workspaces. `coracle up` runs it every hour, `coracle workspaces clean` on demand.
    pub cleanup: WorkspacesCleanup,
}

/// Cleanup of unused workspaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkspacesCleanup {
    /// Cleanup mode: `off`, `dry_run` (only log what would be deleted) or `delete`.
    pub mode: CleanupMode,
    /// Number of days without use after which a workspace counts as unused.
    #[schemars(range(min = 1, max = 36_500))]
    pub after_days: u64,
    /// Minimum number of hours between the logged notice and the deletion of a workspace.
    #[schemars(range(min = 1, max = 8_760))]
    pub notice_hours: u64,
}

impl Default for WorkspacesCleanup {
    fn default() -> Self {
        Self { mode: CleanupMode::Off, after_days: 90, notice_hours: 72 }
    }
}

/// Cleanup mode for unused workspaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanupMode {
    /// No cleanup.
    #[default]
    Off,
    /// Log what would be deleted.
    DryRun,
    /// Delete workspaces `notice_hours` after a notice was logged.
    Delete,
}
