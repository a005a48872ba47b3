//! Checks the Host and Origin headers, which protects against DNS rebinding and pages of other sites.

use super::HttpOptions;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Names of the loopback interface.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

pub(crate) struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    pub(crate) fn new(options: &HttpOptions, port: u16) -> Self {
        let hosts: Vec<String> = LOOPBACK
            .iter()
            .map(|host| (*host).to_owned())
            .chain(options.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()))
            .collect();
        let own = LOOPBACK.iter().map(|host| {
            let host = if host.contains(':') { format!("[{host}]") } else { (*host).to_owned() };
            format!("http://{host}:{port}")
        });
        let named = options.allowed_origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase());
        Self { hosts, origins: own.chain(named).collect() }
    }

    /// Returns why a request is rejected, if it is.
    fn refuses(&self, uri: &Uri, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
        let Some(host) = host(uri, headers) else {
            return Some((StatusCode::BAD_REQUEST, "the request has no usable Host header\n"));
        };
        if !self.hosts.contains(&host) {
            return Some((
                StatusCode::FORBIDDEN,
                "this Host is not allowed: to allow it, add it to server.allowed_hosts\n",
            ));
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let is_ours = |origin: &axum::http::HeaderValue| {
            origin.to_str().is_ok_and(|origin| self.origins.contains(&origin.to_ascii_lowercase()))
        };
        if !origins.all(is_ours) {
            return Some((
                StatusCode::FORBIDDEN,
                "this Origin is not allowed: to allow it, add it to server.allowed_origins\n",
            ));
        }
        None
    }
}

/// Host of a request; `None` if there is none, or more than one.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let authority = named(uri, headers)?;
    Some(authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase())
}

/// Host and port of a request.
pub(crate) fn authority(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    named(uri, headers).map(|authority| authority.as_str().to_ascii_lowercase())
}

fn named(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut named = headers.get_all(header::HOST).iter();
    let authority = match (named.next(), uri.authority()) {
        (Some(text), None) => text.to_str().ok()?.parse::<Authority>().ok()?,
        (None, Some(authority)) => authority.clone(),
        // A request line that contradicts the header is rejected.
        (Some(text), Some(authority)) if text.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) => {
            authority.clone()
        }
        _ => return None,
    };
    if named.next().is_some() {
        return None;
    }
    (!authority.as_str().contains('@')).then_some(authority)
}

pub(crate) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.refuses(request.uri(), request.headers()) {
        None => next.run(request).await,
        Some((status, reason)) => {
            tracing::warn!(host = ?request.headers().get(header::HOST), origin = ?request.headers().get(header::ORIGIN), "{}", reason.trim_end());
            (status, reason).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Guard;
    use crate::http::HttpOptions;
    use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};

    fn refused(headers: &[(&'static str, &str)]) -> Option<StatusCode> {
        let options = HttpOptions {
            allowed_hosts: vec!["Tools.Example".to_owned()],
            allowed_origins: vec!["https://chat.example".to_owned()],
            ..HttpOptions::default()
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        Guard::new(&options, 8989).refuses(&Uri::from_static("/mcp"), &map).map(|(status, _)| status)
    }

    #[test]
    fn loopback_and_allowed_hosts_are_accepted() {
        for host in ["127.0.0.1:8989", "localhost", "LOCALHOST:1", "[::1]:8989", "tools.example:443"] {
            assert_eq!(refused(&[("host", host)]), None, "{host}");
        }
    }

    #[test]
    fn other_hosts_are_rejected() {
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8989", "10.0.0.1", "0.0.0.0"] {
            assert_eq!(refused(&[("host", host)]), Some(StatusCode::FORBIDDEN), "{host}");
        }
        for headers in [&[][..], &[("host", "")], &[("host", "a b")], &[("host", "localhost@evil.example")]] {
            assert_eq!(refused(headers), Some(StatusCode::BAD_REQUEST), "{headers:?}");
        }
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(refused(&two), Some(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn pages_of_other_origins_are_rejected() {
        let with = |origin| refused(&[("host", "localhost:8989"), ("origin", origin)]);
        for origin in ["http://localhost:8989", "http://127.0.0.1:8989", "https://chat.example"] {
            assert_eq!(with(origin), None, "{origin}");
        }
        for origin in ["http://localhost:3000", "null", "http://evil.example", "https://localhost:8989", "file://"] {
            assert_eq!(with(origin), Some(StatusCode::FORBIDDEN), "{origin}");
        }
        let two = [("host", "localhost"), ("origin", "http://localhost:8989"), ("origin", "http://evil.example")];
        assert_eq!(refused(&two), Some(StatusCode::FORBIDDEN));
    }
}
