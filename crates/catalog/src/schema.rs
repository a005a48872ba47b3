//! Converts JSON Schema to [`Type`]s. Schemas are untrusted: they may be deep, huge, recursive or invalid.
//!
//! Everything that cannot be expressed, or is beyond a limit, becomes `Any`: types only help to write code, and
//! arguments are checked elsewhere. References are followed only within the same schema.

mod object;

use crate::model::{Field, Literal, Record, Type};
use crate::names::{Names, Place, type_name};
use crate::text::{self, PARAMETER_CHARS};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The maximum depth. Deeper schemas are `Any`.
const MAX_DEPTH: usize = 24;
/// The maximum number of schemas that are converted for one tool. The rest is `Any`.
const MAX_NODES: usize = 4_000;
/// The maximum number of named object types in a module.
const MAX_RECORDS: usize = 200;
/// The maximum number of fields of an object, and of arguments of a tool.
pub(crate) const MAX_FIELDS: usize = 200;
/// The maximum number of alternatives in a union.
const MAX_VARIANTS: usize = 32;
/// The maximum number of values of an enumeration.
const MAX_LITERALS: usize = 100;
/// The maximum length of a value of an enumeration.
const MAX_LITERAL_CHARS: usize = 200;
/// The maximum length of the wire name of a field or an argument.
const MAX_WIRE_BYTES: usize = 1_000;
/// The maximum length of a default value in a description.
const MAX_DEFAULT_CHARS: usize = 80;

/// The records of one module, and its remaining budget.
pub(crate) struct Records {
    declared: Vec<Record>,
    names: Names,
    nodes: usize,
}

impl Records {
    /// Reserves `function`, the name of the tool in the same module.
    pub(crate) fn new(function: &str) -> Self {
        let mut names = Names::default();
        names.take(function, Place::Type);
        Self { declared: Vec::new(), names, nodes: 0 }
    }

    /// Declares a record with a free name like `hint`. Its fields follow later, because they may refer to it.
    pub(crate) fn declare(&mut self, hint: &str, description: &str) -> Option<usize> {
        if self.declared.len() >= MAX_RECORDS {
            return None;
        }
        let name = self.names.take(&type_name(hint), Place::Type);
        self.declared.push(Record { name, description: description.to_owned(), ..Record::default() });
        Some(self.declared.len() - 1)
    }

    pub(crate) fn define(&mut self, index: usize, fields: Vec<Field>, open: bool) {
        if let Some(record) = self.declared.get_mut(index) {
            record.fields = fields;
            record.open = open;
        }
    }

    pub(crate) fn into_inner(self) -> Vec<Record> {
        self.declared
    }
}

/// The state of a reference while it is followed and afterwards.
#[derive(Clone)]
enum Followed {
    /// The reference is being followed and is not an object: a cycle back to it cannot be expressed as a type.
    Pending,
    Done(Type),
}

/// Converts the schemas of one document.
pub(crate) struct Reader<'a> {
    root: &'a Map<String, Value>,
    records: &'a mut Records,
    followed: HashMap<&'a str, Followed>,
    /// Whether the document describes arguments rather than results.
    is_given: bool,
}

/// The arguments of a tool.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) fields: Vec<Field>,
    pub(crate) more: Option<Type>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(root: &'a Map<String, Value>, records: &'a mut Records) -> Self {
        Self { root, records, followed: HashMap::new(), is_given: false }
    }

    /// Converts the root to the arguments of a function.
    pub(crate) fn arguments(&mut self) -> Arguments {
        self.is_given = true;
        let Some(flat) = self.flatten(self.root, 0) else {
            return Arguments { fields: Vec::new(), more: Some(Type::Any) };
        };
        let (fields, left_out) = self.fields(&flat, 0);
        let more = match flat.additional {
            Some(schema) => Some(self.convert(schema, "more", 1)),
            None if flat.open || left_out => Some(Type::Any),
            None => None,
        };
        Arguments { fields, more }
    }

    /// Converts the root to the type of a value.
    pub(crate) fn value(&mut self, hint: &str) -> Type {
        self.object_schema(self.root, hint, 0, Some("#"))
    }

    fn convert(&mut self, schema: &'a Value, hint: &str, depth: usize) -> Type {
        match schema {
            Value::Object(map) => self.object_schema(map, hint, depth, None),
            // `true` accepts anything, and `false` nothing, which no caller can use.
            _ => Type::Any,
        }
    }

    /// `reference` is the reference that led to `map`, if a cycle could lead back to it.
    fn object_schema(
        &mut self,
        map: &'a Map<String, Value>,
        hint: &str,
        depth: usize,
        reference: Option<&'a str>,
    ) -> Type {
        self.records.nodes += 1;
        if depth > MAX_DEPTH || self.records.nodes > MAX_NODES {
            return Type::Any;
        }
        let kind = self.bare(map, hint, depth, reference);
        // The older way to allow null.
        if map.get("nullable") == Some(&Value::Bool(true)) { Type::union([kind, Type::Null]) } else { kind }
    }

    fn bare(&mut self, map: &'a Map<String, Value>, hint: &str, depth: usize, reference: Option<&'a str>) -> Type {
        if let Some(value) = map.get("const") {
            return literals(std::slice::from_ref(value));
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            return literals(values);
        }
        if let Some(target) = map.get("$ref") {
            let has_fields = map.contains_key("properties");
            match target.as_str() {
                Some(target) if !has_fields => return self.follow(target, depth),
                Some(_) => {}
                None => return Type::Any,
            }
        }
        if has_properties(map) || map.contains_key("allOf") {
            return self.record(map, hint, depth, reference);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(variants)) = map.get(keyword) {
                let shown = variants.iter().take(MAX_VARIANTS);
                let parts: Vec<_> = shown.map(|variant| self.convert(variant, hint, depth + 1)).collect();
                return if variants.len() > MAX_VARIANTS { Type::Any } else { Type::union(parts) };
            }
        }
        match map.get("type") {
            Some(Value::String(name)) => self.named(name, map, hint, depth, reference),
            Some(Value::Array(names)) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).take(MAX_VARIANTS).collect();
                Type::union(names.into_iter().map(|name| self.named(name, map, hint, depth, reference)))
            }
            _ if map.contains_key("items") || map.contains_key("prefixItems") => self.array(map, hint, depth),
            _ if map.contains_key("additionalProperties") || map.contains_key("patternProperties") => {
                self.record(map, hint, depth, reference)
            }
            _ => Type::Any,
        }
    }

    fn named(
        &mut self,
        name: &str,
        map: &'a Map<String, Value>,
        hint: &str,
        depth: usize,
        reference: Option<&'a str>,
    ) -> Type {
        match name {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "string" => Type::Text,
            "array" => self.array(map, hint, depth),
            "object" => self.record(map, hint, depth, reference),
            _ => Type::Any,
        }
    }

    fn array(&mut self, map: &'a Map<String, Value>, hint: &str, depth: usize) -> Type {
        let (places, rest) = match (map.get("prefixItems"), map.get("items")) {
            (Some(Value::Array(places)), rest) => (places.as_slice(), rest),
            // Tuples before draft 2020-12.
            (_, Some(Value::Array(places))) => (places.as_slice(), map.get("additionalItems")),
            (_, rest) => (&[][..], rest),
        };
        if places.is_empty() {
            return Type::Array(Box::new(rest.map_or(Type::Any, |items| self.convert(items, hint, depth + 1))));
        }
        let shown = places.iter().take(MAX_VARIANTS);
        let mut parts: Vec<_> = shown.map(|place| self.convert(place, hint, depth + 1)).collect();
        let count = |keyword: &str| map.get(keyword).and_then(Value::as_u64);
        let length = places.len() as u64;
        let is_closed = rest == Some(&Value::Bool(false)) || count("maxItems") == Some(length);
        if is_closed && count("minItems") == Some(length) && places.len() <= MAX_VARIANTS {
            return Type::Tuple(parts);
        }
        if !is_closed {
            parts.push(rest.map_or(Type::Any, |items| self.convert(items, hint, depth + 1)));
        }
        Type::Array(Box::new(Type::union(parts)))
    }

    fn follow(&mut self, target: &'a str, depth: usize) -> Type {
        match self.followed.get(target) {
            Some(Followed::Done(kind)) => return kind.clone(),
            Some(Followed::Pending) => return Type::Any,
            None => {}
        }
        let Some(found) = self.resolve(target) else { return Type::Any };
        let Value::Object(map) = found else { return Type::Any };
        self.followed.insert(target, Followed::Pending);
        let hint = unescaped(target.rsplit('/').next().unwrap_or_default());
        let kind = self.object_schema(map, &hint, depth + 1, Some(target));
        self.followed.insert(target, Followed::Done(kind.clone()));
        kind
    }

    /// A part of this document. `None` for other references, which are never fetched.
    fn resolve(&self, target: &str) -> Option<&'a Value> {
        let path = target.strip_prefix("#/")?;
        let mut parts = path.split('/').map(unescaped);
        let mut found = self.root.get(&parts.next()?)?;
        for part in parts {
            found = match found {
                Value::Object(map) => map.get(&part)?,
                Value::Array(list) => list.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(found)
    }
}

fn has_properties(map: &Map<String, Value>) -> bool {
    matches!(map.get("properties"), Some(Value::Object(properties)) if !properties.is_empty())
}

/// Decodes one step of a JSON pointer in a URI.
fn unescaped(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().replace("~1", "/").replace("~0", "~")
}

/// The type of an enumeration: its values, or their common type if they cannot all be named.
fn literals(values: &[Value]) -> Type {
    let plain = values.iter().map(literal).collect::<Option<Vec<_>>>();
    match plain {
        Some(plain) if !plain.is_empty() && plain.len() <= MAX_LITERALS => {
            Type::union(plain.into_iter().map(|value| match value {
                Literal::Null => Type::Null,
                other => Type::Literals(vec![other]),
            }))
        }
        _ => Type::union(values.iter().map(|value| match value {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Boolean,
            Value::Number(number) if number.is_f64() => Type::Number,
            Value::Number(_) => Type::Integer,
            Value::String(_) => Type::Text,
            Value::Array(_) => Type::Array(Box::new(Type::Any)),
            Value::Object(_) => Type::Map(Box::new(Type::Any)),
        })),
    }
}

fn literal(value: &Value) -> Option<Literal> {
    match value {
        Value::Null => Some(Literal::Null),
        Value::Bool(value) => Some(Literal::Boolean(*value)),
        Value::Number(number) => number.as_i64().map(Literal::Integer),
        Value::String(text) if text.chars().count() <= MAX_LITERAL_CHARS => Some(Literal::Text(text.clone())),
        _ => None,
    }
}

/// The text of a schema for a docstring.
fn described(schema: &Value) -> String {
    let Value::Object(map) = schema else { return String::new() };
    let mut words =
        map.get("description").or_else(|| map.get("title")).and_then(Value::as_str).map_or_else(String::new, |text| {
            text::clean(text, PARAMETER_CHARS).split_whitespace().collect::<Vec<_>>().join(" ")
        });
    let mut notes = Vec::new();
    for (keyword, name) in [("minimum", "at least"), ("maximum", "at most")] {
        if let Some(Value::Number(number)) = map.get(keyword) {
            notes.push(format!("{name} {number}"));
        }
    }
    if let Some(format) = map.get("format").and_then(Value::as_str) {
        notes.push(format!("format {}", text::one_line(format, MAX_DEFAULT_CHARS)));
    }
    if let Some(value) = map.get("default").filter(|value| !value.is_null()) {
        let shown = value.to_string();
        if shown.chars().count() <= MAX_DEFAULT_CHARS {
            notes.push(format!("default {}", text::one_line(&shown, MAX_DEFAULT_CHARS)));
        }
    }
    if !notes.is_empty() {
        if !words.is_empty() {
            words.push(' ');
        }
        let _ = write!(words, "({})", notes.join(", "));
    }
    words
}

#[cfg(test)]
mod tests;
