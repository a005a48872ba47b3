use crate::{Artifact, ExecutionId, LimitsReport, SessionId, ToolCall};
use serde::{Deserialize, Serialize};

/// One of the two output streams of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The sandbox in which code begins to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxState {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The session whose interpreter lives on, as in the result; absent if the sandbox is fresh and keeps no variables.
    pub session: Option<SessionId>,
    /// The interpreter of the session was started again: variables of earlier executions are gone.
    pub session_restarted: bool,
    /// The requested limits, how they are enforced, and the tier.
    pub limits: LimitsReport,
}

/// An event during an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The code wrote bytes. They need not be whole lines or valid UTF-8.
    Output {
        /// The stream that the code wrote to.
        stream: OutputStream,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The code begins to run.
    Sandbox(Box<SandboxState>),
    /// The execution waits for servers to start, and its clock is stopped.
    Waiting {
        /// The servers that are being started. Empty when the wait is over.
        servers: Vec<String>,
    },
    /// The code calls a tool. The call is not checked yet.
    CallBegan {
        /// Number of the call in its execution, in the order in which calls begin, from 1.
        number: u64,
        /// The server, as the code names it. Untrusted.
        server: String,
        /// The tool, as the code names it. Untrusted.
        tool: String,
        /// The arguments as JSON, rendered for people: one line, shortened, nothing hidden.
        arguments: String,
        /// Time since the begin of the execution, in milliseconds.
        began_ms: u64,
    },
    /// A person is asked whether a call may be made, and the clock of the execution is stopped.
    Asked {
        /// Number of the call.
        number: u64,
        /// Question ID.
        question: String,
        /// The server.
        server: String,
        /// Name of the tool, rendered for people.
        tool: String,
        /// Why a person is asked.
        why: String,
        /// The arguments as a JSON object. Arguments that are too long are `{"shortened": …}` with their beginning.
        arguments: String,
        /// Digest of everything that the answer applies to: the tool as it is defined, and all arguments.
        digest: String,
        /// The execution of the code.
        execution: String,
    },
    /// The question about a call is answered or withdrawn. A call that is cancelled just ends.
    Answered {
        /// Number of the call.
        number: u64,
        /// Question ID.
        question: String,
        /// Whether the call may be made.
        allowed: bool,
    },
    /// A call of a tool has ended, or was refused or cancelled.
    CallEnded {
        /// Number of the call.
        number: u64,
        /// The call, as in the result of the execution.
        call: ToolCall,
    },
    /// A file that the code left in `/artifacts` is kept.
    Artifact(Artifact),
}
