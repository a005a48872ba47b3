//! Credentials that are added to requests outside of the sandbox.

use std::fmt;

use http::{HeaderName, HeaderValue, Method};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::host::{Host, HostError};
use crate::redact::Redactor;

/// Shorter secrets cannot be told from ordinary text in responses.
const MIN_SECRET: usize = 8;
const MAX_SECRET: usize = 8 * 1024;

/// Headers that decide where a request goes and how long it is, or that the proxy sets itself.
const RESERVED: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
    "range",
    "if-range",
    "proxy-authorization",
];

/// A credential as it is configured. Its secret is wiped when it is dropped, and no message shows it.
pub struct Credential {
    /// Name of the credential, for decisions and records.
    pub id: String,
    /// The host that gets it: an exact name.
    pub host: String,
    /// The port that gets it, by TLS. Usually 443.
    pub port: u16,
    /// Methods with which it is sent. Empty for GET and HEAD.
    pub methods: Vec<String>,
    /// Name of the header, such as `authorization`.
    pub header: String,
    /// Value of the header, such as `Bearer …`.
    pub value: Zeroizing<String>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, host, port, methods, header, value: _ } = self;
        let mut shown = f.debug_struct("Credential");
        shown.field("id", id).field("host", host).field("port", port).field("methods", methods).field("header", header);
        shown.finish_non_exhaustive()
    }
}

/// A credential that cannot be used. Messages never have its value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("credential {id}: {problem}")]
pub struct CredentialError {
    /// Name of the credential.
    pub id: String,
    /// What is wrong with it.
    pub problem: CredentialProblem,
}

/// What is wrong with a credential.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CredentialProblem {
    /// The host is no exact host name.
    #[error("the host is not an exact host name: {0}")]
    Host(HostError),
    /// The port is 0.
    #[error("0 is not a port")]
    Port,
    /// A method is none, or one that is never sent.
    #[error("{0:?} is not an HTTP method that can carry a credential")]
    Method(String),
    /// The header is none, or one that the proxy sets.
    #[error("{0:?} is not a header that can carry a credential")]
    Header(String),
    /// The value cannot be a header, or is too short to be found in responses.
    #[error("the value must have {min} to {max} visible ASCII characters, not counting a scheme such as Bearer", min = MIN_SECRET, max = MAX_SECRET)]
    Value,
    /// Two credentials for the same header of the same host.
    #[error("credential {0} already sets the same header for the same host")]
    Conflict(String),
}

/// The credentials of one sandbox.
#[derive(Default)]
pub struct Credentials {
    bindings: Vec<Binding>,
}

pub(crate) struct Binding {
    pub(crate) id: String,
    host: Host,
    port: u16,
    methods: Vec<Method>,
    pub(crate) header: HeaderName,
    value: HeaderValue,
    redactor: Redactor,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.bindings.iter().map(|binding| &binding.id)).finish()
    }
}

impl Credentials {
    /// Checks credentials and the absence of conflicts among them.
    pub fn new(credentials: impl IntoIterator<Item = Credential>) -> Result<Self, CredentialError> {
        let mut bindings: Vec<Binding> = Vec::new();
        for credential in credentials {
            let id = credential.id.clone();
            let binding = Binding::new(&credential).map_err(|problem| CredentialError { id: id.clone(), problem })?;
            let is_same =
                |other: &&Binding| other.is_for(&binding.host, binding.port) && other.header == binding.header;
            if let Some(other) = bindings.iter().find(is_same) {
                return Err(CredentialError { id, problem: CredentialProblem::Conflict(other.id.clone()) });
            }
            bindings.push(binding);
        }
        Ok(Self { bindings })
    }

    /// Whether requests to a host must be read, since a credential is bound to it.
    pub fn is_bound(&self, host: &Host, port: u16) -> bool {
        self.of(host, port).next().is_some()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// All credentials of a host, whatever their methods.
    pub(crate) fn of(&self, host: &Host, port: u16) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().filter(move |binding| binding.is_for(host, port))
    }

    /// The port to which a plain request to port 80 of a host is raised, if a credential is bound to the host.
    pub(crate) fn raised_port(&self, host: &Host) -> Option<u16> {
        let mut ports = self.bindings.iter().filter(|binding| binding.host == *host).map(|binding| binding.port);
        let first = ports.next()?;
        if ports.any(|port| port == 443) { Some(443) } else { Some(first) }
    }
}

impl Binding {
    fn new(credential: &Credential) -> Result<Self, CredentialProblem> {
        let host = Host::parse(&credential.host).map_err(CredentialProblem::Host)?;
        if credential.port == 0 {
            return Err(CredentialProblem::Port);
        }
        let methods = if credential.methods.is_empty() {
            vec![Method::GET, Method::HEAD]
        } else {
            let parse = |text: &String| {
                let method = Method::from_bytes(text.as_bytes()).ok();
                let is_sent = |method: &Method| *method != Method::CONNECT && *method != Method::TRACE;
                method.filter(is_sent).ok_or_else(|| CredentialProblem::Method(text.clone()))
            };
            credential.methods.iter().map(parse).collect::<Result<_, _>>()?
        };
        let header = HeaderName::from_bytes(credential.header.as_bytes()).ok();
        let header = header.filter(|header| !RESERVED.contains(&header.as_str()));
        let header = header.ok_or_else(|| CredentialProblem::Header(credential.header.clone()))?;
        let text = credential.value.as_str();
        let secret = text.split_once(' ').map_or(text, |(_, secret)| secret);
        let is_visible = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if secret.len() < MIN_SECRET || text.len() > MAX_SECRET || !is_visible {
            return Err(CredentialProblem::Value);
        }
        let mut value = HeaderValue::from_str(text).map_err(|_| CredentialProblem::Value)?;
        value.set_sensitive(true);
        let redactor = Redactor::new(text).ok_or(CredentialProblem::Value)?;
        Ok(Self { id: credential.id.clone(), host, port: credential.port, methods, header, value, redactor })
    }

    fn is_for(&self, host: &Host, port: u16) -> bool {
        self.host == *host && self.port == port
    }

    pub(crate) fn is_sent_with(&self, method: &Method) -> bool {
        self.methods.contains(method)
    }

    pub(crate) fn value(&self) -> HeaderValue {
        self.value.clone()
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

#[cfg(test)]
mod tests {
    use super::{Credential, CredentialProblem, Credentials};
    use crate::host::Host;

    fn credential(id: &str) -> Credential {
        Credential {
            id: id.to_owned(),
            host: "api.example.com".to_owned(),
            port: 443,
            methods: Vec::new(),
            header: "Authorization".to_owned(),
            value: "Bearer s3cret-s3cret".to_owned().into(),
        }
    }

    fn problem(change: impl FnOnce(&mut Credential)) -> CredentialProblem {
        let mut credential = credential("one");
        change(&mut credential);
        Credentials::new([credential]).unwrap_err().problem
    }

    #[test]
    fn two_credentials_for_one_header_of_a_host_conflict() {
        let error = Credentials::new([credential("one"), credential("two")]).unwrap_err();
        assert_eq!(error.to_string(), "credential two: credential one already sets the same header for the same host");
        let mut other = credential("two");
        other.header = "x-api-key".to_owned();
        assert!(Credentials::new([credential("one"), other]).is_ok());
    }

    #[test]
    fn credentials_are_checked() {
        assert!(matches!(problem(|c| c.host = "*.example.com".to_owned()), CredentialProblem::Host(_)));
        assert!(matches!(problem(|c| c.host = "10.0.0.1".to_owned()), CredentialProblem::Host(_)));
        assert_eq!(problem(|c| c.port = 0), CredentialProblem::Port);
        assert!(matches!(problem(|c| c.methods = vec!["CONNECT".to_owned()]), CredentialProblem::Method(_)));
        assert!(matches!(problem(|c| c.header = "Host".to_owned()), CredentialProblem::Header(_)));
        assert!(matches!(problem(|c| c.header = "a b".to_owned()), CredentialProblem::Header(_)));
        assert_eq!(problem(|c| c.value = "Bearer short".to_owned().into()), CredentialProblem::Value);
        assert_eq!(problem(|c| c.value = "Bearer s3cret\r\nx: s3cret".to_owned().into()), CredentialProblem::Value);
    }

    #[test]
    fn nothing_shows_the_secret() {
        let shown = format!("{:?} {:?}", credential("one"), Credentials::new([credential("one")]).unwrap());
        assert!(shown.contains("one") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_plain_request_is_raised_to_the_bound_port() {
        let credentials = Credentials::new([credential("one")]).unwrap();
        assert_eq!(credentials.raised_port(&Host::parse("api.example.com").unwrap()), Some(443));
        assert_eq!(credentials.raised_port(&Host::parse("example.com").unwrap()), None);
    }
}
