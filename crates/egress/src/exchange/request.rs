//! Requests as they are sent to a host: written anew.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};

use crate::access::Access;
use crate::credential::Binding;
use crate::decide::Scheme;
use crate::head::{Framing, Head};
use crate::target::Target;
use crate::upstream::Sent;

/// Headers that are between two neighbours, and those that the proxy sets itself.
const NOT_PASSED: &[&str] = &[
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "host",
    "content-length",
    "http2-settings",
];

/// The credentials that are added to a request.
pub(super) fn used<'a>(
    access: &'a Access,
    method: &'a Method,
    target: &'a Target,
) -> impl Iterator<Item = &'a Binding> {
    bound(access, target).filter(move |binding| binding.is_sent_with(method))
}

/// All credentials of the host of a request, also those that are not for its method. None without TLS.
pub(super) fn bound<'a>(access: &'a Access, target: &'a Target) -> impl Iterator<Item = &'a Binding> {
    let bindings = access.grant.credentials.of(&target.host, target.port);
    bindings.filter(move |_| target.scheme == Scheme::Https)
}

/// The request for the host.
pub(super) fn build(access: &Access, head: &Head, target: &Target, body: Sent) -> Result<Request<Sent>, http::Error> {
    let Target { host, port, path, query, scheme } = target;
    let uri: Uri = match query {
        Some(query) => format!("{path}?{query}").parse()?,
        None => path.parse()?,
    };
    let mut headers = head.headers.clone();
    strip_hops(&mut headers);
    let mut is_bound = false;
    for binding in bound(access, target) {
        is_bound = true;
        headers.remove(&binding.header);
    }
    for binding in used(access, &head.method, target) {
        headers.insert(binding.header.clone(), binding.value());
    }
    if is_bound {
        // The response is searched for the credential: as a whole, and as it is.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.remove(header::RANGE);
        headers.remove(header::IF_RANGE);
    }
    let usual = if *scheme == Scheme::Http { 80 } else { 443 };
    let authority = if *port == usual { host.to_string() } else { format!("{host}:{port}") };
    headers.insert(header::HOST, HeaderValue::from_str(&authority)?);
    match head.framing {
        Framing::Empty => {}
        Framing::Length(length) => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        Framing::Chunked => {
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
    let mut request = Request::builder().method(head.method.clone()).uri(uri).version(Version::HTTP_11).body(body)?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Removes what is not for the other side, also what `Connection` lists.
pub(super) fn strip_hops(headers: &mut HeaderMap) {
    let listed: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in listed {
        headers.remove(name);
    }
    for name in NOT_PASSED {
        headers.remove(*name);
    }
}
