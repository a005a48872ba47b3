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
    /// The execution waits for servers to start, and its clock is stopped.
    Waiting {
        /// The servers that are being started. Empty when the wait is over.
        servers: Vec<String>,
    },
}
