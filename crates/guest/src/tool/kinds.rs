//! Which kinds of JSON values a schema accepts.

use serde_json::Value;

/// The maximum depth to which references and alternatives within a schema are followed.
const MAX_REFERENCES: usize = 8;

/// The JSON types that a parameter accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) text: bool,
    pub(super) integer: bool,
    pub(super) number: bool,
    pub(super) boolean: bool,
    pub(super) array: bool,
    pub(super) object: bool,
    pub(super) null: bool,
}

impl Kinds {
    /// Whether the schema does not restrict the type.
    pub(super) fn is_any(self) -> bool {
        self == Self::default()
    }

    fn add(&mut self, name: &str) {
        match name {
            "string" => self.text = true,
            "integer" => self.integer = true,
            "number" => self.number = true,
            "boolean" => self.boolean = true,
            "array" => self.array = true,
            "object" => self.object = true,
            "null" => self.null = true,
            _ => {}
        }
    }

    pub(super) fn takes(self, value: &Value) -> bool {
        self.is_any()
            || match value {
                Value::Null => self.null,
                Value::Bool(_) => self.boolean,
                Value::Number(number) => self.number || self.integer && (number.is_i64() || number.is_u64()),
                Value::String(_) => self.text,
                Value::Array(_) => self.array,
                Value::Object(_) => self.object,
            }
    }

    /// The names of the types.
    pub(super) fn names(self) -> String {
        let all = [
            (self.text, "string"),
            (self.integer, "integer"),
            (self.number, "number"),
            (self.boolean, "boolean"),
            (self.array, "array"),
            (self.object, "object"),
            (self.null, "null"),
        ];
        let names: Vec<&str> = all.iter().filter(|(takes, _)| *takes).map(|(_, name)| *name).collect();
        if names.is_empty() { "any".to_owned() } else { names.join(" or ") }
    }
}

/// The types that a part of the schema `root` accepts.
pub(super) fn kinds(root: &Value, schema: &Value) -> Kinds {
    let mut found = Kinds::default();
    collect(root, schema, MAX_REFERENCES, &mut found);
    found
}

fn collect(root: &Value, schema: &Value, references: usize, found: &mut Kinds) {
    match schema.get("type") {
        Some(Value::String(name)) => found.add(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).for_each(|name| found.add(name)),
        _ => {}
    }
    if references == 0 {
        return;
    }
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|path| root.pointer(path.strip_prefix('#')?));
    let parts = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
    for part in parts.chain(target) {
        collect(root, part, references - 1, found);
    }
    if schema.get("type").is_none() {
        let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"));
        for value in listed {
            found.add(match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            });
        }
    }
}
