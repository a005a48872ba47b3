//! Collects values from all sources in order of precedence, with all problems.

mod entries;
mod provider;
mod server;

use crate::Origin;
use crate::environment::{self, SERVERS_VARIABLE};
use crate::keys::{self, APPROVERS, Kind, OLD_SERVERS, SERVERS, TOOLS};
use crate::problem::{Problem, Reason, Warning};
use crate::providers::{Field, GatheredProvider};
use crate::settings::McpServer;
use crate::suggest::nearest;
use crate::value::{self, Base};
use crate::yaml::{Content, Node, Place};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

pub(crate) use server::entry;

/// A value from the command line.
#[derive(Clone)]
pub struct Flag {
    /// The key, such as `execution.limits.time`.
    pub key: String,
    /// The value as text.
    pub value: String,
    /// The flag, such as `--timeout`.
    pub name: String,
}

impl fmt::Debug for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flag").field("key", &self.key).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A server and its origin.
#[derive(Clone, Debug)]
pub(crate) struct GatheredServer {
    pub(crate) entry: McpServer,
    pub(crate) origin: Origin,
    pub(crate) base: Base,
}

/// The values with the highest precedence.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) values: BTreeMap<&'static str, (Value, Origin)>,
    /// The origins of entries of lists and of their keys: `policy.rules.0`, `policy.rules.0.require`.
    pub(crate) entries: BTreeMap<String, Origin>,
    pub(crate) tools: BTreeMap<String, (Value, Origin)>,
    pub(crate) flows: Vec<(String, Origin)>,
    pub(crate) approvers: BTreeMap<String, (Value, Origin)>,
    pub(crate) servers: BTreeMap<String, GatheredServer>,
    pub(crate) providers: BTreeMap<String, GatheredProvider>,
    /// Keys of providers from variables that other programs use, too. Weaker than all entries of `agent.providers`.
    pub(crate) provider_variables: BTreeMap<(&'static str, &'static str), Field>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Warning>,
}

/// The source of the current values.
pub(crate) struct Source<'a> {
    pub(crate) origin: &'a dyn Fn(Place) -> Origin,
    pub(crate) base: &'a Base,
}

impl Gathered {
    /// Adds the settings file.
    pub(crate) fn file(&mut self, path: &Path, root: &Node, base: &Base) {
        let origin = |place: Place| Origin::File { path: path.to_owned(), line: place.line, column: place.column };
        let source = Source { origin: &origin, base };
        match &root.content {
            Content::Null => {}
            Content::Map(_) => self.section("", root, &source),
            _ => {
                let reason = Reason::WrongType { expected: "a map".to_owned(), found: root.what().to_owned() };
                self.problem(origin(root.place), "(the file)", reason);
            }
        }
    }

    fn section(&mut self, path: &str, node: &Node, source: &Source<'_>) {
        let entries = match &node.content {
            Content::Map(entries) => entries,
            Content::Null => return,
            _ => {
                let reason = Reason::WrongType { expected: "a map".to_owned(), found: node.what().to_owned() };
                return self.problem((source.origin)(node.place), path, reason);
            }
        };
        for (name, node) in entries {
            let full = if path.is_empty() { name.text.clone() } else { format!("{path}.{}", name.text) };
            if full == SERVERS {
                self.server_map(node, source);
            } else if full == OLD_SERVERS {
                self.server_list(node, source);
            } else if let Some(key) = keys::find(&full) {
                // The line is that of the key, but the column of a wrong value is more useful.
                self.value(key.path, key.kind, node, &(source.origin)(name.place), source);
            } else if keys::is_section(&full) {
                self.section(&full, node, source);
            } else {
                self.problem((source.origin)(name.place), &full, unknown_key(path, &name.text));
            }
        }
    }

    fn value(&mut self, path: &'static str, kind: Kind, node: &Node, origin: &Origin, source: &Source<'_>) {
        match kind {
            Kind::Decisions | Kind::Approvers => return self.by_pattern(kind, node, source),
            Kind::Rules => return self.rules(path, node, source),
            Kind::Providers => return self.provider_map(node, source),
            Kind::Entries(fields) => return self.entries(path, fields, node, origin, source),
            _ => {}
        }
        match value::from_node(kind, node, source.base) {
            Ok(Some(value)) => {
                self.values.insert(path, (value, origin.clone()));
            }
            Ok(None) => {}
            Err(reason) => self.problem((source.origin)(node.place), path, reason),
        }
    }

    /// Adds decisions or approvers, each of which has its own line.
    fn by_pattern(&mut self, kind: Kind, node: &Node, source: &Source<'_>) {
        let path = if kind == Kind::Approvers { APPROVERS } else { TOOLS };
        let entries = match &node.content {
            Content::Map(entries) => entries,
            Content::Null => return,
            _ => {
                let reason = value::wrong_type(kind, node.what());
                return self.problem((source.origin)(node.place), path, reason);
            }
        };
        for (name, node) in entries {
            let key = format!("{path}.{}", name.text);
            let read = if kind == Kind::Approvers { value::approvers } else { value::decision };
            match value::pattern(&name.text).and_then(|()| read(node)) {
                Ok(value) => {
                    let gathered = if kind == Kind::Approvers { &mut self.approvers } else { &mut self.tools };
                    gathered.insert(name.text.clone(), (value, (source.origin)(name.place)));
                }
                Err(Reason::Pattern) => self.problem((source.origin)(name.place), &key, Reason::Pattern),
                Err(reason) => self.problem((source.origin)(node.place), &key, reason),
            }
        }
    }

    /// Adds rules. A rule that is there already is not added again.
    fn rules(&mut self, path: &'static str, node: &Node, source: &Source<'_>) {
        let items = match &node.content {
            Content::List(items) => items.as_slice(),
            Content::Null => return,
            _ => {
                let reason = value::wrong_type(Kind::Rules, node.what());
                return self.problem((source.origin)(node.place), path, reason);
            }
        };
        for (number, item) in items.iter().enumerate() {
            let origin = (source.origin)(item.place);
            match &item.content {
                Content::Scalar(text, _) if !self.flows.iter().any(|(known, _)| known == text) => {
                    self.flows.push((text.clone(), origin));
                }
                Content::Scalar(..) => {}
                // `a -> b: deny` without quotation marks is a map in YAML.
                _ => {
                    let found = format!("{}: put the rule in quotation marks", item.what());
                    let reason = Reason::WrongType { expected: "a string".to_owned(), found };
                    self.problem(origin, &format!("{path}[{number}]"), reason);
                }
            }
        }
    }

    /// Adds variables, from the environment or from a file.
    pub(crate) fn variables<'a>(
        &mut self,
        lookup: impl Fn(&str) -> Option<&'a str>,
        origin: impl Fn(&str) -> Origin,
        base: &Base,
    ) {
        for said in environment::said(&lookup) {
            let from = origin(&said.name);
            let place = |_: Place| from.clone();
            let source = Source { origin: &place, base };
            let known = self.problems.len();
            self.text(said.key.path, said.key.kind, said.text, &source);
            if !said.is_ours && !keys::protects(said.key.path) {
                // Another program may use the name with another meaning.
                for problem in self.problems.drain(known..) {
                    let message = format!("it is ignored: `{}` {}", problem.key, problem.reason);
                    self.warnings.push(Warning { origin: problem.origin, message });
                }
            }
        }
        self.usual_provider_variables(&lookup, &origin);
        if let Some(text) = lookup(SERVERS_VARIABLE).filter(|text| !text.trim().is_empty()) {
            let from = origin(SERVERS_VARIABLE);
            self.servers_text(text, &Source { origin: &|_| from.clone(), base });
        }
    }

    /// Adds the flags of the command line.
    pub(crate) fn flags(&mut self, flags: &[Flag], base: &Base) {
        for flag in flags {
            let from = Origin::Flag { name: flag.name.clone() };
            let place = |_: Place| from.clone();
            let source = Source { origin: &place, base };
            if flag.key == SERVERS {
                self.servers_text(&flag.value, &source);
            } else if let Some(key) = keys::find(&flag.key) {
                self.text(key.path, key.kind, &flag.value, &source);
            } else {
                let (section, name) = flag.key.rsplit_once('.').unwrap_or(("", &flag.key));
                self.problem(from.clone(), &flag.key, unknown_key(section, name));
            }
        }
    }

    fn text(&mut self, path: &'static str, kind: Kind, text: &str, source: &Source<'_>) {
        let origin = (source.origin)(Place::default());
        let is_composite =
            matches!(kind, Kind::Decisions | Kind::Approvers | Kind::Rules | Kind::Providers | Kind::Entries(_));
        if is_composite {
            match Node::parse(text) {
                Ok(node) => self.value(path, kind, &node, &origin, source),
                Err(error) => self.problem(origin, path, Reason::Unparsable { message: error.message }),
            }
            return;
        }
        match value::from_text(kind, text, source.base) {
            Ok(value) => {
                self.values.insert(path, (value, origin));
            }
            Err(reason) => self.problem(origin, path, reason),
        }
    }

    fn servers_text(&mut self, text: &str, source: &Source<'_>) {
        match Node::parse(text) {
            Ok(node) if matches!(node.content, Content::List(_)) => self.server_list(&node, source),
            Ok(node) => self.server_map(&node, source),
            Err(error) => {
                let reason = Reason::Unparsable { message: error.message };
                self.problem((source.origin)(Place::default()), SERVERS, reason);
            }
        }
    }

    fn problem(&mut self, origin: Origin, key: &str, reason: Reason) {
        self.problems.push(Problem { origin, key: key.to_owned(), reason });
    }
}

/// The reason for a key that is unknown in a section, with a suggestion.
fn unknown_key(section: &str, name: &str) -> Reason {
    let known = keys::names_in(section);
    let near = nearest(name, known.iter().copied()).map(str::to_owned);
    // The right name in the wrong section.
    let elsewhere = || {
        let mut others = keys::KEYS.iter().filter(|key| key.path.rsplit('.').next() == Some(name));
        others.next().map(|key| key.path.to_owned())
    };
    let suggestion = near.or_else(elsewhere);
    Reason::UnknownKey { suggestion, known: known.into_iter().map(str::to_owned).collect() }
}
