//! The parts of the HTTP server, which can be served apart.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A part of the HTTP server. Probes and metrics are always served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// `/mcp`, for MCP clients.
    Mcp,
    /// `/api` and `/v1`, for programs.
    Api,
    /// The pages for people, and signing in with a browser.
    Page,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::Mcp, Self::Api, Self::Page];

    /// Name of the part on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Api => "api",
            Self::Page => "page",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|part| part.as_str() == name).ok_or_else(|| "use mcp, api or page".to_owned())
    }
}

/// The parts that a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts(BTreeSet<Part>);

impl Parts {
    /// Only these parts.
    pub fn only(parts: impl IntoIterator<Item = Part>) -> Self {
        Self(parts.into_iter().collect())
    }

    /// Whether this part is served.
    pub fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }
}

impl Default for Parts {
    fn default() -> Self {
        Self::only(Part::ALL)
    }
}
