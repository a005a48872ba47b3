//! Writes the events of a run as server-sent events.

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use coracle_runs::{Events, FeedEvent, Heard, StopOnDrop};
use futures::stream;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

/// Time without data after which a comment is sent, so that proxies keep the connection open.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which events a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Those of the Responses API.
    Standard,
    /// Also those that only Coracle has.
    WithExtensions,
}

/// A stream of events, which stops the run when the client is gone if there is a guard.
pub(super) fn response(events: Events, wanted: Wanted, guard: Option<StopOnDrop>) -> Response {
    let source = Source { events: Some(events), waiting: VecDeque::new(), wanted, _guard: guard };
    let body = stream::unfold(source, |mut source| async move {
        let bytes = source.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), source))
    });
    (headers(), Body::from_stream(body)).into_response()
}

/// The headers of a stream of events.
pub(super) fn headers() -> [(header::HeaderName, &'static str); 3] {
    [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ]
}

struct Source {
    events: Option<Events>,
    waiting: VecDeque<FeedEvent>,
    wanted: Wanted,
    _guard: Option<StopOnDrop>,
}

impl Source {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut text = String::new();
            while let Some(event) = self.waiting.pop_front() {
                if self.wanted == Wanted::WithExtensions || !event.is_extension {
                    write_event(&mut text, event.kind, event.sequence, &event.data);
                }
            }
            if !text.is_empty() {
                return Some(text.into());
            }
            match self.events.take()? {
                Events::Past(past) => self.waiting.extend(past),
                Events::Live(mut listener) => {
                    let heard = tokio::time::timeout(KEEP_ALIVE, listener.next()).await;
                    if !matches!(heard, Ok(None)) {
                        self.events = Some(Events::Live(listener));
                    }
                    match heard {
                        Err(_) => return Some(Bytes::from_static(b": keep-alive\n\n")),
                        Ok(None) => {}
                        Ok(Some(Heard::Event(event))) => self.waiting.push_back(event),
                        Ok(Some(Heard::Missed(items))) => {
                            for (sequence, data) in items {
                                write_event(&mut text, "response.output_item.done", sequence, &data);
                            }
                            return Some(text.into());
                        }
                    }
                }
            }
        }
    }
}

/// The ID lets browsers continue where a connection broke.
fn write_event(text: &mut String, kind: &str, sequence: u64, data: &str) {
    // Writing to a string cannot fail.
    let _ = write!(text, "event: {kind}\nid: {sequence}\ndata: {data}\n\n");
}
