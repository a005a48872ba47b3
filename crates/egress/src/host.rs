//! Host names in the one form in which they are compared.

use std::fmt;

use thiserror::Error;

/// Longest name that DNS can carry.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
/// Longest part of a rejected name that an error quotes.
const MAX_QUOTED: usize = 80;

/// Characters that have a meaning to one parser of addresses or another. They are rejected before IDNA, which maps some
/// characters to others and drops some.
const FORBIDDEN: &[char] = &['%', '@', '/', '\\', '?', '#', '<', '>', '^', '|', '*', '"', '\'', '`', ','];

/// Host name as ASCII, in lower case, without a trailing dot. Never an IP address, in any spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(String);

/// Why a text is no host name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostError {
    /// There is no name.
    #[error("the host name is empty")]
    Empty,
    /// It has a character that names never have.
    #[error("host name {0} contains a character that is not allowed in host names")]
    Character(String),
    /// It is an IP address, in whatever spelling.
    #[error("{0} is an IP address; only host names are allowed")]
    Address(String),
    /// It is not a name for another reason.
    #[error("{0} is not a valid host name")]
    Invalid(String),
}

impl Host {
    /// Parses a host name that a person wrote or a guest sent.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        let is_forbidden = |c: char| c.is_control() || c.is_whitespace() || FORBIDDEN.contains(&c);
        if text.contains(is_forbidden) {
            return Err(HostError::Character(quoted(text)));
        }
        if text.contains([':', '[', ']']) {
            return Err(HostError::Address(quoted(text)));
        }
        let name = match url::Host::parse(text) {
            Ok(url::Host::Domain(name)) => name,
            Ok(url::Host::Ipv4(_) | url::Host::Ipv6(_)) => return Err(HostError::Address(quoted(text))),
            // What ends in a number is an IPv4 address that is wrong: libraries differ in how they read it.
            Err(url::ParseError::InvalidIpv4Address | url::ParseError::InvalidIpv6Address) => {
                return Err(HostError::Address(quoted(text)));
            }
            Err(_) => return Err(HostError::Invalid(quoted(text))),
        };
        let name = name.strip_suffix('.').unwrap_or(&name);
        if is_name(name) { Ok(Self(name.to_owned())) } else { Err(HostError::Invalid(quoted(text))) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is a subdomain of `parent`, at any depth.
    pub fn is_below(&self, parent: &Host) -> bool {
        self.0.strip_suffix(parent.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
    };
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

/// A text that may be hostile, shortened and escaped, for a message.
pub(crate) fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_QUOTED).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::{Host, HostError};

    fn host(text: &str) -> String {
        Host::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).as_str().to_owned()
    }

    #[test]
    fn names_are_compared_in_one_form() {
        assert_eq!(host("Example.ORG."), "example.org");
        assert_eq!(host("bücher.example"), "xn--bcher-kva.example");
        assert_eq!(host("XN--BCHER-KVA.example"), "xn--bcher-kva.example");
        assert_eq!(host("exa\u{ad}mple\u{3002}org"), "example.org");
        assert_eq!(host("my_service.internal"), "my_service.internal");
    }

    #[test]
    fn characters_with_a_meaning_elsewhere_are_rejected() {
        for text in [
            "a.org\0.b.org",
            "a%2eorg",
            "u@a.org",
            "a.org\n",
            "a b.org",
            "a.org/x",
            "a\\b.org",
            "*.a.org",
            "a.org\u{7f}",
        ] {
            assert!(matches!(Host::parse(text), Err(HostError::Character(_))), "{text:?}");
        }
        assert_eq!(Host::parse(""), Err(HostError::Empty));
        for text in [".", "a..b", ".a.org", "a.org..", &"a.".repeat(200), &format!("{}.org", "a".repeat(64))] {
            assert!(matches!(Host::parse(text), Err(HostError::Invalid(_))), "{text:?}");
        }
        assert_eq!(host(&format!("{}.org", "a".repeat(63))).len(), 67);
    }

    #[test]
    fn addresses_are_rejected_in_every_spelling() {
        let spellings = [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "017700000001",
            "0177.0.0.1",
            "127.0.0.1.",
            "１２７.0.0.1",
            "[::1]",
            "::1",
            "[::ffff:127.0.0.1]",
            "::ffff:7f00:1",
            "1.2.3.4.5",
            "a.org.1",
            "256.1.1.1",
        ];
        for text in spellings {
            assert!(matches!(Host::parse(text), Err(HostError::Address(_))), "{text:?}: {:?}", Host::parse(text));
        }
        assert_eq!(host("1.2.3.4.example.org"), "1.2.3.4.example.org");
    }

    #[test]
    fn a_subdomain_is_below_and_a_longer_name_is_not() {
        let (parent, child) = (Host::parse("example.org").unwrap(), Host::parse("a.b.example.org").unwrap());
        assert!(child.is_below(&parent));
        assert!(!parent.is_below(&parent));
        assert!(!Host::parse("notexample.org").unwrap().is_below(&parent));
    }
}
