//! The texts of a tool that are searched.

use crate::layout::{self, ServerTools};
use crate::learned::Shape;
use coracle_types::Tool;
use serde_json::{Map, Value};

/// The maximum depth of a schema.
const MAX_DEPTH: usize = 4;

/// The number of fields.
pub(super) const FIELDS: usize = 5;

/// The texts of one tool.
pub(super) struct Fields {
    pub(super) name: String,
    pub(super) server: String,
    pub(super) description: String,
    /// Names of parameters.
    pub(super) parameters: String,
    /// Descriptions and allowed values of parameters, and the fields of results.
    pub(super) details: String,
}

impl Fields {
    pub(super) fn of(server: &ServerTools, tool: &Tool) -> Self {
        let mut texts = Texts::default();
        texts.schema(&tool.input_schema.object(), 0);
        let mut results = Texts::default();
        if let Some(schema) = &tool.output_schema {
            results.schema(&schema.object(), 0);
        } else if let Some(shape) = server.shapes.get(&tool.name) {
            results.names = Shape::keys(shape);
        }
        texts.details.append(&mut results.names);
        texts.details.extend(server.notes.get(&tool.name).cloned());
        Self {
            name: tool.name.clone(),
            server: server.name.as_str().to_owned(),
            description: layout::words(tool).to_owned(),
            parameters: texts.names.join(" "),
            details: texts.details.join(" "),
        }
    }

    pub(super) fn all(&self) -> [&str; FIELDS] {
        [&self.name, &self.server, &self.description, &self.parameters, &self.details]
    }
}

/// The names of a tool's top-level parameters.
pub(super) fn parameters(tool: &Tool) -> Vec<String> {
    match tool.input_schema.object().remove("properties") {
        Some(Value::Object(all)) => all.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    }
}

#[derive(Default)]
struct Texts {
    names: Vec<String>,
    details: Vec<String>,
}

impl Texts {
    fn schema(&mut self, schema: &Map<String, Value>, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.names.push(name.clone());
            if let Value::Object(inner) = inner {
                self.schema(inner, depth + 1);
            }
        }
        if depth > 0
            && let Some(Value::String(text)) = schema.get("description")
        {
            self.details.push(text.clone());
        }
        let choices = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        self.details.extend(choices.filter_map(Value::as_str).map(ToOwned::to_owned));
        if let Some(Value::Object(items)) = schema.get("items") {
            self.schema(items, depth + 1);
        }
    }
}
