//! Output of `coracle doctor --json`. Programs may parse it: fields are added, and renaming one is a breaking change.

use serde::{Deserialize, Serialize};

/// The whole diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Diagnosis {
    /// Version of Coracle.
    pub(crate) version: String,
    /// Whether at least one tier is safe. The exit status also depends on the data folder.
    pub(crate) safe: bool,
    pub(crate) machine: MachineReport,
    /// One tier per backend.
    pub(crate) tiers: Vec<Tier>,
    /// Problems of the policy rules; empty if there are no rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) policy: Vec<Check>,
    /// Data folder, database and master key.
    #[serde(default)]
    pub(crate) data: Vec<Check>,
}

/// Machine that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineReport {
    /// Output of `uname -r`.
    pub(crate) kernel: String,
    /// Output of `uname -m`.
    pub(crate) architecture: String,
    /// Name of the distribution, if known.
    pub(crate) system: Option<String>,
    /// User ID of the caller.
    pub(crate) uid: u32,
}

/// Backend that was started and checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tier {
    /// Name of the backend: `native` or `docker`.
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    pub(crate) checks: Vec<Check>,
    /// Start times; absent if nothing ran.
    pub(crate) start: Option<StartTimes>,
}

/// Overall result of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// All checks pass, and the kernel enforces everything.
    Full,
    /// Safe for untrusted code, but not at full strength.
    Partial,
    /// Sandboxes run, but a required check fails.
    Unsafe,
    /// No sandbox can be created.
    Unavailable,
}

impl Verdict {
    /// Whether the verdict is full or partial.
    pub(crate) fn is_safe(self) -> bool {
        matches!(self, Self::Full | Self::Partial)
    }

    pub(crate) fn of(checks: &[Check]) -> Self {
        if checks.iter().any(|check| check.outcome == Outcome::Failed) {
            Self::Unsafe
        } else if checks.iter().any(|check| check.outcome == Outcome::Weak) {
            Self::Partial
        } else {
            Self::Full
        }
    }

    /// Text for people.
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Self::Full => "safe, full isolation",
            Self::Partial => "safe, but not everything is enforced by the kernel",
            Self::Unsafe => "NOT safe",
            Self::Unavailable => "does not run",
        }
    }
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// Stable name.
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    /// Observation.
    pub(crate) detail: String,
    /// Fix, in lines; empty if none is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fix: Vec<String>,
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// Enforced.
    Ok,
    /// Missing or weak, but safe without.
    Weak,
    /// Required but not enforced.
    Failed,
    /// Optional and missing.
    Absent,
}

impl Outcome {
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Ok => "✓",
            Self::Weak => "!",
            Self::Failed => "✗",
            Self::Absent => "·",
        }
    }

    /// Returns `Ok` if the condition holds, and `Failed` otherwise.
    pub(crate) fn must(holds: bool) -> Self {
        if holds { Self::Ok } else { Self::Failed }
    }
}

impl Check {
    pub(crate) fn new(name: &str, outcome: Outcome, detail: impl Into<String>) -> Self {
        Self { name: name.to_owned(), outcome, detail: detail.into(), fix: Vec::new() }
    }

    pub(crate) fn with_fix(mut self, fix: Vec<String>) -> Self {
        self.fix = fix;
        self
    }
}

/// Median times to run `pass` in a sandbox, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartTimes {
    /// Time in a prepared sandbox of a running Coracle.
    pub(crate) warm_ms: f64,
    /// Time of a complete `coracle exec`.
    pub(crate) cold_ms: Option<f64>,
}
