//! Validates tool definitions of a server.

mod schema;

use crate::scrub::shortened;
use coracle_types::{Schema, ServerName, SortedMap, Tool, ToolHints};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of tools of one server. The rest is left out.
pub(crate) const MAX_TOOLS: usize = 2000;
/// The maximum length of a tool's name in bytes.
const MAX_NAME: usize = 256;
/// The maximum length of a category in bytes.
const MAX_CATEGORY: usize = 64;
/// The maximum length of a tool's description in bytes. The rest is cut off.
const MAX_DESCRIPTION: usize = 32 * 1024;
/// The maximum size of a tool's schema, as JSON text.
const MAX_SCHEMA: usize = 256 * 1024;
/// The maximum size of the other members of a definition, as JSON text: annotations, icons, `_meta`.
const MAX_MORE: usize = 64 * 1024;
/// The maximum number of warnings for one server.
const MAX_WARNINGS: usize = 100;

/// The tools of one server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolList {
    /// The tools in the order of the server, with unique names.
    pub tools: Vec<Arc<Tool>>,
    /// Problems of definitions.
    pub warnings: Vec<ToolWarning>,
    index: HashMap<String, usize>,
    /// The other members of each definition as JSON text, which is rarely needed.
    more: Vec<Box<str>>,
}

/// A problem of a tool's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolWarning {
    /// The tool's name on the wire, shortened. Untrusted text.
    pub tool: String,
    /// The problem.
    pub problem: String,
    /// Whether the tool can still be used.
    pub kept: bool,
}

impl ToolList {
    /// The tool with this name on the wire.
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.index.get(name).and_then(|&position| self.tools.get(position))
    }

    /// The definitions in the protocol's shape, with everything that the server sent except the parts that could not be
    /// kept. Tools of this program have no other members.
    pub fn definitions(&self) -> impl Iterator<Item = Value> + '_ {
        self.tools.iter().enumerate().map(move |(position, tool)| {
            let more = self.more.get(position).and_then(|text| serde_json::from_str(text).ok());
            let mut definition: Map<String, Value> = more.unwrap_or_default();
            let mut set = |key: &str, value: Value| definition.insert(key.to_owned(), value);
            set("name", Value::from(tool.name.as_str()));
            if !tool.description.is_empty() {
                set("description", Value::from(tool.description.as_str()));
            }
            set("inputSchema", Value::Object(tool.input_schema.object()));
            if let Some(schema) = &tool.output_schema {
                set("outputSchema", Value::Object(schema.object()));
            }
            Value::Object(definition)
        })
    }
}

impl FromIterator<Tool> for ToolList {
    /// Collects definitions of this program, which need no validation. Of two with the same name, the first counts.
    fn from_iter<T: IntoIterator<Item = Tool>>(tools: T) -> Self {
        let mut list = Self::default();
        for tool in tools {
            if !list.index.contains_key(&tool.name) {
                list.index.insert(tool.name.clone(), list.tools.len());
                list.tools.push(Arc::new(tool));
            }
        }
        list
    }
}

/// Validates definitions one by one.
pub(crate) struct Intake<'a> {
    server: &'a ServerName,
    list: ToolList,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(server: &'a ServerName) -> Self {
        Self { server, list: ToolList::default() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.list.tools.len() >= MAX_TOOLS
    }

    pub(crate) fn finish(self) -> ToolList {
        self.list
    }

    /// Adds one definition, which can be any JSON.
    pub(crate) fn take(&mut self, definition: Value) {
        let Value::Object(mut definition) = definition else {
            return self.warn("", "its definition is not an object", false);
        };
        let Some(Value::String(name)) = definition.remove("name") else {
            return self.warn("", "it has no name", false);
        };
        if self.is_full() {
            return self.warn(&name, &format!("the server has more than {MAX_TOOLS} tools"), false);
        }
        if name.is_empty() || name.len() > MAX_NAME {
            return self.warn(&name, &format!("its name is empty or longer than {MAX_NAME} bytes"), false);
        }
        if self.list.index.contains_key(&name) {
            return self.warn(&name, "there is another tool with this name", false);
        }
        let input_schema = match definition.remove("inputSchema") {
            None | Some(Value::Null) => {
                self.warn(&name, "it has no input schema", true);
                Schema::from_iter([("type".to_owned(), Value::from("object"))])
            }
            Some(schema) => match usable(schema) {
                Ok(schema) => schema,
                Err(problem) => return self.warn(&name, &format!("its input schema {problem}"), false),
            },
        };
        let output_schema = match definition.remove("outputSchema") {
            None | Some(Value::Null) => None,
            Some(schema) => match usable(schema) {
                Ok(schema) => Some(schema),
                Err(problem) => {
                    self.warn(&name, &format!("its output schema {problem} and is ignored"), true);
                    None
                }
            },
        };
        let description = self.text(&name, &mut definition, "description").unwrap_or_default();
        let annotations = definition.get("annotations").and_then(Value::as_object);
        let title = definition
            .get("title")
            .or_else(|| annotations.and_then(|annotations| annotations.get("title")))
            .and_then(Value::as_str)
            .map(|title| shortened(title, MAX_NAME));
        let hint = |key: &str| annotations.and_then(|annotations| annotations.get(key)).and_then(Value::as_bool);
        let hints = ToolHints {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        };
        let category = category(&definition);
        let mut more = serde_json::to_string(&SortedMap(&definition)).unwrap_or_default();
        if more.len() > MAX_MORE {
            self.warn(&name, &format!("its other members are longer than {MAX_MORE} bytes and are ignored"), true);
            more.clear();
        }
        let server = self.server.clone();
        self.list.more.push(more.into());
        self.list.index.insert(name.clone(), self.list.tools.len());
        let tool = Tool { server, name, title, description, input_schema, output_schema, category, hints };
        self.list.tools.push(Arc::new(tool));
    }

    fn text(&mut self, name: &str, definition: &mut Map<String, Value>, key: &str) -> Option<String> {
        let Some(Value::String(mut text)) = definition.remove(key) else {
            return None;
        };
        if text.len() > MAX_DESCRIPTION {
            self.warn(name, &format!("its {key} is longer than {MAX_DESCRIPTION} bytes and is cut off"), true);
            text.truncate(text.floor_char_boundary(MAX_DESCRIPTION));
        }
        Some(text)
    }

    fn warn(&mut self, tool: &str, problem: &str, kept: bool) {
        if self.list.warnings.len() < MAX_WARNINGS {
            let tool = shortened(tool, MAX_NAME);
            self.list.warnings.push(ToolWarning { tool, problem: problem.to_owned(), kept });
        }
    }
}

/// The category in `_meta`: `category`, with or without a prefix, as in `com.example/category`.
fn category(definition: &Map<String, Value>) -> Option<String> {
    let meta = definition.get("_meta")?.as_object()?;
    let is_category = |key: &str| key.rsplit('/').next() == Some("category");
    let (_, category) = meta.iter().find(|(key, _)| is_category(key))?;
    category.as_str().map(str::trim).filter(|text| !text.is_empty()).map(|text| shortened(text, MAX_CATEGORY))
}

/// The schema, if it describes an object and has no endless references.
fn usable(schema: Value) -> Result<Schema, String> {
    let Value::Object(schema) = schema else {
        return Err("is not an object".to_owned());
    };
    if schema.get("type").is_some_and(|kind| !may_be_object(kind)) {
        return Err("does not describe an object".to_owned());
    }
    let kept = Schema::from(&schema);
    if kept.as_str().len() > MAX_SCHEMA {
        return Err(format!("is larger than {MAX_SCHEMA} bytes"));
    }
    if schema::is_endless(&Value::Object(schema)) {
        return Err("refers to itself without end".to_owned());
    }
    Ok(kept)
}

fn may_be_object(kind: &Value) -> bool {
    match kind {
        Value::String(kind) => kind == "object",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
