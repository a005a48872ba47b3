//! Responses on their way to the guest.

use std::sync::atomic::Ordering;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::request::{bound, strip_hops};
use super::{Failed, causes};
use crate::access::Access;
use crate::decoding::Decoding;
use crate::guest::Writer;
use crate::head::{Head, Version};
use crate::redact::{Redaction, Redactor};
use crate::reply::{self, After, Ending};
use crate::target::Target;
use crate::ticket::Ticket;

/// What a response belongs to.
pub(super) struct Passing<'a> {
    pub(super) access: &'a Access,
    pub(super) head: &'a Head,
    pub(super) target: &'a Target,
    pub(super) ticket: &'a Ticket,
    pub(super) keep: After,
}

/// Passes a response on. Secrets of the host are removed from it.
pub(super) async fn pass(
    passing: &Passing<'_>,
    response: Response<Incoming>,
    writer: &mut Writer,
) -> Result<After, Failed> {
    let Passing { access, head, target, ticket, keep } = passing;
    let (parts, body) = response.into_parts();
    let (status, mut headers) = (parts.status, parts.headers);
    if status.is_informational() {
        return Err(Failed::Before(format!("got the status {status}, which was not asked for")));
    }
    ticket.answered(status);
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    strip_hops(&mut headers);
    // Other protocols do not pass the proxy.
    headers.remove(header::ALT_SVC);

    let redactors: Vec<Redactor> = bound(access, target).map(|binding| binding.redactor().clone()).collect();
    let is_empty =
        head.method == Method::HEAD || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let mut filter =
        Filter { decoding: Decoding::Identity, redactions: redactors.iter().map(Redactor::start).collect() };
    if !redactors.is_empty() {
        if !is_empty {
            filter.decoding = decoding_of(&headers)?;
            headers.remove(header::CONTENT_ENCODING);
        }
        headers = redacted_headers(&headers, &redactors);
    }
    let ending = if is_empty {
        Ending::None(length.filter(|_| status != StatusCode::NO_CONTENT))
    } else if let Some(exact) = body.size_hint().exact().filter(|_| redactors.is_empty()) {
        Ending::Length(exact)
    } else if head.version == Version::Http11 {
        Ending::Chunks
    } else {
        Ending::Close
    };
    let write_failed =
        |error: std::io::Error| Failed::Within(format!("cannot send the response into the sandbox: {error}"));
    writer.write(&reply::head(status, &headers, ending, *keep)).await.map_err(write_failed)?;
    if is_empty {
        writer.flush().await.map_err(write_failed)?;
        return Ok(*keep);
    }
    pass_body(passing, body, filter, ending, writer).await?;
    Ok(if ending == Ending::Close { After::Close } else { *keep })
}

async fn pass_body(
    passing: &Passing<'_>,
    mut body: Incoming,
    mut filter: Filter,
    ending: Ending,
    writer: &mut Writer,
) -> Result<(), Failed> {
    let idle = passing.access.proxy.limits.idle_time;
    let mut sink = Sink { writer, ending, ticket: passing.ticket };
    loop {
        let frame = match timeout(idle, body.frame()).await {
            Err(_) => return Err(Failed::Within("the host stopped sending the response".to_owned())),
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(Failed::Within(format!("the response is cut off: {}", causes(&error)))),
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers are dropped: nothing in them was announced, and no client needs them.
        let Ok(data) = frame.into_data() else { continue };
        if filter.is_idle() {
            sink.put(&data).await?;
        } else {
            for piece in data.chunks(filter.decoding.piece()) {
                let piece = filter.push(piece)?;
                sink.put(&piece).await?;
            }
        }
        sink.flush().await?;
    }
    let rest = filter.finish()?;
    sink.put(&rest).await?;
    sink.end().await
}

/// Where the body of a response goes.
struct Sink<'a> {
    writer: &'a mut Writer,
    ending: Ending,
    ticket: &'a Ticket,
}

impl Sink<'_> {
    async fn put(&mut self, piece: &[u8]) -> Result<(), Failed> {
        self.writer.write(&reply::framed(piece, self.ending)).await.map_err(|error| not_taken(&error))?;
        self.ticket.down.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Failed> {
        self.writer.flush().await.map_err(|error| not_taken(&error))
    }

    async fn end(&mut self) -> Result<(), Failed> {
        self.writer.write(reply::end(self.ending)).await.map_err(|error| not_taken(&error))?;
        self.flush().await
    }
}

fn not_taken(error: &std::io::Error) -> Failed {
    Failed::Within(format!("the sandbox does not take the response: {error}"))
}

/// What happens to a body that may have secrets.
struct Filter {
    decoding: Decoding,
    redactions: Vec<Redaction>,
}

impl Filter {
    fn is_idle(&self) -> bool {
        self.redactions.is_empty()
    }

    fn push(&mut self, piece: &[u8]) -> Result<Vec<u8>, Failed> {
        let decoded = self.decoding.push(piece).map_err(|error| undecodable(&error))?;
        Ok(self.redactions.iter_mut().fold(decoded, |bytes, redaction| redaction.push(&bytes)))
    }

    fn finish(&mut self) -> Result<Vec<u8>, Failed> {
        let decoded = self.decoding.finish().map_err(|error| undecodable(&error))?;
        Ok(self.redactions.iter_mut().fold(decoded, |bytes, redaction| {
            let mut safe = redaction.push(&bytes);
            safe.extend(redaction.finish());
            safe
        }))
    }
}

fn undecodable(error: &std::io::Error) -> Failed {
    Failed::Within(format!("the response cannot be decoded: {error}"))
}

fn decoding_of(headers: &HeaderMap) -> Result<Decoding, Failed> {
    let codings: Vec<&str> = headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .map(|value| value.to_str().unwrap_or("one that is no text"))
        .collect();
    let coding = codings.join(", ");
    Decoding::of(&coding).ok_or_else(|| {
        Failed::Before(format!(
            "got a response in the content coding {coding:?}, in which a credential cannot be found"
        ))
    })
}

fn redacted_headers(headers: &HeaderMap, redactors: &[Redactor]) -> HeaderMap {
    let redacted = |text: &[u8]| redactors.iter().fold(text.to_vec(), |text, redactor| redactor.redacted(&text));
    let mut safe = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if redacted(name.as_str().as_bytes()) != name.as_str().as_bytes() {
            continue;
        }
        if let Ok(value) = HeaderValue::from_bytes(&redacted(value.as_bytes())) {
            safe.append(HeaderName::clone(name), value);
        }
    }
    safe
}
