//! Arguments that are required but have a default: code may leave them out, and they are filled in.

use serde_json::{Map, Value};

/// The maximum depth of a schema.
const MAX_DEPTH: usize = 24;

/// Keywords whose value is data and not a schema.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];

/// The default of a property of this object schema, if it has one.
pub(crate) fn of<'a>(schema: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)?.get("default")
}

/// Copies a schema, without requiring properties that have a default.
pub(crate) fn relaxed(schema: &Value) -> Value {
    match schema {
        Value::Array(parts) => parts.iter().map(relaxed).collect(),
        Value::Object(map) => {
            let part = |(key, value): (&String, &Value)| match value {
                Value::Array(names) if key == "required" => {
                    let has_default = |name: &&Value| name.as_str().is_some_and(|name| of(map, name).is_some());
                    (key.clone(), names.iter().filter(|name| !has_default(name)).cloned().collect())
                }
                value if DATA.contains(&key.as_str()) => (key.clone(), value.clone()),
                value => (key.clone(), relaxed(value)),
            };
            Value::Object(map.iter().map(part).collect())
        }
        plain => plain.clone(),
    }
}

/// Whether [`fill`] could change anything.
pub(crate) fn any(schema: &Value) -> bool {
    match schema {
        Value::Array(parts) => parts.iter().any(any),
        Value::Object(map) => required(map).next().is_some() || map.values().any(any),
        _ => false,
    }
}

/// Adds required properties that are missing and have a default. Defaults of `null` are left to the server, because
/// they often mean that there is no default.
pub(crate) fn fill(schema: &Value, value: &mut Value, depth: usize) {
    let Value::Object(schema) = schema else { return };
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, default) in required(schema) {
                if !default.is_null() && !fields.contains_key(name) {
                    fields.insert(name.to_owned(), default.clone());
                }
            }
            let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            for (name, property) in properties {
                if let Some(field) = fields.get_mut(name) {
                    fill(property, field, depth + 1);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(items) = schema.get("items") {
                for element in elements {
                    fill(items, element, depth + 1);
                }
            }
        }
        _ => {}
    }
}

fn required(schema: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).filter_map(|name| Some((name, of(schema, name)?)))
}

#[cfg(test)]
mod tests {
    use super::{any, fill, relaxed};
    use serde_json::json;

    #[test]
    fn required_arguments_with_a_default_are_filled_in() {
        let schema = json!({
            "required": ["path", "count", "odd", "inner"],
            "properties": {
                "path": { "type": "string" },
                "count": { "type": "integer", "default": 10 },
                "odd": { "type": "string", "default": null },
                "free": { "type": "integer", "default": 3 },
                "inner": { "required": ["deep"], "properties": { "deep": { "default": true } } },
                "list": { "items": { "required": ["x"], "properties": { "x": { "default": [] } } } },
                "data": { "const": { "required": ["x"], "properties": { "x": { "default": 1 } } } },
            },
        });
        assert!(any(&schema) && !any(&json!({ "required": ["a"], "properties": { "a": {}, "b": { "default": 1 } } })));
        let mut value = json!({ "path": "p", "inner": {}, "list": [{}, { "x": 1 }, 5] });
        fill(&schema, &mut value, 0);
        let filled =
            json!({ "path": "p", "count": 10, "inner": { "deep": true }, "list": [{ "x": [] }, { "x": 1 }, 5] });
        assert_eq!(value, filled);
        let relaxed = relaxed(&schema);
        assert_eq!(relaxed["required"], json!(["path", "inner"]));
        assert_eq!(relaxed["properties"]["inner"]["required"], json!([]));
        assert_eq!(relaxed["properties"]["data"], schema["properties"]["data"], "data stays as it is");
    }
}
