//! Bodies of requests.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::guest::{PIECE, Reader};
use crate::head::Framing;

/// Hexadecimal digits of the size of a chunk.
const MAX_DIGITS: usize = 16;

/// The body of one request, as far as it has been read.
pub(crate) struct Body {
    state: State,
    idle: Duration,
}

#[derive(Clone, Copy)]
enum State {
    Length(u64),
    ChunkSize,
    Chunk(u64),
    Done,
}

#[derive(Debug, Error)]
pub(crate) enum BodyError {
    /// A clause that follows `the request`.
    #[error("has a body with wrong chunks")]
    Chunk,
    #[error("has a body that ends too early")]
    Io(#[source] io::Error),
}

impl Body {
    pub(crate) fn new(framing: Framing, idle: Duration) -> Self {
        let state = match framing {
            Framing::Empty => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::ChunkSize,
        };
        Self { state, idle }
    }

    /// The next piece, or `None` at the end.
    pub(crate) async fn next(&mut self, reader: &mut Reader) -> Result<Option<Bytes>, BodyError> {
        loop {
            match self.state {
                State::Done => return Ok(None),
                State::Length(left) => {
                    let (piece, left) = self.piece(reader, left).await?;
                    self.state = if left == 0 { State::Done } else { State::Length(left) };
                    return Ok(Some(piece));
                }
                State::ChunkSize => match self.size(reader).await? {
                    0 => {
                        // Trailers would be headers that nobody has looked at.
                        self.line_end(reader).await?;
                        self.state = State::Done;
                    }
                    size => self.state = State::Chunk(size),
                },
                State::Chunk(left) => {
                    let (piece, left) = self.piece(reader, left).await?;
                    self.state = State::Chunk(left);
                    if left == 0 {
                        self.line_end(reader).await?;
                        self.state = State::ChunkSize;
                    }
                    return Ok(Some(piece));
                }
            }
        }
    }

    async fn piece(&self, reader: &mut Reader, left: u64) -> Result<(Bytes, u64), BodyError> {
        if reader.buffer.is_empty() {
            reader.fill_within(self.idle).await.map_err(BodyError::Io)?;
        }
        let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let count = reader.buffer.len().min(most);
        Ok((reader.buffer.split_to(count).freeze(), left - count as u64))
    }

    /// Reads the line with the size of a chunk. Extensions are not allowed: programs differ in where they end.
    async fn size(&self, reader: &mut Reader) -> Result<u64, BodyError> {
        loop {
            let digits = reader.buffer.iter().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_hexdigit()).count();
            if digits < reader.buffer.len() {
                let text = reader.buffer.split_to(digits);
                let text = str::from_utf8(&text).ok().filter(|_| (1..=MAX_DIGITS).contains(&digits));
                let size = text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(BodyError::Chunk)?;
                self.line_end(reader).await?;
                return Ok(size);
            }
            if digits > MAX_DIGITS {
                return Err(BodyError::Chunk);
            }
            reader.fill_within(self.idle).await.map_err(BodyError::Io)?;
        }
    }

    async fn line_end(&self, reader: &mut Reader) -> Result<(), BodyError> {
        let end = reader.take(2, self.idle).await.map_err(BodyError::Io)?;
        if end[..] == *b"\r\n" { Ok(()) } else { Err(BodyError::Chunk) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Body, BodyError};
    use crate::guest::Guest;
    use crate::head::Framing;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt as _;

    const TIME: Duration = Duration::from_secs(5);

    /// The body, and what follows it.
    async fn read(framing: Framing, sent: &[u8]) -> Result<(Vec<u8>, Vec<u8>), BodyError> {
        let (mut near, far) = tokio::io::duplex(1024);
        near.write_all(sent).await.unwrap();
        drop(near);
        let mut guest = Guest::new(far, TIME);
        let mut body = Body::new(framing, TIME);
        let mut whole = Vec::new();
        while let Some(piece) = body.next(&mut guest.reader).await? {
            whole.extend_from_slice(&piece);
        }
        while guest.reader.fill().await.unwrap() > 0 {}
        Ok((whole, guest.reader.buffer.to_vec()))
    }

    #[tokio::test]
    async fn bodies_end_where_they_say() {
        let (body, rest) = read(Framing::Length(5), b"helloGET").await.unwrap();
        assert_eq!((&body[..], &rest[..]), (&b"hello"[..], &b"GET"[..]));
        let (body, rest) = read(Framing::Chunked, b"5\r\nhello\r\n00A\r\n0123456789\r\n0\r\n\r\nGET").await.unwrap();
        assert_eq!((&body[..], &rest[..]), (&b"hello0123456789"[..], &b"GET"[..]));
        assert_eq!(read(Framing::Empty, b"GET").await.unwrap().0, b"");
    }

    #[tokio::test]
    async fn wrong_chunks_are_rejected() {
        let wrong: &[&[u8]] = &[
            b"5;a=b\r\nhello\r\n0\r\n\r\n",
            b"5\nhello\n0\n\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"\r\nhello",
            b"5\r\nhelloX\r\n0\r\n\r\n",
            b"-1\r\n",
            b"0\r\nX: y\r\n\r\n",
            b"11111111111111111\r\n",
            b"4\r\nhello\r\n0\r\n\r\n",
        ];
        for sent in wrong {
            assert!(matches!(read(Framing::Chunked, sent).await, Err(BodyError::Chunk)), "{}", sent.escape_ascii());
        }
        assert!(matches!(read(Framing::Chunked, b"5\r\nhel").await, Err(BodyError::Io(_))));
        assert!(matches!(read(Framing::Length(5), b"hel").await, Err(BodyError::Io(_))));
    }
}
