//! Finds values that are known, wherever they are in a text: as they are, in other case, with the escapes of JSON and of
//! other formats (`known/forms.rs`), or encoded as base64, hex or for a URL (`known/decoded.rs`).

mod decoded;
mod forms;

use crate::PrivacyError;
use aho_corasick::{AhoCorasick, MatchKind};
use decoded::{Decoded, Runs, percent};
use forms::forms;
use std::ops::Range;
use std::sync::Arc;

/// From this length on, a value is found in the middle of a word, too, and encoded.
const LONG: usize = 6;
/// Shorter values are not searched: almost every text has them.
const SHORT: usize = 3;
/// A group is merged with the one before it, unless that is larger by this factor. There are therefore few groups, and
/// each value is part of few merges.
const GROWTH: usize = 8;

/// A value to find.
#[derive(Clone, Debug)]
pub(crate) struct KnownValue {
    pub(crate) value: Arc<str>,
    pub(crate) label: Arc<str>,
}

/// A place where a known value is.
#[derive(Clone, Debug)]
pub(crate) struct Match {
    pub(crate) span: Range<usize>,
    pub(crate) label: Arc<str>,
}

/// Values in the order in which they became known. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    groups: Vec<Arc<Group>>,
}

#[derive(Debug)]
struct Group {
    values: Vec<KnownValue>,
    long: Searched,
    short: Searched,
    /// Whether each long value has a part of ASCII that is long enough to be recognized when it is encoded.
    has_ascii: bool,
}

/// Patterns, and the label of each.
#[derive(Debug, Default)]
struct Searched {
    patterns: Option<AhoCorasick>,
    labels: Vec<Arc<str>>,
}

impl Searched {
    fn new(patterns: &[(String, Arc<str>)]) -> Result<Self, PrivacyError> {
        if patterns.is_empty() {
            return Ok(Self::default());
        }
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::LeftmostLongest).ascii_case_insensitive(true);
        let built = builder.build(patterns.iter().map(|(text, _)| text));
        let built = built.map_err(|error| PrivacyError::Search { reason: error.to_string() })?;
        Ok(Self { patterns: Some(built), labels: patterns.iter().map(|(_, label)| Arc::clone(label)).collect() })
    }

    fn find(&self, text: &[u8], mut found: impl FnMut(Range<usize>, &Arc<str>)) {
        for one in self.patterns.iter().flat_map(|patterns| patterns.find_iter(text)) {
            if let Some(label) = self.labels.get(one.pattern().as_usize()) {
                found(one.range(), label);
            }
        }
    }
}

impl Group {
    fn new(values: Vec<KnownValue>) -> Result<Self, PrivacyError> {
        let (mut long, mut short) = (Vec::new(), Vec::new());
        for KnownValue { value, label } in &values {
            for text in forms(value) {
                match text.len() {
                    LONG.. => long.push((text, Arc::clone(label))),
                    SHORT.. => short.push((text, Arc::clone(label))),
                    _ => {}
                }
            }
        }
        let has_ascii = values.iter().all(|known| known.value.len() < LONG || has_ascii(&known.value));
        Ok(Self { long: Searched::new(&long)?, short: Searched::new(&short)?, values, has_ascii })
    }
}

impl Known {
    /// Adds values that are not known yet.
    pub(crate) fn add(&mut self, mut values: Vec<KnownValue>) -> Result<(), PrivacyError> {
        if values.is_empty() {
            return Ok(());
        }
        while let Some(last) = self.groups.last().filter(|last| last.values.len() < GROWTH * values.len()) {
            values.splice(..0, last.values.iter().cloned());
            self.groups.pop();
        }
        self.groups.push(Arc::new(Group::new(values)?));
        Ok(())
    }

    /// Removes about the older half of the values, and returns those that are left.
    pub(crate) fn halve(&mut self) -> Result<Vec<KnownValue>, PrivacyError> {
        let all: Vec<KnownValue> = self.groups.iter().flat_map(|group| group.values.iter().cloned()).collect();
        let left = all[all.len() / 2..].to_vec();
        self.groups.clear();
        self.add(left.clone())?;
        Ok(left)
    }

    /// The places of known values in a text, in no particular order. They may overlap.
    pub(crate) fn find(&self, text: &str) -> Vec<Match> {
        let mut matches = Vec::new();
        for group in &self.groups {
            let mut add = |span, label: &Arc<str>| matches.push(Match { span, label: Arc::clone(label) });
            group.long.find(text.as_bytes(), &mut add);
            group.short.find(text.as_bytes(), |span, label| {
                if stands_alone(text, &span) {
                    add(span, label);
                }
            });
        }
        if self.groups.iter().any(|group| group.long.patterns.is_some()) {
            let is_ascii = self.groups.iter().all(|group| group.has_ascii);
            let runs = if is_ascii { Runs::of_ascii(text) } else { Runs::all(text) };
            let decoded = runs.base64(text).chain(runs.hexadecimal(text)).chain([percent(text)]);
            decoded.for_each(|decoded| self.find_decoded(&decoded, &mut matches));
        }
        matches.retain(|one| text.is_char_boundary(one.span.start) && text.is_char_boundary(one.span.end));
        matches
    }

    fn find_decoded(&self, decoded: &Decoded, matches: &mut Vec<Match>) {
        if decoded.bytes().len() < LONG {
            return;
        }
        for group in &self.groups {
            group.long.find(decoded.bytes(), |span, label| {
                matches.push(Match { span: decoded.source(&span), label: Arc::clone(label) });
            });
        }
    }
}

/// Whether a value has `LONG` printable characters of ASCII in a row.
fn has_ascii(value: &str) -> bool {
    value.as_bytes().windows(LONG).any(|part| part.iter().all(|byte| (0x20..0x80).contains(byte)))
}

/// Whether letters and digits do not continue beyond a match.
fn stands_alone(text: &str, span: &Range<usize>) -> bool {
    let before = text.get(..span.start).and_then(|before| before.chars().next_back());
    let after = text.get(span.end..).and_then(|after| after.chars().next());
    !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    fn known(values: &[&str]) -> Known {
        let mut known = Known::default();
        for value in values {
            known.add(vec![KnownValue { value: (*value).into(), label: "EMAIL".into() }]).unwrap();
        }
        known
    }

    fn parts(known: &Known, text: &str) -> Vec<String> {
        let mut found: Vec<_> = known.find(text).into_iter().map(|one| text[one.span].to_owned()).collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn values_are_found_in_all_forms() {
        let known = known(&["ann@example.org", "(415) 555-0123", "Zoë \"Z\" Quinn"]);
        for (text, expected) in [
            ("to ann@example.org.", "ann@example.org"),
            ("xANN@Example.orgx", "ANN@Example.org"),
            ("tel 4155550123", "4155550123"),
            (r#"{"n": "Zoë \"Z\" Quinn"}"#, r#"Zoë \"Z\" Quinn"#),
            (r"Zo\u00eb \u0022", ""),
            ("ann%40example.org", "ann%40example.org"),
            ("ann%40example%2Eorg!", "ann%40example%2Eorg"),
        ] {
            let expected: &[&str] = if expected.is_empty() { &[] } else { &[expected] };
            assert_eq!(parts(&known, text), expected, "{text}");
        }
    }

    #[test]
    fn encoded_values_are_found_at_every_offset() {
        let known = known(&["ann@example.org"]);
        for before in ["", "a", "ab", "abc", "abcd"] {
            for after in ["", "z", "yz"] {
                let plain = format!("{before}ann@example.org{after}");
                for encoded in [STANDARD.encode(&plain), URL_SAFE_NO_PAD.encode(&plain), hex::encode(&plain)] {
                    for text in [encoded.clone(), format!("x: {encoded}"), format!("ab{encoded}")] {
                        let found = parts(&known, &text);
                        assert_eq!(found.len(), 1, "{text}");
                        let rest = text.replace(&found[0], "|");
                        assert!(rest.len() <= text.len() - 18, "{rest}");
                    }
                }
            }
        }
        assert_eq!(parts(&known, &STANDARD.encode("bob@example.org")), [""; 0], "the control");
    }

    #[test]
    fn short_values_are_found_as_words_only() {
        let known = known(&["Ann", "Li"]);
        assert_eq!(parts(&known, "Ann, Annual: ann"), ["Ann", "ann"]);
        assert_eq!(parts(&known, "Annual Li"), [""; 0]);
    }

    #[test]
    fn there_are_few_groups_and_the_newer_half_stays() {
        let mut known = Known::default();
        for number in 0..1_000 {
            known.add(vec![KnownValue { value: format!("value {number:04}").into(), label: "X".into() }]).unwrap();
        }
        assert!(known.groups.len() <= 5, "{}", known.groups.len());
        assert_eq!(parts(&known, "value 0000, value 0999"), ["value 0000", "value 0999"]);
        assert_eq!(known.halve().unwrap().len(), 500);
        assert_eq!(parts(&known, "value 0499, value 0500"), ["value 0500"]);
    }
}
