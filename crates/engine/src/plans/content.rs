//! A plan as it is stored.

use super::placeholders::Placeholders;
use coracle_types::{Decision, EffectState, ExecutionId, FileChange, Language, Limits, ServerName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What was planned. It never changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Content {
    pub(crate) execution: ExecutionId,
    pub(crate) language: Language,
    pub(crate) placeholders: Placeholders,
    /// Calls of tools, in the order in which they arrived.
    pub(crate) effects: Vec<Effect>,
    pub(crate) reads: Vec<Read>,
    /// The folder that was used instead of the user's own workspace.
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) limits: Limits,
    /// The versions of the files that code could read, by path.
    pub(crate) files: BTreeMap<String, String>,
    /// Changes of files, after all calls.
    pub(crate) changes: Vec<FileEffect>,
}

/// A call that would change something, or needs the result of one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Effect {
    pub(crate) number: u64,
    pub(crate) server: ServerName,
    pub(crate) tool: String,
    /// The arguments as the code gave them: with tokens and placeholders.
    pub(crate) arguments: Map<String, Value>,
    /// Digest of the definition of the tool.
    pub(crate) definition: String,
    pub(crate) decision: Decision,
    pub(crate) reads: bool,
    pub(crate) preview: Option<Value>,
    /// The effects whose results the arguments have.
    pub(crate) uses: BTreeSet<u64>,
    /// Why it cannot be run.
    pub(crate) blocked: Option<String>,
}

/// A call that was made while planning.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Read {
    pub(crate) server: ServerName,
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) definition: String,
    /// Digest of the answer; `None` if the answer differs each time.
    pub(crate) answer: Option<String>,
}

/// A change of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FileEffect {
    pub(crate) number: u64,
    pub(crate) path: String,
    pub(crate) change: FileChange,
    pub(crate) bytes: u64,
    /// Digest of the new content, which is kept in a file.
    pub(crate) digest: Option<String>,
    pub(crate) blocked: Option<String>,
}

/// What became of a plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// By number of the effect.
    pub(crate) outcomes: BTreeMap<u64, Outcome>,
    /// What had changed.
    pub(crate) changes: Vec<String>,
}

/// What became of an effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) state: EffectState,
    pub(crate) result: Option<Value>,
    pub(crate) error: Option<String>,
    pub(crate) code: Option<String>,
}

impl Outcome {
    pub(crate) fn of(state: EffectState) -> Self {
        Self { state, result: None, error: None, code: None }
    }
}
