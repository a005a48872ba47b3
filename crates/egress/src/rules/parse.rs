//! Rules as people write them.

use super::{HostPattern, Rule};
use crate::host::{Host, HostError, quoted};
use crate::path::PathPattern;
use thiserror::Error;

/// A rule that cannot be used, with the setting and the position in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{source_name}[{index}]: {problem}")]
pub struct RuleError {
    /// The setting that has the rule.
    pub source_name: String,
    /// Position of the rule in the list, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub problem: RuleProblem,
}

impl RuleError {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        self.problem.hint()
    }
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleProblem {
    /// There is nothing.
    #[error("the rule is empty")]
    Empty,
    /// It is a URL.
    #[error("{0} is a URL, and rules have no scheme")]
    Scheme(String),
    /// The part before the host is no list of methods.
    #[error("{0} is not an HTTP method")]
    Method(String),
    /// The port is no number between 1 and 65535.
    #[error("{0} is not a port")]
    Port(String),
    /// A `*` stands where none is allowed.
    #[error("{0} has a wildcard in a place where none is allowed")]
    Wildcard(String),
    /// The host is none.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The path pattern is wrong.
    #[error("path {path}: {reason}")]
    Path {
        /// The path of the rule.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl RuleProblem {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::Host(HostError::Empty) => "write a host, such as packages.example.com:443",
            Self::Scheme(_) => "write the host and the port: https://example.org/v1/ becomes example.org:443/v1/*",
            Self::Method(_) => {
                "write methods in upper case, separated by commas, before the host: GET,HEAD example.org"
            }
            Self::Port(_) => "write a number from 1 to 65535, or no port for 80 and 443",
            Self::Wildcard(_) => "write *.example.org for all subdomains, or * for all hosts",
            Self::Host(HostError::Address(_)) => {
                "write a host name; names that lead to private addresses are allowed in network.private_addresses"
            }
            Self::Host(_) => "write a host name, such as packages.example.com",
            Self::Path { .. } => "write a path, such as /v1/status, or /v1/* for all paths below /v1",
        }
    }
}

impl Rule {
    /// Parses `[METHODS ]HOST[:PORT][/PATH]`.
    pub fn parse(text: &str) -> Result<Self, RuleProblem> {
        let text = text.trim();
        if text.is_empty() {
            return Err(RuleProblem::Empty);
        }
        let (methods, target) = match text.split_once(char::is_whitespace) {
            Some((methods, target)) => (parse_methods(methods)?, target.trim_start()),
            None => (Vec::new(), text),
        };
        if target.contains("://") {
            return Err(RuleProblem::Scheme(quoted(target)));
        }
        let (authority, path) = match target.find('/') {
            Some(at) => (&target[..at], Some(&target[at..])),
            None => (target, None),
        };
        let (host, port) = match authority.rsplit_once(':') {
            // More than one colon is an IPv6 address, which `Host` explains.
            Some((host, _)) if host.contains(':') => (authority, None),
            Some((host, port)) if !authority.ends_with(']') => (host, Some(parse_port(port)?)),
            _ => (authority, None),
        };
        let path = path
            .map(|path| PathPattern::parse(path).map_err(|reason| RuleProblem::Path { path: quoted(path), reason }));
        Ok(Self { methods, hosts: parse_hosts(host)?, port, path: path.transpose()? })
    }
}

fn parse_methods(text: &str) -> Result<Vec<String>, RuleProblem> {
    let is_method = |method: &str| !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let methods = text.split(',').map(|method| {
        if is_method(method) && method != "CONNECT" {
            Ok(method.to_owned())
        } else {
            Err(RuleProblem::Method(quoted(method)))
        }
    });
    methods.collect()
}

fn parse_port(text: &str) -> Result<u16, RuleProblem> {
    let port = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    port.filter(|port| *port != 0).ok_or_else(|| RuleProblem::Port(quoted(text)))
}

fn parse_hosts(text: &str) -> Result<HostPattern, RuleProblem> {
    if text == "*" {
        return Ok(HostPattern::Any);
    }
    let parent = text.strip_prefix("*.");
    let name = parent.unwrap_or(text);
    if name.contains('*') {
        return Err(RuleProblem::Wildcard(quoted(text)));
    }
    let host = Host::parse(name)?;
    Ok(if parent.is_some() { HostPattern::Below(host) } else { HostPattern::Exact(host) })
}

#[cfg(test)]
mod tests {
    use super::{Rule, RuleProblem};

    #[test]
    fn rules_are_written_back_in_their_usual_form() {
        for (text, usual) in [
            ("packages.example.com:443", "packages.example.com:443"),
            (" *.Example.ORG. ", "*.example.org"),
            ("GET   *.example.org", "GET *.example.org"),
            ("GET,POST api.example.com:443/v1/*", "GET,POST api.example.com:443/v1/*"),
            ("*", "*"),
            ("*:8080", "*:8080"),
            ("GET */health", "GET */health"),
        ] {
            assert_eq!(Rule::parse(text).unwrap().to_string(), usual);
        }
    }

    #[test]
    fn wrong_rules_say_how_to_write_them() {
        let problem = |text: &str| Rule::parse(text).expect_err(text);
        assert_eq!(problem("  "), RuleProblem::Empty);
        assert!(matches!(problem("https://example.org/"), RuleProblem::Scheme(_)));
        assert!(matches!(problem("get example.org"), RuleProblem::Method(_)));
        assert!(matches!(problem("CONNECT example.org"), RuleProblem::Method(_)));
        assert!(matches!(problem("GET, POST example.org"), RuleProblem::Method(_)));
        for port in ["0", "65536", "http", "", "+443", "*"] {
            assert!(matches!(problem(&format!("example.org:{port}")), RuleProblem::Port(_)), "{port}");
        }
        for host in ["*example.org", "example.*", "a.*.org", "**", "*.*.org"] {
            assert!(matches!(problem(host), RuleProblem::Wildcard(_)), "{host}");
        }
        for host in ["10.0.0.1", "[::1]:443", "[::1]", "::1", "0x7f.1:80"] {
            let problem = problem(host);
            assert!(problem.hint().contains("private_addresses"), "{host}: {problem}");
        }
        assert!(matches!(problem("user@example.org"), RuleProblem::Host(_)));
        assert!(matches!(problem("GET example.org extra"), RuleProblem::Host(_)));
        assert!(matches!(problem("example.org/a?b"), RuleProblem::Path { .. }));
    }
}
