//! Answers to the guest.

use std::borrow::Cow;
use std::io;

use http::{HeaderMap, StatusCode};

use crate::decide::Refusal;
use crate::guest::Writer;

/// Whether the connection is used for further requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Keep,
    Close,
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// There is no body. Its length, if there is one, is that of the body that another method would have got.
    None(Option<u64>),
    Length(u64),
    Chunks,
    /// The end of the connection: for clients that only speak HTTP/1.0.
    Close,
}

/// Answers with the text of a refusal.
pub(crate) async fn refuse(writer: &mut Writer, refusal: &Refusal, after: After, with_body: bool) -> io::Result<()> {
    let text = format!("{refusal}\n");
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    let length = text.len() as u64;
    let ending = if with_body { Ending::Length(length) } else { Ending::None(Some(length)) };
    let mut bytes = head(refusal.kind.status(), &headers, ending, after);
    if with_body {
        bytes.extend_from_slice(text.as_bytes());
    }
    writer.write(&bytes).await?;
    writer.flush().await
}

/// The head of a response. `headers` has none about the connection and the length.
pub(crate) fn head(status: StatusCode, headers: &HeaderMap, ending: Ending, after: After) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or("Unknown");
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in headers {
        field(&mut head, name.as_str(), value.as_bytes());
    }
    match ending {
        Ending::None(Some(length)) | Ending::Length(length) => {
            field(&mut head, "content-length", length.to_string().as_bytes());
        }
        Ending::Chunks => field(&mut head, "transfer-encoding", b"chunked"),
        Ending::None(None) | Ending::Close => {}
    }
    if after == After::Close || ending == Ending::Close {
        field(&mut head, "connection", b"close");
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

/// A piece of a body on the wire. Nothing for an empty piece, which would be the end.
pub(crate) fn framed(piece: &[u8], ending: Ending) -> Cow<'_, [u8]> {
    if ending != Ending::Chunks || piece.is_empty() {
        return Cow::Borrowed(piece);
    }
    let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
    chunk.extend_from_slice(piece);
    chunk.extend_from_slice(b"\r\n");
    Cow::Owned(chunk)
}

/// What follows the last piece.
pub(crate) fn end(ending: Ending) -> &'static [u8] {
    if ending == Ending::Chunks { b"0\r\n\r\n" } else { b"" }
}
