//! Findings in whole documents: what keys of JSON and heads of tables say of the values in their places.

use crate::detector::Detector;
use crate::evidence::Evidence;
use crate::finding::Finding;
use crate::resolve::Resolver;
use crate::table;
use std::borrow::Cow;
use std::ops::Range;

/// More open brackets than this are no JSON of a person or a program.
const MAX_DEPTH: usize = 512;

impl Detector {
    /// Returns what is found in a document, in order and without overlaps. If it is JSON, JSON lines or a table, keys and
    /// heads of columns are evidence, as in [`Self::find_in_value`].
    pub fn find_in_document(&self, text: &str) -> Vec<Finding> {
        let mut resolver = Resolver::default();
        self.find(text).into_iter().for_each(|finding| resolver.add(finding));
        if text.trim_start().starts_with(['{', '[']) {
            each_value(text, &mut |key, span| self.add_value(text, key, span, &mut resolver));
        } else {
            for (head, field) in table::fields(text).into_iter().flatten() {
                self.add_field(text, &head, &field.text, field.span, &mut resolver);
            }
        }
        let mut out = Vec::new();
        resolver.settle(usize::MAX, |span| text.get(span.clone()).unwrap_or_default(), &mut out);
        out
    }

    /// Adds what is found in a value of JSON, whose span is that of its text without quotes.
    fn add_value(&self, text: &str, key: &str, span: Range<usize>, resolver: &mut Resolver) {
        let key = unescaped(key);
        if Evidence::of_key(&key).is_some()
            && let Some(raw) = text.get(span.clone())
        {
            self.add_field(text, &key, &unescaped(raw), span, resolver);
        }
    }

    /// Adds what is found in a value at a place. If it is written otherwise there, only findings of the whole value have a
    /// place.
    fn add_field(&self, text: &str, key: &str, value: &str, place: Range<usize>, resolver: &mut Resolver) {
        let is_literal = text.get(place.clone()) == Some(value);
        for mut finding in self.find_in_value(key, value) {
            if is_literal {
                finding.span = place.start + finding.span.start..place.start + finding.span.end;
            } else if finding.span == (0..value.len()) {
                finding.span = place.clone();
            } else {
                continue;
            }
            resolver.add(finding);
        }
    }
}

/// A text of JSON without its escapes, or as it is if they are invalid.
fn unescaped(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return raw.into();
    }
    serde_json::from_str::<String>(&format!("\"{raw}\"")).map_or(raw.into(), Cow::Owned)
}

/// Calls `visit` with the key and the place of each string and number that has a key, also within a list. Reads JSON and JSON
/// lines; what is neither leads to values without keys.
fn each_value<'a>(text: &'a str, visit: &mut impl FnMut(&'a str, Range<usize>)) {
    let bytes = text.as_bytes();
    // For each open bracket, the key of the list. Objects have none.
    let mut open: Vec<Option<&str>> = Vec::new();
    let (mut at, mut key) = (0, None);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let start = at + 1;
                let end = string_end(bytes, start);
                at = end + 1;
                let next =
                    bytes.iter().skip(at).position(|byte| !byte.is_ascii_whitespace()).map(|skipped| at + skipped);
                if let Some(colon) = next.filter(|next| bytes.get(*next) == Some(&b':')) {
                    key = text.get(start..end);
                    at = colon + 1;
                } else if let Some(key) = key.take().or_else(|| open.last().copied().flatten()) {
                    visit(key, start..end);
                }
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-');
                let end = at + bytes.iter().skip(at).take_while(|byte| is_part(byte)).count();
                if let Some(key) = key.take().or_else(|| open.last().copied().flatten()) {
                    visit(key, at..end);
                }
                at = end;
            }
            b'{' | b'[' => {
                if open.len() == MAX_DEPTH {
                    return;
                }
                let outer = open.last().copied().flatten();
                open.push(if *byte == b'[' { key.take().or(outer) } else { None });
                key = None;
                at += 1;
            }
            b'}' | b']' => {
                open.pop();
                key = None;
                at += 1;
            }
            b',' => {
                key = None;
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Where the string ends whose first byte is at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::each_value;
    use crate::{Detector, Kind};

    fn found(text: &str) -> Vec<(Kind, &str)> {
        let found = Detector::default().find_in_document(text);
        found.into_iter().map(|finding| (finding.kind, &text[finding.span])).collect()
    }

    #[test]
    fn keys_of_json_are_evidence() {
        let text = r#"{"last_name": "lee", "phones": ["555 0123", 5550124], "street": "rue d\u0027or 1", "x": {"ssn": "536904399"}}
{"last_name": "kim"}"#;
        let expected = [
            (Kind::Person, "lee"),
            (Kind::Phone, "555 0123"),
            (Kind::Phone, "5550124"),
            (Kind::Address, "rue d\\u0027or 1"),
            (Kind::UsSsn, "536904399"),
            (Kind::Person, "kim"),
        ];
        assert_eq!(found(text), expected);
        assert!(found(r#"{"a": "lee", "b": "536904399", "c": [5550124]}"#).is_empty(), "the control");
    }

    #[test]
    fn heads_of_tables_are_evidence() {
        let text = "id,surname,ssn\n1,lee,536904399\n2,\"kim\",x\n";
        assert_eq!(found(text), [(Kind::Person, "lee"), (Kind::UsSsn, "536904399"), (Kind::Person, "kim")]);
        assert!(found("id,a,b\n1,lee,536904399\n2,kim,x\n").is_empty(), "the control");
    }

    #[test]
    fn no_text_is_read_twice_or_causes_a_panic() {
        for text in [
            "{\"",
            "{\"a\\",
            "[\"\\\"",
            "{\"a\":",
            "[[[",
            "]]]{",
            "{\"a\": -",
            "{\"a\" \"b\": \"c\"",
            &"[".repeat(2_000),
        ] {
            each_value(text, &mut |_, span| assert!(span.start <= span.end && span.end <= text.len(), "{text}"));
            found(text);
        }
    }
}
