//! Objects: combines `properties`, `allOf`, references and alternatives.

use super::{Followed, MAX_DEPTH, MAX_FIELDS, MAX_NODES, MAX_VARIANTS, MAX_WIRE_BYTES, Reader, described};
use crate::defaults;
use crate::model::{Field, Type};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// An object as a flat list of properties.
#[derive(Default)]
pub(super) struct Flat<'a> {
    /// Schemas by name. There are several if several parts describe the same property.
    properties: BTreeMap<&'a str, Vec<&'a Value>>,
    /// Required properties in the order of the schema, which usually starts with the most important.
    required: Vec<&'a str>,
    /// The schema of further properties.
    pub(super) additional: Option<&'a Value>,
    /// Whether the schema explicitly allows further properties.
    pub(super) open: bool,
}

impl<'a> Flat<'a> {
    fn add(&mut self, other: Flat<'a>) {
        for (name, schemas) in other.properties {
            let known = self.properties.entry(name).or_default();
            for schema in schemas {
                if !known.contains(&schema) {
                    known.push(schema);
                }
            }
        }
        for name in other.required {
            self.require(name);
        }
        self.additional = self.additional.or(other.additional);
        self.open |= other.open;
    }

    fn require(&mut self, name: &'a str) {
        if self.required.len() < MAX_FIELDS && !self.required.contains(&name) {
            self.required.push(name);
        }
    }
}

impl<'a> Reader<'a> {
    /// The properties of an object schema and of everything that it combines. `None` if it is not an object.
    pub(super) fn flatten(&mut self, map: &'a Map<String, Value>, depth: usize) -> Option<Flat<'a>> {
        self.records.nodes += 1;
        if depth > MAX_DEPTH || self.records.nodes > MAX_NODES {
            return None;
        }
        let may_be_object = match map.get("type") {
            None => true,
            Some(Value::String(name)) => name == "object",
            Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
            Some(_) => false,
        };
        if !may_be_object || map.contains_key("enum") || map.contains_key("const") {
            return None;
        }
        let mut flat = Flat::default();
        if let Some(Value::Object(properties)) = map.get("properties") {
            for (name, schema) in properties {
                flat.properties.entry(name).or_default().push(schema);
            }
        }
        if let Some(Value::Array(names)) = map.get("required") {
            // Servers also list properties as required that they fill in themselves: that is what they receive, not
            // what callers must give.
            let is_needed = |name: &&str| !self.is_given || defaults::of(map, name).is_none();
            names.iter().filter_map(Value::as_str).filter(is_needed).for_each(|name| flat.require(name));
        }
        match map.get("additionalProperties") {
            Some(Value::Bool(true)) => flat.open = true,
            Some(schema @ Value::Object(_)) => flat.additional = Some(schema),
            _ => {}
        }
        if let Some(Value::Object(patterns)) = map.get("patternProperties") {
            match patterns.values().next() {
                Some(schema) if patterns.len() == 1 && flat.additional.is_none() => flat.additional = Some(schema),
                Some(_) => flat.open = true,
                None => {}
            }
        }
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            let Some(Value::Object(found)) = self.resolve(target) else { return None };
            flat.add(self.flatten(found, depth + 1)?);
        }
        if let Some(Value::Array(parts)) = map.get("allOf") {
            for part in parts.iter().take(MAX_VARIANTS) {
                match part {
                    Value::Object(part) => flat.add(self.flatten(part, depth + 1)?),
                    Value::Bool(true) => {}
                    _ => return None,
                }
            }
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(variants)) = map.get(keyword) {
                flat.add(self.alternatives(variants, depth)?);
            }
        }
        Some(flat)
    }

    /// The properties of all alternatives. Only those that all alternatives require are required.
    fn alternatives(&mut self, variants: &'a [Value], depth: usize) -> Option<Flat<'a>> {
        let mut joined = Flat::default();
        let mut common: Option<Vec<&str>> = None;
        for variant in variants.iter().take(MAX_VARIANTS) {
            let Value::Object(variant) = variant else { return None };
            let mut flat = self.flatten(variant, depth + 1)?;
            let required = std::mem::take(&mut flat.required);
            common = Some(match common {
                None => required,
                Some(names) => names.into_iter().filter(|name| required.contains(name)).collect(),
            });
            joined.add(flat);
        }
        joined.required = common.unwrap_or_default();
        Some(joined)
    }

    /// The fields in order: required ones as the schema lists them, then the others by name. Also returns whether some
    /// had to be left out.
    pub(super) fn fields(&mut self, flat: &Flat<'a>, depth: usize) -> (Vec<Field>, bool) {
        let known = |name: &&&str| flat.properties.contains_key(**name);
        let required: Vec<&str> = flat.required.iter().filter(known).copied().collect();
        let first: BTreeSet<&str> = required.iter().copied().collect();
        let others = flat.properties.keys().filter(|name| !first.contains(**name)).copied();
        let usable = required.iter().copied().chain(others).filter(|name| name.len() <= MAX_WIRE_BYTES);
        let names: Vec<&str> = usable.take(MAX_FIELDS).collect();
        let left_out = names.len() < flat.properties.len();
        let fields = names.into_iter().map(|name| {
            let schemas = &flat.properties[name];
            let kinds: Vec<_> = schemas.iter().map(|schema| self.convert(schema, name, depth + 1)).collect();
            Field {
                wire: name.to_owned(),
                kind: Type::union(kinds),
                required: first.contains(name),
                description: schemas
                    .iter()
                    .map(|schema| described(schema))
                    .find(|text| !text.is_empty())
                    .unwrap_or_default(),
            }
        });
        (fields.collect(), left_out)
    }

    /// The type of an object: a record if its fields are known, or else a map.
    pub(super) fn record(
        &mut self,
        map: &'a Map<String, Value>,
        hint: &str,
        depth: usize,
        reference: Option<&'a str>,
    ) -> Type {
        let Some(flat) = self.flatten(map, depth) else { return self.first_part(map, hint, depth) };
        if flat.properties.is_empty() {
            let inner = flat.additional.map_or(Type::Any, |schema| self.convert(schema, hint, depth + 1));
            return Type::Map(Box::new(inner));
        }
        let description = map.get("description").and_then(Value::as_str).unwrap_or_default();
        let hint = map.get("title").and_then(Value::as_str).filter(|title| title.len() <= 40).unwrap_or(hint);
        let Some(index) = self.records.declare(hint, description) else {
            return Type::Map(Box::new(Type::Any));
        };
        if let Some(reference) = reference {
            self.followed.insert(reference, Followed::Done(Type::Record(index)));
        }
        let (fields, left_out) = self.fields(&flat, depth);
        self.records.define(index, fields, left_out || flat.open || flat.additional.is_some());
        Type::Record(index)
    }

    /// For `allOf` without objects, returns the first part that has a type.
    fn first_part(&mut self, map: &'a Map<String, Value>, hint: &str, depth: usize) -> Type {
        let Some(Value::Array(parts)) = map.get("allOf") else { return Type::Any };
        let kinds: Vec<_> = parts.iter().take(MAX_VARIANTS).map(|part| self.convert(part, hint, depth + 1)).collect();
        let mut known = kinds.into_iter().filter(|kind| *kind != Type::Any);
        match (known.next(), known.next()) {
            (Some(kind), None) => kind,
            (Some(kind), Some(other)) if kind == other => kind,
            _ => Type::Any,
        }
    }
}
