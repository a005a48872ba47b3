//! Arguments that a schema both requires and gives a default: code may leave them out, and they are filled in.

use serde_json::{Map, Value};

/// Schemas are followed so deep.
const MAX_DEPTH: usize = 24;

/// Keywords whose value is data and not a schema.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];

/// The default of a property of this object schema, if it has one.
pub(crate) fn of<'a>(schema: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)?.get("default")
}

/// The same schema, in which no property is required that has a default.
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

/// Whether there is anything that [`fill`] could do.
pub(crate) fn any(schema: &Value) -> bool {
    match schema {
        Value::Array(parts) => parts.iter().any(any),
        Value::Object(map) => required(map).next().is_some() || map.values().any(any),
        _ => false,
    }
}

/// Adds what is required and missing and has a default. A default of `null` is left to the server: it often stands for
/// none at all.
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
    fn what_is_required_and_has_a_default_is_filled_in() {
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
