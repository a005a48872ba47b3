//! JSON with sorted keys, for digests, signatures and files that are compared: equal values have equal texts, whatever order
//! the maps of `serde_json` keep.

use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Writes a value with the keys of all its objects in order.
#[derive(Clone, Copy, Debug)]
pub struct Sorted<'a>(pub &'a Value);

/// Writes an object with its keys, and those of all objects in it, in order.
#[derive(Clone, Copy, Debug)]
pub struct SortedMap<'a>(pub &'a Map<String, Value>);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    sequence.serialize_element(&Sorted(item))?;
                }
                sequence.end()
            }
            Value::Object(entries) => SortedMap(entries).serialize(serializer),
            other => other.serialize(serializer),
        }
    }
}

impl Serialize for SortedMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entries: Vec<(&String, &Value)> = self.0.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        let mut map = serializer.serialize_map(Some(entries.len()))?;
        for (key, value) in entries {
            map.serialize_entry(key, &Sorted(value))?;
        }
        map.end()
    }
}

/// The JSON of a value as bytes, with sorted keys.
pub fn sorted_json(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Sorted(&serde_json::to_value(value)?))
}

/// The JSON of a value for people, with sorted keys.
pub fn sorted_json_pretty(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Sorted(&serde_json::to_value(value)?))
}

#[cfg(test)]
mod tests {
    use super::{Sorted, SortedMap, sorted_json, sorted_json_pretty};
    use serde::Serialize;
    use serde_json::{Value, json};

    /// Its keys are not in order, whatever `serde_json` does with maps.
    #[derive(Serialize)]
    struct Unsorted {
        z: u32,
        a: Vec<Inner>,
    }

    #[derive(Serialize)]
    struct Inner {
        y: bool,
        b: Option<f64>,
    }

    const UNSORTED: Unsorted = Unsorted { z: 1, a: Vec::new() };

    #[test]
    fn keys_of_all_objects_are_sorted() {
        let value = Unsorted { a: vec![Inner { y: true, b: Some(0.5) }], ..UNSORTED };
        // The control: without the helper, they are not.
        assert_eq!(serde_json::to_string(&value).unwrap(), r#"{"z":1,"a":[{"y":true,"b":0.5}]}"#);
        let sorted = r#"{"a":[{"b":0.5,"y":true}],"z":1}"#;
        assert_eq!(String::from_utf8(sorted_json(&value).unwrap()).unwrap(), sorted);
        assert_eq!(sorted_json_pretty(&UNSORTED).unwrap(), "{\n  \"a\": [],\n  \"z\": 1\n}");
    }

    #[test]
    fn the_order_of_a_text_does_not_matter() {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (one, other) = (read(r#"{"b":[{"d":1,"c":null}],"a":"x"}"#), read(r#"{"a":"x","b":[{"c":null,"d":1}]}"#));
        let text = |value: &Value| serde_json::to_string(&Sorted(value)).unwrap();
        assert_eq!(text(&one), text(&other));
        assert_eq!(text(&one), r#"{"a":"x","b":[{"c":null,"d":1}]}"#);
        assert_eq!(serde_json::to_string(&SortedMap(one.as_object().unwrap())).unwrap(), text(&other));
        assert_ne!(text(&one), text(&json!({"a": "x", "b": [{"c": null, "d": 2}]})));
    }
}
