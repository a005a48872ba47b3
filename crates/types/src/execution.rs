use crate::{ArtifactId, Enforced, ErrorCode, ExecutionId, Language, Limits, Plan, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of one execution. MCP, HTTP, the CLI and the log all report it in this form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// The ID of this execution in the log and in artifacts.
    pub execution_id: ExecutionId,
    /// The session, if any: its label, or else its ID.
    pub session: Option<SessionId>,
    /// The ID of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The session's interpreter was restarted: variables of earlier executions are gone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub session_restarted: bool,
    /// The language of the code.
    pub language: Language,
    /// Whether the code ran to its end without an error.
    pub success: bool,
    /// The value of `result`, or else of the last expression.
    pub result: Option<Value>,
    /// Standard output as lines, within the output budget.
    pub output: Vec<String>,
    /// Standard output, within the output budget.
    pub stdout: String,
    /// Standard error, within the output budget.
    pub stderr: String,
    /// The exit status: 0 is success, 128 + N is signal N.
    pub exit_code: i32,
    /// The error, if `success` is false.
    #[serde(flatten)]
    pub failure: Option<Failure>,
    /// Time from receiving the request to having the answer.
    pub execution_time_ms: f64,
    /// Part of the output or the result was left out.
    pub truncated: bool,
    /// Path of the complete output inside the sandbox, if it was too long.
    pub output_file: Option<String>,
    /// Tool calls that were actually made.
    pub calls: Vec<ToolCall>,
    /// Files the code left in `/artifacts`.
    pub artifacts: Vec<Artifact>,
    /// Problems that did not stop the code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What the code would change, if it ran in the mode `plan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// The requested limits, how they were enforced, and the tier.
    pub limits: LimitsReport,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Why an execution did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What failed, and on what.
    pub error: String,
    /// The error code, for programs.
    pub error_code: ErrorCode,
    /// The traceback, with the user's frames only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
    /// How to fix the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One tool call, as recorded in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The upstream server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// Whether the tool answered without an error.
    pub ok: bool,
    /// The error code, if the call failed.
    pub code: Option<String>,
    /// Time from the begin of the execution to that of the call, in milliseconds. Older records lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ms: Option<u64>,
    /// Duration in milliseconds.
    pub ms: u64,
    /// Size of the arguments in bytes.
    pub bytes_in: u64,
    /// Size of the answer in bytes.
    pub bytes_out: u64,
    /// How long the server took to start, in milliseconds, if it was not running. This part of the duration does not
    /// count as time of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<u64>,
    /// The call was made by an earlier attempt of the same execution, and answered from its log.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replayed: bool,
    /// The call was not made, but is part of a plan.
    #[serde(default, skip_serializing_if = "is_false")]
    pub planned: bool,
}

/// The URI of an artifact. `coracle://artifacts/<execution>/<path>` and `coracle://artifacts/<id>/versions/<number>`
/// are one version, and `coracle://artifacts/<id>` is the newest one.
pub type ArtifactUri = String;

/// A file the code left in `/artifacts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The path relative to `/artifacts`.
    pub name: String,
    /// The path inside the sandbox.
    pub path: String,
    /// The media type, derived from the content and the file extension.
    pub mime: String,
    /// Size in bytes.
    pub bytes: u64,
    /// The URI to fetch it from.
    pub uri: ArtifactUri,
    /// The artifact ID, which all versions share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ArtifactId>,
    /// The version number, which increases each time this name is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// A preview of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Preview {
    /// The beginning of a text.
    Text {
        /// Whole lines if possible.
        text: String,
        /// Whether the preview is shorter than the file.
        truncated: bool,
    },
    /// An image, which is its own preview.
    Image {
        /// Width in pixels, if known.
        width: Option<u32>,
        /// Height in pixels, if known.
        height: Option<u32>,
    },
}

/// The requested limits, and how each one is enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsReport {
    /// The requested limits.
    pub requested: Limits,
    /// How each limit is enforced. Absent if nothing ran.
    pub enforced: Option<Enforced>,
    /// The backend and how complete it is, for example `native` or `native-partial`.
    pub tier: String,
}

#[cfg(test)]
mod tests {
    use super::ToolCall;
    use serde_json::json;

    #[test]
    fn calls_of_earlier_versions_are_read_and_written_as_they_were() {
        let old = json!({
            "server": "shop", "tool": "list", "ok": true, "code": null, "ms": 5, "bytes_in": 2, "bytes_out": 9,
        });
        let call: ToolCall = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(call.began_ms, None);
        assert_eq!(serde_json::to_value(&call).unwrap(), old);
        let new = serde_json::to_value(ToolCall { began_ms: Some(3), ..call }).unwrap();
        assert_eq!(new["began_ms"], 3);
    }
}
