//! Changes `coracle.yaml` and `.env` as text, so that comments and formatting are preserved.
//!
//! Every change is checked before it is returned: the new text must parse, and mean the same as the old one except for
//! the changed entry. If that is not possible, for example because entries share an anchor, the change is refused and
//! the person has to edit by hand.

mod block;
mod file;
mod flow;
mod variables;

pub use file::{read, write};
pub use variables::{add_variables, remove_variables};

use crate::McpServer;
use crate::keys::{OLD_SERVERS, SERVERS};
use crate::yaml::{Content, Name, Node};
use coracle_types::ServerName;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text is not valid YAML before the change.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: u64,
        /// The message of the parser.
        message: String,
    },
    /// There is an entry with this name.
    #[error("there is already a server {name:?}")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no entry with this name.
    #[error("there is no server {name:?}")]
    NotFound {
        /// The name.
        name: String,
    },
    /// The text cannot be changed safely.
    #[error("the entry {name:?} cannot be changed without touching other lines")]
    ByHand {
        /// The name of the server or variable.
        name: String,
    },
    /// The file cannot be read or written.
    #[error("cannot {act} {}: {reason}", path.display())]
    File {
        /// `read` or `write`.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl EditError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "config_syntax",
            Self::Exists { .. } => "server_exists",
            Self::NotFound { .. } => "server_not_found",
            Self::ByHand { .. } => "edit_by_hand",
            Self::File { .. } => "config_unreadable",
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> String {
        match self {
            Self::Syntax { .. } => "fix the YAML first".to_owned(),
            Self::Exists { .. } => "remove it first, or use another name".to_owned(),
            Self::NotFound { .. } => "`coracle servers list` prints the names".to_owned(),
            Self::ByHand { .. } => "edit the file by hand".to_owned(),
            Self::File { .. } => "check the permissions of the file and its folder".to_owned(),
        }
    }
}

/// What to do with an existing entry of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Keep it, and fail.
    Keep,
    /// Replace it.
    Replace,
}

/// Adds a server to the text.
pub fn add_server(text: &str, name: &ServerName, entry: &McpServer, existing: Existing) -> Result<String, EditError> {
    let root = parse(text)?;
    let is_there = servers(&root).is_some_and(|(_, node)| find(node, name.as_str()).is_some());
    match existing {
        _ if !is_there => {}
        Existing::Keep => return Err(EditError::Exists { name: name.to_string() }),
        Existing::Replace => return add_server(&remove_server(text, name.as_str())?, name, entry, Existing::Keep),
    }
    let entry = serde_json::to_value(entry).unwrap_or_default();
    let edited = add(text, &root, name.as_str(), &entry).ok_or_else(|| by_hand(name.as_str()))?;
    let mut expected = meaning(&root);
    expected.entry(SERVERS).or_insert_with(|| Value::Object(Map::new()));
    match expected.get_mut(SERVERS) {
        Some(Value::Object(servers)) => servers.insert(name.to_string(), entry),
        _ => return Err(by_hand(name.as_str())),
    };
    checked(edited, &expected, name.as_str())
}

/// Removes a server from the text.
pub fn remove_server(text: &str, name: &str) -> Result<String, EditError> {
    let root = parse(text)?;
    let not_found = || {
        if in_old_list(&root, name) { by_hand(name) } else { EditError::NotFound { name: name.to_owned() } }
    };
    let (key, node) = servers(&root).ok_or_else(not_found)?;
    let position = find(node, name).ok_or_else(not_found)?;
    let edited = remove(text, key, node, position).ok_or_else(|| by_hand(name))?;
    let mut expected = meaning(&root);
    if let Some(Value::Object(servers)) = expected.get_mut(SERVERS) {
        servers.remove(name);
    }
    checked(edited, &expected, name)
}

fn add(text: &str, root: &Node, name: &str, entry: &Value) -> Option<String> {
    match servers(root) {
        None if is_flow(text, root) => None,
        None => Some(block::append_section(text, name, entry)),
        Some((key, node)) if is_flow(text, node) => match &node.content {
            Content::Map(entries) if entries.is_empty() && !is_flow(text, root) => {
                block::fill_empty_flow(text, key, node, name, entry)
            }
            _ => flow::add(text, node, name, entry),
        },
        Some((key, node)) => block::add(text, key, node, name, entry),
    }
}

fn remove(text: &str, key: &Name, node: &Node, position: usize) -> Option<String> {
    let Content::Map(entries) = &node.content else { return None };
    if is_flow(text, node) {
        flow::remove(text, &entries[position].0)
    } else {
        block::remove(text, key, entries, position)
    }
}

fn parse(text: &str) -> Result<Node, EditError> {
    Node::parse(text).map_err(|error| EditError::Syntax { line: error.place.line, message: error.message })
}

fn by_hand(name: &str) -> EditError {
    EditError::ByHand { name: name.to_owned() }
}

/// The key and the value of the section of servers.
fn servers(root: &Node) -> Option<(&Name, &Node)> {
    let Content::Map(entries) = &root.content else { return None };
    entries.iter().find(|(name, _)| name.text == SERVERS).map(|(name, node)| (name, node))
}

fn find(node: &Node, name: &str) -> Option<usize> {
    let Content::Map(entries) = &node.content else { return None };
    entries.iter().position(|(key, _)| key.text == name)
}

/// Whether the list of servers in the format of earlier tools has this name.
fn in_old_list(root: &Node, name: &str) -> bool {
    let list = root.to_json().get(OLD_SERVERS).cloned().unwrap_or_default();
    list.as_array().is_some_and(|items| items.iter().any(|item| item["name"] == name))
}

fn is_flow(text: &str, node: &Node) -> bool {
    node.place.offset.and_then(|offset| text.get(offset..)).is_some_and(|rest| rest.starts_with('{'))
}

/// The meaning of a text: a map, which is empty for an empty text.
fn meaning(root: &Node) -> Map<String, Value> {
    let mut meaning = match root.to_json() {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    if meaning.get(SERVERS) == Some(&Value::Null) {
        meaning.insert(SERVERS.to_owned(), Value::Object(Map::new()));
    }
    meaning
}

/// The edited text, if it means what it should.
fn checked(edited: String, expected: &Map<String, Value>, name: &str) -> Result<String, EditError> {
    let now = Node::parse(&edited).map_err(|_| by_hand(name))?;
    if meaning(&now) == *expected { Ok(edited) } else { Err(by_hand(name)) }
}
