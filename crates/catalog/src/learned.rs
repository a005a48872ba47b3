//! The shapes of results, learned from earlier results. Values are never kept.
//!
//! Keys of objects can be data too: a table of ages by name has names as keys. So a key is kept only if each of its
//! words is in a fixed list of words that name fields (`learned/words.rs`). An object with other keys becomes a map,
//! and its keys are dropped. Everything that is stored therefore consists of our own words, whatever a server answers.

mod words;

use crate::model::{Field, Type};
use crate::schema::Records;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The maximum depth of values that are learned from.
const MAX_DEPTH: usize = 10;
/// The maximum number of fields of an object. An object with more is a map.
const MAX_FIELDS: usize = 60;
/// The maximum number of elements of an array, and of entries of a map, that are learned from.
const MAX_ELEMENTS: usize = 200;
/// The maximum number of fields in a shape. Further fields are dropped.
const MAX_SIZE: usize = 1_000;

/// The shape of a tool's results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    seen: u64,
    value: Node,
}

/// The kinds of values that were seen in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Node {
    #[serde(default, skip_serializing_if = "is_false")]
    null: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    boolean: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    integer: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    number: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    text: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    anything: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    array: Option<Box<Node>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<Object>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Object {
    Record(Record),
    Map(Box<Node>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    fields: BTreeMap<String, Entry>,
    /// Whether there were keys that are not stored.
    #[serde(default, skip_serializing_if = "is_false")]
    open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    value: Node,
    #[serde(default, skip_serializing_if = "is_false")]
    optional: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl Shape {
    /// The names of all fields, repeated if they occur in several places.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        let mut nodes = vec![&self.value];
        while let Some(node) = nodes.pop() {
            nodes.extend(node.array.as_deref());
            match &node.object {
                Some(Object::Record(record)) => {
                    keys.extend(record.fields.keys().cloned());
                    nodes.extend(record.fields.values().map(|entry| &entry.value));
                }
                Some(Object::Map(values)) => nodes.push(values),
                None => {}
            }
        }
        keys
    }

    /// The shape of one result.
    pub fn observe(value: &Value) -> Self {
        let mut budget = MAX_SIZE;
        Self { seen: 1, value: Node::of(value, 0, &mut budget) }
    }

    /// The number of results that the shape was learned from.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Merges another shape. Returns whether anything but the count changed.
    pub fn merge(&mut self, other: &Shape) -> bool {
        let before = self.value.clone();
        if self.seen == 0 {
            self.value = other.value.clone();
        } else if other.seen > 0 {
            self.value.merge(&other.value);
            if self.value.size() > MAX_SIZE {
                self.value.forget_fields();
            }
        }
        self.seen = self.seen.saturating_add(other.seen);
        before != self.value
    }

    pub(crate) fn as_type(&self, records: &mut Records, hint: &str) -> Type {
        self.value.as_type(records, hint, 0)
    }
}

impl Node {
    fn of(value: &Value, depth: usize, budget: &mut usize) -> Self {
        let mut node = Self::default();
        if depth > MAX_DEPTH {
            node.anything = true;
            return node;
        }
        match value {
            Value::Null => node.null = true,
            Value::Bool(_) => node.boolean = true,
            Value::Number(number) if number.is_f64() => node.number = true,
            Value::Number(_) => node.integer = true,
            Value::String(_) => node.text = true,
            Value::Array(list) => {
                let elements = list.iter().take(MAX_ELEMENTS);
                node.array = Some(Box::new(Self::all(elements, depth + 1, budget)));
            }
            Value::Object(map) => node.object = Some(Object::of(map, depth + 1, budget)),
        }
        node
    }

    fn all<'a>(values: impl Iterator<Item = &'a Value>, depth: usize, budget: &mut usize) -> Self {
        let mut joined: Option<Self> = None;
        for value in values {
            let node = Self::of(value, depth, budget);
            match &mut joined {
                Some(known) => known.merge(&node),
                None => joined = Some(node),
            }
        }
        joined.unwrap_or_default()
    }

    fn merge(&mut self, other: &Self) {
        self.null |= other.null;
        self.boolean |= other.boolean;
        self.integer |= other.integer;
        self.number |= other.number;
        self.text |= other.text;
        self.anything |= other.anything;
        match (&mut self.array, &other.array) {
            (Some(known), Some(new)) => known.merge(new),
            (known @ None, new) => known.clone_from(new),
            (Some(_), None) => {}
        }
        match (&mut self.object, &other.object) {
            (Some(known), Some(new)) => known.merge(new),
            (known @ None, new) => known.clone_from(new),
            (Some(_), None) => {}
        }
    }

    fn size(&self) -> usize {
        let array = self.array.as_ref().map_or(0, |inner| inner.size());
        let object = match &self.object {
            Some(Object::Record(record)) => record.fields.values().map(|entry| 1 + entry.value.size()).sum(),
            Some(Object::Map(inner)) => inner.size(),
            None => 0,
        };
        array + object
    }

    /// Keeps the top levels of a shape that has grown too large.
    fn forget_fields(&mut self) {
        if let Some(Object::Record(record)) = &mut self.object {
            for entry in record.fields.values_mut() {
                if entry.value.size() > 0 {
                    entry.value = Self { anything: true, ..Self::default() };
                }
            }
        } else if let Some(Object::Map(inner)) = &mut self.object {
            **inner = Self { anything: true, ..Self::default() };
        }
        if let Some(inner) = &mut self.array {
            inner.forget_fields();
        }
    }

    fn as_type(&self, records: &mut Records, hint: &str, depth: usize) -> Type {
        if self.anything || depth > 2 * MAX_DEPTH {
            return Type::Any;
        }
        let mut parts = Vec::new();
        if self.boolean {
            parts.push(Type::Boolean);
        }
        if self.number {
            parts.push(Type::Number);
        } else if self.integer {
            parts.push(Type::Integer);
        }
        if self.text {
            parts.push(Type::Text);
        }
        if let Some(inner) = &self.array {
            parts.push(Type::Array(Box::new(inner.as_type(records, hint, depth + 1))));
        }
        match &self.object {
            Some(Object::Map(inner)) => parts.push(Type::Map(Box::new(inner.as_type(records, hint, depth + 1)))),
            Some(Object::Record(record)) => parts.push(record.as_type(records, hint, depth + 1)),
            None => {}
        }
        // A field that is always null tells nothing about its type.
        if self.null {
            parts.push(if parts.is_empty() { Type::Any } else { Type::Null });
        }
        Type::union(parts)
    }
}

impl Object {
    fn of(map: &Map<String, Value>, depth: usize, budget: &mut usize) -> Self {
        let known = map.keys().filter(|key| words::name_a_field(key)).count();
        let is_record = known > 0 && map.len() <= MAX_FIELDS && 2 * known >= map.len();
        if map.is_empty() || (is_record && known <= *budget) {
            *budget -= known.min(*budget);
            let mut record = Record { open: known < map.len(), ..Record::default() };
            for (key, value) in map.iter().filter(|(key, _)| words::name_a_field(key)) {
                let value = Node::of(value, depth, budget);
                record.fields.insert(key.clone(), Entry { value, optional: false });
            }
            return Self::Record(record);
        }
        Self::Map(Box::new(Node::all(map.values().take(MAX_ELEMENTS), depth, budget)))
    }

    fn merge(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Map(known), Self::Map(new)) => known.merge(new),
            // Joined into one, so that the order of results does not matter.
            (Self::Map(known), Self::Record(new)) => known.merge(&new.joined()),
            (Self::Record(known), Self::Map(new)) => {
                let mut joined = known.joined();
                joined.merge(new);
                *self = Self::Map(Box::new(joined));
            }
            (Self::Record(known), Self::Record(new)) => {
                let is_disjoint = new.fields.keys().all(|key| !known.fields.contains_key(key));
                let is_table = is_disjoint && !known.fields.is_empty() && !new.fields.is_empty();
                known.merge(new);
                if is_table || known.fields.len() > MAX_FIELDS {
                    *self = Self::Map(Box::new(known.joined()));
                }
            }
        }
    }
}

impl Record {
    fn merge(&mut self, other: &Self) {
        for (key, entry) in &mut self.fields {
            entry.optional |= !other.fields.contains_key(key);
        }
        for (key, entry) in &other.fields {
            match self.fields.get_mut(key) {
                Some(known) => {
                    known.optional |= entry.optional;
                    known.value.merge(&entry.value);
                }
                None => {
                    self.fields.insert(key.clone(), Entry { value: entry.value.clone(), optional: true });
                }
            }
        }
        self.open |= other.open;
    }

    /// Merges all fields into one node.
    fn joined(&self) -> Node {
        let mut joined = Node::default();
        self.fields.values().for_each(|entry| joined.merge(&entry.value));
        joined
    }

    fn as_type(&self, records: &mut Records, hint: &str, depth: usize) -> Type {
        if self.fields.is_empty() {
            return Type::Map(Box::new(Type::Any));
        }
        let Some(index) = records.declare(hint, "") else { return Type::Map(Box::new(Type::Any)) };
        let fields = self.fields.iter().map(|(key, entry)| Field {
            wire: key.clone(),
            kind: entry.value.as_type(records, key, depth),
            required: !entry.optional,
            description: String::new(),
        });
        let fields = fields.collect();
        records.define(index, fields, self.open);
        Type::Record(index)
    }
}

#[cfg(test)]
mod tests;
