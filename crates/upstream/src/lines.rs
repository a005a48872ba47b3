//! Lines of a byte stream. No line is held in memory beyond its cap.

use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

const READ_BUFFER: usize = 64 * 1024;

/// Reads line by line. A read may be interrupted at any await and begun again: what has come is kept here.
pub(crate) struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    most: usize,
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A whole line: see [`Lines::current`].
    Whole,
    /// More than a line may have.
    TooLong,
    /// Nothing more will come.
    End,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most so many bytes.
    pub(crate) fn new(read: R, most: usize) -> Self {
        Self { read: BufReader::with_capacity(READ_BUFFER, read), line: Vec::new(), most }
    }

    /// From now on lines may have so many bytes.
    pub(crate) fn allow(&mut self, most: usize) {
        self.most = most;
    }

    /// Reads to the end of a line. The next call goes on with it until [`Self::clear`] is called.
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

    /// The line, without its end.
    pub(crate) fn current(&self) -> &[u8] {
        &self.line
    }

    /// Makes room for the next.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
        // One long message must not keep its memory for ever.
        self.line.shrink_to(READ_BUFFER);
    }
}
