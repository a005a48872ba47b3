//! Entries of servers, in the formats of several clients.

use super::{Gathered, GatheredServer, Source};
use crate::Origin;
use crate::keys::{
    Kind, OLD_SERVERS, SERVER_DENIED_TOOLS, SERVER_IGNORED, SERVER_KEYS, SERVER_ONLY_TOOLS, SERVER_SYNONYMS, SERVERS,
};
use crate::problem::{Problem, Reason, Warning};
use crate::settings::McpServer;
use crate::suggest::nearest;
use crate::value;
use crate::yaml::{Content, Node};
use serde_json::{Map, Value};

impl Gathered {
    /// Adds servers by name.
    pub(super) fn server_map(&mut self, node: &Node, source: &Source<'_>) {
        let entries = match &node.content {
            Content::Map(entries) => entries,
            Content::Null => return,
            _ => {
                let reason =
                    Reason::WrongType { expected: "a map of servers".to_owned(), found: node.what().to_owned() };
                return self.problem((source.origin)(node.place), SERVERS, reason);
            }
        };
        for (name, node) in entries {
            let key = format!("{SERVERS}.{}", name.text);
            let Some(read) = self.server(&name.text, &key, node, source) else { continue };
            let origin = (source.origin)(name.place);
            let server = GatheredServer { entry: read, origin, base: source.base.clone() };
            self.servers.insert(name.text.clone(), server);
        }
    }

    /// Adds servers in a list with names, the format of earlier tools.
    pub(super) fn server_list(&mut self, node: &Node, source: &Source<'_>) {
        let items = match &node.content {
            Content::List(items) => items,
            Content::Null => return,
            // The current format under the older name.
            Content::Map(_) => return self.server_map(node, source),
            Content::Scalar(..) => {
                let reason =
                    Reason::WrongType { expected: "a list of servers".to_owned(), found: node.what().to_owned() };
                return self.problem((source.origin)(node.place), OLD_SERVERS, reason);
            }
        };
        for (index, item) in items.iter().enumerate() {
            let key = format!("{OLD_SERVERS}[{index}]");
            let Some(name) = name_of(item) else {
                self.problem((source.origin)(item.place), &key, Reason::Missing { name: "name" });
                continue;
            };
            let Some(read) = self.server(&name, &key, item, source) else { continue };
            let origin = (source.origin)(item.place);
            if self.servers.get(&name).is_some_and(|known| same_place(&known.origin, &origin)) {
                let reason = Reason::Twice { first: format!("{SERVERS}.{name}"), second: key.clone() };
                self.problem(origin, &key, reason);
                continue;
            }
            self.servers.insert(name, GatheredServer { entry: read, origin, base: source.base.clone() });
        }
    }

    fn server(&mut self, name: &str, key: &str, node: &Node, source: &Source<'_>) -> Option<McpServer> {
        let mut read = entry(key, node, source);
        for (tool, origin) in read.denied.drain(..) {
            let pattern = format!("{name}.{}", tool.replace('\\', r"\\").replace('*', r"\*"));
            // A rule about the same tool takes precedence.
            self.tools.entry(pattern).or_insert((Value::from("deny"), origin));
        }
        self.warnings.append(&mut read.warnings);
        let whole = read.problems.is_empty();
        self.problems.append(&mut read.problems);
        read.server.filter(|_| whole)
    }
}

/// Whether both are in the same file. Variables and flags may repeat entries of a file.
fn same_place(one: &crate::Origin, other: &crate::Origin) -> bool {
    use crate::Origin::File;
    matches!((one, other), (File { path: one, .. }, File { path: other, .. }) if one == other)
}

fn name_of(item: &Node) -> Option<String> {
    let Content::Map(entries) = &item.content else { return None };
    entries.iter().find_map(|(name, node)| match &node.content {
        Content::Scalar(text, _) if name.text == "name" => Some(text.clone()),
        _ => None,
    })
}

/// The result of reading one entry.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) server: Option<McpServer>,
    /// Tools that the entry denies.
    pub(crate) denied: Vec<(String, Origin)>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Warning>,
}

/// Reads one entry.
pub(crate) fn entry(key: &str, node: &Node, source: &Source<'_>) -> Read {
    let mut read = Read::default();
    let Content::Map(entries) = &node.content else {
        let reason = Reason::WrongType { expected: "a map".to_owned(), found: node.what().to_owned() };
        read.problems.push(Problem { origin: (source.origin)(node.place), key: key.to_owned(), reason });
        return read;
    };
    let mut fields = Map::new();
    for (name, node) in entries {
        let written = name.text.as_str();
        let problem =
            |place, reason| Problem { origin: (source.origin)(place), key: format!("{key}.{written}"), reason };
        let ours = SERVER_SYNONYMS.iter().find(|(theirs, _)| *theirs == written).map_or(written, |(_, ours)| *ours);
        let (ours, kind) = if written == "enabled" {
            ("disabled", Kind::Truth)
        } else if let Some(&(ours, kind)) = SERVER_KEYS.iter().find(|(known, _)| *known == ours) {
            (ours, kind)
        } else if SERVER_DENIED_TOOLS.contains(&written) {
            match value::from_node(Kind::Texts, node, source.base) {
                Ok(tools) => {
                    let tools = tools.as_ref().and_then(Value::as_array).into_iter().flatten();
                    let tools = tools.filter_map(Value::as_str).filter(|tool| !tool.is_empty());
                    read.denied.extend(tools.map(|tool| (tool.to_owned(), (source.origin)(name.place))));
                }
                Err(reason) => read.problems.push(problem(node.place, reason)),
            }
            continue;
        } else if written == SERVER_ONLY_TOOLS {
            let is_empty = match &node.content {
                Content::Null => true,
                Content::List(tools) => tools.is_empty(),
                _ => false,
            };
            if !is_empty {
                let instead = "write it as policy.tools: deny \"SERVER.*\", and allow \"SERVER.TOOL\" for each of them";
                read.problems.push(problem(name.place, Reason::NotFollowed { instead: instead.to_owned() }));
            }
            continue;
        } else if SERVER_IGNORED.contains(&written) {
            if written != "name" {
                let message = format!("`{key}.{written}` has no meaning for Coracle and is ignored");
                read.warnings.push(Warning { origin: (source.origin)(name.place), message });
            }
            continue;
        } else {
            let known = SERVER_KEYS.iter().map(|(known, _)| *known);
            let suggestion = nearest(written, known.clone()).map(str::to_owned);
            let known = known.map(str::to_owned).collect();
            read.problems.push(problem(name.place, Reason::UnknownKey { suggestion, known }));
            continue;
        };
        match value::from_node(kind, node, source.base) {
            Ok(None) => {}
            Ok(Some(Value::Bool(truth))) if written == "enabled" => {
                fields.insert(ours.to_owned(), Value::Bool(!truth));
            }
            Ok(Some(value)) => {
                if fields.insert(ours.to_owned(), value).is_some() {
                    let reason = Reason::Twice { first: ours.to_owned(), second: written.to_owned() };
                    read.problems.push(problem(name.place, reason));
                }
            }
            Err(reason) => read.problems.push(problem(node.place, reason)),
        }
    }
    // All fields were checked above, so this cannot fail. The error could contain a value.
    if let Ok(server) = serde_json::from_value(Value::Object(fields)) {
        read.server = Some(server);
    } else {
        let reason = Reason::WrongType { expected: "a server".to_owned(), found: "something else".to_owned() };
        read.problems.push(Problem { origin: (source.origin)(node.place), key: key.to_owned(), reason });
    }
    read
}
