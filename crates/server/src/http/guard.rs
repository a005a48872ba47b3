//! Checks the Host and Origin headers, which protects against DNS rebinding and pages of other sites.

use super::HttpOptions;
use super::cors::CorsOrigins;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Names of the loopback interface.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

pub(crate) struct Guard {
    hosts: Vec<String>,
    /// Origins of this server.
    own: Vec<String>,
    /// Origins of other pages that are trusted like its own.
    named: Vec<String>,
    cors: CorsOrigins,
}

/// Marks a request of a page of another origin, which is authenticated by a key or a token only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrossOrigin;

/// Rejection of a request: its status, and the reason.
type Refusal = (StatusCode, &'static str);

impl Guard {
    pub(crate) fn new(options: &HttpOptions, ports: &[u16]) -> Self {
        let hosts: Vec<String> = LOOPBACK
            .iter()
            .map(|host| (*host).to_owned())
            .chain(options.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()))
            .collect();
        let own = ports.iter().flat_map(|port| {
            LOOPBACK.iter().map(move |host| {
                let host = if host.contains(':') { format!("[{host}]") } else { (*host).to_owned() };
                format!("http://{host}:{port}")
            })
        });
        let public = options.auth.as_ref().and_then(|auth| auth.public_url.as_ref());
        let own = own.chain(public.map(|url| url.origin().ascii_serialization())).collect();
        let named = options.allowed_origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase());
        Self { hosts, own, named: named.collect(), cors: options.cors_origins.clone() }
    }

    /// Returns whether a request comes from a page of another origin that may use this server, or why it is rejected.
    fn checked(&self, uri: &Uri, headers: &HeaderMap) -> Result<Option<CrossOrigin>, Refusal> {
        let Some(host) = host(uri, headers) else {
            return Err((StatusCode::BAD_REQUEST, "the request has no usable Host header\n"));
        };
        if !self.hosts.contains(&host) {
            let reason = "this Host is not allowed: to allow it, add it to server.allowed_hosts\n";
            return Err((StatusCode::FORBIDDEN, reason));
        }
        let origins: Vec<&HeaderValue> = headers.get_all(header::ORIGIN).iter().collect();
        let is_in = |list: &[String], origin: &HeaderValue| {
            origin.to_str().is_ok_and(|origin| list.contains(&origin.to_ascii_lowercase()))
        };
        match origins.as_slice() {
            all if all.iter().all(|origin| is_in(&self.own, origin)) => Ok(None),
            [origin] if self.cors.lists(origin) => Ok(Some(CrossOrigin)),
            all if all.iter().all(|origin| is_in(&self.own, origin) || is_in(&self.named, origin)) => Ok(None),
            [_] if self.cors.is_any() => Ok(Some(CrossOrigin)),
            _ => {
                let reason = "this Origin is not allowed: to allow it, add it to server.cors_origins (for pages that use \
                              an API key) or server.allowed_origins\n";
                Err((StatusCode::FORBIDDEN, reason))
            }
        }
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

pub(crate) async fn check(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    match guard.checked(request.uri(), request.headers()) {
        Ok(None) => next.run(request).await,
        Ok(Some(cross_origin)) => {
            request.headers_mut().remove(header::COOKIE);
            request.extensions_mut().insert(cross_origin);
            next.run(request).await
        }
        Err((status, reason)) => {
            tracing::warn!(host = ?request.headers().get(header::HOST), origin = ?request.headers().get(header::ORIGIN), "{}", reason.trim_end());
            (status, reason).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Guard;
    use crate::http::{CorsOrigins, HttpOptions};
    use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};

    fn refused(headers: &[(&'static str, &str)]) -> Option<StatusCode> {
        checked(&[], headers).err()
    }

    /// Whether a request counts as one of another origin, or the status of its rejection.
    fn checked(cors: &[&str], headers: &[(&'static str, &str)]) -> Result<bool, StatusCode> {
        let cors: Vec<String> = cors.iter().map(|origin| (*origin).to_owned()).collect();
        let options = HttpOptions {
            cors_origins: CorsOrigins::parse(&cors).unwrap(),
            allowed_hosts: vec!["Tools.Example".to_owned()],
            allowed_origins: vec!["https://chat.example".to_owned()],
            ..HttpOptions::default()
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let checked = Guard::new(&options, &[8989, 9000]).checked(&Uri::from_static("/mcp"), &map);
        checked.map(|cross| cross.is_some()).map_err(|(status, _)| status)
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
        for origin in ["http://localhost:8989", "http://127.0.0.1:9000", "https://chat.example"] {
            assert_eq!(with(origin), None, "{origin}");
        }
        for origin in ["http://localhost:3000", "null", "http://evil.example", "https://localhost:8989", "file://"] {
            assert_eq!(with(origin), Some(StatusCode::FORBIDDEN), "{origin}");
        }
        let two = [("host", "localhost"), ("origin", "http://localhost:8989"), ("origin", "http://evil.example")];
        assert_eq!(refused(&two), Some(StatusCode::FORBIDDEN));
    }

    #[test]
    fn pages_of_cors_origins_are_marked() {
        let with = |cors: &[&str], origin| checked(cors, &[("host", "localhost:8989"), ("origin", origin)]);
        assert_eq!(with(&["https://app.example"], "https://app.example"), Ok(true));
        assert_eq!(with(&["https://app.example"], "http://localhost:8989"), Ok(false));
        assert_eq!(with(&["https://app.example"], "https://chat.example"), Ok(false));
        for origin in ["https://app.example.evil", "http://app.example", "https://app.example:444", "null"] {
            assert_eq!(with(&["https://app.example"], origin), Err(StatusCode::FORBIDDEN), "{origin}");
            assert_eq!(with(&["*"], origin), Ok(true), "{origin}");
        }
        // What is listed explicitly counts, even if the origin is trusted otherwise.
        assert_eq!(with(&["https://chat.example"], "https://chat.example"), Ok(true));
        assert_eq!(with(&["http://localhost:8989"], "http://localhost:8989"), Ok(false));
        let two = [("host", "localhost"), ("origin", "https://app.example"), ("origin", "https://app.example")];
        assert_eq!(checked(&["*"], &two), Err(StatusCode::FORBIDDEN));
        assert_eq!(checked(&["*"], &[("host", "evil.example"), ("origin", "x")]), Err(StatusCode::FORBIDDEN));
    }
}
