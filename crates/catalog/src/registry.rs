//! A folder that describes tools: `tools_registry/CATEGORY/ANY.json`. It adds categories and descriptions to tools of
//! connected servers, and makes tools of other servers searchable.
//!
//! A file holds one or more definitions: a single one, a list, an object with `tools` (a list, or definitions by name),
//! or an object with `categories`, each of which has `tools`. A definition has `name`, `server` (or `mcp_server`),
//! `description`, `functions` (names, or objects with `name`, `description` and `parameters`), `use_cases`, `usage`,
//! and how to connect to the server: `connect` as text, `command` with `args`, or `url`.

use crate::layout::ServerTools;
use crate::text;
use coracle_types::{ServerName, Tool, ToolHints};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The maximum size of a file. Larger files are left out.
const MAX_BYTES: u64 = 8 << 20;
/// The maximum number of files.
const MAX_FILES: usize = 10_000;
/// The maximum length of the instructions on how to connect.
const CONNECT_CHARS: usize = 300;

/// The contents of the folder, by server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registry {
    servers: BTreeMap<ServerName, Described>,
    words: RegistryWords,
    warnings: Vec<String>,
}

/// The parts of a registry that are not about single tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegistryWords {
    /// The definitions, as written.
    pub entries: Vec<RegistryEntry>,
    /// Descriptions of categories, by name.
    pub categories: BTreeMap<String, String>,
}

/// A definition of a registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegistryEntry {
    /// The name of the definition.
    pub name: String,
    /// The server of the functions.
    #[serde(rename = "mcp_server")]
    pub server: String,
    /// The category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// What the functions are for.
    pub description: String,
    /// Names of tools.
    pub functions: Vec<String>,
    /// Typical uses.
    pub use_cases: Vec<String>,
    /// An example, or other text about how to use the functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
    /// What to do before the functions can be called. `None` if they can be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<String>,
}

impl RegistryWords {
    /// Finds a definition by its name or by the name of one of its functions, within this category or server if one is
    /// given. Ignores case and hyphens.
    pub fn find(&self, name: &str, category: Option<&str>) -> Option<&RegistryEntry> {
        let is_in = |entry: &&RegistryEntry| {
            category.is_none_or(|category| {
                let same = |other: &str| plain(other) == plain(category);
                same(&entry.server) || entry.category.as_deref().is_some_and(same)
            })
        };
        let entries = || self.entries.iter().filter(is_in);
        let of_function =
            || entries().find(|entry| entry.functions.iter().any(|function| plain(function) == plain(name)));
        entries().find(|entry| plain(&entry.name) == plain(name)).or_else(of_function)
    }
}

/// Normalises a name for comparison.
fn plain(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Described {
    category: Option<String>,
    connect: Option<String>,
    tools: Vec<Tool>,
    names: BTreeSet<String>,
    notes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Definition {
    name: String,
    #[serde(default, alias = "mcp_server")]
    server: Option<String>,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default, alias = "tools")]
    functions: Vec<Function>,
    #[serde(default, alias = "useCases")]
    use_cases: Vec<String>,
    #[serde(default)]
    usage: Option<String>,
    #[serde(default)]
    connect: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    url: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Function {
    Named(String),
    Described {
        name: String,
        #[serde(default)]
        description: String,
        #[serde(default, alias = "inputSchema", alias = "input_schema")]
        parameters: Map<String, Value>,
    },
}

impl Registry {
    /// Reads the folder. A missing folder is an empty registry. Files that cannot be read are left out, with a warning.
    pub fn read(folder: &Path) -> Self {
        let mut registry = Self::default();
        let mut files = Vec::new();
        if let Err(error) = find(folder, None, &mut files)
            && error.kind() != io::ErrorKind::NotFound
        {
            registry.warnings.push(format!("{}: {error}", folder.display()));
        }
        files.sort();
        if files.len() > MAX_FILES {
            registry.warnings.push(format!("{}: more than {MAX_FILES} files; the rest is ignored", folder.display()));
            files.truncate(MAX_FILES);
        }
        let mut found = Vec::new();
        for (path, category) in files {
            match read(&path) {
                Ok(value) => {
                    let mut file = Reading { registry: &mut registry, found: &mut found, path: &path };
                    file.definitions(value, category.as_deref(), None);
                }
                Err(problem) => registry.warnings.push(format!("{}: {problem}", path.display())),
            }
        }
        // A definition without a server may have the same name as one with a server.
        found.sort_by_key(|found: &Found| found.definition.server.is_none());
        for Found { path, category, definition } in found {
            if let Err(problem) = registry.take(definition, category) {
                registry.warnings.push(format!("{}: {problem}", path.display()));
            }
        }
        registry
    }

    /// The definitions and files that were left out, and why.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds descriptions to the connected servers, and adds servers that are not connected. `reason` returns why a
    /// configured server is not connected.
    pub fn describe(
        self,
        servers: &mut Vec<ServerTools>,
        reason: impl Fn(&ServerName) -> Option<String>,
    ) -> RegistryWords {
        let mut words = self.words;
        for (name, described) in self.servers {
            let entries = words.entries.iter_mut().filter(|entry| entry.server == name.as_str());
            if let Some(server) = servers.iter_mut().find(|server| server.name == name) {
                server.category = server.category.take().or(described.category);
                server.notes.extend(described.notes);
                continue;
            }
            let connect =
                reason(&name).or(described.connect).unwrap_or_else(|| format!("coracle servers add {name} …"));
            let connect = text::one_line(&connect, CONNECT_CHARS);
            entries.for_each(|entry| entry.connect = Some(connect.clone()));
            servers.push(ServerTools {
                category: described.category,
                notes: described.notes,
                connect: Some(connect),
                ..ServerTools::new(name, described.tools)
            });
        }
        words
    }

    fn take(&mut self, definition: Definition, folder: Option<String>) -> Result<(), String> {
        let mut same = self.words.entries.iter_mut().filter(|entry| plain(&entry.name) == plain(&definition.name));
        let known = same.find(|entry| definition.server.as_ref().is_none_or(|server| *server == entry.server));
        let name = match (&definition.server, &known) {
            (Some(server), _) => server.clone(),
            (None, Some(entry)) => entry.server.clone(),
            (None, None) => definition.name.clone(),
        };
        let server = ServerName::new(&name).map_err(|error| format!("{name:?} cannot be a server: {error}"))?;
        let connect = connect(&server, &definition);
        let category = definition.category.or(folder);
        let names = definition.functions.iter().map(|function| match function {
            Function::Named(name) | Function::Described { name, .. } => name.clone(),
        });
        match known {
            Some(_) if definition.server.is_some() => {
                return Err(format!("there is another definition of {:?} of {server}", definition.name));
            }
            Some(entry) => {
                add(&mut entry.functions, names);
                add(&mut entry.use_cases, definition.use_cases.iter().cloned());
                entry.usage = entry.usage.take().or(definition.usage);
            }
            None => self.words.entries.push(RegistryEntry {
                name: definition.name.clone(),
                server: name,
                category: category.clone(),
                description: definition.description.clone(),
                functions: names.collect(),
                use_cases: definition.use_cases.clone(),
                usage: definition.usage,
                connect: None,
            }),
        }
        let described = self.servers.entry(server.clone()).or_default();
        described.category = described.category.take().or(category);
        described.connect = described.connect.take().or(connect);
        let use_cases = definition.use_cases.join(". ");
        let functions = if definition.functions.is_empty() {
            vec![Function::Named(definition.name.clone())]
        } else {
            definition.functions
        };
        for function in functions {
            let (name, own, input_schema) = match function {
                Function::Named(name) => (name, String::new(), Map::new()),
                Function::Described { name, description, parameters } => (name, description, parameters),
            };
            // Several definitions may name the same function.
            if !described.names.insert(name.clone()) {
                continue;
            }
            let description = if own.is_empty() { definition.description.clone() } else { own };
            if !use_cases.is_empty() {
                described.notes.insert(name.clone(), use_cases.clone());
            }
            described.tools.push(Tool {
                server: server.clone(),
                name,
                title: None,
                description,
                input_schema: input_schema.into(),
                output_schema: None,
                category: None,
                hints: ToolHints::default(),
            });
        }
        Ok(())
    }
}

/// Adds the items that are missing.
fn add(all: &mut Vec<String>, more: impl Iterator<Item = String>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

/// How to connect to the server, if the definition says so.
fn connect(server: &ServerName, definition: &Definition) -> Option<String> {
    if let Some(words) = &definition.connect {
        return Some(words.clone());
    }
    if let Some(url) = &definition.url {
        return Some(format!("coracle servers add {server} --url {url}"));
    }
    let command = definition.command.as_ref()?;
    let words: Vec<&str> =
        std::iter::once(command.as_str()).chain(definition.args.iter().map(String::as_str)).collect();
    Some(format!("coracle servers add {server} -- {}", words.join(" ")))
}

/// The files of the folder with their category, which is the folder that contains them. Links are not followed.
fn find(folder: &Path, category: Option<&str>, files: &mut Vec<(PathBuf, Option<String>)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() && category.is_none() && !name.starts_with('.') {
            find(&path, Some(&name), files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "json") {
            files.push((path, category.map(str::to_owned)));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Value, String> {
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    serde_json::from_slice(&text).map_err(|error| format!("it is not JSON: {error}"))
}

/// A definition and its file.
struct Found {
    path: PathBuf,
    category: Option<String>,
    definition: Definition,
}

/// Finds the definitions in one file.
struct Reading<'a> {
    registry: &'a mut Registry,
    found: &'a mut Vec<Found>,
    path: &'a Path,
}

impl Reading<'_> {
    fn definitions(&mut self, value: Value, category: Option<&str>, name: Option<&str>) {
        let mut fields = match value {
            Value::Array(all) => return all.into_iter().for_each(|one| self.definitions(one, category, None)),
            Value::Object(fields) => fields,
            _ => return self.wrong(),
        };
        if let Some(Value::Object(categories)) = fields.remove("categories") {
            for (name, value) in categories {
                if let Some(words) = value.get("description").and_then(Value::as_str) {
                    self.registry.words.categories.insert(name.clone(), text::one_line(words, CONNECT_CHARS));
                }
                self.named(value, &name);
            }
            return;
        }
        let is_one = ["name", "server", "mcp_server"].iter().any(|key| fields.contains_key(*key));
        match fields.remove("tools") {
            Some(Value::Object(tools)) => {
                return tools.into_iter().for_each(|(name, one)| self.definitions(one, category, Some(&name)));
            }
            Some(tools @ Value::Array(_)) if !is_one => return self.definitions(tools, category, None),
            Some(tools) => {
                fields.insert("tools".to_owned(), tools);
            }
            None => {}
        }
        let other = name.map(Value::from).or_else(|| fields.get("server").or(fields.get("mcp_server")).cloned());
        if let (false, Some(name)) = (fields.contains_key("name"), other) {
            fields.insert("name".to_owned(), name);
        }
        match serde_json::from_value::<Definition>(Value::Object(fields)) {
            Ok(definition) => {
                let category = category.map(str::to_owned);
                self.found.push(Found { path: self.path.to_owned(), category, definition });
            }
            Err(_) => self.wrong(),
        }
    }

    /// Reads the value under the name of a category: its tools, and optionally a description.
    fn named(&mut self, mut value: Value, category: &str) {
        match value.get_mut("tools").map(Value::take) {
            Some(Value::Object(tools)) => {
                tools.into_iter().for_each(|(name, one)| self.definitions(one, Some(category), Some(&name)));
            }
            Some(tools) => self.definitions(tools, Some(category), None),
            None if value.is_array() => self.definitions(value, Some(category), None),
            None => self.wrong(),
        }
    }

    fn wrong(&mut self) {
        let problem = "it is not a definition: an object with `name`, `server`, `description` and `functions`, a list of \
            them, or an object with `tools` or `categories`";
        self.registry.warnings.push(format!("{}: {problem}", self.path.display()));
    }
}

#[cfg(test)]
mod tests;
