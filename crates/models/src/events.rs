//! Reads a stream of server-sent events within limits of size and time.

use crate::error::{ModelError, causes};
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use reqwest::Response;
use sse_stream::{Sse, SseStream};
use std::time::Duration;

/// Maximum size of one event. The last event of a response repeats all of it.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// Maximum size of a stream.
const MAX_STREAM_BYTES: usize = 64 << 20;
/// Maximum time between two pieces of a stream.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// The events of an answer.
pub(crate) struct Events {
    events: BoxStream<'static, Result<Sse, sse_stream::Error>>,
    /// Host and port, for errors.
    provider: String,
}

/// Why the bytes of a stream ended early.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error("{0}")]
    Connection(String),
    #[error("more than {0} bytes in {1}")]
    TooLarge(usize, &'static str),
}

impl Events {
    pub(crate) fn new(response: Response, provider: String) -> Self {
        let mut size = Size::default();
        let bytes = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|error| StreamError::Connection(causes(error)))?;
            size.add(&chunk)?;
            Ok::<Bytes, StreamError>(chunk)
        });
        Self { events: SseStream::from_bytes_stream(bytes).boxed(), provider }
    }

    /// The next event with data; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Sse>, ModelError> {
        self.next_within(IDLE_TIMEOUT).await
    }

    /// The next event with data. Fails if it does not arrive in time.
    pub(crate) async fn next_within(&mut self, limit: Duration) -> Result<Option<Sse>, ModelError> {
        let next = async {
            loop {
                match self.events.next().await {
                    Some(Ok(event)) if event.data.is_none() => {}
                    event => return event,
                }
            }
        };
        match tokio::time::timeout(limit, next).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(event))) => Ok(Some(event)),
            Ok(Some(Err(error))) => Err(self.failed(error)),
            Err(_) => {
                let reason = format!("nothing arrived for {} seconds", limit.as_secs());
                Err(ModelError::Interrupted { provider: self.provider.clone(), reason })
            }
        }
    }

    fn failed(&self, error: sse_stream::Error) -> ModelError {
        let provider = self.provider.clone();
        match error {
            sse_stream::Error::Body(error) => match error.downcast_ref::<StreamError>() {
                Some(StreamError::TooLarge(most, place)) => {
                    ModelError::TooLarge { limit: format!("{most} bytes in {place}") }
                }
                _ => ModelError::Interrupted { provider, reason: error.to_string() },
            },
            error => ModelError::Malformed { provider, reason: format!("not a stream of events: {error}") },
        }
    }
}

/// The size of a stream and of its current event.
#[derive(Default)]
struct Size {
    total: usize,
    event: usize,
    /// The current line is empty so far.
    is_blank: bool,
}

impl Size {
    fn add(&mut self, chunk: &[u8]) -> Result<(), StreamError> {
        self.total = self.total.saturating_add(chunk.len());
        if self.total > MAX_STREAM_BYTES {
            return Err(StreamError::TooLarge(MAX_STREAM_BYTES, "an answer"));
        }
        for byte in chunk {
            self.event += 1;
            match byte {
                b'\n' if self.is_blank => self.event = 0,
                b'\n' => self.is_blank = true,
                b'\r' => {}
                _ => self.is_blank = false,
            }
            if self.event > MAX_EVENT_BYTES {
                return Err(StreamError::TooLarge(MAX_EVENT_BYTES, "one event"));
            }
        }
        Ok(())
    }
}
