//! The catalogue of all tools of all servers: listing, rendering and argument checks.

mod categories;
mod search;

pub use categories::Category;
pub use search::{Direction, Foreign, Group, Hit, MAX_DIMENSIONS, Query, Unread, Uses};

use crate::layout::{self, ServerTools};
use crate::model::Module;
use crate::text::{self, DESCRIPTION_CHARS};
use crate::tree::{Tree, generate};
use crate::validator::Validator;
use crate::{python, typescript};
use coracle_types::Tool;
use search::Index;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// How much detail to render about a tool, in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Server and name.
    Name,
    /// One line of text.
    Summary,
    /// The whole definition, as JSON.
    Full,
    /// The generated Python.
    Python,
    /// The generated TypeScript.
    Typescript,
}

impl Level {
    /// Every level, in increasing order of detail.
    pub const ALL: [Self; 5] = [Self::Name, Self::Summary, Self::Full, Self::Python, Self::Typescript];

    /// The name of this level.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Summary => "summary",
            Self::Full => "full",
            Self::Python => "python",
            Self::Typescript => "typescript",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The level does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a level of detail: use name, summary, full, python or typescript")]
pub struct UnknownLevel(String);

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let found = Self::ALL.into_iter().find(|level| level.as_str() == text);
        found.ok_or_else(|| UnknownLevel(text.chars().take(40).collect()))
    }
}

/// Selects tools to list. The default selects all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only tools of this server, by its name or its package.
    pub server: Option<String>,
    /// Only tools with this text in their name or summary, ignoring case.
    pub text: Option<String>,
}

/// One tool in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The server's name on the wire and in the configuration.
    pub server: String,
    /// The package to import from.
    pub package: String,
    /// The tool's name on the wire.
    pub name: String,
    /// The function to import.
    pub function: String,
    /// One line, in the server's words.
    pub summary: String,
    /// What to do before the tool can be called. `None` if it can be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<String>,
}

impl Entry {
    /// Package and function, as in `git.git_log`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.package, self.function)
    }
}

struct Known {
    entry: Entry,
    /// Indexes into `servers` and their tools.
    place: (usize, usize),
    validator: OnceLock<Validator>,
}

/// All tools of all servers at one point in time.
pub struct Catalog {
    /// Connected servers, followed by those that are only described in the registry.
    servers: Vec<Arc<ServerTools>>,
    /// The number of connected servers.
    present: usize,
    index: Index,
    categories: OnceLock<Vec<String>>,
    /// Tools that can be called, by package and function.
    tools: Vec<Known>,
    /// Tools of servers that are not connected.
    unconnected: Vec<Known>,
    /// Indexes into `tools` followed by `unconnected`, sorted by wire names.
    by_wire: Vec<usize>,
    /// The position of each server's first tool among all tools.
    begins: Vec<usize>,
    /// For each tool in the order of the servers, its index into `tools` followed by `unconnected`, if it is in one of
    /// them.
    order: Vec<Option<usize>>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Creates a catalogue of these servers.
    pub fn new(servers: Vec<ServerTools>) -> Self {
        Self::made(servers, None)
    }

    /// Creates a catalogue that reuses the search index of servers that have not changed since `before`.
    pub fn after(servers: Vec<ServerTools>, before: &Self) -> Self {
        Self::made(servers, Some(before))
    }

    fn made(servers: Vec<ServerTools>, before: Option<&Self>) -> Self {
        let (there, unconnected): (Vec<_>, Vec<_>) = servers.into_iter().partition(|server| server.connect.is_none());
        let present = there.len();
        let servers: Vec<Arc<ServerTools>> = there.into_iter().chain(unconnected).map(Arc::new).collect();
        let index = Index::new(&servers, before.map(|before| (&before.index, before.servers.as_slice())));
        let (there, absent) = servers.split_at(present);
        let (tools, unconnected) = (known(there, 0), known(absent, present));
        let mut by_wire: Vec<(&str, &str, usize)> = tools
            .iter()
            .chain(&unconnected)
            .enumerate()
            .map(|(index, Known { entry, .. })| (entry.server.as_str(), entry.name.as_str(), index))
            .collect();
        by_wire.sort_unstable();
        let by_wire = by_wire.into_iter().map(|(_, _, index)| index).collect();
        let mut begins = Vec::with_capacity(servers.len());
        let mut count = 0;
        for server in &servers {
            begins.push(count);
            count += server.tools.len();
        }
        let mut order = vec![None; count];
        for (index, known) in tools.iter().chain(&unconnected).enumerate() {
            if let Some(place) = begins.get(known.place.0).and_then(|begin| order.get_mut(begin + known.place.1)) {
                *place = Some(index);
            }
        }
        Self { servers, present, index, categories: OnceLock::new(), tools, unconnected, by_wire, begins, order }
    }

    /// The connected servers.
    pub fn servers(&self) -> &[Arc<ServerTools>] {
        self.servers.get(..self.present).unwrap_or_default()
    }

    /// The number of tools that can be called.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether no tool can be called.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether there is a server with this name or package, connected or not.
    pub fn knows_server(&self, server: &str) -> bool {
        let is_one = |known: &Known| known.entry.server == server || known.entry.package == server;
        self.servers.iter().any(|known| known.name.as_str() == server)
            || self.tools.iter().chain(&self.unconnected).any(is_one)
    }

    /// The tools that match the filter, by package and function.
    pub fn list(&self, filter: &Filter) -> Vec<&Entry> {
        let text = filter.text.as_ref().map(|text| text.to_lowercase());
        let entries = self.tools.iter().map(|known| &known.entry);
        entries
            .filter(|entry| {
                filter.server.as_ref().is_none_or(|server| entry.server == *server || entry.package == *server)
            })
            .filter(|entry| {
                text.as_ref().is_none_or(|text| {
                    [&entry.name, &entry.function, &entry.summary].iter().any(|part| part.to_lowercase().contains(text))
                })
            })
            .collect()
    }

    /// All tools that can be called, by package and function.
    pub fn entries(&self) -> impl Iterator<Item = (&Entry, &Tool)> {
        self.tools.iter().filter_map(|known| Some((&known.entry, self.tool(known)?)))
    }

    /// All tools with their position. Those that cannot be called come last.
    pub(crate) fn searched(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let all = self.tools.iter().chain(&self.unconnected);
        all.filter_map(|known| Some((self.begins.get(known.place.0)? + known.place.1, &known.entry)))
    }

    /// The tool at this position.
    pub(crate) fn at(&self, place: usize) -> Option<&Entry> {
        let known = self.numbered((*self.order.get(place)?)?)?;
        Some(&known.entry)
    }

    /// The tool at this position, and its description.
    pub(crate) fn described(&self, place: usize) -> Option<(&Entry, &str)> {
        let known = self.numbered((*self.order.get(place)?)?)?;
        Some((&known.entry, layout::words(self.tool(known)?)))
    }

    /// The sort order of the tool at this position.
    pub(crate) fn order(&self, place: usize) -> usize {
        self.order.get(place).copied().flatten().unwrap_or(usize::MAX)
    }

    /// The position of a tool that can be called, by its wire names.
    pub(crate) fn place(&self, server: &str, tool: &str) -> Option<usize> {
        let known = self.on_the_wire(server, tool).filter(|known| known.entry.connect.is_none())?;
        Some(self.begins.get(known.place.0)? + known.place.1)
    }

    /// A tool of this catalogue, and the index of its server in `indexed`.
    pub(crate) fn locate(&self, entry: &Entry) -> Option<(usize, &Tool)> {
        let known = self.on_the_wire(&entry.server, &entry.name)?;
        Some((known.place.0, self.tool(known)?))
    }

    /// The tool at this index into `tools` followed by `unconnected`.
    fn numbered(&self, index: usize) -> Option<&Known> {
        match index.checked_sub(self.tools.len()) {
            None => self.tools.get(index),
            Some(index) => self.unconnected.get(index),
        }
    }

    /// The servers of the search index, in the same order.
    pub(crate) fn indexed(&self) -> &[Arc<ServerTools>] {
        &self.servers
    }

    /// The category of each server of `indexed`, computed on first use.
    pub(crate) fn categories_of_servers(&self) -> &[String] {
        self.categories.get_or_init(|| self.servers.iter().map(|server| categories::of_server(server)).collect())
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Finds a tool that can be called, by its wire names or its names in code.
    pub fn find(&self, server: &str, tool: &str) -> Option<(&Entry, &Tool)> {
        let known = self.known(server, tool)?;
        Some((&known.entry, self.tool(known)?))
    }

    /// The validator for the arguments of a tool, by its wire names.
    pub fn validator(&self, server: &str, tool: &str) -> Option<&Validator> {
        let known = self.known(server, tool)?;
        let definition = self.tool(known)?;
        Some(known.validator.get_or_init(|| Validator::new(definition)))
    }

    /// Renders a tool at this level of detail.
    pub fn show(&self, server: &str, tool: &str, level: Level) -> Option<String> {
        let known = self.known(server, tool).or_else(|| find(&self.unconnected, server, tool))?;
        let definition = self.tool(known)?;
        let entry = &known.entry;
        let module = || self.module(entry);
        Some(match (level, &entry.connect) {
            (Level::Name, _) => format!("{}.{}", entry.package, entry.function),
            (Level::Full, _) => self.definition(known, definition),
            (_, Some(connect)) => {
                format!("{}.{}: {} (not connected: {connect})", entry.package, entry.function, entry.summary)
            }
            (Level::Summary, None) => format!("{}.{}: {}", entry.package, entry.function, entry.summary),
            (Level::Python, None) => python::stub(&entry.package, &module()?),
            (Level::Typescript, None) => typescript::stub(&entry.package, &module()?),
        })
    }

    /// The contents of a tool's module.
    pub(crate) fn module(&self, entry: &Entry) -> Option<Module> {
        let known = self.known(&entry.server, &entry.name)?;
        Some(layout::module(self.servers.get(known.place.0)?, &entry.function, self.tool(known)?))
    }

    /// The generated modules of all tools.
    pub fn tree(&self) -> Tree {
        generate(self.servers())
    }

    /// Names of tools and servers that are similar to a mistyped one, best first.
    pub fn similar(&self, server: &str, tool: &str) -> Vec<String> {
        const MOST: usize = 3;
        let wanted = tool.to_lowercase();
        let mut found: Vec<(usize, String)> = self
            .tools
            .iter()
            .map(|known| &known.entry)
            .map(|entry| {
                let away = distance(&wanted, &entry.function.to_lowercase());
                let other_server = entry.server != server && entry.package != server;
                (away + usize::from(other_server), format!("{}.{}", entry.package, entry.function))
            })
            .filter(|(away, _)| *away <= 1 + wanted.chars().count() / 3)
            .collect();
        found.sort();
        found.into_iter().take(MOST).map(|(_, name)| name).collect()
    }

    fn known(&self, server: &str, tool: &str) -> Option<&Known> {
        let by_wire = self.on_the_wire(server, tool).filter(|known| known.entry.connect.is_none());
        by_wire.or_else(|| find(&self.tools, server, tool))
    }

    /// A tool by its wire names, whether it can be called or not.
    fn on_the_wire(&self, server: &str, tool: &str) -> Option<&Known> {
        let names =
            |index: &usize| self.numbered(*index).map(|known| (known.entry.server.as_str(), known.entry.name.as_str()));
        let place = self.by_wire.binary_search_by(|index| names(index).cmp(&Some((server, tool)))).ok()?;
        self.numbered(*self.by_wire.get(place)?)
    }

    fn tool(&self, known: &Known) -> Option<&Tool> {
        self.servers.get(known.place.0)?.tools.get(known.place.1).map(AsRef::as_ref)
    }

    fn definition(&self, known: &Known, tool: &Tool) -> String {
        let entry = &known.entry;
        let shape = self.servers.get(known.place.0).and_then(|server| server.shapes.get(&tool.name));
        let mut all = json!({
            "server": entry.server,
            "package": entry.package,
            "name": entry.name,
            "function": entry.function,
            "summary": entry.summary,
            "description": text::clean(layout::words(tool), DESCRIPTION_CHARS),
            "input_schema": tool.input_schema,
            "output_schema": tool.output_schema,
            "learned_from": shape.map(crate::Shape::seen),
            "hints": tool.hints,
            "category": self.category(entry),
            "connect": entry.connect,
        });
        if let Value::Object(fields) = &mut all {
            fields.retain(|_, value| !value.is_null());
        }
        all.to_string()
    }
}

/// A tool by its wire names or its names in code, in any combination.
fn find<'a>(tools: &'a [Known], server: &str, tool: &str) -> Option<&'a Known> {
    tools.iter().find(|known| {
        let entry = &known.entry;
        (entry.package == server || entry.server == server) && (entry.function == tool || entry.name == tool)
    })
}

/// The tools of these servers, by package and function. `first` is the index of the first server.
fn known(servers: &[Arc<ServerTools>], first: usize) -> Vec<Known> {
    let mut tools = Vec::new();
    for package in layout::packages(servers) {
        let same = |server: &Arc<ServerTools>| std::ptr::eq(Arc::as_ptr(server), package.server);
        let Some(server) = servers.iter().position(same) else { continue };
        let places: HashMap<*const Tool, usize> =
            package.server.tools.iter().enumerate().map(|(index, tool)| (Arc::as_ptr(tool), index)).collect();
        for (function, tool) in &package.tools {
            let Some(index) = places.get(&std::ptr::from_ref(*tool)) else { continue };
            let entry = Entry {
                server: package.server.name.as_str().to_owned(),
                package: package.folder.clone(),
                name: tool.name.clone(),
                function: function.clone(),
                summary: layout::summary(tool),
                connect: package.server.connect.clone(),
            };
            tools.push(Known { entry, place: (first + server, *index), validator: OnceLock::new() });
        }
    }
    tools
}

/// The edit distance between two words.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().take(crate::names::NAME_CHARS).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().take(crate::names::NAME_CHARS).enumerate() {
        let mut corner = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
