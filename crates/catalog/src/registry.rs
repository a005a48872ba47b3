//! A folder that describes tools: `tools_registry/CATEGORY/ANY.json`. It adds categories and words to tools that are
//! there, and lets those be found whose server is not.
//!
//! A file holds one definition or a list of them: `name`, `server`, `description`, `functions` (names, or objects with
//! `name`, `description` and `parameters`), `use_cases`, and how to connect to the server: `connect` in words, `command`
//! with `args`, or `url`.

use crate::layout::ServerTools;
use crate::text;
use coracle_types::{ServerName, Tool, ToolHints};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Larger files are left out.
const MAX_BYTES: u64 = 1 << 20;
/// No more files are read.
const MAX_FILES: usize = 10_000;
/// Of what is said on how to connect, so much is told.
const CONNECT_CHARS: usize = 300;

/// What the folder says, by server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registry {
    servers: BTreeMap<ServerName, Described>,
    warnings: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Described {
    category: Option<String>,
    connect: Option<String>,
    tools: Vec<Tool>,
    notes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Definition {
    name: String,
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    functions: Vec<Function>,
    #[serde(default, alias = "useCases")]
    use_cases: Vec<String>,
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

#[derive(Deserialize)]
#[serde(untagged)]
enum Definitions {
    One(Box<Definition>),
    Many(Vec<Definition>),
}

impl Registry {
    /// Reads the folder; one that is not there says nothing. What cannot be read is left out, with a warning.
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
            registry.warnings.push(format!("{}: more than {MAX_FILES} files", folder.display()));
            files.truncate(MAX_FILES);
        }
        for (path, category) in files {
            match definitions(&path) {
                Ok(definitions) => {
                    for definition in definitions {
                        if let Err(problem) = registry.take(definition, category.as_deref()) {
                            registry.warnings.push(format!("{}: {problem}", path.display()));
                        }
                    }
                }
                Err(problem) => registry.warnings.push(format!("{}: {problem}", path.display())),
            }
        }
        registry
    }

    /// What was left out, and why.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds what is said here to servers that are there, and those that are not. `reason` tells of one that is
    /// configured why it is not there.
    pub fn describe(self, servers: &mut Vec<ServerTools>, reason: impl Fn(&ServerName) -> Option<String>) {
        for (name, described) in self.servers {
            if let Some(server) = servers.iter_mut().find(|server| server.name == name) {
                server.category = server.category.take().or(described.category);
                server.notes.extend(described.notes);
                continue;
            }
            let connect =
                reason(&name).or(described.connect).unwrap_or_else(|| format!("coracle servers add {name} …"));
            servers.push(ServerTools {
                category: described.category,
                notes: described.notes,
                connect: Some(text::one_line(&connect, CONNECT_CHARS)),
                ..ServerTools::new(name, described.tools)
            });
        }
    }

    fn take(&mut self, definition: Definition, folder: Option<&str>) -> Result<(), String> {
        let name = definition.server.as_deref().unwrap_or(&definition.name);
        let server = ServerName::new(name).map_err(|error| format!("{name:?} cannot be a server: {error}"))?;
        let connect = connect(&server, &definition);
        let described = self.servers.entry(server.clone()).or_default();
        described.category = described.category.take().or(definition.category).or_else(|| folder.map(str::to_owned));
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
            if described.tools.iter().any(|tool| tool.name == name) {
                return Err(format!("there is another definition of {name:?} of {server}"));
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
                input_schema,
                output_schema: None,
                category: None,
                hints: ToolHints::default(),
            });
        }
        Ok(())
    }
}

/// What to do, as far as the definition says it.
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

/// The files of the folder with the folder that each stands in; links are not followed.
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

fn definitions(path: &Path) -> Result<Vec<Definition>, String> {
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let value: Value = serde_json::from_slice(&text).map_err(|error| format!("it is not JSON: {error}"))?;
    let problem =
        |_| "it is no definition: an object with `name`, `server`, `description` and `functions`, or a list of them";
    Ok(match serde_json::from_value(value).map_err(problem)? {
        Definitions::One(definition) => vec![*definition],
        Definitions::Many(definitions) => definitions,
    })
}

#[cfg(test)]
mod tests;
