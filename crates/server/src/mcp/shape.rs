//! Summary of a large value: type, length, keys and a few items.

use serde_json::{Map, Value, json};

/// Maximum number of items and of keys.
const ITEMS: usize = 3;
const KEYS: usize = 20;
/// Maximum length of a text in characters.
const CHARS: usize = 120;
/// Depth below which only the type and the length are given.
const DEPTH: usize = 3;

/// Summarizes a value.
pub(crate) fn summary(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut shown = json!({ "type": "array", "length": items.len(), "first": sample(value, 0) });
            if let (Some(keys), Some(fields)) = (shared_keys(items), shown.as_object_mut()) {
                fields.insert("keys".to_owned(), keys);
            }
            shown
        }
        Value::Object(fields) => json!({
            "type": "object", "length": fields.len(),
            "keys": fields.keys().take(KEYS).map(|key| short(key)).collect::<Vec<_>>(),
            "first": sample(value, 0),
        }),
        Value::String(text) => json!({ "type": "string", "length": text.chars().count(), "first": short(text) }),
        other => other.clone(),
    }
}

/// Keys of the first item, if it is an object, as the columns of a table.
fn shared_keys(items: &[Value]) -> Option<Value> {
    let Value::Object(first) = items.first()? else { return None };
    Some(Value::from(first.keys().take(KEYS).map(|key| short(key)).collect::<Vec<_>>()))
}

fn sample(value: &Value, depth: usize) -> Value {
    match value {
        Value::Array(items) if depth >= DEPTH => Value::from(format!("array of {}", items.len())),
        Value::Object(fields) if depth >= DEPTH => Value::from(format!("object of {}", fields.len())),
        Value::Array(items) => {
            let mut shown: Vec<Value> = items.iter().take(ITEMS).map(|item| sample(item, depth + 1)).collect();
            if items.len() > ITEMS && depth > 0 {
                shown.push(Value::from(format!("… {} more", items.len() - ITEMS)));
            }
            Value::Array(shown)
        }
        Value::Object(fields) => {
            let most = if depth == 0 { ITEMS } else { KEYS };
            let mut shown: Map<String, Value> =
                fields.iter().take(most).map(|(key, inner)| (short(key), sample(inner, depth + 1))).collect();
            if fields.len() > most && depth > 0 {
                shown.insert("…".to_owned(), Value::from(format!("{} more", fields.len() - most)));
            }
            Value::Object(shown)
        }
        Value::String(text) => Value::from(short(text)),
        other => other.clone(),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::summary;
    use serde_json::{Value, json};

    #[test]
    fn a_table_is_summarized_by_length_columns_and_rows() {
        let rows: Vec<Value> = (0..1000).map(|n| json!({ "id": n, "name": "x".repeat(500) })).collect();
        let shown = summary(&Value::from(rows));
        assert_eq!(shown["length"], 1000);
        assert_eq!(shown["keys"], json!(["id", "name"]));
        assert_eq!(shown["first"].as_array().unwrap().len(), 3);
        assert!(shown.to_string().len() < 1_000);
    }

    #[test]
    fn a_summary_is_always_small() {
        let mut deep = json!({ "k".repeat(10_000): "v" });
        for _ in 0..60 {
            deep = json!({ "a": [deep.clone(), deep], "b": "x".repeat(10_000) });
            if deep.to_string().len() > 1 << 22 {
                break;
            }
        }
        assert!(summary(&deep).to_string().len() < 20_000);
        assert_eq!(summary(&json!("é".repeat(500)))["length"], 500);
        assert_eq!(summary(&json!(3)), json!(3));
    }
}
