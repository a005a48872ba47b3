//! Replaces tokens by what they stand for.

use crate::cache::Entry;
use crate::item::{Look, Replace};
use crate::replaced::Replaced;
use crate::token::{DIGITS, label, spot};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::IgnoredAny;
use serde_json::{Number, Value};
use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};

/// Collects what has the form of a token.
#[derive(Default)]
pub(crate) struct Tokens {
    pub(crate) found: BTreeSet<String>,
}

impl Look for Tokens {
    fn text(&mut self, _key: Option<&str>, text: &str) {
        let before = self.found.len();
        self.found.extend(spot(text).into_iter().map(|spotted| spotted.token));
        if self.found.len() == before
            && let Some(attachment) = Attachment::of(text)
        {
            self.found.extend(spot(&attachment.text).into_iter().map(|spotted| spotted.token));
        }
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
        let numbers_are_bare = LazyCell::new(|| is_json(text));
        for spotted in spot(text) {
            let Some(entry) = self.entries.get(&spotted.token) else { continue };
            new.push_str(text.get(end..spotted.span.start).unwrap_or_default());
            end = spotted.span.end;
            let after = text.get(end..).unwrap_or_default();
            // A number is a string while a token stands for it. A key stays one.
            let is_value = after.strip_prefix('"').is_some_and(|rest| !rest.trim_start().starts_with(':'));
            if entry.is_number && is_value && new.ends_with('"') && *numbers_are_bare {
                new.pop();
                end += 1;
            }
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
        let Some(plain) = self.written(text, Writing::Plain) else {
            let attachment = Attachment::of(text)?;
            let restored = self.text(&attachment.text)?;
            return Some(attachment.with(&restored));
        };
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

/// Text in base64 that is a whole value, such as the content of a file.
struct Attachment<'a> {
    /// What comes before the base64: a media type.
    prefix: &'a str,
    is_padded: bool,
    text: String,
}

impl<'a> Attachment<'a> {
    /// Decodes a text that is an attachment, if there may be a token in it.
    fn of(text: &'a str) -> Option<Self> {
        let (prefix, encoded) = match text.split_once(";base64,") {
            Some((media, encoded)) if media.starts_with("data:") => text.split_at(text.len() - encoded.len()),
            _ => ("", text),
        };
        let is_long = encoded.len() > DIGITS + 2;
        let bytes = is_long.then(|| Self::engine(true).decode(encoded).ok()).flatten()?;
        let text = String::from_utf8(bytes).ok().filter(|text| text.contains('['))?;
        Some(Self { prefix, is_padded: encoded.ends_with('=') || encoded.len().is_multiple_of(4), text })
    }

    fn with(&self, text: &str) -> String {
        format!("{}{}", self.prefix, Self::engine(self.is_padded).encode(text))
    }

    fn engine(is_padded: bool) -> GeneralPurpose {
        let config = GeneralPurposeConfig::new().with_encode_padding(is_padded);
        GeneralPurpose::new(&STANDARD, config.with_decode_padding_mode(DecodePaddingMode::Indifferent))
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
