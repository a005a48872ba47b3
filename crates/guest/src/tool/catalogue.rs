//! The tools of all servers: one folder per server, with a `tools.json`.

use super::ToolError;
use crate::closest::closest;
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum size of a list of tools.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// The folder of generated modules in a sandbox.
const INSTALLED: &str = "/coracle/servers";

/// A folder of servers.
#[derive(Debug)]
pub(super) struct Catalogue {
    folder: PathBuf,
}

/// The tools of one server.
#[derive(Debug, Deserialize)]
pub(super) struct Server {
    /// The name by which the host knows the server.
    #[serde(rename = "server")]
    pub(super) name: String,
    pub(super) tools: Vec<Tool>,
}

/// A tool in `tools.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Tool {
    /// The name of its module.
    #[serde(default)]
    pub(super) module: String,
    /// The name on the wire.
    pub(super) name: String,
    #[serde(default)]
    pub(super) summary: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) input_schema: Value,
}

impl Catalogue {
    pub(super) fn installed() -> Self {
        Self::at(Path::new(INSTALLED))
    }

    pub(super) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The names of all servers.
    pub(super) fn servers(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| entry.path().join("tools.json").is_file())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    pub(super) fn server(&self, name: &str) -> Result<Server, ToolError> {
        let known = self.servers();
        // By the list and not by the path, because a name with slashes is not valid.
        let Some(found) = known.iter().find(|known| *known == name) else {
            let hint = match closest(name, known.iter().map(String::as_str)) {
                Some(close) => format!("did you mean {close}?"),
                None if known.is_empty() => "no server is configured".to_owned(),
                None => format!("there are: {}", known.join(", ")),
            };
            return Err(ToolError::usage(format!("there is no server {name:?}"), Some(hint)));
        };
        let path = self.folder.join(found).join("tools.json");
        if fs::metadata(&path)?.len() > MAX_LIST_BYTES {
            return Err(
                std::io::Error::other(format!("{} is longer than {MAX_LIST_BYTES} bytes", path.display())).into()
            );
        }
        serde_json::from_slice(&fs::read(&path)?)
            .map_err(|error| std::io::Error::other(format!("{}: {error}", path.display())).into())
    }
}

impl Server {
    /// Finds a tool by its name or by the name of its module.
    pub(super) fn tool(&self, name: &str) -> Result<&Tool, ToolError> {
        let is = |tool: &&Tool| tool.name == name || tool.module == name;
        self.tools.iter().find(is).ok_or_else(|| {
            let names = self.tools.iter().map(|tool| tool.name.as_str());
            let hint = match closest(name, names) {
                Some(close) => format!("did you mean {close}?"),
                None => format!("`tool {}` lists them", self.name),
            };
            ToolError::usage(format!("{} has no tool {name:?}", self.name), Some(hint))
        })
    }
}
