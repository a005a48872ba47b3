//! Rules: which requests are allowed.

mod parse;

use std::fmt;

use crate::host::Host;
use crate::path::PathPattern;

pub use parse::{RuleError, RuleProblem};

/// Ports of rules that name none.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// Which requests are allowed: layers of rules, for example those of the operator and those of one user. A request is
/// allowed if each layer has a rule that allows it.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Never empty.
    layers: Vec<Layer>,
}

#[derive(Clone, Debug)]
struct Layer {
    /// The setting that the rules are from, for messages.
    source: String,
    rules: Vec<Rule>,
}

/// One rule: `GET,HEAD api.example.com:443/v1/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Empty for any method.
    methods: Vec<String>,
    hosts: HostPattern,
    port: Option<u16>,
    path: Option<PathPattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Any,
    Exact(Host),
    Below(Host),
}

/// What one HTTP request asks for, as far as rules look at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) host: &'a Host,
    pub(crate) port: u16,
    pub(crate) path: &'a str,
}

impl Rules {
    /// Parses rules, one per item. `source` is the setting that has them, such as `network.allow`; denials and errors
    /// name it. Without items, nothing is allowed.
    pub fn parse<T: AsRef<str>>(source: &str, lines: impl IntoIterator<Item = T>) -> Result<Self, RuleError> {
        let rules = lines.into_iter().enumerate().map(|(index, line)| {
            Rule::parse(line.as_ref()).map_err(|problem| RuleError { source_name: source.to_owned(), index, problem })
        });
        Ok(Self { layers: vec![Layer { source: source.to_owned(), rules: rules.collect::<Result<_, _>>()? }] })
    }

    /// Allows only what both allow.
    #[must_use]
    pub fn narrowed_by(mut self, other: Self) -> Self {
        self.layers.extend(other.layers);
        self
    }

    /// Whether no request at all can be allowed.
    pub fn is_empty(&self) -> bool {
        self.layers.iter().any(|layer| layer.rules.is_empty())
    }

    /// Whether requests to a host must be read to decide about them, since a rule names methods or paths.
    pub fn is_restricted(&self, host: &Host, port: u16) -> bool {
        let mut rules = self.layers.iter().flat_map(|layer| &layer.rules);
        rules.any(|rule| rule.reaches(host, port) && rule.is_restricted())
    }

    /// Whether any rule names methods or paths.
    pub fn has_restrictions(&self) -> bool {
        self.layers.iter().flat_map(|layer| &layer.rules).any(Rule::is_restricted)
    }

    /// Fails with the name of the first layer that allows no request at all to this host and port.
    pub(crate) fn reaches(&self, host: &Host, port: u16) -> Result<(), &str> {
        self.each(|rule| rule.reaches(host, port))
    }

    /// Fails with the name of the first layer that does not allow the request.
    pub(crate) fn allows(&self, asked: Asked<'_>) -> Result<(), &str> {
        self.each(|rule| rule.allows(asked))
    }

    fn each(&self, allows: impl Fn(&Rule) -> bool) -> Result<(), &str> {
        match self.layers.iter().find(|layer| !layer.rules.iter().any(&allows)) {
            Some(layer) => Err(&layer.source),
            None => Ok(()),
        }
    }
}

impl Rule {
    fn reaches(&self, host: &Host, port: u16) -> bool {
        let host_fits = match &self.hosts {
            HostPattern::Any => true,
            HostPattern::Exact(exact) => exact == host,
            HostPattern::Below(parent) => host.is_below(parent),
        };
        host_fits && self.port.map_or_else(|| DEFAULT_PORTS.contains(&port), |own| own == port)
    }

    fn allows(&self, asked: Asked<'_>) -> bool {
        self.reaches(asked.host, asked.port)
            && (self.methods.is_empty() || self.methods.iter().any(|method| method == asked.method))
            && self.path.as_ref().is_none_or(|path| path.matches(asked.path))
    }

    fn is_restricted(&self) -> bool {
        !self.methods.is_empty() || self.path.is_some()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            write!(f, "{} ", self.methods.join(","))?;
        }
        match &self.hosts {
            HostPattern::Any => write!(f, "*")?,
            HostPattern::Exact(host) => write!(f, "{host}")?,
            HostPattern::Below(parent) => write!(f, "*.{parent}")?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        self.path.as_ref().map_or(Ok(()), |path| write!(f, "{path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Rules};
    use crate::host::Host;

    fn rules(lines: &[&str]) -> Rules {
        Rules::parse("network.allow", lines).unwrap()
    }

    fn allows(rules: &Rules, method: &str, host: &str, port: u16, path: &str) -> bool {
        let host = Host::parse(host).unwrap();
        rules.allows(Asked { method, host: &host, port, path }).is_ok()
    }

    #[test]
    fn host_and_port_decide() {
        let rules = rules(&["packages.example.com:443", "*.example.org", "BÜCHER.example:8080"]);
        assert!(allows(&rules, "GET", "packages.example.com", 443, "/"));
        assert!(!allows(&rules, "GET", "packages.example.com", 80, "/"));
        assert!(allows(&rules, "PUT", "a.b.example.org", 80, "/"));
        assert!(!allows(&rules, "PUT", "a.b.example.org", 8080, "/"));
        assert!(!allows(&rules, "GET", "example.org", 443, "/"));
        assert!(!allows(&rules, "GET", "evilexample.org", 443, "/"));
        assert!(allows(&rules, "GET", "xn--bcher-kva.example", 8080, "/"));
    }

    #[test]
    fn method_and_path_decide_and_are_restrictions() {
        let rules = rules(&["GET,HEAD *.example.org", "POST api.example.com:443/v1/*"]);
        assert!(allows(&rules, "HEAD", "a.example.org", 443, "/x"));
        assert!(!allows(&rules, "POST", "a.example.org", 443, "/x"));
        assert!(!allows(&rules, "get", "a.example.org", 443, "/x"));
        assert!(allows(&rules, "POST", "api.example.com", 443, "/v1/x"));
        assert!(!allows(&rules, "POST", "api.example.com", 443, "/v1/../x"));
        assert!(!allows(&rules, "POST", "api.example.com", 443, "/v2/x"));
        assert!(rules.is_restricted(&Host::parse("a.example.org").unwrap(), 443));
        assert!(!rules.is_restricted(&Host::parse("b.example.com").unwrap(), 443));
    }

    #[test]
    fn without_rules_nothing_is_allowed() {
        assert!(!allows(&rules(&[]), "GET", "example.org", 443, "/"));
        assert!(allows(&rules(&["*"]), "GET", "example.org", 443, "/"));
    }

    #[test]
    fn each_layer_must_allow_and_the_one_that_does_not_is_named() {
        let user = Rules::parse("network.users.alice", ["a.example.org"]).unwrap();
        let both = rules(&["*.example.org"]).narrowed_by(user);
        assert!(allows(&both, "GET", "a.example.org", 443, "/"));
        let other = Host::parse("b.example.org").unwrap();
        assert_eq!(both.reaches(&other, 443), Err("network.users.alice"));
        assert_eq!(both.reaches(&Host::parse("c.example").unwrap(), 443), Err("network.allow"));
    }
}
