//! The forms in which a value would be recognized, and the search for them.

use super::values::{STANDARD, URL_SAFE, base64};
use aho_corasick::{AhoCorasick, MatchKind};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Shorter values are not searched in encoded form: other data would look like them.
const LEAST: usize = 6;

/// Searches for values in all forms, in any case.
pub(crate) struct Needles {
    search: AhoCorasick,
    /// The value of each pattern, and its form.
    found: Vec<(String, &'static str)>,
}

impl Needles {
    pub(crate) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut patterns, mut found) = (Vec::new(), Vec::new());
        for value in values {
            for (form, pattern) in forms(value) {
                patterns.push(pattern);
                found.push((value.to_owned(), form));
            }
        }
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .build(&patterns)
            .unwrap();
        Self { search, found }
    }

    /// What is found in what somebody was told: form, value, and the text around it.
    pub(crate) fn search(&self, told: &str) -> Vec<(String, &'static str, String)> {
        let mut all = Vec::new();
        for one in self.search.find_iter(told) {
            let (value, form) = &self.found[one.pattern().as_usize()];
            let (start, end) = (told.floor_char_boundary(one.start().saturating_sub(120)), one.end() + 60);
            let around = &told[start..told.ceil_char_boundary(end.min(told.len()))];
            all.push((value.clone(), *form, around.to_owned()));
        }
        all
    }
}

/// A value as it is, with the escapes of JSON, as base64 at each of three offsets, hexadecimal, and for a URL.
fn forms(value: &str) -> Vec<(&'static str, String)> {
    let mut forms = vec![("as it is", value.to_owned())];
    let mut quoted = value.to_owned();
    for _ in 0..3 {
        quoted = escaped(&quoted);
        forms.push(("JSON", quoted.clone()));
    }
    let ascii: String = value.chars().flat_map(ascii).collect();
    forms.extend([("JSON in ASCII", ascii.clone()), ("JSON in ASCII", escaped(&ascii))]);
    if value.len() >= LEAST {
        for (name, set) in [("base64", STANDARD), ("base64 for a URL", URL_SAFE)] {
            for before in 0..3 {
                let text = base64(&[&[b'-'; 2][..before], value.as_bytes()].concat(), set);
                // The characters that depend on this value alone.
                let (start, bits) = ((before * 8).div_ceil(6), (before + value.len()) * 8);
                forms.push((name, text[start..bits / 6].to_owned()));
            }
        }
        forms.push(("hexadecimal", hex::encode(value)));
        for kept in ["", "/", "-_.~", "-_.~/", "-_.!~*'()"] {
            let quoted = percent(value, kept);
            forms.extend([("for a form", quoted.replace("%20", "+")), ("for a URL", quoted)]);
        }
    }
    // The simplest form of those that are equal.
    let mut seen = BTreeSet::new();
    forms.retain(|(_, pattern)| seen.insert(pattern.clone()));
    forms
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn ascii(c: char) -> Vec<char> {
    if c.is_ascii() {
        return escaped(&c.to_string()).chars().collect();
    }
    c.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| format!("\\u{unit:04x}").chars().collect::<Vec<_>>()).collect()
}

fn percent(text: &str, kept: &str) -> String {
    let mut quoted = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.bytes().any(|kept| kept == byte) {
            quoted.push(byte.into());
        } else {
            write!(quoted, "%{byte:02X}").unwrap();
        }
    }
    quoted
}
