//! Output of code: it is streamed to the caller and counted, and its head and tail are kept within a budget.

use coracle_types::{Event, OutputStream};
use std::collections::VecDeque;
use tokio::sync::mpsc;

/// Approximate number of bytes per token of output.
const BYTES_PER_TOKEN: u64 = 4;

/// Maximum length of a line of `output`, in characters.
const MAX_LINE: usize = 2_000;

/// One stream, kept within its budget.
#[derive(Debug)]
pub(crate) struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Maximum size of the head, and of the tail.
    budget: usize,
    left_out: u64,
}

impl Kept {
    fn new(budget: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), budget, left_out: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = self.budget.saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(self.budget);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// The last bytes.
    fn last(&self, bytes: usize) -> String {
        let kept: VecDeque<u8> = self.head.iter().chain(&self.tail).copied().rev().take(bytes).collect();
        let bytes: Vec<u8> = kept.into_iter().rev().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn text(self) -> String {
        let (first, second) = self.tail.as_slices();
        if self.left_out == 0 {
            return String::from_utf8_lossy(&[&self.head, first, second].concat()).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), [first, second].concat());
        format!("{head}\n[… {} bytes left out …]\n{}", self.left_out, String::from_utf8_lossy(&tail))
    }
}

/// Both streams of one execution.
#[derive(Debug)]
pub(crate) struct Capture {
    stdout: Kept,
    stderr: Kept,
    events: Option<mpsc::Sender<Event>>,
    /// All output in order, for the file; at most the output limit.
    whole: Vec<u8>,
    most: u64,
}

/// The code exceeded its output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMuchOutput;

/// The output that is kept when the execution is over.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) output: Vec<String>,
    /// All output, if some of it was left out.
    pub(crate) overflow: Option<Vec<u8>>,
}

impl Capture {
    pub(crate) fn new(events: Option<mpsc::Sender<Event>>, output_tokens: u64, output_bytes: u64) -> Self {
        let budget = usize::try_from(output_tokens * BYTES_PER_TOKEN / 2).unwrap_or(usize::MAX);
        Self { stdout: Kept::new(budget), stderr: Kept::new(budget), events, whole: Vec::new(), most: output_bytes }
    }

    /// Takes output that was read. Waits for a slow listener, so that the code waits too.
    pub(crate) async fn push(&mut self, stream: OutputStream, bytes: &[u8]) -> Result<(), TooMuchOutput> {
        let room = usize::try_from(self.most).unwrap_or(usize::MAX).saturating_sub(self.whole.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        match stream {
            OutputStream::Stdout => self.stdout.push(taken),
            OutputStream::Stderr => self.stderr.push(taken),
        }
        self.whole.extend_from_slice(taken);
        if let Some(events) = &self.events
            && events.send(Event::Output { stream, bytes: taken.to_vec() }).await.is_err()
        {
            // Without a listener, the output is still in the result.
            self.events = None;
        }
        if taken.len() < bytes.len() { Err(TooMuchOutput) } else { Ok(()) }
    }

    /// The end of standard error.
    pub(crate) fn complaints(&self) -> String {
        self.stderr.last(crate::complaint::LOOKED_AT)
    }

    pub(crate) fn finish(self) -> Captured {
        let left_out = self.stdout.left_out + self.stderr.left_out > 0;
        let stdout = self.stdout.text();
        Captured {
            output: stdout.lines().map(shortened).collect(),
            stderr: self.stderr.text(),
            overflow: left_out.then_some(self.whole),
            stdout,
        }
    }
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Capture, Kept, TooMuchOutput};
    use coracle_types::OutputStream::{Stderr, Stdout};

    #[test]
    fn head_and_tail_are_kept() {
        let mut kept = Kept::new(4);
        for part in ["ab", "cdef", "ghij", "kl"] {
            kept.push(part.as_bytes());
        }
        assert_eq!(kept.text(), "abcd\n[… 4 bytes left out …]\nijkl");
        let mut kept = Kept::new(4);
        kept.push(b"abcdefgh");
        assert_eq!(kept.text(), "abcdefgh");
    }

    #[tokio::test]
    async fn both_streams_share_the_cap() {
        let mut capture = Capture::new(None, 1_000, 10);
        assert_eq!(capture.push(Stdout, b"12345\n").await, Ok(()));
        assert_eq!(capture.push(Stderr, b"abcdef").await, Err(TooMuchOutput));
        let captured = capture.finish();
        assert_eq!((captured.stdout.as_str(), captured.stderr.as_str()), ("12345\n", "abcd"));
        assert_eq!(captured.output, ["12345"]);
        assert!(captured.overflow.is_none());
    }
}
