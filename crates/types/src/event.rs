use serde::{Deserialize, Serialize};

/// Which of the two output streams of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What happens while an execution runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The code wrote these bytes; they need not be whole lines or valid UTF-8.
    Output {
        /// Where they were written.
        stream: OutputStream,
        /// What was written.
        bytes: Vec<u8>,
    },
    /// The execution waits for servers to start, and its clock stands still.
    Waiting {
        /// The servers that are being started; none when the wait is over.
        servers: Vec<String>,
    },
}
