//! Where a request wants to go.

use crate::decide::{RefusalKind, Scheme};
use crate::host::{Host, HostError};
use thiserror::Error;

/// Where an HTTP request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) scheme: Scheme,
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
}

/// What is wrong with a target: a clause that follows `the request`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum TargetError {
    #[error("names no host: {0}")]
    Host(#[from] HostError),
    #[error("has a port that is not a number from 1 to 65535")]
    Port,
    #[error("has a user name in its address")]
    User,
    #[error("has an address that does not start with http://")]
    Scheme,
    #[error("has a path that does not start with a slash, or has a fragment")]
    Path,
    #[error("has a Host header that differs from its address")]
    HostDiffers,
}

impl TargetError {
    pub(crate) fn kind(&self) -> RefusalKind {
        match self {
            Self::Host(_) | Self::User => RefusalKind::Host,
            Self::HostDiffers => RefusalKind::Names,
            Self::Port | Self::Scheme | Self::Path => RefusalKind::Protocol,
        }
    }

    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Host(HostError::Address(_)) => Some("use the name of the host"),
            Self::Scheme => Some("send requests with their full http:// address, and https:// by CONNECT"),
            _ => None,
        }
    }
}

/// `http://host:port/path?query`, as it is sent to a proxy.
pub(crate) fn absolute(text: &str) -> Result<Target, TargetError> {
    const SCHEME: &str = "http://";
    let rest =
        text.get(..SCHEME.len()).filter(|start| start.eq_ignore_ascii_case(SCHEME)).map(|_| &text[SCHEME.len()..]);
    let rest = rest.ok_or(TargetError::Scheme)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, port) = authority(&rest[..end])?;
    let rest = &rest[end..];
    let (path, query) = if rest.starts_with('/') { origin(rest)? } else { origin(&format!("/{rest}"))? };
    Ok(Target { scheme: Scheme::Http, host, port: port.unwrap_or(80), path, query })
}

/// `/path?query`.
pub(crate) fn origin(text: &str) -> Result<(String, Option<String>), TargetError> {
    if !text.starts_with('/') || text.contains('#') {
        return Err(TargetError::Path);
    }
    // A path that hyper would not send is rejected here, where it can be explained.
    if text.parse::<http::uri::PathAndQuery>().is_err() {
        return Err(TargetError::Path);
    }
    Ok(match text.split_once('?') {
        Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
        None => (text.to_owned(), None),
    })
}

/// `host` or `host:port`.
pub(crate) fn authority(text: &str) -> Result<(Host, Option<u16>), TargetError> {
    if text.contains('@') {
        return Err(TargetError::User);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = port.map(|port| {
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| port.parse().ok()).flatten().filter(|port| *port != 0).ok_or(TargetError::Port)
    });
    // What is in brackets is an address, whatever follows it.
    let host = Host::parse(if text.starts_with('[') { text } else { host })?;
    Ok((host, port.transpose()?))
}

/// `host:port`, as it is sent with CONNECT.
pub(crate) fn connect(text: &str) -> Result<(Host, u16), TargetError> {
    let (host, port) = authority(text)?;
    Ok((host, port.ok_or(TargetError::Port)?))
}

/// Fails if a Host header is not the one of the target.
pub(crate) fn check_host(value: &[u8], host: &Host, port: u16, scheme: Scheme) -> Result<(), TargetError> {
    let text = str::from_utf8(value).map_err(|_| TargetError::HostDiffers)?;
    let (named, named_port) = authority(text)?;
    let usual = if scheme == Scheme::Http { 80 } else { 443 };
    if named == *host && named_port.unwrap_or(usual) == port { Ok(()) } else { Err(TargetError::HostDiffers) }
}

#[cfg(test)]
mod tests {
    use super::{TargetError, absolute, authority, check_host, connect};
    use crate::decide::Scheme;
    use crate::host::Host;

    #[test]
    fn absolute_addresses_are_taken_apart() {
        let target = absolute("HTTP://Example.ORG.:8080/a/b?c=d?e").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("example.org", 8080));
        assert_eq!((target.path.as_str(), target.query.as_deref()), ("/a/b", Some("c=d?e")));
        let bare = absolute("http://example.org?x").unwrap();
        assert_eq!((bare.port, bare.path.as_str(), bare.query.as_deref()), (80, "/", Some("x")));
    }

    #[test]
    fn wrong_addresses_are_rejected() {
        assert_eq!(absolute("https://example.org/"), Err(TargetError::Scheme));
        assert_eq!(absolute("/path"), Err(TargetError::Scheme));
        assert_eq!(absolute("http://user@example.org/"), Err(TargetError::User));
        assert_eq!(absolute("http://example.org:0/"), Err(TargetError::Port));
        assert_eq!(absolute("http://example.org:/"), Err(TargetError::Port));
        assert_eq!(absolute("http://example.org/#f"), Err(TargetError::Path));
        assert_eq!(absolute("http://example.org\\@evil.org/"), Err(TargetError::User));
        assert!(matches!(absolute("http:///x"), Err(TargetError::Host(_))));
        for host in ["127.0.0.1", "[::1]", "[::1]:80", "0x7f.1:80", "::1", "a%00b", "[::ffff:1.2.3.4]:80"] {
            assert!(matches!(authority(host), Err(TargetError::Host(_))), "{host}");
        }
        assert_eq!(connect("example.org"), Err(TargetError::Port));
        assert!(connect("example.org:443").is_ok());
    }

    #[test]
    fn host_headers_are_compared() {
        let host = Host::parse("example.org").unwrap();
        assert!(check_host(b"Example.org:443", &host, 443, Scheme::Https).is_ok());
        assert!(check_host(b"example.org", &host, 443, Scheme::Https).is_ok());
        for value in [&b"example.org:80"[..], b"other.org", b"example.org.evil.org", b"\xff"] {
            assert_eq!(check_host(value, &host, 443, Scheme::Https), Err(TargetError::HostDiffers));
        }
    }
}
