//! Data on the way, and where it came from.

use coracle_types::{ServerLabel, ServerName, Tool};
use std::collections::{BTreeMap, BTreeSet};

use crate::ToolNames;

/// The servers that data came from, with the labels that they had then.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sources(BTreeMap<ServerName, BTreeSet<ServerLabel>>);

impl Sources {
    /// Whether the data came from no server.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a server.
    pub fn add(&mut self, server: ServerName, labels: impl IntoIterator<Item = ServerLabel>) {
        self.0.entry(server).or_default().extend(labels);
    }

    /// Adds the servers of others.
    pub fn merge(&mut self, others: &Self) {
        for (server, labels) in &others.0 {
            self.add(server.clone(), labels.iter().copied());
        }
    }

    /// The servers, with their labels then.
    pub fn iter(&self) -> impl Iterator<Item = (&ServerName, &BTreeSet<ServerLabel>)> {
        self.0.iter()
    }
}

impl FromIterator<ServerName> for Sources {
    fn from_iter<T: IntoIterator<Item = ServerName>>(servers: T) -> Self {
        Self(servers.into_iter().map(|server| (server, BTreeSet::new())).collect())
    }
}

/// A value that was recognised as personal data.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Valuable {
    /// Its kind, such as `EMAIL`.
    pub kind: String,
    /// The servers that it came from.
    pub sources: Sources,
}

/// The data that a call carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cargo {
    /// The servers that the code has read from, also indirectly: arguments may be made of their data.
    pub sources: Sources,
    /// Personal data in the arguments.
    pub valuables: BTreeSet<Valuable>,
}

impl Cargo {
    /// No data of any server.
    pub const NONE: &'static Self = &Self { sources: Sources(BTreeMap::new()), valuables: BTreeSet::new() };
}

/// Where data goes: everything that can carry data out of Coracle is one of these.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Sink<'a> {
    /// A tool of a server.
    Tool {
        /// The tool.
        tool: &'a Tool,
        /// Its names.
        names: &'a ToolNames,
    },
}

impl Sink<'_> {
    pub(super) fn server(&self) -> &ServerName {
        match self {
            Self::Tool { tool, .. } => &tool.server,
        }
    }
}
