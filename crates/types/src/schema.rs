use crate::SortedMap;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A JSON Schema that is an object. It is kept as text, which takes a fraction of the memory of a parsed schema, and
/// clones share it: a catalogue can hold a hundred thousand schemas and parse few of them. Its keys are sorted, so equal
/// schemas have equal texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema(Arc<str>);

impl Schema {
    /// The schema, parsed.
    pub fn object(&self) -> Map<String, Value> {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// The schema as JSON.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self(Arc::from("{}"))
    }
}

impl From<&Map<String, Value>> for Schema {
    fn from(schema: &Map<String, Value>) -> Self {
        serde_json::to_string(&SortedMap(schema)).map_or_else(|_| Self::default(), |text| Self(text.into()))
    }
}

impl From<Map<String, Value>> for Schema {
    fn from(schema: Map<String, Value>) -> Self {
        Self::from(&schema)
    }
}

impl FromIterator<(String, Value)> for Schema {
    fn from_iter<T: IntoIterator<Item = (String, Value)>>(members: T) -> Self {
        Self::from(members.into_iter().collect::<Map<_, _>>())
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let schema = Map::<String, Value>::deserialize(deserializer).map_err(D::Error::custom)?;
        Ok(Self::from(schema))
    }
}

#[cfg(test)]
mod tests {
    use super::Schema;
    use serde_json::{Value, json};

    #[test]
    fn it_serialises_as_the_original_object() {
        let value = json!({ "type": "object", "properties": { "n": { "default": 0.1, "description": "\u{0}\"é" } } });
        let schema: Schema = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(Value::Object(schema.object()), value);
        assert_eq!(serde_json::to_value(&schema).unwrap(), value);
        assert_eq!(serde_json::from_str::<Schema>(&serde_json::to_string(&schema).unwrap()).unwrap(), schema);
    }

    #[test]
    fn key_order_does_not_matter_and_only_objects_are_accepted() {
        let one: Schema = serde_json::from_str(r#"{ "a": 1, "b": 2 }"#).unwrap();
        let other: Schema = serde_json::from_str(r#"{ "b": 2, "a": 1 }"#).unwrap();
        assert_eq!(one, other);
        assert_eq!(other.as_str(), r#"{"a":1,"b":2}"#);
        assert_eq!(Schema::default().object(), serde_json::Map::new());
        assert!(serde_json::from_str::<Schema>("[]").is_err());
    }
}
