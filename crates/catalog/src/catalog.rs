//! All tools of all servers, to be listed, shown and checked against.

mod categories;
mod search;

pub use categories::Category;
pub use search::{Direction, Foreign, Group, Hit, MAX_DIMENSIONS, Query, Unread, Uses};

use crate::layout::{self, ServerTools};
use crate::model::Module;
use crate::text::{self, DESCRIPTION_CHARS};
use crate::tree::{Tree, generate};
use crate::validator::Validator;
use crate::{json, python, typescript};
use coracle_types::Tool;
use search::Index;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// How much is told about a tool, from little to much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Server and name.
    Name,
    /// One line.
    Summary,
    /// The whole definition, as JSON.
    Full,
    /// The generated Python.
    Python,
    /// The generated TypeScript.
    Typescript,
}

impl Level {
    /// Every level, from little to much.
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

/// No such level.
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

/// Which tools to list. Without anything in it: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this server, by its name or by its package.
    pub server: Option<String>,
    /// Only tools with this text in their name or summary, whatever its case.
    pub text: Option<String>,
}

/// One tool in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The server on the wire and in the configuration.
    pub server: String,
    /// The package to import from.
    pub package: String,
    /// The tool on the wire.
    pub name: String,
    /// The function to import.
    pub function: String,
    /// One line, in the server's words.
    pub summary: String,
    /// What to do before it can be called; nothing if it can be.
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

/// All tools of all servers, as they were when this was made.
pub struct Catalog {
    /// Those that are there, and then those that are known by hearsay.
    servers: Vec<Arc<ServerTools>>,
    /// So many are there.
    present: usize,
    index: Index,
    categories: OnceLock<Vec<String>>,
    /// By package and function: those that can be called.
    tools: Vec<Known>,
    /// The others.
    hearsay: Vec<Known>,
    /// Places in `tools` and `hearsay`, by the names on the wire.
    by_wire: Vec<usize>,
    /// Where the tools of each server begin among those of all.
    begins: Vec<usize>,
    /// For each tool of all servers in their order: its place in `tools` and `hearsay`, if it is in one of them.
    order: Vec<Option<usize>>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Takes in what the servers offer.
    pub fn new(servers: Vec<ServerTools>) -> Self {
        Self::made(servers, None)
    }

    /// The same; what was found out for searching in servers that are as they were before is taken over.
    pub fn after(servers: Vec<ServerTools>, before: &Self) -> Self {
        Self::made(servers, Some(before))
    }

    fn made(servers: Vec<ServerTools>, before: Option<&Self>) -> Self {
        let (there, hearsay): (Vec<_>, Vec<_>) = servers.into_iter().partition(|server| server.connect.is_none());
        let present = there.len();
        let servers: Vec<Arc<ServerTools>> = there.into_iter().chain(hearsay).map(Arc::new).collect();
        let index = Index::new(&servers, before.map(|before| (&before.index, before.servers.as_slice())));
        let (there, absent) = servers.split_at(present);
        let (tools, hearsay) = (known(there, 0), known(absent, present));
        let mut by_wire: Vec<(&str, &str, usize)> = tools
            .iter()
            .chain(&hearsay)
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
        for (index, known) in tools.iter().chain(&hearsay).enumerate() {
            if let Some(place) = begins.get(known.place.0).and_then(|begin| order.get_mut(begin + known.place.1)) {
                *place = Some(index);
            }
        }
        Self { servers, present, index, categories: OnceLock::new(), tools, hearsay, by_wire, begins, order }
    }

    /// The servers that are there.
    pub fn servers(&self) -> &[Arc<ServerTools>] {
        self.servers.get(..self.present).unwrap_or_default()
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether there is such a server, by its name or package, if only by hearsay.
    pub fn knows_server(&self, server: &str) -> bool {
        let is_one = |known: &Known| known.entry.server == server || known.entry.package == server;
        self.servers.iter().any(|known| known.name.as_str() == server)
            || self.tools.iter().chain(&self.hearsay).any(is_one)
    }

    /// The tools that pass the filter, by package and function.
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

    /// Every tool, by package and function.
    pub fn entries(&self) -> impl Iterator<Item = (&Entry, &Tool)> {
        self.tools.iter().filter_map(|known| Some((&known.entry, self.tool(known)?)))
    }

    /// Every tool, with its place among those of all servers; those that cannot be called yet come last.
    pub(crate) fn searched(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let all = self.tools.iter().chain(&self.hearsay);
        all.filter_map(|known| Some((self.begins.get(known.place.0)? + known.place.1, &known.entry)))
    }

    /// What stands at this place among the tools of all servers.
    pub(crate) fn at(&self, place: usize) -> Option<&Entry> {
        let known = self.numbered((*self.order.get(place)?)?)?;
        Some(&known.entry)
    }

    /// What stands at this place, and what is said of it.
    pub(crate) fn described(&self, place: usize) -> Option<(&Entry, &str)> {
        let known = self.numbered((*self.order.get(place)?)?)?;
        Some((&known.entry, layout::words(self.tool(known)?)))
    }

    /// The order of what stands at this place.
    pub(crate) fn order(&self, place: usize) -> usize {
        self.order.get(place).copied().flatten().unwrap_or(usize::MAX)
    }

    /// The place of a tool that can be called, by the names on the wire.
    pub(crate) fn place(&self, server: &str, tool: &str) -> Option<usize> {
        let known = self.on_the_wire(server, tool).filter(|known| known.entry.connect.is_none())?;
        Some(self.begins.get(known.place.0)? + known.place.1)
    }

    /// A tool of this catalogue with the place of its server among `indexed`.
    pub(crate) fn whereabouts(&self, entry: &Entry) -> Option<(usize, &Tool)> {
        let known = self.on_the_wire(&entry.server, &entry.name)?;
        Some((known.place.0, self.tool(known)?))
    }

    /// By its place in `tools` and `hearsay`.
    fn numbered(&self, index: usize) -> Option<&Known> {
        match index.checked_sub(self.tools.len()) {
            None => self.tools.get(index),
            Some(index) => self.hearsay.get(index),
        }
    }

    /// The servers of `index`.
    pub(crate) fn indexed(&self) -> &[Arc<ServerTools>] {
        &self.servers
    }

    /// The category of each of `indexed`; found out when it is first needed.
    pub(crate) fn categories_of_servers(&self) -> &[String] {
        self.categories.get_or_init(|| self.servers.iter().map(|server| categories::of_server(server)).collect())
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// One tool, by the names on the wire or by those in code.
    pub fn find(&self, server: &str, tool: &str) -> Option<(&Entry, &Tool)> {
        let known = self.known(server, tool)?;
        Some((&known.entry, self.tool(known)?))
    }

    /// Checks the arguments of a call by the names on the wire; `None` if there is no such tool.
    pub fn validator(&self, server: &str, tool: &str) -> Option<&Validator> {
        let known = self.known(server, tool)?;
        let definition = self.tool(known)?;
        Some(known.validator.get_or_init(|| Validator::new(definition)))
    }

    /// What is told about one tool at a level; `None` if there is no such tool.
    pub fn show(&self, server: &str, tool: &str, level: Level) -> Option<String> {
        let known = self.known(server, tool).or_else(|| find(&self.hearsay, server, tool))?;
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

    /// What the module of a tool says.
    pub(crate) fn module(&self, entry: &Entry) -> Option<Module> {
        let known = self.known(&entry.server, &entry.name)?;
        Some(layout::module(self.servers.get(known.place.0)?, &entry.function, self.tool(known)?))
    }

    /// The generated modules of all tools.
    pub fn tree(&self) -> Tree {
        generate(self.servers())
    }

    /// Names of tools and servers like this one, for whoever mistyped; best first.
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

    /// By the names on the wire; those that cannot be called yet are among them.
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
        json::canonical(&all)
    }
}

/// A tool by the names on the wire or by those in code, in any mixture.
fn find<'a>(tools: &'a [Known], server: &str, tool: &str) -> Option<&'a Known> {
    tools.iter().find(|known| {
        let entry = &known.entry;
        (entry.package == server || entry.server == server) && (entry.function == tool || entry.name == tool)
    })
}

/// The tools of these servers, by package and function; `first` is the place of the first of them.
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

/// Letters to change, add or take away to get from one word to the other.
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
