//! Files as response bodies: byte ranges, and headers that keep browsers from running untrusted content.
//!
//! A file is an attachment unless the caller wants to display it. Only images, text and JSON are then displayed as they
//! are, in an origin of their own, without cookies, storage, scripts or network. HTML is displayed as its source.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use coracle_engine::percent_encoded;
use futures::stream::{self, Stream};
use serde::Deserialize;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::RangeInclusive;

/// Number of bytes that are read at once.
const CHUNK: u64 = 256 << 10;

/// File to send.
pub(crate) struct Content {
    pub(crate) file: File,
    pub(crate) bytes: u64,
    /// MIME type, as detected.
    pub(crate) mime: String,
    /// Path. Browsers save the file under its last component.
    pub(crate) name: String,
    /// Entity tag, which changes with the content.
    pub(crate) etag: String,
    /// Whether to display the file instead of saving it.
    pub(crate) inline: bool,
}

/// Query parameter that says whether to display content instead of saving it: 0 or 1.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(try_from = "u8")]
pub(crate) struct Inline(pub(crate) bool);

impl TryFrom<u8> for Inline {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        match number {
            0 | 1 => Ok(Self(number == 1)),
            _ => Err("inline must be 0 or 1"),
        }
    }
}

/// Policy of displayed files: nothing is allowed.
const INERT: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'";
/// Content type of files that are displayed as text. A browser that rendered HTML, or an SVG as a document, would connect
/// to the hosts of its frames and links before it applies a policy, and the names of hosts can contain data.
const TEXT: &str = "text/plain; charset=utf-8";

/// Returns the content type, and whether the file is displayed. `as_image` says that the browser draws it as an image, in
/// which nothing is loaded and nothing runs.
fn shown_as(mime: &str, inline: bool, as_image: bool) -> (HeaderValue, bool) {
    let told = match mime {
        "image/png" => "image/png",
        "image/jpeg" => "image/jpeg",
        "image/gif" => "image/gif",
        "image/webp" => "image/webp",
        "image/svg+xml" if as_image => "image/svg+xml",
        "image/svg+xml" => TEXT,
        "application/json" => "application/json",
        text if text.starts_with("text/") => TEXT,
        _ => "",
    };
    if inline && !told.is_empty() {
        return (HeaderValue::from_static(told), true);
    }
    let told = HeaderValue::from_str(mime).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    (told, false)
}

/// Part of a file that a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Range(RangeInclusive<u64>),
    /// The range is outside the file.
    Beyond,
}

/// Parses a `Range` header. Several ranges or an invalid header mean the whole file.
fn part(header: Option<&str>, length: u64) -> Part {
    let Some(range) = header.and_then(|text| text.trim().strip_prefix("bytes=")) else { return Part::Whole };
    let Some((first, last)) = range.split_once('-') else { return Part::Whole };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (first.trim().is_empty(), number(first), last.trim().is_empty(), number(last)) {
        (true, _, false, Some(tail)) if tail > 0 && length > 0 => Part::Range(length.saturating_sub(tail)..=length - 1),
        (false, Some(first), true, _) if first < length => Part::Range(first..=length - 1),
        (false, Some(first), false, Some(last)) if last < first => Part::Whole,
        (false, Some(first), false, Some(last)) if first < length => Part::Range(first..=last.min(length - 1)),
        (true, _, false, Some(_)) | (false, Some(_), true, _) | (false, Some(_), false, Some(_)) => Part::Beyond,
        _ => Part::Whole,
    }
}

/// Value of `Content-Disposition` (RFC 6266), with an ASCII name and the exact name.
fn disposition(name: &str, inline: bool) -> HeaderValue {
    let name = name.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("file");
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || " -_.()".contains(c) { c } else { '_' }).collect();
    let kind = if inline { "inline" } else { "attachment" };
    let exact = percent_encoded(name);
    let text = format!("{kind}; filename=\"{plain}\"; filename*=UTF-8''{exact}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("attachment"))
}

fn lists(header: Option<&HeaderValue>, etag: &str) -> bool {
    let listed = header.and_then(|value| value.to_str().ok()).unwrap_or_default();
    listed.split(',').map(str::trim).any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == etag)
}

/// Builds the response for a file.
pub(crate) fn send(content: Content, asked: &HeaderMap) -> Response {
    let Content { file, bytes, mime, name, etag, inline } = content;
    let as_image = asked.get("sec-fetch-dest").is_some_and(|dest| dest == "image");
    let (told, shown) = shown_as(&mime, inline, as_image);
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, told);
    headers.insert(header::CONTENT_DISPOSITION, disposition(&name, shown));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(INERT));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(HeaderName::from_static("x-dns-prefetch-control"), HeaderValue::from_static("off"));
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::VARY, HeaderValue::from_static("sec-fetch-dest"));
    headers.extend(HeaderValue::from_str(&etag).map(|etag| (header::ETAG, etag)));
    if lists(asked.get(header::IF_NONE_MATCH), &etag) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    // `If-Range`: a range is only useful if the client has a part of the same content.
    let still = asked.get(header::IF_RANGE).is_none_or(|value| value.as_bytes() == etag.as_bytes());
    let range = asked.get(header::RANGE).filter(|_| still).and_then(|value| value.to_str().ok());
    let (status, range) = match part(range, bytes) {
        Part::Whole => (StatusCode::OK, 0..bytes),
        Part::Range(range) => {
            let told = format!("bytes {}-{}/{bytes}", range.start(), range.end());
            headers.extend(HeaderValue::from_str(&told).map(|told| (header::CONTENT_RANGE, told)));
            (StatusCode::PARTIAL_CONTENT, *range.start()..range.end().saturating_add(1))
        }
        Part::Beyond => {
            let error = format!("the range is outside the file, which has {bytes} bytes");
            let body = serde_json::json!({ "error": error, "code": "range" });
            let told = [(header::CONTENT_RANGE, format!("bytes */{bytes}"))];
            return (StatusCode::RANGE_NOT_SATISFIABLE, told, axum::Json(body)).into_response();
        }
    };
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    (status, headers, body(file, range)).into_response()
}

/// Streams a file from a blocking thread. A file that has become shorter ends the connection.
fn body(file: File, range: std::ops::Range<u64>) -> Body {
    Body::from_stream(parts(file, range))
}

fn parts(file: File, range: std::ops::Range<u64>) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::try_unfold((file, range), |(mut file, range)| async move {
        if range.is_empty() {
            return Ok::<_, std::io::Error>(None);
        }
        let length = CHUNK.min(range.end - range.start);
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
            file.seek(SeekFrom::Start(range.start))?;
            file.read_exact(&mut bytes)?;
            Ok::<_, std::io::Error>((Bytes::from(bytes), (file, range.start + length..range.end)))
        });
        read.await.map_err(std::io::Error::other)?.map(Some)
    })
}

#[cfg(test)]
mod tests {
    use super::{Part, disposition, part, shown_as};

    #[test]
    fn ranges_are_parsed_as_in_the_standard() {
        for (header, expected) in [
            (None, Part::Whole),
            (Some("bytes=0-0"), Part::Range(0..=0)),
            (Some("bytes=2-"), Part::Range(2..=9)),
            (Some("bytes=2-100"), Part::Range(2..=9)),
            (Some("bytes=-3"), Part::Range(7..=9)),
            (Some("bytes=-30"), Part::Range(0..=9)),
            (Some("bytes=10-"), Part::Beyond),
            (Some("bytes=10-12"), Part::Beyond),
            (Some("bytes=-0"), Part::Beyond),
            (Some("bytes=5-2"), Part::Whole),
            (Some("bytes=0-1,4-5"), Part::Whole),
            (Some("bytes=x-"), Part::Whole),
            (Some("bytes=-"), Part::Whole),
            (Some("lines=1-2"), Part::Whole),
            (Some("bytes=99999999999999999999-"), Part::Whole),
        ] {
            assert_eq!(part(header, 10), expected, "{header:?}");
        }
        assert_eq!(part(Some("bytes=0-"), 0), Part::Beyond);
        assert_eq!(part(Some("bytes=-1"), 0), Part::Beyond);
    }

    #[test]
    fn names_stay_within_their_quotes() {
        for (name, expected) in [
            ("a/b.png", "attachment; filename=\"b.png\"; filename*=UTF-8''b.png"),
            ("ü\".txt", "attachment; filename=\"__.txt\"; filename*=UTF-8''%C3%BC%22.txt"),
            (
                "x\r\nSet-Cookie: a",
                "attachment; filename=\"x__Set-Cookie_ a\"; filename*=UTF-8''x%0D%0ASet-Cookie%3A%20a",
            ),
            ("", "attachment; filename=\"file\"; filename*=UTF-8''file"),
        ] {
            assert_eq!(disposition(name, false), expected);
        }
    }

    #[test]
    fn nothing_is_rendered_as_a_document() {
        let text = Some("text/plain; charset=utf-8");
        for (mime, displayed, as_image) in [
            ("image/png", Some("image/png"), Some("image/png")),
            ("text/csv", text, text),
            ("text/html", text, text),
            ("text/xml", text, text),
            ("image/svg+xml", text, Some("image/svg+xml")),
            ("application/json", Some("application/json"), Some("application/json")),
            ("application/pdf", None, None),
            ("application/octet-stream", None, None),
            ("application/xhtml+xml", None, None),
            ("application/xml", None, None),
        ] {
            for (dest, expected) in [(false, displayed), (true, as_image)] {
                let (told, is_displayed) = shown_as(mime, true, dest);
                assert_eq!(is_displayed.then_some(told.to_str().unwrap()), expected, "{mime}");
                let (told, is_displayed) = shown_as(mime, false, dest);
                assert_eq!((told.to_str().unwrap(), is_displayed), (mime, false));
            }
        }
    }
}
