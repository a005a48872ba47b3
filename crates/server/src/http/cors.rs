//! Cross-origin requests of browsers (CORS).
//!
//! Pages of other origins never use what a browser sends by itself: `Access-Control-Allow-Credentials` is never sent, the
//! guard removes cookies from their requests, and they need a key even where other local requests need none.

use axum::http::{HeaderName, HeaderValue, Method, header};
use std::time::Duration;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// Time for which a browser may remember the answer to a preflight request.
const PREFLIGHT_AGE: Duration = Duration::from_mins(10);
/// Methods that pages of other origins may use.
const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
/// Headers of responses that pages of other origins may read.
const EXPOSED: [HeaderName; 6] = [
    HeaderName::from_static(super::SESSION),
    header::CONTENT_DISPOSITION,
    header::ETAG,
    header::LOCATION,
    header::RETRY_AFTER,
    header::WWW_AUTHENTICATE,
];

/// Origins whose pages may use this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsOrigins {
    any: bool,
    listed: Vec<HeaderValue>,
}

/// A text is not an origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an origin")]
pub struct OriginError(pub String);

impl CorsOrigins {
    /// Reads origins: scheme, host and, if it is not the usual one, port. `*` stands for all origins.
    pub fn parse(texts: &[String]) -> Result<Self, OriginError> {
        let mut origins = Self::default();
        for text in texts {
            let wrong = || OriginError(text.clone());
            match text.trim() {
                "*" => origins.any = true,
                origin => origins.listed.push(header_value(origin).ok_or_else(wrong)?),
            }
        }
        Ok(origins)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        !self.any && self.listed.is_empty()
    }

    pub(crate) fn is_any(&self) -> bool {
        self.any
    }

    pub(crate) fn lists(&self, origin: &HeaderValue) -> bool {
        self.listed.iter().any(|listed| listed.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
    }

    /// The middleware that answers preflight requests and adds headers to responses, if any origin is allowed.
    pub(crate) fn layer(&self) -> Option<CorsLayer> {
        let origin = match self {
            Self { any: true, .. } => AllowOrigin::any(),
            _ if self.is_empty() => return None,
            _ => AllowOrigin::list(self.listed.clone()),
        };
        let layer = CorsLayer::new().allow_origin(origin).allow_methods(METHODS).expose_headers(EXPOSED);
        Some(layer.allow_headers(AllowHeaders::mirror_request()).max_age(PREFLIGHT_AGE))
    }
}

/// An origin as browsers send it.
fn header_value(origin: &str) -> Option<HeaderValue> {
    let origin = origin.trim_end_matches('/').to_ascii_lowercase();
    let (scheme, host) = origin.split_once("://")?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let is_host = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '?' | '#' | '@' | '*' | ',' | '\\');
    let is_origin =
        !scheme.is_empty() && scheme.chars().all(is_scheme) && !host.is_empty() && host.chars().all(is_host);
    HeaderValue::from_str(&origin).ok().filter(|_| is_origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CorsOrigins, OriginError> {
        CorsOrigins::parse(&[text.to_owned()])
    }

    #[test]
    fn origins_are_recognised() {
        for good in ["https://app.example", "HTTP://localhost:3000/", "tauri://localhost", "http://[::1]:5173"] {
            let origins = parse(good).unwrap();
            let sent = HeaderValue::from_str(&good.trim_end_matches('/').to_lowercase()).unwrap();
            assert!(origins.lists(&sent) && !origins.is_any() && !origins.is_empty(), "{good}");
            assert!(!origins.lists(&HeaderValue::from_static("https://evil.example")), "{good}");
        }
        for bad in ["", "app.example", "https://", "https://*.example", "https://a.example/x", "https://u@a.example"] {
            assert_eq!(parse(bad), Err(OriginError(bad.to_owned())));
        }
    }

    #[test]
    fn all_origins_are_an_explicit_choice() {
        assert!(CorsOrigins::default().is_empty() && CorsOrigins::default().layer().is_none());
        assert!(parse("*").unwrap().is_any());
        assert!(!parse("null").is_ok_and(|origins| !origins.is_empty()));
    }
}
