//! Reads lines from a byte stream, with a limit on the length of a line in memory.

use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

const READ_BUFFER: usize = 64 * 1024;

/// Reads line by line. Cancel-safe: bytes that were read are kept here.
pub(crate) struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    most: usize,
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A complete line: see [`Lines::current`].
    Whole,
    /// The line is too long.
    TooLong,
    /// The stream has ended.
    End,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads lines of at most `most` bytes.
    pub(crate) fn new(read: R, most: usize) -> Self {
        Self { read: BufReader::with_capacity(READ_BUFFER, read), line: Vec::new(), most }
    }

    /// Changes the maximum length of lines.
    pub(crate) fn allow(&mut self, most: usize) {
        self.most = most;
    }

    /// Reads up to the end of a line. The next call continues the same line until [`Self::clear`] is called.
    pub(crate) async fn next(&mut self) -> io::Result<Line> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                return Ok(Line::End);
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let take = end.unwrap_or(available.len());
            if self.line.len() + take > self.most {
                return Ok(Line::TooLong);
            }
            self.line.extend_from_slice(&available[..take]);
            let consumed = take + usize::from(end.is_some());
            self.read.consume(consumed);
            if end.is_some() {
                return Ok(Line::Whole);
            }
        }
    }

    /// The line, without its line ending.
    pub(crate) fn current(&self) -> &[u8] {
        &self.line
    }

    /// Removes the line, before the next one is read.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
        // The memory of one long message is not kept.
        self.line.shrink_to(READ_BUFFER);
    }
}
