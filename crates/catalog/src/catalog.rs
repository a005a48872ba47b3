//! All tools of all servers, to be listed, shown and checked against.

use crate::layout::{self, ServerTools};
use crate::model::Module;
use crate::search::Index;
use crate::text::{self, DESCRIPTION_CHARS};
use crate::tree::{Tree, generate};
use crate::validator::Validator;
use crate::{json, python, typescript};
use coracle_types::Tool;
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
#[error("{0:?} is no level of detail: use name, summary, full, python or typescript")]
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
}

struct Known {
    entry: Entry,
    /// Indexes into `servers` and their tools.
    place: (usize, usize),
    validator: OnceLock<Validator>,
}

/// All tools of all servers, as they were when this was made.
pub struct Catalog {
    servers: Vec<Arc<ServerTools>>,
    index: Index,
    /// By package and function.
    tools: Vec<Known>,
    by_wire: HashMap<(String, String), usize>,
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
        let servers: Vec<Arc<ServerTools>> = servers.into_iter().map(Arc::new).collect();
        let index = Index::new(&servers, before.map(|before| (&before.index, before.servers.as_slice())));
        let mut tools = Vec::new();
        for package in layout::packages(&servers) {
            let same = |server: &Arc<ServerTools>| std::ptr::eq(Arc::as_ptr(server), package.server);
            let Some(server) = servers.iter().position(same) else { continue };
            let places: HashMap<*const Tool, usize> = package
                .server
                .tools
                .iter()
                .enumerate()
                .map(|(index, tool)| (std::ptr::from_ref(tool), index))
                .collect();
            for (function, tool) in &package.tools {
                let Some(index) = places.get(&std::ptr::from_ref(*tool)) else { continue };
                let entry = Entry {
                    server: package.server.name.as_str().to_owned(),
                    package: package.folder.clone(),
                    name: tool.name.clone(),
                    function: function.clone(),
                    summary: layout::summary(tool),
                };
                tools.push(Known { entry, place: (server, *index), validator: OnceLock::new() });
            }
        }
        let by_wire = tools
            .iter()
            .enumerate()
            .map(|(index, known)| ((known.entry.server.clone(), known.entry.name.clone()), index))
            .collect();
        Self { servers, index, tools, by_wire }
    }

    /// What it was made of.
    pub fn servers(&self) -> &[Arc<ServerTools>] {
        &self.servers
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
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

    /// Every tool with its place: its server's among the servers, and its own among that server's.
    pub(crate) fn placed(&self) -> impl Iterator<Item = ((usize, usize), &Entry)> {
        self.tools.iter().map(|known| (known.place, &known.entry))
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
        let known = self.known(server, tool)?;
        let definition = self.tool(known)?;
        let entry = &known.entry;
        let module = || self.module(entry);
        Some(match level {
            Level::Name => format!("{}.{}", entry.package, entry.function),
            Level::Summary => format!("{}.{}: {}", entry.package, entry.function, entry.summary),
            Level::Full => self.definition(known, definition),
            Level::Python => python::module(&module()?),
            Level::Typescript => typescript::module(&module()?),
        })
    }

    /// What the module of a tool says.
    pub(crate) fn module(&self, entry: &Entry) -> Option<Module> {
        let known = self.known(&entry.server, &entry.name)?;
        Some(layout::module(self.servers.get(known.place.0)?, &entry.function, self.tool(known)?))
    }

    /// The generated modules of all tools.
    pub fn tree(&self) -> Tree {
        generate(&self.servers)
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
        let key = (server.to_owned(), tool.to_owned());
        let by_wire = self.by_wire.get(&key).and_then(|index| self.tools.get(*index));
        by_wire.or_else(|| {
            self.tools.iter().find(|known| {
                let entry = &known.entry;
                (entry.package == server || entry.server == server) && (entry.function == tool || entry.name == tool)
            })
        })
    }

    fn tool(&self, known: &Known) -> Option<&Tool> {
        self.servers.get(known.place.0)?.tools.get(known.place.1)
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
        });
        if let Value::Object(fields) = &mut all {
            fields.retain(|_, value| !value.is_null());
        }
        json::canonical(&all)
    }
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
