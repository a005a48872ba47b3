//! Lists of maps with fixed keys, in which each key has its own line.

use super::{Gathered, Source};
use crate::Origin;
use crate::keys::Kind;
use crate::problem::Reason;
use crate::suggest::nearest;
use crate::value;
use crate::yaml::{Content, Node};
use serde_json::{Map, Value};

/// The maximum number of entries of a list.
const MAX_ENTRIES: usize = 1_000;

impl Gathered {
    /// Adds a list of maps. It replaces the list of a weaker source.
    pub(super) fn entries(
        &mut self,
        path: &'static str,
        fields: &'static [(&'static str, Kind)],
        node: &Node,
        origin: &Origin,
        source: &Source<'_>,
    ) {
        let items = match &node.content {
            Content::List(items) => items,
            Content::Null => return,
            _ => {
                let reason = value::wrong_type(Kind::Entries(fields), node.what());
                return self.problem((source.origin)(node.place), path, reason);
            }
        };
        if items.len() > MAX_ENTRIES {
            let (value, least) = (format!("a list of {}", items.len()), "0".to_owned());
            let reason = Reason::OutOfRange { value, least, most: format!("{MAX_ENTRIES} entries") };
            return self.problem(origin.clone(), path, reason);
        }
        let prefix = format!("{path}.");
        self.entries.retain(|key, _| !key.starts_with(&prefix));
        let entries = items.iter().enumerate().map(|(number, node)| {
            let key = format!("{path}.{number}");
            self.entries.insert(key.clone(), (source.origin)(node.place));
            self.entry(&key, fields, node, source)
        });
        let entries: Vec<Value> = entries.collect();
        self.values.insert(path, (Value::Array(entries), origin.clone()));
    }

    fn entry(&mut self, path: &str, fields: &[(&'static str, Kind)], node: &Node, source: &Source<'_>) -> Value {
        let mut entry = Map::new();
        let Content::Map(keys) = &node.content else {
            let reason = Reason::WrongType { expected: "a map".to_owned(), found: node.what().to_owned() };
            self.problem((source.origin)(node.place), path, reason);
            return Value::Object(entry);
        };
        for (name, node) in keys {
            let key = format!("{path}.{}", name.text);
            let Some(&(field, kind)) = fields.iter().find(|(field, _)| *field == name.text) else {
                let known = fields.iter().map(|(field, _)| *field);
                let suggestion = nearest(&name.text, known.clone()).map(str::to_owned);
                let reason = Reason::UnknownKey { suggestion, known: known.map(str::to_owned).collect() };
                self.problem((source.origin)(name.place), &key, reason);
                continue;
            };
            match value::from_node(kind, node, source.base) {
                Ok(None) => {}
                Ok(Some(value)) => {
                    self.entries.insert(key, (source.origin)(name.place));
                    entry.insert(field.to_owned(), value);
                }
                Err(reason) => self.problem((source.origin)(node.place), &key, reason),
            }
        }
        Value::Object(entry)
    }
}
