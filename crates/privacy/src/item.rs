//! Text and JSON, and how they are visited. Every visit has the same order.

use crate::PrivacyError;
use serde_json::{Map, Number, Value};

/// Text or JSON that is changed in place.
#[derive(Debug)]
pub enum Item<'a> {
    /// A text.
    Text(&'a mut String),
    /// JSON. Its strings, keys and numbers change; its structure does not.
    Json(&'a mut Value),
}

/// Looks at texts and numbers.
pub(crate) trait Look {
    /// A text, and the key whose value it is or is part of.
    fn text(&mut self, key: Option<&str>, text: &str);
    /// A number and its key.
    fn number(&mut self, key: Option<&str>, number: &Number);
}

/// Replaces texts and numbers. What stays as it is, is `None`.
pub(crate) trait Replace {
    /// The replacement of a string.
    fn string(&mut self, text: &str) -> Option<Value>;
    /// The replacement of a text that must remain one: a key, or a text that is not part of JSON.
    fn text(&mut self, text: &str) -> Option<String>;
    /// The replacement of a number.
    fn number(&mut self, number: &Number) -> Option<Value>;
}

pub(crate) fn look(items: &[Item<'_>], looking: &mut impl Look) {
    for item in items {
        match item {
            Item::Text(text) => looking.text(None, text),
            Item::Json(value) => look_at(value, None, looking),
        }
    }
}

pub(crate) fn look_at(value: &Value, key: Option<&str>, looking: &mut impl Look) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => looking.number(key, number),
        Value::String(text) => looking.text(key, text),
        Value::Array(items) => items.iter().for_each(|item| look_at(item, key, looking)),
        Value::Object(entries) => {
            for (key, value) in entries {
                looking.text(None, key);
                look_at(value, Some(key), looking);
            }
        }
    }
}

pub(crate) fn replace(items: &mut [Item<'_>], replacing: &mut impl Replace) -> Result<(), PrivacyError> {
    for item in items {
        match item {
            Item::Text(text) => {
                if let Some(new) = replacing.text(text) {
                    **text = new;
                }
            }
            Item::Json(value) => replace_in(value, replacing)?,
        }
    }
    Ok(())
}

fn replace_in(value: &mut Value, replacing: &mut impl Replace) -> Result<(), PrivacyError> {
    let new = match value {
        Value::Null | Value::Bool(_) => None,
        Value::Number(number) => replacing.number(number),
        Value::String(text) => replacing.string(text),
        Value::Array(items) => {
            for item in items {
                replace_in(item, replacing)?;
            }
            None
        }
        Value::Object(entries) => {
            let mut renamed = None;
            for (place, (key, value)) in entries.iter_mut().enumerate() {
                if let Some(new) = replacing.text(key) {
                    renamed.get_or_insert_with(Vec::new).push((place, new));
                }
                replace_in(value, replacing)?;
            }
            if let Some(renamed) = renamed {
                rename(entries, renamed)?;
            }
            None
        }
    };
    if let Some(new) = new {
        *value = new;
    }
    Ok(())
}

/// Renames the entries at these places.
fn rename(entries: &mut Map<String, Value>, renamed: Vec<(usize, String)>) -> Result<(), PrivacyError> {
    let mut renamed = renamed.into_iter().peekable();
    let count = entries.len();
    let all = std::mem::take(entries).into_iter().enumerate().map(|(place, (key, value))| {
        let new = renamed.next_if(|(of, _)| *of == place);
        (new.map_or(key, |(_, new)| new), value)
    });
    *entries = all.collect();
    if entries.len() == count { Ok(()) } else { Err(PrivacyError::SameKey) }
}
