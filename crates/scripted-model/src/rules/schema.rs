//! Plausible values for a JSON Schema.

use serde_json::{Map, Value, json};

/// Maximum depth of a value.
const MAX_DEPTH: usize = 12;

/// Values for the required properties of a schema, or `None` if one cannot be filled. An absent schema is an object
/// without properties.
pub(super) fn fill(schema: &Value, text: &str) -> Option<Value> {
    filler(schema, text, Extent::Required)
}

/// Values for all properties of a schema.
pub(super) fn fill_all(schema: &Value, text: &str) -> Option<Value> {
    filler(schema, text, Extent::All)
}

fn filler(schema: &Value, text: &str, extent: Extent) -> Option<Value> {
    if schema.is_null() {
        return Some(json!({}));
    }
    Filler { root: schema, text, numbers: numbers(text), extent }.value(schema, "", MAX_DEPTH)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Required,
    All,
}

struct Filler<'a> {
    root: &'a Value,
    text: &'a str,
    /// The numbers of the text that have not been used.
    numbers: Vec<f64>,
    extent: Extent,
}

impl Filler<'_> {
    fn value(&mut self, schema: &Value, name: &str, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        if schema == &Value::Bool(true) {
            return Some(json!("value"));
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = self.root.pointer(reference.strip_prefix('#')?)?.clone();
            return self.value(&target, name, depth);
        }
        for keyword in ["const", "default"] {
            if let Some(value) = schema.get(keyword) {
                return Some(value.clone());
            }
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return self.choice(values);
        }
        if let Some(example) = schema.get("examples").and_then(|examples| examples.get(0)) {
            return Some(example.clone());
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(options) = schema.get(keyword).and_then(Value::as_array) {
                let is_null = |option: &&Value| option.get("type").and_then(Value::as_str) == Some("null");
                let filled =
                    options.iter().filter(|option| !is_null(option)).find_map(|option| self.value(option, name, depth));
                return filled.or_else(|| options.iter().any(|option| is_null(&option)).then_some(Value::Null));
            }
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            return self.all_of(schema, parts, name, depth);
        }
        match kind(schema)? {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, name, depth),
            "string" => self.string(schema, name),
            "integer" => self.number(schema, 1.0).map(|number| json!(number.round() as i64)),
            "number" => self.number(schema, 0.0).map(|number| json!(number)),
            "boolean" => Some(json!(true)),
            "null" => Some(Value::Null),
            _ => None,
        }
    }

    /// The value that the text mentions, or the first one.
    fn choice(&self, values: &[Value]) -> Option<Value> {
        let text = self.text.to_lowercase();
        let is_mentioned = |value: &&Value| value.as_str().is_some_and(|value| text.contains(&value.to_lowercase()));
        values.iter().find(is_mentioned).or(values.first()).cloned()
    }

    fn all_of(&mut self, schema: &Value, parts: &[Value], name: &str, depth: usize) -> Option<Value> {
        let mut merged = if schema.get("properties").is_some() { self.object(schema, depth)? } else { json!({}) };
        for part in parts {
            match (self.value(part, name, depth)?, merged.as_object_mut()) {
                (Value::Object(fields), Some(merged)) => merged.extend(fields),
                (other, _) => return Some(other),
            }
        }
        Some(merged)
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let no_properties = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_properties);
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = Map::new();
        for (name, property) in properties {
            let is_required = required.contains(&name.as_str());
            if !is_required && self.extent == Extent::Required {
                continue;
            }
            match self.value(property, name, depth) {
                Some(value) => drop(object.insert(name.clone(), value)),
                None if is_required => return None,
                None => {}
            }
        }
        for name in required.into_iter().filter(|name| !properties.contains_key(*name)) {
            object.insert(name.to_owned(), json!("value"));
        }
        Some(object.into())
    }

    fn array(&mut self, schema: &Value, name: &str, depth: usize) -> Option<Value> {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(0, 16);
        let most = schema.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let items = schema.get("items").unwrap_or(&Value::Bool(true)).clone();
        (0..least.max(1).min(most)).map(|_| self.value(&items, name, depth)).collect()
    }

    fn string(&self, schema: &Value, name: &str) -> Option<Value> {
        if schema.get("pattern").is_some() {
            return None;
        }
        let name = name.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let text = match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => "2026-01-15T12:00:00Z".to_owned(),
            Some("date") => "2026-01-15".to_owned(),
            Some("time") => "12:00:00Z".to_owned(),
            Some("email") => "person@example.com".to_owned(),
            Some("uri" | "url") => "https://example.com/".to_owned(),
            Some("uuid") => "123e4567-e89b-42d3-a456-426614174000".to_owned(),
            _ if has(&["location", "city", "place", "town", "destination"]) => self.place(),
            _ if has(&["date", "day"]) => "2026-01-15".to_owned(),
            _ if has(&["email"]) => "person@example.com".to_owned(),
            _ if has(&["url", "uri"]) => "https://example.com/".to_owned(),
            _ if has(&["query", "question", "text", "prompt", "message", "input", "expression", "task"]) => {
                self.text.trim().to_owned()
            }
            _ if has(&["name"]) => "Ada".to_owned(),
            _ => "example".to_owned(),
        };
        let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0).min(4096) as usize;
        let most = schema.get("maxLength").and_then(Value::as_u64).unwrap_or(2000) as usize;
        let padding = "x".repeat(least.saturating_sub(text.chars().count()));
        Some(Value::String(text.chars().chain(padding.chars()).take(most).collect()))
    }

    /// The capitalized words after `in`, or a place that is not in the text.
    fn place(&self) -> String {
        let after = self.text.split(" in ").skip(1).map(|after| {
            let words = after.split_whitespace().take_while(|word| word.starts_with(char::is_uppercase));
            words.collect::<Vec<_>>().join(" ").trim_matches(|c: char| !c.is_alphanumeric()).to_owned()
        });
        after.into_iter().find(|place| !place.is_empty()).unwrap_or_else(|| "Paris".to_owned())
    }

    fn number(&mut self, schema: &Value, fallback: f64) -> Option<f64> {
        let limit = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let least = limit("minimum").or_else(|| limit("exclusiveMinimum").map(|least| least + 1.0));
        let most = limit("maximum").or_else(|| limit("exclusiveMaximum").map(|most| most - 1.0));
        let number = if self.numbers.is_empty() { least.or(most).unwrap_or(fallback) } else { self.numbers.remove(0) };
        let number = number.max(least.unwrap_or(f64::MIN)).min(most.unwrap_or(f64::MAX));
        let is_multiple = limit("multipleOf").is_none_or(|step| step != 0.0 && (number / step).fract() == 0.0);
        is_multiple.then_some(number)
    }
}

/// The type of a schema. Of several, the first that is not `null`.
fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => Some(kind),
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            kinds.clone().find(|kind| *kind != "null").or_else(|| kinds.next())
        }
        None if schema.get("properties").is_some() || schema.as_object().is_some_and(Map::is_empty) => Some("object"),
        _ => None,
    }
}

fn numbers(text: &str) -> Vec<f64> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    words.filter_map(|word| word.trim_matches('.').parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_parameters_are_filled_from_the_text() {
        let schema = json!({
            "type": "object",
            "properties": {
                "location": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 5},
                "other": {"type": "string"},
            },
            "required": ["location", "unit", "days"],
        });
        let text = "What is the weather in San Francisco, in fahrenheit, for 9 days?";
        assert_eq!(fill(&schema, text), Some(json!({"location": "San Francisco", "unit": "fahrenheit", "days": 5})));
        assert_eq!(fill_all(&schema, "Hi").unwrap()["other"], "example");
        assert_eq!(fill(&Value::Null, "Hi"), Some(json!({})));
    }

    #[test]
    fn what_cannot_be_filled_is_left_alone() {
        let schema = json!({"type": "object", "properties": {"id": {"type": "string", "pattern": "^x$"}}});
        assert_eq!(fill(&schema, ""), Some(json!({})));
        let schema = json!({"required": ["id"], "properties": {"id": {"type": "string", "pattern": "^x$"}}});
        assert_eq!(fill(&schema, ""), None);
    }

    #[test]
    fn references_and_unions_are_followed_but_not_for_ever() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"$ref": "#/$defs/A"},
                "b": {"anyOf": [{"type": "null"}, {"type": ["null", "number"]}]},
                "c": {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
            },
            "required": ["a", "b", "c"],
            "$defs": {"A": {"const": 3}, "Loop": {"$ref": "#/$defs/Loop"}},
        });
        assert_eq!(fill(&schema, ""), Some(json!({"a": 3, "b": 0.0, "c": [true, true]})));
        let endless = json!({"$ref": "#/$defs/Loop", "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}});
        assert_eq!(fill(&endless, ""), None);
    }
}
