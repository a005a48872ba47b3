//! What the proxy asks its caller, and what it tells it.

use std::fmt;

use async_trait::async_trait;

use crate::host::Host;

/// Decides about requests that the rules allow, and hears about all of them. The engine implements it.
#[async_trait]
pub trait Decide: Send + Sync + fmt::Debug {
    /// Decides about one HTTP request, or one tunnel that is not read. It may take as long as a person does; it is
    /// dropped when the sandbox ends. Nothing has been looked up or sent yet.
    async fn decide(&self, attempt: &Attempt) -> Decision;

    /// Called exactly once for each attempt that `decide` allowed, also if it failed or was cancelled. Must not block.
    fn finished(&self, attempt: &Attempt, outcome: &Outcome);

    /// Called for each request that the proxy refused itself, before `decide` or after it. In the second case, `finished`
    /// is called, too. Must not block.
    fn refused(&self, refusal: &Refusal);
}

/// One HTTP request, or one tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Number of the attempt, unique within its gate.
    pub id: u64,
    /// How the host is talked to.
    pub scheme: Scheme,
    /// Method of an HTTP request. `CONNECT` for a tunnel.
    pub method: String,
    /// Where it goes.
    pub host: Host,
    /// Port there.
    pub port: u16,
    /// Path of an HTTP request, without the query. Empty for a tunnel.
    pub path: String,
    /// Query of an HTTP request, without the question mark.
    pub query: Option<String>,
    /// Size of the body, if the request declares it.
    pub body_bytes: Option<u64>,
    /// The credentials that would be added: their ids.
    pub credentials: Vec<String>,
}

/// How a host is talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP without encryption.
    Http,
    /// HTTP over TLS that the proxy reads, or that it encrypts itself.
    Https,
    /// TLS that passes through unread.
    Tunnel,
}

/// The answer of [`Decide::decide`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is sent.
    Allow,
    /// The guest gets a 403 with these texts.
    Deny {
        /// Why: a clause, such as `a person declined`.
        reason: String,
        /// What would allow it, if anything does.
        hint: Option<String>,
    },
}

/// How an allowed attempt ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Status of the response, if there was one.
    pub status: Option<u16>,
    /// Bytes of bodies, or of the tunnel, that the guest sent.
    pub bytes_up: u64,
    /// Bytes of bodies, or of the tunnel, that the guest got.
    pub bytes_down: u64,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// Why the proxy refused a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of reason.
    pub kind: RefusalKind,
    /// What was refused: `GET example.org/x`.
    pub subject: String,
    /// Why: a clause that follows the subject, such as `is not allowed by any rule of network.allow`.
    pub reason: String,
    /// How to allow it, or to do it right.
    pub hint: Option<String>,
}

/// Kinds of reasons for which requests are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// No rule allows it.
    Rule,
    /// [`Decide::decide`] denied it.
    Decision,
    /// The name leads only to addresses that are not public.
    Address,
    /// The host name is none, or an IP address.
    Host,
    /// The names of the tunnel, of TLS and of the request differ, or one is missing.
    Names,
    /// It is not the strict HTTP, TLS or SOCKS that the proxy speaks.
    Protocol,
    /// A limit was reached.
    Limit,
    /// The host could not be reached, or answered something wrong.
    Upstream,
}

impl RefusalKind {
    /// Stable name of the kind, for logs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Rule => "denied_by_rule",
            Self::Decision => "denied_by_decision",
            Self::Address => "private_address",
            Self::Host => "invalid_host",
            Self::Names => "names_differ",
            Self::Protocol => "invalid_request",
            Self::Limit => "limit",
            Self::Upstream => "unreachable",
        }
    }

    pub(crate) fn status(self) -> http::StatusCode {
        match self {
            Self::Rule | Self::Decision | Self::Address | Self::Host | Self::Names => http::StatusCode::FORBIDDEN,
            Self::Protocol => http::StatusCode::BAD_REQUEST,
            Self::Limit => http::StatusCode::SERVICE_UNAVAILABLE,
            Self::Upstream => http::StatusCode::BAD_GATEWAY,
        }
    }
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { kind, subject: subject.into(), reason: reason.into(), hint: None }
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The text that the guest gets.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            RefusalKind::Upstream => "network request failed",
            _ => "network access refused",
        };
        write!(f, "{what}: {} {}", self.subject, self.reason)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl Attempt {
    /// The attempt in a few words: `GET example.org/x`, `CONNECT example.org:443`.
    pub fn subject(&self) -> String {
        subject(&self.method, &self.host, self.port, &self.path)
    }
}

/// A request in a few words. The port is left out where the path says that it is HTTP and the port is a usual one.
pub(crate) fn subject(method: &str, host: &Host, port: u16, path: &str) -> String {
    const MAX_PATH: usize = 200;
    let short: String = path.chars().take(MAX_PATH).collect();
    let rest = if short.len() < path.len() { "…" } else { "" };
    match port {
        80 | 443 if !path.is_empty() => format!("{method} {host}{short}{rest}"),
        _ => format!("{method} {host}:{port}{short}{rest}"),
    }
}
