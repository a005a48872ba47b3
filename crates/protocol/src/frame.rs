use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A frame from the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToGuest {
    /// Runs code. Answered by [`FromGuest::Done`] with the same ID.
    Run {
        /// ID of the run, chosen by the host, increasing.
        id: u64,
        /// Language: `python`, `bash` or `typescript`.
        language: String,
        /// Source code.
        code: String,
        /// Variables to set before the code runs.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        vars: Map<String, Value>,
        /// Maximum size of the result. A longer result is replaced by a summary of its shape.
        result_bytes: u64,
        /// The network that the code may use. Absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<RunNetwork>,
    },
    /// The answer to [`FromGuest::Call`] with the same ID.
    Reply(Reply),
}

/// The network of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunNetwork {
    /// Address and port of the proxy inside the sandbox, for HTTP and for SOCKS 5.
    pub proxy: String,
    /// Certificates in PEM format that programs must trust in addition to those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<String>,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// ID of the call.
    pub id: u64,
    /// Whether `value` or `error` is the answer.
    pub ok: bool,
    /// The result, if the call succeeded.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
    /// The error, if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallFailure>,
}

/// Why a call failed, as the code sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CallFailure {
    /// Error code, for programs.
    pub code: String,
    /// Error message, for people and models.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

/// A frame from the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromGuest {
    /// The first frame: the guest is prepared and waits.
    Ready {
        /// [`VERSION`](crate::VERSION) of the guest.
        protocol: u32,
        /// Language and version of the interpreter, for example `python 3.11.2`.
        runtime: String,
    },
    /// The guest could not be confined. It has not run any code, and exits.
    Failed {
        /// The step that failed.
        step: String,
        /// Error number from the kernel.
        errno: i32,
    },
    /// The code calls the host. Answered by [`ToGuest::Reply`].
    Call {
        /// ID of the call, chosen by the guest, independent of the IDs of runs.
        id: u64,
        /// Name of the method.
        method: String,
        /// Arguments of the method.
        #[serde(default)]
        params: Map<String, Value>,
    },
    /// The answer to [`ToGuest::Run`].
    Done {
        /// ID of the run.
        id: u64,
        /// Whether the code ran to its end without an error.
        ok: bool,
        /// The value of the code. Absent and null are the same.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
        /// Whether `result` is a summary.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        result_truncated: bool,
        /// Exit status of the code.
        exit_code: i32,
        /// The interpreter was restarted: the state of earlier runs is gone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        restarted: bool,
        /// The error, if the code failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunFailure>,
    },
}

/// Why code failed, as the guest saw it. The host believes it only about the guest itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunFailure {
    /// Error code, one of those that a guest may use.
    pub code: String,
    /// Error message.
    pub message: String,
    /// Traceback, with the user's frames only.
    #[serde(default)]
    pub traceback: String,
    /// How to fix the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
