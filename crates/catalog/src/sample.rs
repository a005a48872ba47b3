//! Values that have the type of a tool's results, for results that do not exist yet.

use crate::layout::wrapped_result;
use crate::learned::Shape;
use crate::model::{Literal, Record, Type};
use crate::schema::{Reader, Records};
use coracle_types::Tool;
use serde_json::{Map, Value};

/// The maximum depth. What is deeper is a text.
const MAX_DEPTH: usize = 8;
/// The maximum number of leaves. Further fields are left out.
const MAX_LEAVES: usize = 500;

/// A place in a result whose value cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A text, or a value of an unknown type.
    Text,
    /// An integer.
    Integer,
    /// A number that may have a fraction.
    Number,
}

/// Returns a value with the type of the tool's results, by its output schema or else by the shape that was learned. The
/// caller makes the leaves; each is identified by its path (a JSON pointer). Arrays have one element, maps are empty, and
/// booleans are true. Without a known type, the value is one leaf.
pub fn sample(tool: &Tool, shape: Option<&Shape>, leaf: &mut dyn FnMut(&str, Leaf) -> Value) -> Value {
    let mut records = Records::new("sample");
    let kind = match (&tool.output_schema, shape) {
        (Some(schema), _) => {
            let schema = wrapped_result(tool).unwrap_or_else(|| schema.object());
            Reader::new(&schema, &mut records).value("output")
        }
        (None, Some(shape)) if shape.seen() > 0 => shape.as_type(&mut records, "output"),
        (None, _) => Type::Any,
    };
    Sampler { records: records.into_inner(), left: MAX_LEAVES, leaf }.value(&kind, "", 0)
}

struct Sampler<'a> {
    records: Vec<Record>,
    /// Number of leaves that may still be made.
    left: usize,
    leaf: &'a mut dyn FnMut(&str, Leaf) -> Value,
}

impl Sampler<'_> {
    fn leaf(&mut self, path: &str, kind: Leaf) -> Value {
        self.left = self.left.saturating_sub(1);
        (self.leaf)(path, kind)
    }

    fn value(&mut self, kind: &Type, path: &str, depth: usize) -> Value {
        if depth > MAX_DEPTH {
            return self.leaf(path, Leaf::Text);
        }
        match kind {
            Type::Any | Type::Text => self.leaf(path, Leaf::Text),
            Type::Integer => self.leaf(path, Leaf::Integer),
            Type::Number => self.leaf(path, Leaf::Number),
            Type::Null => Value::Null,
            Type::Boolean => true.into(),
            Type::Literals(values) => match values.first() {
                Some(Literal::Boolean(value)) => (*value).into(),
                Some(Literal::Integer(value)) => (*value).into(),
                Some(Literal::Text(value)) => value.as_str().into(),
                Some(Literal::Null) | None => Value::Null,
            },
            Type::Array(inner) => Value::Array(vec![self.value(inner, &format!("{path}/0"), depth + 1)]),
            Type::Tuple(parts) => {
                let parts = parts.iter().enumerate();
                parts.map(|(number, part)| self.value(part, &format!("{path}/{number}"), depth + 1)).collect()
            }
            Type::Map(_) => Value::Object(Map::new()),
            Type::Union(parts) => match parts.iter().find(|part| **part != Type::Null) {
                Some(part) => self.value(part, path, depth + 1),
                None => Value::Null,
            },
            Type::Record(index) => {
                let fields = self.records.get(*index).map(|record| record.fields.clone()).unwrap_or_default();
                let mut value = Map::new();
                for field in fields {
                    if self.left == 0 {
                        break;
                    }
                    let escaped = field.wire.replace('~', "~0").replace('/', "~1");
                    let inner = self.value(&field.kind, &format!("{path}/{escaped}"), depth + 1);
                    value.insert(field.wire, inner);
                }
                Value::Object(value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Leaf, sample};
    use crate::Shape;
    use coracle_types::{Schema, ServerName, Tool, ToolHints};
    use serde_json::{Value, json};

    fn tool(output: Option<Value>) -> Tool {
        Tool {
            server: ServerName::new("s").unwrap(),
            name: "t".to_owned(),
            title: None,
            description: String::new(),
            input_schema: Schema::default(),
            output_schema: output.map(|schema| Schema::from(schema.as_object().unwrap())),
            category: None,
            hints: ToolHints::default(),
        }
    }

    fn sampled(tool: &Tool, shape: Option<&Shape>) -> Value {
        sample(tool, shape, &mut |path, leaf| json!(format!("{leaf:?} {path}")))
    }

    #[test]
    fn a_sample_has_the_type_of_the_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "id": { "type": "integer" }, "a/b": { "type": "string" }, "cost": { "type": "number" },
                "ok": { "type": "boolean" }, "state": { "enum": ["open", "closed"] },
                "owner": { "anyOf": [{ "type": "null" }, { "type": "string" }] },
                "tags": { "type": "array", "items": { "type": "object", "properties": { "n": { "type": "integer" } } } },
                "next": { "$ref": "#" },
            },
            "required": ["id"],
        });
        let sampled = sampled(&tool(Some(schema)), None);
        assert_eq!(sampled["id"], json!("Integer /id"));
        assert_eq!(sampled["a/b"], json!("Text /a~1b"));
        assert_eq!((&sampled["cost"], &sampled["ok"]), (&json!("Number /cost"), &json!(true)));
        assert_eq!((&sampled["state"], &sampled["owner"]), (&json!("open"), &json!("Text /owner")));
        assert_eq!(sampled["tags"], json!([{ "n": "Integer /tags/0/n" }]));
        assert_eq!(sampled["next"]["id"], json!("Integer /next/id"), "recursion ends somewhere");
    }

    #[test]
    fn without_a_schema_the_learned_shape_counts_and_without_both_there_is_one_leaf() {
        let shape = Shape::observe(&json!({ "id": 7, "title": "x" }));
        let expected = json!({ "id": "Integer /id", "title": "Text /title" });
        assert_eq!(sampled(&tool(None), Some(&shape)), expected);
        assert_eq!(sampled(&tool(None), None), json!(format!("{:?} ", Leaf::Text)));
    }

    #[test]
    fn samples_are_bounded() {
        let fields: serde_json::Map<String, Value> =
            (0..150).map(|number| (format!("f{number}"), json!({ "$ref": "#" }))).collect();
        let mut leaves = 0;
        let schema = json!({ "type": "object", "properties": fields });
        sample(&tool(Some(schema)), None, &mut |_, _| {
            leaves += 1;
            Value::Null
        });
        assert!((1..=super::MAX_LEAVES).contains(&leaves), "{leaves}");
    }
}
