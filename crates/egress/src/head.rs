//! Heads of requests, parsed strictly: what two implementations could read in different ways is rejected.

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use thiserror::Error;

/// The head of a request.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    /// As it was sent: a path, an absolute address, or a host and port.
    pub(crate) target: String,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    Http11,
}

/// Where the body of a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Empty,
    Length(u64),
    Chunked,
}

impl Head {
    /// Whether the connection ends after this request.
    pub(crate) fn wants_close(&self) -> bool {
        self.version == Version::Http10 || has_token(&self.headers, &header::CONNECTION, "close")
    }

    /// Whether the client waits for permission before it sends the body.
    pub(crate) fn wants_continue(&self) -> bool {
        self.version == Version::Http11 && has_token(&self.headers, &header::EXPECT, "100-continue")
    }
}

/// Whether a header that is a list of words has a word.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(token))
}

/// What is wrong with a head: a clause that follows `the request`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum HeadError {
    #[error("has a head of more than {0} bytes")]
    TooLarge(usize),
    #[error("has more than {0} header fields")]
    TooMany(usize),
    #[error("has a line that does not end in CR LF")]
    LineEnd,
    #[error("has a header field that is folded over several lines")]
    Folded,
    #[error("is not valid HTTP/1.1")]
    Invalid,
    #[error("has both Content-Length and Transfer-Encoding")]
    BothLengths,
    #[error("has more than one Content-Length, or one that is not a number")]
    Length,
    #[error("has a Transfer-Encoding other than `chunked`")]
    TransferEncoding,
    #[error("has no Host, or more than one")]
    Host,
}

/// Takes a head from the front of the buffer. `None` if it is not complete yet.
pub(crate) fn take_head(
    buffer: &mut BytesMut,
    max_bytes: usize,
    max_headers: usize,
) -> Result<Option<Head>, HeadError> {
    const END: &[u8] = b"\r\n\r\n";
    let end = buffer.windows(END.len()).position(|window| window == END).map(|at| at + END.len());
    if end.unwrap_or(buffer.len()) > max_bytes {
        return Err(HeadError::TooLarge(max_bytes));
    }
    // Wrong line ends are found before the end is: it might never come.
    check_lines(&buffer[..end.unwrap_or(buffer.len())])?;
    let Some(end) = end else { return Ok(None) };
    parse(&buffer.split_to(end), max_headers).map(Some)
}

fn check_lines(bytes: &[u8]) -> Result<(), HeadError> {
    if bytes.first().is_some_and(u8::is_ascii_whitespace) {
        return Err(HeadError::Invalid);
    }
    for (at, byte) in bytes.iter().enumerate() {
        let next = bytes.get(at + 1);
        match byte {
            b'\n' if at == 0 || bytes[at - 1] != b'\r' => return Err(HeadError::LineEnd),
            b'\r' if next.is_some_and(|next| *next != b'\n') => return Err(HeadError::LineEnd),
            b'\n' if next.is_some_and(|next| b" \t".contains(next)) => return Err(HeadError::Folded),
            _ => {}
        }
    }
    Ok(())
}

fn parse(bytes: &[u8], max_headers: usize) -> Result<Head, HeadError> {
    let mut fields = vec![httparse::EMPTY_HEADER; max_headers];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooMany(max_headers)),
        Ok(_) | Err(_) => return Err(HeadError::Invalid),
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(HeadError::Invalid);
    };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| HeadError::Invalid)?;
    let version = if version == 0 { Version::Http10 } else { Version::Http11 };
    let mut headers = HeaderMap::new();
    for field in request.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| HeadError::Invalid)?;
        headers.append(name, HeaderValue::from_bytes(field.value).map_err(|_| HeadError::Invalid)?);
    }
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && version == Version::Http11) {
        return Err(HeadError::Host);
    }
    let framing = framing(&headers, version)?;
    Ok(Head { method, target: target.to_owned(), version, headers, framing })
}

fn framing(headers: &HeaderMap, version: Version) -> Result<Framing, HeadError> {
    let lengths: Vec<&HeaderValue> = headers.get_all(header::CONTENT_LENGTH).iter().collect();
    let codings: Vec<&HeaderValue> = headers.get_all(header::TRANSFER_ENCODING).iter().collect();
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(Framing::Empty),
        ([length], []) => {
            let text = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            match text.and_then(|text| text.parse().ok()) {
                Some(0) => Ok(Framing::Empty),
                Some(length) => Ok(Framing::Length(length)),
                None => Err(HeadError::Length),
            }
        }
        ([_, _, ..], []) => Err(HeadError::Length),
        ([], [coding]) if version == Version::Http11 && coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked)
        }
        ([], _) => Err(HeadError::TransferEncoding),
        _ => Err(HeadError::BothLengths),
    }
}

#[cfg(test)]
mod tests {
    use super::{Framing, Head, HeadError, take_head};
    use bytes::BytesMut;

    fn take(text: &str) -> Result<Option<Head>, HeadError> {
        take_head(&mut BytesMut::from(text), 1024, 8)
    }

    fn framing(fields: &str) -> Result<Framing, HeadError> {
        take(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).map(|head| head.unwrap().framing)
    }

    #[test]
    fn a_head_is_taken_and_the_rest_is_left() {
        let mut buffer = BytesMut::from("GET http://a/b HTTP/1.1\r\nHost: a\r\nX-Y: z\r\n\r\nrest");
        let head = take_head(&mut buffer, 1024, 8).unwrap().unwrap();
        assert_eq!((head.method.as_str(), head.target.as_str(), &buffer[..]), ("GET", "http://a/b", &b"rest"[..]));
        assert_eq!(head.headers["x-y"], "z");
        assert!(take("GET / HTTP/1.1\r\nHost: a\r\n").unwrap().is_none());
    }

    #[test]
    fn lengths_are_unambiguous() {
        assert_eq!(framing(""), Ok(Framing::Empty));
        assert_eq!(framing("Content-Length: 5\r\n"), Ok(Framing::Length(5)));
        assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Ok(Framing::Chunked));
        let both = [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        ];
        for fields in both {
            assert_eq!(framing(fields), Err(HeadError::BothLengths));
        }
        for value in [
            "5\r\nContent-Length: 5",
            "5\r\ncontent-length: 6",
            "5, 5",
            "+5",
            "-1",
            "0x5",
            "5 5",
            "",
            "99999999999999999999",
        ] {
            assert_eq!(framing(&format!("Content-Length: {value}\r\n")), Err(HeadError::Length), "{value}");
        }
        for value in
            ["chunked\r\nTransfer-Encoding: chunked", "gzip, chunked", "chunked, identity", "xchunked", "\u{b}chunked"]
        {
            assert!(framing(&format!("Transfer-Encoding: {value}\r\n")).is_err(), "{value}");
        }
        let old = take("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(old.unwrap_err(), HeadError::TransferEncoding);
    }

    #[test]
    fn lines_are_strict() {
        let error = |text: &str| take(text).err();
        assert_eq!(error("GET / HTTP/1.1\nHost: a\n\n"), Some(HeadError::LineEnd));
        assert_eq!(error("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"), Some(HeadError::LineEnd));
        assert_eq!(error("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n"), Some(HeadError::Folded));
        assert_eq!(error("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), Some(HeadError::Invalid));
        for text in [
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET /\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
            "GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert_eq!(error(text), Some(HeadError::Invalid), "{text:?}");
        }
    }

    #[test]
    fn one_host_is_required() {
        assert_eq!(take("GET / HTTP/1.1\r\n\r\n").unwrap_err(), HeadError::Host);
        assert_eq!(take("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n").unwrap_err(), HeadError::Host);
        assert!(take("GET / HTTP/1.0\r\n\r\n").is_ok());
    }

    #[test]
    fn heads_are_bounded_before_they_end() {
        assert_eq!(take(&"a".repeat(1025)).unwrap_err(), HeadError::TooLarge(1024));
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(8));
        assert_eq!(take(&many).unwrap_err(), HeadError::TooMany(8));
    }
}
