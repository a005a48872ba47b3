//! Reads response bodies up to a size limit.

use bytes::{Bytes, BytesMut};
use futures::stream::{BoxStream, Stream, StreamExt as _};
use reqwest::Response;
use sse_stream::{Sse, SseStream};

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("an answer of more than {0} bytes")]
    TooLarge(usize),
    #[error("the answer was cut off: {0}")]
    Broken(String),
}

/// Reads the whole body.
pub(crate) async fn read(response: Response, limit: usize) -> Result<Bytes, BodyError> {
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(BodyError::TooLarge(limit));
    }
    let mut chunks = response.bytes_stream();
    let mut body = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| BodyError::Broken(error.without_url().to_string()))?;
        if body.len() + chunk.len() > limit {
            return Err(BodyError::TooLarge(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Server-sent events of at most `limit` bytes each. An error is the last item.
pub(crate) fn event_stream(
    chunks: impl Stream<Item = Result<Bytes, reqwest::Error>> + Send + 'static,
    limit: usize,
) -> BoxStream<'static, Result<Sse, BodyError>> {
    let mut counter = Counter { limit, event: 0, line: 0 };
    let counted = chunks.map(move |chunk| match chunk {
        Ok(chunk) => counter.count(&chunk).map(|()| chunk),
        Err(error) => Err(BodyError::Broken(error.without_url().to_string())),
    });
    let mut ended = false;
    SseStream::from_bytes_stream(counted)
        .map(|event| {
            event.map_err(|error| match error {
                sse_stream::Error::Body(error) => match error.downcast::<BodyError>() {
                    Ok(error) => *error,
                    Err(error) => BodyError::Broken(error.to_string()),
                },
                other => BodyError::Broken(other.to_string()),
            })
        })
        .take_while(move |event| {
            let go_on = !ended;
            ended |= event.is_err();
            std::future::ready(go_on)
        })
        .boxed()
}

/// Counts the bytes of the current event.
struct Counter {
    limit: usize,
    event: usize,
    line: usize,
}

impl Counter {
    fn count(&mut self, chunk: &[u8]) -> Result<(), BodyError> {
        for &byte in chunk {
            match byte {
                // An empty line ends an event.
                b'\n' if self.line == 0 => self.event = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
            self.event += 1;
            if self.event > self.limit {
                return Err(BodyError::TooLarge(self.limit));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    async fn events(limit: usize, chunks: &[&'static str]) -> Vec<Result<Option<String>, BodyError>> {
        let chunks: Vec<Result<Bytes, reqwest::Error>> =
            chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk.as_bytes()))).collect();
        event_stream(stream::iter(chunks), limit).map(|event| event.map(|event| event.data)).collect().await
    }

    #[tokio::test]
    async fn many_small_events_pass() {
        let seen = events(16, &["data: one\n\nda", "ta: two\r\n\r\n", "data: three\n\n"]).await;
        assert_eq!(seen, ["one", "two", "three"].map(|text| Ok(Some(text.to_owned()))));
    }

    #[tokio::test]
    async fn one_large_event_ends_the_stream() {
        let seen = events(16, &["data: one\n\n", "data: 0123456789", "0123456789\n\n", "data: two\n\n"]).await;
        assert_eq!(seen, [Ok(Some("one".to_owned())), Err(BodyError::TooLarge(16))]);
    }
}
