use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Audit log of executions, calls, decisions, approvals, sign-ins and changes, in the folder `audit` of the data folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// Write the audit log. No tool is called if its decision cannot be written.
    pub enabled: bool,
    /// When records are synced to the disk: `interval` (within a second; a record survives the end of the process at
    /// once, and a power failure after that second) or `always` (before the call is made).
    pub sync: AuditSync,
    /// Minimum number of days that records are kept. Whole files of older records are then deleted.
    #[schemars(range(min = 1, max = 36_500))]
    pub keep_days: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self { enabled: true, sync: AuditSync::Interval, keep_days: 365 }
    }
}

/// When records of the audit log are synced to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditSync {
    /// Within a second.
    #[default]
    Interval,
    /// Before the call is made.
    Always,
}
