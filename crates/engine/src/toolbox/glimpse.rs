//! What is known about the tools that code names, without starting a server.

use super::Toolbox;
use coracle_catalog::{package_name, server_names, tool_names};
use coracle_guardrails::{Catalogue, Known};
use coracle_store::Owner;
use coracle_types::{Tool, UserId};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The servers that code names, as far as they are known.
pub(crate) struct Glimpse {
    /// Packages of all servers.
    servers: Vec<String>,
    /// Tools of the named servers, by the name in the code. `None` if a server has never listed its tools.
    named: HashMap<String, Option<Listed>>,
    /// Whether there may be other servers, which are only described.
    is_open: bool,
}

/// The tools that a server has listed.
struct Listed {
    tools: Vec<Arc<Tool>>,
    /// Whether it has listed them in this process. Otherwise they may be others by now.
    is_live: bool,
}

impl Toolbox {
    /// Looks up servers that code names.
    pub(crate) async fn glimpse(&self, user: &UserId, names: impl Iterator<Item = &str>) -> Glimpse {
        let names: BTreeSet<&str> = names.collect();
        let specs = self.upstream.servers();
        let unusable = self.unusable();
        let mut named = HashMap::new();
        for name in names {
            // Two servers can have similar names: the package of the second one has a number.
            let packages = server_names(specs.iter().map(|spec| spec.name.as_str()));
            let is_named = |wire: &str| {
                wire == name || packages.iter().any(|package| package.wire == wire && package.identifier == name)
            };
            if let Some(spec) = specs.iter().find(|spec| is_named(spec.name.as_str())) {
                self.recall(user, &spec.name).await;
                let key = (Owner::of(spec.scope, user), spec.name.clone());
                let tools = self
                    .known()
                    .get(&key)
                    .and_then(|known| Some(Listed { tools: known.tools()?.to_vec(), is_live: known.is_live() }));
                named.insert(name.to_owned(), tools);
            } else if unusable
                .iter()
                .any(|(server, _)| server.as_str() == name || package_name(server.as_str()) == name)
            {
                named.insert(name.to_owned(), None);
            }
        }
        let servers = specs.iter().map(|spec| package_name(spec.name.as_str())).collect();
        Glimpse { servers, named, is_open: self.config.registry.is_some() }
    }
}

impl Catalogue for Glimpse {
    fn look_up(&self, server: &str, tool: Option<&str>) -> Known {
        let Listed { tools, is_live } = match self.named.get(server) {
            Some(Some(listed)) => listed,
            Some(None) => return Known::Nothing,
            None if self.is_open => return Known::Nothing,
            None => return Known::NoServer { all: self.servers.clone() },
        };
        let Some(tool) = tool else { return Known::Server };
        let found = tools.iter().find(|known| known.name == tool).or_else(|| {
            let names = tool_names(tools.iter().map(|known| known.name.as_str()));
            let wire = names.iter().find(|name| name.identifier == tool).map(|name| name.wire)?;
            tools.iter().find(|known| known.name == wire)
        });
        if let Some(tool) = found {
            Known::Tool { is_read_only: tool.hints.read_only == Some(true) }
        } else {
            let names = tool_names(tools.iter().map(|known| known.name.as_str()));
            let all = names.into_iter().map(|name| name.identifier).collect();
            if *is_live { Known::NoTool { all } } else { Known::Unlisted { all } }
        }
    }
}
