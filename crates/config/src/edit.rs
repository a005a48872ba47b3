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
use coracle_types::{Decision, ServerName};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Section of the rules for tools.
const POLICY_OF_TOOLS: [&str; 2] = ["policy", "tools"];

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
        /// The name of the server, variable or rule.
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
    let is_there = section(&root, &[SERVERS]).is_some_and(|(_, node)| find(node, name.as_str()).is_some());
    match existing {
        _ if !is_there => {}
        Existing::Keep => return Err(EditError::Exists { name: name.to_string() }),
        Existing::Replace => return add_server(&remove_server(text, name.as_str())?, name, entry, Existing::Keep),
    }
    add_entry(text, &[SERVERS], name.as_str(), &serde_json::to_value(entry).unwrap_or_default())
}

/// Removes a server from the text.
pub fn remove_server(text: &str, name: &str) -> Result<String, EditError> {
    let removed = remove_entry(text, &[SERVERS], name)?;
    removed.ok_or_else(|| match parse(text) {
        Ok(root) if in_old_list(&root, name) => by_hand(name),
        _ => EditError::NotFound { name: name.to_owned() },
    })
}

/// Sets the policy for the tools that a pattern matches, in place of a rule with the same pattern.
pub fn set_policy(text: &str, pattern: &str, decision: Decision) -> Result<String, EditError> {
    let without = remove_policy(text, pattern)?;
    let decision = serde_json::to_value(decision).unwrap_or_default();
    add_entry(without.as_deref().unwrap_or(text), &POLICY_OF_TOOLS, pattern, &decision)
}

/// Removes the rule with this pattern; `None` if there is none.
pub fn remove_policy(text: &str, pattern: &str) -> Result<Option<String>, EditError> {
    remove_entry(text, &POLICY_OF_TOOLS, pattern)
}

/// Adds an entry to a section, which is created if necessary. The section must not have an entry with this name.
fn add_entry(text: &str, path: &[&str], name: &str, entry: &Value) -> Result<String, EditError> {
    let root = parse(text)?;
    let edited = add(text, &root, path, name, entry).ok_or_else(|| by_hand(name))?;
    let mut expected = meaning(&root, path);
    entries_at(&mut expected, path).ok_or_else(|| by_hand(name))?.insert(name.to_owned(), entry.clone());
    checked(edited, path, &expected, name)
}

/// Removes an entry from a section; `None` if there is none.
fn remove_entry(text: &str, path: &[&str], name: &str) -> Result<Option<String>, EditError> {
    let root = parse(text)?;
    let Some((key, node)) = section(&root, path) else { return Ok(None) };
    let Some(position) = find(node, name) else { return Ok(None) };
    let edited = remove(text, key, node, position).ok_or_else(|| by_hand(name))?;
    let mut expected = meaning(&root, path);
    entries_at(&mut expected, path).ok_or_else(|| by_hand(name))?.remove(name);
    checked(edited, path, &expected, name).map(Some)
}

fn add(text: &str, root: &Node, path: &[&str], name: &str, entry: &Value) -> Option<String> {
    let Some((key, node)) = section(root, path) else {
        // The section is an entry of the one around it.
        let (last, around) = path.split_last()?;
        let entry = Value::Object(Map::from_iter([(name.to_owned(), entry.clone())]));
        return match around {
            [] if is_flow(text, root) => None,
            [] => Some(block::append(text, last, &entry)),
            around => add(text, root, around, last, &entry),
        };
    };
    if !is_flow(text, node) {
        return block::add(text, key, node, name, entry);
    }
    match &node.content {
        Content::Map(entries) if entries.is_empty() && is_in_block(text, root, path) => {
            block::fill_empty_flow(text, key, node, name, entry)
        }
        _ => flow::add(text, node, name, entry),
    }
}

/// Whether everything around a section is in block style.
fn is_in_block(text: &str, root: &Node, path: &[&str]) -> bool {
    let is_block = |length: usize| section(root, &path[..length]).is_some_and(|(_, node)| !is_flow(text, node));
    !is_flow(text, root) && (1..path.len()).all(is_block)
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

/// The key and the value of a section.
fn section<'a>(root: &'a Node, path: &[&str]) -> Option<(&'a Name, &'a Node)> {
    let (first, rest) = path.split_first()?;
    let Content::Map(entries) = &root.content else { return None };
    let (name, node) = entries.iter().find(|(name, _)| name.text == *first)?;
    if rest.is_empty() { Some((name, node)) } else { section(node, rest) }
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

/// The meaning of a text: a map, which is empty for an empty text. Empty sections of the path count as maps.
fn meaning(root: &Node, path: &[&str]) -> Map<String, Value> {
    let mut meaning = match root.to_json() {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    // A section that is not a map stays, and the edit is refused.
    let _ = entries_at(&mut meaning, path);
    meaning
}

/// The entries of a section, which is added if it is missing or empty; `None` if it is something else.
fn entries_at<'a>(map: &'a mut Map<String, Value>, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let Some((first, rest)) = path.split_first() else { return Some(map) };
    let section = map.entry(*first).or_insert(Value::Null);
    if section.is_null() {
        *section = Value::Object(Map::new());
    }
    entries_at(section.as_object_mut()?, rest)
}

/// The edited text, if it means what it should.
fn checked(edited: String, path: &[&str], expected: &Map<String, Value>, name: &str) -> Result<String, EditError> {
    let now = Node::parse(&edited).map_err(|_| by_hand(name))?;
    if meaning(&now, path) == *expected { Ok(edited) } else { Err(by_hand(name)) }
}
