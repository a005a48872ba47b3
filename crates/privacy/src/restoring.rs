//! Replaces tokens by what they stand for.

use crate::cache::Entry;
use crate::item::{Look, Replace};
use crate::replaced::Replaced;
use crate::token::{label, spot};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::IgnoredAny;
use serde_json::{Number, Value};
use std::collections::{BTreeSet, HashMap};

/// Collects what has the form of a token.
#[derive(Default)]
pub(crate) struct Tokens {
    pub(crate) found: BTreeSet<String>,
}

impl Look for Tokens {
    fn text(&mut self, _key: Option<&str>, text: &str) {
        self.found.extend(spot(text).into_iter().map(|spotted| spotted.token));
    }

    fn number(&mut self, _key: Option<&str>, _number: &Number) {}
}

pub(crate) struct Restoring<'a> {
    entries: &'a HashMap<String, Entry>,
    pub(crate) replaced: Replaced,
}

/// How a value is written into a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    Plain,
    /// With the escapes of JSON.
    Escaped,
}

impl<'a> Restoring<'a> {
    pub(crate) fn new(entries: &'a HashMap<String, Entry>) -> Self {
        Self { entries, replaced: Replaced::default() }
    }

    fn written(&mut self, text: &str, writing: Writing) -> Option<String> {
        let mut new = String::with_capacity(text.len());
        let mut end = 0;
        for spotted in spot(text) {
            let Some(entry) = self.entries.get(&spotted.token) else { continue };
            new.push_str(text.get(end..spotted.span.start).unwrap_or_default());
            end = spotted.span.end;
            if spotted.is_encoded {
                new.extend(utf8_percent_encode(&entry.value, NON_ALPHANUMERIC));
            } else if writing == Writing::Escaped {
                let quoted = Value::from(&*entry.value).to_string();
                new.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
            } else {
                new.push_str(&entry.value);
            }
            self.count(&spotted.token);
        }
        if end == 0 {
            return None;
        }
        new.push_str(text.get(end..).unwrap_or_default());
        Some(new)
    }

    fn count(&mut self, token: &str) {
        self.replaced.count += 1;
        if !self.replaced.labels.contains(label(token)) {
            self.replaced.labels.insert(label(token).to_owned());
        }
    }
}

impl Replace for Restoring<'_> {
    fn string(&mut self, text: &str) -> Option<Value> {
        if let Some(entry) = self.entries.get(text).filter(|entry| entry.is_number)
            && let Ok(number) = serde_json::from_str::<Number>(&entry.value)
        {
            self.count(text);
            return Some(Value::Number(number));
        }
        self.text(text).map(Value::String)
    }

    fn text(&mut self, text: &str) -> Option<String> {
        let before = self.replaced.clone();
        let plain = self.written(text, Writing::Plain)?;
        // A value with a quotation mark in a text that is JSON itself.
        if is_json(text) && !is_json(&plain) {
            self.replaced = before;
            return self.written(text, Writing::Escaped);
        }
        Some(plain)
    }

    fn number(&mut self, _number: &Number) -> Option<Value> {
        None
    }
}

/// Whether a text is a JSON object or array.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// What has the form of a token in JSON.
pub fn tokens_in(value: &Value) -> BTreeSet<String> {
    let mut spotting = Tokens::default();
    crate::item::look_at(value, None, &mut spotting);
    spotting.found
}
