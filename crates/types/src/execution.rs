use crate::{ArtifactId, Enforced, ErrorCode, ExecutionId, Language, Limits, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What one execution came to: the one shape that MCP, HTTP, the CLI and the log all give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Names this execution in the log and in artifacts.
    pub execution_id: ExecutionId,
    /// The session it ran in, if any: what somebody calls it, else its id.
    pub session: Option<SessionId>,
    /// The id of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The interpreter of the session had to start anew: variables of earlier executions are gone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub session_restarted: bool,
    /// What the code was written in.
    pub language: Language,
    /// Whether the code ran to its end without an error.
    pub success: bool,
    /// The value of `result`, else of the last expression.
    pub result: Option<Value>,
    /// Standard output in lines, within the output budget.
    pub output: Vec<String>,
    /// Standard output, within the output budget.
    pub stdout: String,
    /// Standard error, within the output budget.
    pub stderr: String,
    /// The exit status: 0 is success, 128 + N is signal N.
    pub exit_code: i32,
    /// Only when `success` is false.
    #[serde(flatten)]
    pub failure: Option<Failure>,
    /// From taking the request to having the answer.
    pub execution_time_ms: f64,
    /// Some of the output or the result was left out.
    pub truncated: bool,
    /// Where the whole output is, as the code sees it, if it was too long.
    pub output_file: Option<String>,
    /// Tool calls that really happened.
    pub calls: Vec<ToolCall>,
    /// Files the code left in `/artifacts`.
    pub artifacts: Vec<Artifact>,
    /// What did not become as the code meant it, though it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What was asked for, what held, and in which tier.
    pub limits: LimitsReport,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Why an execution did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What happened, to what.
    pub error: String,
    /// The kind, for programs.
    pub error_code: ErrorCode,
    /// The user's own frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
    /// How to mend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The upstream server.
    pub server: String,
    /// Its tool.
    pub tool: String,
    /// Whether it answered without an error.
    pub ok: bool,
    /// The error code, if not.
    pub code: Option<String>,
    /// How long it took.
    pub ms: u64,
    /// Size of the arguments.
    pub bytes_in: u64,
    /// Size of the answer.
    pub bytes_out: u64,
    /// How much of the time its server took to start, in milliseconds, if it was not running. Does not count as time of
    /// the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<u64>,
}

/// The address of an artifact: `coracle://artifacts/<execution>/<path>` is one version, `coracle://artifacts/<id>`
/// the newest, `coracle://artifacts/<id>/versions/<number>` any.
pub type ArtifactUri = String;

/// A file the code left in `/artifacts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Relative to `/artifacts`.
    pub name: String,
    /// As the code saw it.
    pub path: String,
    /// By its content and its ending.
    pub mime: String,
    /// Its size.
    pub bytes: u64,
    /// Where to fetch it.
    pub uri: ArtifactUri,
    /// Names it in all its versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ArtifactId>,
    /// Counts how often this name was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// What can be shown of an artifact at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Preview {
    /// The beginning of a text.
    Text {
        /// Whole lines where that is possible.
        text: String,
        /// There is more.
        truncated: bool,
    },
    /// An image of this size: it is its own preview.
    Image {
        /// In pixels, if it is known.
        width: Option<u32>,
        /// In pixels, if it is known.
        height: Option<u32>,
    },
}

/// Which limits were asked for and which really hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsReport {
    /// What was asked for.
    pub requested: Limits,
    /// How each is held; absent if nothing ran.
    pub enforced: Option<Enforced>,
    /// The backend and how complete it is, for example `native` or `native-partial`.
    pub tier: String,
}
