//! Answers that wait to be written to the guest. They are written piece by piece while other work continues, because a
//! guest may print before it reads.

use coracle_protocol::{CallFailure, FrameError, MAX_FRAME, Reply, ToGuest, frame_bytes};
use serde_json::Value;
use std::collections::VecDeque;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Number of waiting bytes at which no further answer is accepted.
const FULL: usize = MAX_FRAME;

/// Frames that wait to be written, of which the first may be partly written.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    frames: VecDeque<Vec<u8>>,
    /// Number of bytes of the first frame that have been written.
    written: usize,
    /// Total length of the frames.
    bytes: usize,
}

impl Outbox {
    /// Adds an answer. One that does not fit into a frame becomes an error that the code can read.
    pub(crate) fn push(&mut self, reply: Reply) {
        let id = reply.id;
        let frame = match frame_bytes(&ToGuest::Reply(reply)) {
            Err(FrameError::Length(length)) => {
                let message = format!("the answer is {length} bytes long: at most {MAX_FRAME} can be passed on");
                let error = CallFailure { code: "too_large".to_owned(), message, retryable: false };
                frame_bytes(&ToGuest::Reply(Reply { id, ok: false, value: Value::Null, error: Some(error) }))
            }
            other => other,
        };
        match frame {
            Ok(frame) => {
                self.bytes += frame.len();
                self.frames.push_back(frame);
            }
            Err(error) => tracing::error!(%error, "an answer cannot be written"),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= FULL
    }

    /// Drops answers of which nothing was written yet; one that was begun has to be finished.
    pub(crate) fn forget_unbegun(&mut self) {
        self.frames.truncate(usize::from(self.written > 0));
        self.bytes = self.frames.iter().map(Vec::len).sum();
    }

    /// Writes as much as there is room for. May be dropped at its await without losing or repeating anything. An error
    /// only drops all frames: if the guest is gone, the end of its own stream shows that.
    pub(crate) async fn write_some(&mut self, stream: &mut (dyn AsyncWrite + Send + Sync + Unpin)) {
        let Some(frame) = self.frames.front() else { return };
        let rest = frame.get(self.written..).unwrap_or_default();
        let Ok(length @ 1..) = stream.write(rest).await else {
            *self = Self::default();
            return;
        };
        self.written += length;
        if self.written >= frame.len() {
            self.bytes -= frame.len();
            self.frames.pop_front();
            self.written = 0;
        }
    }
}
