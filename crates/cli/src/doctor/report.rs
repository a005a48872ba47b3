//! What `coracle doctor --json` prints. The shape is stable: fields are added, never renamed.

use serde::{Deserialize, Serialize};

/// The whole diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Diagnosis {
    /// Of Coracle.
    pub(crate) version: String,
    /// Whether some tier is safe. The exit status says that, and whether the data folder can be used.
    pub(crate) safe: bool,
    pub(crate) machine: MachineReport,
    /// One for each backend.
    pub(crate) tiers: Vec<Tier>,
    /// What is wrong with the policy rules of the settings; empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) policy: Vec<Check>,
    /// The data folder, its database and the master key.
    #[serde(default)]
    pub(crate) data: Vec<Check>,
}

/// Where this was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineReport {
    /// As `uname -r` says.
    pub(crate) kernel: String,
    /// As `uname -m` says.
    pub(crate) architecture: String,
    /// The distribution, if it says.
    pub(crate) system: Option<String>,
    /// Who asks.
    pub(crate) uid: u32,
}

/// One backend, booted and probed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tier {
    /// The backend: `native`.
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    pub(crate) checks: Vec<Check>,
    /// Absent if nothing ran.
    pub(crate) start: Option<StartTimes>,
}

/// What a tier is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Everything holds, and the kernel holds it.
    Full,
    /// Safe to run foreign code in, but something is softer than it could be.
    Partial,
    /// It runs, but something that must hold does not.
    Unsafe,
    /// No sandbox could be had.
    Unavailable,
}

impl Verdict {
    /// Full or partial.
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

    /// For people.
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Self::Full => "safe, full isolation",
            Self::Partial => "safe, but not everything is held by the kernel",
            Self::Unsafe => "NOT safe",
            Self::Unavailable => "does not run",
        }
    }
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// Stable, for programs.
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    /// What was seen.
    pub(crate) detail: String,
    /// What to do about it, in lines; empty if nothing is to be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fix: Vec<String>,
}

/// What trying came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// Holds.
    Ok,
    /// Missing or soft, and safe without.
    Weak,
    /// Must hold and does not.
    Failed,
    /// Optional, and not there.
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

    /// `Ok` if it holds, else `Failed`.
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

/// How long a sandbox takes to run `pass`, medians in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartTimes {
    /// A prepared sandbox of a running Coracle.
    pub(crate) warm_ms: f64,
    /// The whole of `coracle exec`, from nothing to nothing.
    pub(crate) cold_ms: Option<f64>,
}
