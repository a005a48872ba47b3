use crate::{MAX_FRAME, MAX_VALUES};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Why a stream of frames cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length is zero or more than [`MAX_FRAME`].
    #[error("frame of {0} bytes: between 1 and {MAX_FRAME} are allowed")]
    Length(usize),
    /// The frame has more than [`MAX_VALUES`] values.
    #[error("frame has more than {MAX_VALUES} values")]
    Values,
    /// The bytes are not a frame of this protocol.
    #[error("malformed frame: {0}")]
    Malformed(serde_json::Error),
    /// The value cannot be serialised.
    #[error("cannot serialise a frame: {0}")]
    Unwritable(serde_json::Error),
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame")]
    Cut,
    /// The stream failed.
    #[error("stream: {0}")]
    Io(#[from] io::Error),
}

const HEADER: usize = 4;

/// The minimum number of bytes to read at once.
const CHUNK: usize = 16 << 10;

/// Splits a byte stream into frames. Holds at most one frame and one chunk.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    start: usize,
    last: usize,
}

impl FrameBuffer {
    /// Adds bytes that were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.room().extend_from_slice(bytes);
    }

    /// The buffer to read more bytes into.
    pub fn room(&mut self) -> &mut Vec<u8> {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            // The memory of one long frame is not kept for the life of a session.
            self.bytes.shrink_to(4 * CHUNK);
            self.start = 0;
        } else if self.start > CHUNK {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.reserve(CHUNK);
        &mut self.bytes
    }

    /// The next complete frame, if there is one.
    pub fn pop<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let waiting = self.bytes.get(self.start..).unwrap_or_default();
        let Some((header, rest)) = waiting.split_first_chunk::<HEADER>() else { return Ok(None) };
        let length = u32::from_be_bytes(*header) as usize;
        if length == 0 || length > MAX_FRAME {
            return Err(FrameError::Length(length));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        if has_too_many_values(body) {
            return Err(FrameError::Values);
        }
        let frame = serde_json::from_slice(body).map_err(FrameError::Malformed)?;
        self.start += HEADER + length;
        self.last = length;
        Ok(Some(frame))
    }

    /// The length of the last frame.
    pub fn last_length(&self) -> usize {
        self.last
    }

    /// Whether the buffer holds no part of a frame.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }
}

/// Counts the characters outside of strings that begin or separate values. A short body cannot hold too many.
fn has_too_many_values(body: &[u8]) -> bool {
    if body.len() <= MAX_VALUES {
        return false;
    }
    let (mut values, mut in_text, mut escaped) = (0, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b':' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    values > MAX_VALUES
}

/// Reads until a frame is complete. Returns `None` at the end of the stream. Cancel-safe: bytes that were read stay in
/// `buffer`.
pub async fn read_frame<T, R>(stream: &mut R, buffer: &mut FrameBuffer) -> Result<Option<T>, FrameError>
where
    T: DeserializeOwned,
    R: AsyncRead + Unpin + ?Sized,
{
    loop {
        if let Some(frame) = buffer.pop()? {
            return Ok(Some(frame));
        }
        if stream.read_buf(buffer.room()).await? == 0 {
            return if buffer.is_empty() { Ok(None) } else { Err(FrameError::Cut) };
        }
    }
}

/// Writes one frame.
pub async fn write_frame<T, W>(stream: &mut W, frame: &T) -> Result<(), FrameError>
where
    T: Serialize,
    W: AsyncWrite + Unpin + ?Sized,
{
    stream.write_all(&frame_bytes(frame)?).await?;
    Ok(())
}

/// A frame as it is sent, for callers that write it in pieces.
pub fn frame_bytes<T: Serialize>(frame: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; HEADER];
    serde_json::to_writer(&mut bytes, frame).map_err(FrameError::Unwritable)?;
    let length = bytes.len() - HEADER;
    if length > MAX_FRAME {
        return Err(FrameError::Length(length));
    }
    let header = u32::try_from(length).map_err(|_| FrameError::Length(length))?.to_be_bytes();
    bytes[..HEADER].copy_from_slice(&header);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{FrameBuffer, FrameError};
    use crate::{FromGuest, MAX_FRAME, ToGuest};
    use proptest::prelude::*;

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_frame_may_arrive_byte_by_byte_and_two_at_once() {
        let frame = framed(br#"{"type":"done","id":1,"ok":true,"exit_code":0}"#);
        let mut buffer = FrameBuffer::default();
        for byte in &frame[..frame.len() - 1] {
            buffer.push(&[*byte]);
            assert!(buffer.pop::<FromGuest>().unwrap().is_none());
        }
        buffer.push(&frame[frame.len() - 1..]);
        buffer.push(&frame);
        assert!(buffer.pop::<FromGuest>().unwrap().is_some());
        assert!(buffer.pop::<FromGuest>().unwrap().is_some());
        assert!(buffer.pop::<FromGuest>().unwrap().is_none());
        assert!(buffer.is_empty());
    }

    #[test]
    fn lengths_out_of_range_are_rejected_before_the_body_arrives() {
        for length in [0, u32::try_from(MAX_FRAME).unwrap() + 1, u32::MAX] {
            let mut buffer = FrameBuffer::default();
            buffer.push(&length.to_be_bytes());
            assert!(matches!(buffer.pop::<FromGuest>(), Err(FrameError::Length(_))));
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
        let body = format!(r#"{{"type":"call","id":1,"method":"m","params":{{"a":{}"#, "[".repeat(500_000));
        let mut buffer = FrameBuffer::default();
        buffer.push(&framed(body.as_bytes()));
        assert!(matches!(buffer.pop::<FromGuest>(), Err(FrameError::Malformed(_))));
    }

    #[test]
    fn too_many_values_are_rejected_but_long_strings_are_not() {
        let call = |params: &str| {
            framed(format!(r#"{{"type":"call","id":1,"method":"m","params":{{"a":{params}}}}}"#).as_bytes())
        };
        let heard = |bytes: &[u8]| {
            let mut buffer = FrameBuffer::default();
            buffer.push(bytes);
            buffer.pop::<FromGuest>()
        };
        let list = |value: &str, times: usize| call(&format!("[{}0]", value.repeat(times)));
        // As many values as fit into the longest result, and as much text as fits into a frame.
        assert!(matches!(heard(&list("0,", 524_280)), Ok(Some(_))));
        let text = format!("\"{}\"", r#"\",:[{"#.repeat(1_000_000));
        assert!(matches!(heard(&call(&text)), Ok(Some(_))));
        for (value, times) in
            [("0,", 1_000_000), ("[],", 1_000_000), (r#"{"":0},"#, 1_000_000), (r#""\\","#, 1_000_000)]
        {
            assert!(matches!(heard(&list(value, times)), Err(FrameError::Values)), "{value}");
        }
    }

    proptest! {
        #[test]
        fn written_frames_are_read_back(code in ".*", id: u64) {
            let (language, vars) = ("python".into(), serde_json::Map::new());
            let frame = ToGuest::Run { id, language, code, vars, result_bytes: 1, network: None };
            let mut buffer = FrameBuffer::default();
            buffer.push(&framed(&serde_json::to_vec(&frame).unwrap()));
            prop_assert_eq!(buffer.pop::<ToGuest>().unwrap(), Some(frame));
        }
    }
}
