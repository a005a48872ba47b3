//! Removes events without data, which prepare a client for reconnecting, for clients that do not support them.
//!
//! The protocol has these events since revision 2025-11-25. Older clients take one for a message and report invalid
//! JSON.

use super::SESSION;
use axum::http::HeaderMap;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use serde::Deserialize;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// First revision with events without data.
const SINCE: &str = "2025-11-25";

#[derive(Deserialize)]
struct Initialize {
    params: Parameters,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parameters {
    protocol_version: String,
}

/// Whether the client supports events without data, according to the revision in its header or its first message.
pub(super) fn is_known(headers: &HeaderMap, body: &[u8]) -> bool {
    if let Some(version) = headers.get("mcp-protocol-version") {
        return version.to_str().is_ok_and(|version| version >= SINCE);
    }
    // A session without the header is of an older revision.
    !headers.contains_key(SESSION)
        && serde_json::from_slice::<Initialize>(body)
            .is_ok_and(|message| message.params.protocol_version.as_str() >= SINCE)
}

/// Event stream without the events that have no data.
pub(super) struct Unprimed<B>(B);

impl<B> Unprimed<B> {
    pub(super) fn new(body: B) -> Self {
        Self(body)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Unprimed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        loop {
            match ready!(Pin::new(&mut self.0).poll_frame(context)) {
                Some(Ok(frame)) if frame.data_ref().is_some_and(|event| is_empty(event)) => {}
                other => return Poll::Ready(other),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// Whether an event has only empty data. A comment has no data at all.
fn is_empty(event: &[u8]) -> bool {
    let mut data = event.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:")).peekable();
    data.peek().is_some() && data.all(|data| data.trim_ascii().is_empty())
}

#[cfg(test)]
mod tests {
    use super::{is_empty, is_known};
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    fn known(headers: &[(&'static str, &'static str)], body: &str) -> bool {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        is_known(&headers.iter().map(pair).collect::<HeaderMap>(), body.as_bytes())
    }

    #[test]
    fn the_revision_is_read_from_the_header_or_the_first_message() {
        let begin = |version: &str| format!(r#"{{"method":"initialize","params":{{"protocolVersion":"{version}"}}}}"#);
        assert!(known(&[], &begin("2025-11-25")) && known(&[], &begin("2026-07-28")));
        assert!(!known(&[], &begin("2025-06-18")) && !known(&[], &begin("2024-11-05")));
        let id = ("mcp-session-id", "x");
        assert!(known(&[id, ("mcp-protocol-version", "2025-11-25")], "{}"));
        assert!(!known(&[id, ("mcp-protocol-version", "2025-06-18")], "{}"));
        assert!(!known(&[id], &begin("2025-11-25")), "sessions of that revision always send the header");
        assert!(!known(&[], "") && !known(&[], "[]"));
    }

    #[test]
    fn only_events_without_data_are_removed() {
        assert!(is_empty(b"data: \nid: 0\nretry: 3000\n\n") && is_empty(b"id: 0\ndata:\n\n"));
        assert!(!is_empty(b"data: {}\nid: 1\n\n") && !is_empty(b":\n\n") && !is_empty(b"retry: 3000\n\n"));
    }
}
