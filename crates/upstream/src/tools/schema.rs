//! Detects schemas with endless references.
//!
//! A schema may be recursive: a tree has children that are trees. But if a schema applies itself to the same value,
//! through `$ref` or a combination, following it never ends.

use serde_json::Value;
use std::collections::HashSet;

/// The maximum length of a chain of references.
const MAX_CHAIN: usize = 64;

/// Keywords whose schemas apply to the same value.
const COMBINATIONS: &[&str] = &["allOf", "anyOf", "oneOf"];
const SINGLE: &[&str] = &["not", "if", "then", "else"];

pub(super) fn is_endless(root: &Value) -> bool {
    let mut finished = HashSet::new();
    let mut waiting = vec![root];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => {
                if applies_itself(root, value, &mut Vec::new(), &mut finished) {
                    return true;
                }
                waiting.extend(members.values());
            }
            Value::Array(members) => waiting.extend(members),
            _ => {}
        }
    }
    false
}

/// Identifies a value by its address.
type Place = *const Value;

fn applies_itself(root: &Value, schema: &Value, path: &mut Vec<Place>, finished: &mut HashSet<Place>) -> bool {
    let place: Place = std::ptr::from_ref(schema);
    if path.contains(&place) || path.len() > MAX_CHAIN {
        return true;
    }
    if finished.contains(&place) {
        return false;
    }
    path.push(place);
    let endless = applied(root, schema).any(|next| applies_itself(root, next, path, finished));
    path.pop();
    finished.insert(place);
    endless
}

fn applied<'a>(root: &'a Value, schema: &'a Value) -> impl Iterator<Item = &'a Value> {
    let reference = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| reference.strip_prefix('#'))
        .and_then(|pointer| root.pointer(&decoded(pointer)));
    let combined = COMBINATIONS.iter().filter_map(|key| schema.get(key)).filter_map(Value::as_array).flatten();
    let single = SINGLE.iter().filter_map(|key| schema.get(key));
    reference.into_iter().chain(combined).chain(single).filter(|value| value.is_object())
}

/// Percent-decodes a JSON pointer in a URI fragment.
fn decoded(pointer: &str) -> String {
    if !pointer.contains('%') {
        return pointer.to_owned();
    }
    let pair = format!("p={}", pointer.replace('+', "%2B").replace('&', "%26"));
    url::form_urlencoded::parse(pair.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::is_endless;
    use serde_json::json;

    #[test]
    fn a_tree_ends() {
        assert!(!is_endless(&json!({
            "type": "object",
            "properties": {"root": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}
        })));
        assert!(!is_endless(&json!({"type": "object", "properties": {"again": {"$ref": "#"}}})));
        assert!(!is_endless(&json!({"$ref": "#/nowhere"})));
    }

    #[test]
    fn a_schema_that_refers_to_itself_is_endless() {
        assert!(is_endless(&json!({"$ref": "#"})));
        assert!(is_endless(&json!({"properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}})));
        assert!(is_endless(&json!({"$defs": {"x y": {"not": {"$ref": "#/$defs/x%20y"}}}})));
    }
}
