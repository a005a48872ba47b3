//! Reads `multipart/form-data` while it arrives (RFC 7578). The body is hostile: everything but the content of a field
//! has a cap, and content is passed on in pieces.

use crate::http::problem::ApiError;
use crate::http::upload::PATIENCE;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _};
use std::fmt;
use std::pin::Pin;

/// Maximum length of the head of a field.
const MAX_HEAD: usize = 8 << 10;
/// Maximum length of the boundary (RFC 2046).
const MAX_BOUNDARY: usize = 70;
/// Maximum number of fields.
const MAX_FIELDS: usize = 32;
/// Maximum number of bytes before the first field.
const MAX_PREAMBLE: usize = 4 << 10;

type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, axum::Error>> + Send>>;

/// A body that is being read.
pub(super) struct Multipart {
    pieces: Pieces,
    buffer: BytesMut,
    /// What ends a field: a line break and the boundary.
    end: Vec<u8>,
    place: Place,
    fields: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Preamble,
    /// In the content of a field.
    Content,
    /// After the boundary that ends a field.
    AfterBoundary,
    End,
}

/// The head of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) file_name: Option<String>,
}

fn invalid(reason: &str) -> ApiError {
    ApiError::invalid(format!("the multipart body is invalid: {reason}"))
}

impl Multipart {
    /// Reads a body whose boundary is in the headers.
    pub(super) fn new(headers: &HeaderMap, body: axum::body::Body) -> Result<Self, ApiError> {
        let unsupported = || ApiError::unsupported("the body must be multipart/form-data with a boundary");
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).ok_or_else(unsupported)?;
        let (kind, parameters) = kind.split_once(';').ok_or_else(unsupported)?;
        if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
            return Err(unsupported());
        }
        let boundary = parameter(parameters, "boundary").ok_or_else(unsupported)?;
        if boundary.is_empty()
            || boundary.len() > MAX_BOUNDARY
            || !boundary.bytes().all(|byte| (32..127).contains(&byte))
        {
            return Err(invalid("the boundary is not allowed"));
        }
        Ok(Self::of(Box::pin(body.into_data_stream()), &boundary))
    }

    fn of(pieces: Pieces, boundary: &str) -> Self {
        // The first boundary may stand at the very beginning, so a line break is put before it.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        let end = format!("\r\n--{boundary}").into_bytes();
        Self { pieces, buffer, end, place: Place::Preamble, fields: 0 }
    }

    /// Waits for more data. Returns false at the end of the body.
    async fn more(&mut self) -> Result<bool, ApiError> {
        match tokio::time::timeout(PATIENCE, self.pieces.next()).await {
            Err(_) => Err(ApiError::invalid(format!("no data arrived for {} seconds", PATIENCE.as_secs()))),
            Ok(Some(Err(error))) => Err(ApiError::invalid(format!("the body cannot be read: {error}"))),
            Ok(Some(Ok(piece))) => {
                self.buffer.extend_from_slice(&piece);
                Ok(true)
            }
            Ok(None) => Ok(false),
        }
    }

    /// The next field; what is left of the one before it is skipped. `None` at the end.
    pub(super) async fn next_field(&mut self) -> Result<Option<Field>, ApiError> {
        if self.place == Place::Preamble {
            let mut skipped = 0;
            while let Some(piece) = self.until_boundary().await? {
                skipped += piece.len();
                if skipped > MAX_PREAMBLE {
                    return Err(invalid("it does not begin with its boundary"));
                }
            }
        }
        while self.place == Place::Content {
            self.next_piece().await?;
        }
        if self.place == Place::End {
            return Ok(None);
        }
        // After the boundary: two dashes end the body, and a line break begins a field.
        while self.buffer.len() < 2 {
            if !self.more().await? {
                return Err(invalid("it ends too early"));
            }
        }
        if self.buffer.starts_with(b"--") {
            self.place = Place::End;
            return Ok(None);
        }
        let mut looked = 0;
        let end = loop {
            let found = find(&self.buffer[looked..], b"\r\n\r\n").map(|place| looked + place);
            match found {
                Some(place) if place <= MAX_HEAD => break place,
                None if self.buffer.len() <= MAX_HEAD => {}
                _ => return Err(invalid("the head of a field is too long")),
            }
            looked = self.buffer.len().saturating_sub(3);
            if !self.more().await? {
                return Err(invalid("it ends too early"));
            }
        };
        let head = self.buffer.split_to(end + 4);
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return Err(invalid("it has too many fields"));
        }
        self.place = Place::Content;
        field(&head).map(Some)
    }

    /// A piece of the content of this field; `None` at its end.
    pub(super) async fn next_piece(&mut self) -> Result<Option<Bytes>, ApiError> {
        if self.place == Place::Content { self.until_boundary().await } else { Ok(None) }
    }

    /// A piece of what stands before the next boundary; `None` if the boundary is reached.
    async fn until_boundary(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(place) = find(&self.buffer, &self.end) {
                if place > 0 {
                    return Ok(Some(self.buffer.split_to(place).freeze()));
                }
                let _boundary = self.buffer.split_to(self.end.len());
                self.place = Place::AfterBoundary;
                return Ok(None);
            }
            // The end of the buffer may be the beginning of a boundary.
            let safe = self.buffer.len().saturating_sub(self.end.len() - 1);
            if safe > 0 {
                return Ok(Some(self.buffer.split_to(safe).freeze()));
            }
            if !self.more().await? {
                return Err(invalid("it ends too early"));
            }
        }
    }

    /// The whole content of a short field.
    pub(super) async fn text(&mut self, most: usize) -> Result<String, ApiError> {
        let mut content = Vec::new();
        while let Some(piece) = self.next_piece().await? {
            content.extend_from_slice(&piece);
            if content.len() > most {
                return Err(invalid("the value of a field is too long"));
            }
        }
        String::from_utf8(content).map_err(|_| invalid("the value of a field is not UTF-8"))
    }
}

impl fmt::Debug for Multipart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multipart").field("place", &self.place).finish_non_exhaustive()
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let first = *text.first()?;
    let mut from = 0;
    loop {
        from += bytes.get(from..)?.iter().position(|byte| *byte == first)?;
        if bytes[from..].starts_with(text) {
            return Some(from);
        }
        from += 1;
    }
}

fn field(head: &[u8]) -> Result<Field, ApiError> {
    let head = std::str::from_utf8(head).map_err(|_| invalid("the head of a field is not UTF-8"))?;
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let disposition = lines.find(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"));
    let disposition = disposition.map(|(_, value)| value.trim()).ok_or_else(|| invalid("a field has no name"))?;
    let (kind, parameters) = disposition.split_once(';').unwrap_or((disposition, ""));
    let name = parameter(parameters, "name").filter(|_| kind.trim().eq_ignore_ascii_case("form-data"));
    Ok(Field {
        name: name.ok_or_else(|| invalid("a field has no name"))?,
        file_name: parameter(parameters, "filename"),
    })
}

/// A parameter of a header value, with or without quotes.
fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        let (name, after) = rest.split_once('=')?;
        let (value, left) = if let Some(quoted) = after.strip_prefix('"') {
            unquoted(quoted)?
        } else {
            let (value, left) = after.split_once(';').unwrap_or((after, ""));
            (value.trim().to_owned(), left)
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = left;
    }
}

/// A text up to its closing quote, and what follows.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[place + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    const BODY: &str = "--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--b\r\n\
                        Content-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".csv\"\r\n\
                        Content-Type: text/csv\r\n\r\nx,y\r\n--other\r\n-\r\n\r\n--b--\r\n";

    /// A body that arrives in pieces of this size.
    fn in_pieces(body: &str, size: usize) -> Multipart {
        let pieces: Vec<_> = body.as_bytes().chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        Multipart::of(Box::pin(stream::iter(pieces)), "b")
    }

    async fn whole(multipart: &mut Multipart) -> Result<Vec<(Field, String)>, ApiError> {
        let mut fields = Vec::new();
        while let Some(field) = multipart.next_field().await? {
            fields.push((field, multipart.text(1_000).await?));
        }
        Ok(fields)
    }

    #[tokio::test]
    async fn fields_are_read_whatever_the_pieces_are() {
        for size in 1..=BODY.len() {
            let fields = whole(&mut in_pieces(BODY, size)).await.unwrap();
            let file = Field { name: "file".to_owned(), file_name: Some("a \"b\".csv".to_owned()) };
            let purpose = Field { name: "purpose".to_owned(), file_name: None };
            let expected = [(purpose, "user_data".to_owned()), (file, "x,y\r\n--other\r\n-\r\n".to_owned())];
            assert_eq!(fields, expected, "pieces of {size}");
        }
        // A field that nobody reads is skipped.
        let mut multipart = in_pieces(BODY, 7);
        assert!(multipart.next_field().await.unwrap().is_some());
        assert_eq!(multipart.next_field().await.unwrap().unwrap().name, "file");
    }

    #[tokio::test]
    async fn bodies_that_are_cut_or_too_long_are_refused() {
        for end in 0..BODY.len() - 4 {
            assert!(whole(&mut in_pieces(&BODY[..end], 10)).await.is_err(), "{end}");
        }
        let long_head = format!("--b\r\ncontent-disposition: form-data; name=\"{}", "x".repeat(MAX_HEAD + 100));
        let preamble = "x".repeat(MAX_PREAMBLE + 100);
        let many = "--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n\r\n".repeat(MAX_FIELDS + 1);
        let nameless = "--b\r\ncontent-disposition: form-data\r\n\r\nx\r\n--b--".to_owned();
        let long_value = format!("--b\r\ncontent-disposition: form-data; name=a\r\n\r\n{}\r\n--b--", "x".repeat(2_000));
        for (body, reason) in [
            (long_head, "head"),
            (preamble, "boundary"),
            (many, "too many"),
            (nameless, "no name"),
            (long_value, "too long"),
        ] {
            let error = whole(&mut in_pieces(&body, 512)).await.unwrap_err();
            assert!(error.error.contains(reason), "{}", error.error);
        }
    }

    #[test]
    fn the_boundary_is_in_the_content_type() {
        let read = |kind: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
            Multipart::new(&headers, axum::body::Body::empty()).map(|multipart| multipart.end)
        };
        assert_eq!(read("multipart/form-data; boundary=xyz").unwrap(), b"\r\n--xyz");
        assert_eq!(read("Multipart/Form-Data; charset=utf-8; boundary=\"x y\"").unwrap(), b"\r\n--x y");
        for wrong in
            ["application/json", "multipart/form-data", "multipart/form-data; boundary=", "text/plain; boundary=x"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
