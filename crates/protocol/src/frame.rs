use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What the host says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToGuest {
    /// Run this code; answered by [`FromGuest::Done`] with the same id.
    Run {
        /// Chosen by the host, rising.
        id: u64,
        /// `python`, `bash` or `typescript`.
        language: String,
        /// The source.
        code: String,
        /// Variables to set first.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        vars: Map<String, Value>,
        /// A longer result is replaced by a summary of its shape.
        result_bytes: u64,
    },
    /// The answer to [`FromGuest::Call`] with the same id.
    Reply(Reply),
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The id of the call.
    pub id: u64,
    /// Whether `value` or `error` is the answer.
    pub ok: bool,
    /// What came back.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
    /// Why nothing came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallFailure>,
}

/// Why a call failed, as the code sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CallFailure {
    /// For programs.
    pub code: String,
    /// For people and models.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

/// What the guest says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromGuest {
    /// The first frame: the guest is prepared and waits.
    Ready {
        /// [`VERSION`](crate::VERSION) of the guest.
        protocol: u32,
        /// For example `python 3.11.2`.
        runtime: String,
    },
    /// The guest could not be confined; it has not run anything and ends.
    Failed {
        /// The step that failed.
        step: String,
        /// What the kernel said.
        errno: i32,
    },
    /// The code asks the host for something; answered by [`ToGuest::Reply`].
    Call {
        /// Chosen by the guest; its own namespace.
        id: u64,
        /// What is asked for.
        method: String,
        /// Its arguments.
        #[serde(default)]
        params: Map<String, Value>,
    },
    /// The answer to [`ToGuest::Run`].
    Done {
        /// The id of the run.
        id: u64,
        /// Whether the code ran to its end.
        ok: bool,
        /// Its value; absent and null are the same.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
        /// `result` is a summary.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        result_truncated: bool,
        /// The exit status.
        exit_code: i32,
        /// What ran it had to start anew: what earlier runs left there is gone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        restarted: bool,
        /// Why it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunFailure>,
    },
}

/// Why code failed, as the guest saw it. A claim, not a fact: it is about the guest itself only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunFailure {
    /// One of the error codes a guest may use.
    pub code: String,
    /// What happened.
    pub message: String,
    /// The user's own frames.
    #[serde(default)]
    pub traceback: String,
    /// How to mend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
