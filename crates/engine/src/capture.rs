//! Output of code: it is streamed to the caller, counted, and held until the execution has ended.

use coracle_types::{Event, OutputStream};
use std::borrow::Cow;
use tokio::sync::mpsc;

/// Size of the head and of the tail of a stream that are recorded, and that programs get, per token of the limit: they do
/// not count tokens.
const BYTES_PER_TOKEN: usize = 2;

/// Maximum length of a line of `output`, in characters.
const MAX_LINE: usize = 2_000;

/// Maximum number of changes from one stream to the other that are remembered. The order of later output is lost.
const MAX_SPANS: usize = 1 << 16;

/// All output of one execution, at most the output limit.
#[derive(Clone, Debug, Default)]
pub struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Parts of the two streams in the order in which they were read.
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    stream: OutputStream,
    bytes: usize,
}

impl Output {
    /// Standard output.
    pub fn stdout(&self) -> &[u8] {
        &self.stdout
    }

    /// Standard error.
    pub fn stderr(&self) -> &[u8] {
        &self.stderr
    }

    /// Both streams, in the order in which they were read.
    pub fn both(&self) -> Cow<'_, [u8]> {
        if self.stderr.is_empty() {
            return Cow::Borrowed(&self.stdout);
        }
        let mut both = Vec::with_capacity(self.stdout.len() + self.stderr.len());
        let (mut stdout, mut stderr) = (self.stdout.as_slice(), self.stderr.as_slice());
        for span in &self.spans {
            let rest = match span.stream {
                OutputStream::Stdout => &mut stdout,
                OutputStream::Stderr => &mut stderr,
            };
            let (next, others) = rest.split_at(span.bytes.min(rest.len()));
            both.extend_from_slice(next);
            *rest = others;
        }
        both.extend_from_slice(stdout);
        both.extend_from_slice(stderr);
        Cow::Owned(both)
    }

    /// Both streams as text.
    pub(crate) fn into_texts(self) -> (String, String) {
        (text(&self.stdout), text(&self.stderr))
    }

    /// Output whose order is lost.
    pub(crate) fn of_texts(stdout: String, stderr: String) -> Self {
        Self { stdout: stdout.into_bytes(), stderr: stderr.into_bytes(), spans: Vec::new() }
    }

    fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        match stream {
            OutputStream::Stdout => self.stdout.extend_from_slice(bytes),
            OutputStream::Stderr => self.stderr.extend_from_slice(bytes),
        }
        match self.spans.last_mut() {
            Some(last) if last.stream == stream => last.bytes += bytes.len(),
            _ => {
                if self.spans.len() < MAX_SPANS {
                    self.spans.push(Span { stream, bytes: bytes.len() });
                }
            }
        }
    }

    fn len(&self) -> usize {
        self.stdout.len() + self.stderr.len()
    }

    /// The form that is recorded, and that programs get: of a long stream, the head and the tail.
    pub(crate) fn recorded(&self, output_tokens: u64) -> Recorded {
        let most = usize::try_from(output_tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
        let (stdout, stderr) = (head_and_tail(&self.stdout, most), head_and_tail(&self.stderr, most));
        Recorded {
            is_whole: stdout.is_none() && stderr.is_none(),
            stdout: stdout.unwrap_or_else(|| text(&self.stdout)),
            stderr: stderr.unwrap_or_else(|| text(&self.stderr)),
        }
    }
}

/// Output as it is recorded.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Whether nothing was left out.
    pub(crate) is_whole: bool,
}

impl Recorded {
    /// Standard output as lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        output_lines(&self.stdout)
    }
}

/// Standard output as lines, none of them too long.
pub fn output_lines(stdout: &str) -> Vec<String> {
    stdout.lines().map(shortened).collect()
}

/// What stands for the middle of a text that was left out.
pub fn left_out(head: &str, bytes: usize, tail: &str) -> String {
    format!("{head}\n[… {bytes} bytes left out …]\n{tail}")
}

/// The first and the last `most` bytes, if there are more.
fn head_and_tail(bytes: &[u8], most: usize) -> Option<String> {
    let over = bytes.len().checked_sub(most.saturating_mul(2)).filter(|over| *over > 0)?;
    let (head, tail) = (&bytes[..most], &bytes[most + over..]);
    Some(left_out(&String::from_utf8_lossy(head), over, &String::from_utf8_lossy(tail)))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// Takes the output of a running execution.
#[derive(Debug)]
pub(crate) struct Capture {
    output: Output,
    events: Option<mpsc::Sender<Event>>,
    most: usize,
}

/// The code exceeded its output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMuchOutput;

impl Capture {
    pub(crate) fn new(events: Option<mpsc::Sender<Event>>, output_bytes: u64) -> Self {
        Self { output: Output::default(), events, most: usize::try_from(output_bytes).unwrap_or(usize::MAX) }
    }

    /// Takes output that was read. Waits for a slow listener, so that the code waits too.
    pub(crate) async fn push(&mut self, stream: OutputStream, bytes: &[u8]) -> Result<(), TooMuchOutput> {
        let room = self.most.saturating_sub(self.output.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        if !taken.is_empty() {
            self.output.push(stream, taken);
        }
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
        let stderr = &self.output.stderr;
        text(&stderr[stderr.len().saturating_sub(crate::complaint::LOOKED_AT)..])
    }

    pub(crate) fn finish(self) -> Output {
        self.output
    }
}

#[cfg(test)]
mod tests {
    use super::{Capture, MAX_SPANS, Output, TooMuchOutput, head_and_tail};
    use coracle_types::OutputStream::{Stderr, Stdout};

    #[test]
    fn head_and_tail_are_kept() {
        assert_eq!(head_and_tail(b"abcdefghijkl", 4).unwrap(), "abcd\n[… 4 bytes left out …]\nijkl");
        assert_eq!(head_and_tail(b"abcdefgh", 4), None);
        assert_eq!(head_and_tail(b"", 0), None);
    }

    #[tokio::test]
    async fn both_streams_share_the_cap() {
        let mut capture = Capture::new(None, 10);
        assert_eq!(capture.push(Stdout, b"12345\n").await, Ok(()));
        assert_eq!(capture.push(Stderr, b"abcdef").await, Err(TooMuchOutput));
        let output = capture.finish();
        assert_eq!((output.stdout(), output.stderr()), (&b"12345\n"[..], &b"abcd"[..]));
        let recorded = output.recorded(1_000);
        assert_eq!((recorded.stdout.as_str(), recorded.stderr.as_str()), ("12345\n", "abcd"));
        assert!(recorded.is_whole && recorded.lines() == ["12345"]);
        assert!(!output.recorded(1).is_whole);
    }

    #[test]
    fn both_streams_are_in_order_and_nothing_is_lost_if_they_take_turns_too_often() {
        let mut output = Output::default();
        for (stream, text) in [(Stdout, "a"), (Stdout, "b"), (Stderr, "c"), (Stdout, "d"), (Stderr, "e")] {
            output.push(stream, text.as_bytes());
        }
        assert_eq!(output.both(), &b"abcde"[..]);
        for _ in 0..MAX_SPANS {
            output.push(Stdout, b"o");
            output.push(Stderr, b"e");
        }
        assert_eq!(output.both().len(), 5 + 2 * MAX_SPANS);
        assert!(output.spans.len() <= MAX_SPANS);
    }
}
