//! Replaces personal data by tokens, in two visits: the first one detects, the second one replaces. What was detected
//! anywhere in the first visit is replaced everywhere in the second.

use crate::cache::{Entry, Found};
use crate::item::{Look, Replace, look_at};
use crate::known::Known;
use crate::recent::{Examined, Recent};
use crate::replaced::Replaced;
use crate::token::{Spotted, spot};
use crate::{Detector, Finding, table};
use serde_json::{Number, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The minimum number of digits of a number that may be personal data.
const LEAST_DIGITS: usize = 7;
/// JSON within text within JSON is looked into up to this depth.
const MAX_DEPTH: usize = 3;

/// The first visit.
pub(crate) struct Detecting<'a> {
    detector: &'a Detector,
    recent: &'a Recent,
    depth: usize,
    /// What was found in each text and number, in the order of the visit.
    places: VecDeque<Arc<Examined>>,
    found: Vec<Found>,
    tokens: BTreeSet<String>,
}

impl<'a> Detecting<'a> {
    pub(crate) fn new(detector: &'a Detector, recent: &'a Recent) -> Self {
        Self { detector, recent, depth: 0, places: VecDeque::new(), found: Vec::new(), tokens: BTreeSet::new() }
    }

    /// What was found. Values that are part of a token do not count.
    pub(crate) fn found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }

    pub(crate) fn take_tokens(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.tokens)
    }

    fn detect(&self, key: Option<&str>, text: &str) -> Vec<Finding> {
        key.map_or_else(|| self.detector.find(text), |key| self.detector.find_in_value(key, text))
    }

    /// What is in a text, and in JSON or a table in it.
    fn examine(&self, key: Option<&str>, text: &str, spotted: &[Spotted]) -> Examined {
        let mut examined = Examined::default();
        let mut ahead = spotted.iter().peekable();
        for Finding { kind, span, .. } in self.detect(key, text) {
            let label: Arc<str> = kind.label().into();
            while ahead.next_if(|one| one.span.end <= span.start).is_some() {}
            let is_in_token = ahead.peek().is_some_and(|one| one.span.start < span.end);
            if let Some(value) = text.get(span.clone()).filter(|value| !value.is_empty()) {
                if !is_in_token {
                    examined.found.push(Found { label: Arc::clone(&label), value: value.into(), is_number: false });
                }
                examined.places.push((span, label));
            }
        }
        self.look_inside(text, &mut examined.found);
        examined
    }

    /// Looks into a text that is JSON or a table: keys and heads of columns say what the values are.
    fn look_inside(&self, text: &str, found: &mut Vec<Found>) {
        if self.depth == MAX_DEPTH {
            return;
        }
        if !text.trim_start().starts_with(['{', '[']) {
            for (head, field) in table::fields(text).into_iter().flatten() {
                let field = field.text;
                for Finding { kind, span, .. } in self.detect(Some(&head), &field) {
                    let value = field.get(span).filter(|value| !value.is_empty() && spot(value).is_empty());
                    let label = || kind.label().into();
                    found.extend(value.map(|value| Found { label: label(), value: value.into(), is_number: false }));
                }
            }
            return;
        }
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            let mut inside = Self { depth: self.depth + 1, ..Self::new(self.detector, self.recent) };
            look_at(&value, None, &mut inside);
            found.append(&mut inside.found);
        }
    }
}

impl Look for Detecting<'_> {
    fn text(&mut self, key: Option<&str>, text: &str) {
        let spotted = spot(text);
        // Deeper inside, fewer levels are looked into.
        let examined = match self.depth {
            0 => self.recent.examined(key, text, || self.examine(key, text, &spotted)),
            _ => Arc::new(self.examine(key, text, &spotted)),
        };
        self.tokens.extend(spotted.into_iter().map(|one| one.token));
        self.found.extend_from_slice(&examined.found);
        self.places.push_back(examined);
    }

    fn number(&mut self, key: Option<&str>, number: &Number) {
        let text = number.to_string();
        let digits = text.strip_prefix('-').unwrap_or(&text);
        // `4155550123.0` is the same number as without a fraction.
        let digits = digits.strip_suffix(".0").unwrap_or(digits);
        let mut places = Vec::new();
        if digits.len() >= LEAST_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let whole = self.detect(key, digits).into_iter().find(|finding| finding.span == (0..digits.len()));
            if let Some(Finding { kind, .. }) = whole {
                let label: Arc<str> = kind.label().into();
                let span = 0..text.len();
                self.found.push(Found { label: Arc::clone(&label), value: text.into(), is_number: true });
                places.push((span, label));
            }
        }
        self.places.push_back(Arc::new(Examined { places, found: Vec::new() }));
    }
}

/// The second visit.
pub(crate) struct Tokenizing<'a, Mint> {
    places: VecDeque<Arc<Examined>>,
    /// The tokens in the texts that are in the vault.
    tokens: &'a HashMap<String, Entry>,
    known: &'a Known,
    mint: Mint,
    used: BTreeMap<Arc<str>, Found>,
    replaced: Replaced,
}

impl<'a, Mint: Fn(&Found) -> Arc<str>> Tokenizing<'a, Mint> {
    pub(crate) fn new(
        detecting: Detecting<'_>,
        tokens: &'a HashMap<String, Entry>,
        known: &'a Known,
        mint: Mint,
    ) -> Self {
        let (used, replaced) = (BTreeMap::new(), Replaced::default());
        Self { places: detecting.places, tokens, known, mint, used, replaced }
    }

    /// The tokens that were used, and what was replaced.
    pub(crate) fn finish(self) -> (BTreeMap<Arc<str>, Found>, Replaced) {
        (self.used, self.replaced)
    }

    fn token(&mut self, value: &str, label: &Arc<str>, is_number: bool) -> Arc<str> {
        let found = Found { label: Arc::clone(label), value: value.into(), is_number };
        let token = (self.mint)(&found);
        self.replaced.count += 1;
        let label = crate::token::label(&token);
        if !self.replaced.labels.contains(label) {
            self.replaced.labels.insert(label.to_owned());
        }
        self.used.entry(Arc::clone(&token)).or_insert(found);
        token
    }

    fn replaced_text(&mut self, text: &str, examined: &Examined) -> Option<String> {
        let mut places = examined.places.clone();
        places.extend(self.known.find(text).into_iter().map(|one| (one.span, one.label)));
        if places.is_empty() {
            return None;
        }
        let own = spot(text).into_iter().filter(|spotted| self.tokens.contains_key(&spotted.token));
        let own: Vec<Range<usize>> = own.map(|spotted| spotted.span).collect();
        let mut new = String::with_capacity(text.len());
        let mut end = 0;
        for (span, label) in without(merged(places), &own) {
            let Some(value) = text.get(span.clone()) else { continue };
            new.push_str(text.get(end..span.start).unwrap_or_default());
            new.push_str(&self.token(value, &label, false));
            end = span.end;
        }
        if end == 0 {
            return None;
        }
        new.push_str(text.get(end..).unwrap_or_default());
        Some(new)
    }
}

impl<Mint: Fn(&Found) -> Arc<str>> Replace for Tokenizing<'_, Mint> {
    fn string(&mut self, text: &str) -> Option<Value> {
        self.text(text).map(Value::String)
    }

    fn text(&mut self, text: &str) -> Option<String> {
        let places = self.places.pop_front().unwrap_or_default();
        self.replaced_text(text, &places)
    }

    fn number(&mut self, number: &Number) -> Option<Value> {
        let places = self.places.pop_front().unwrap_or_default();
        let text = number.to_string();
        // A number with a known value in it is replaced as a whole, because a part of a number cannot be.
        let known = || {
            let known = (text.len() >= LEAST_DIGITS).then(|| self.known.find(&text)).into_iter().flatten();
            known.map(|one| (one.span, one.label)).find(|(span, _)| span.len() >= LEAST_DIGITS)
        };
        let (_, label) = places.places.first().cloned().or_else(known)?;
        Some(Value::String(self.token(&text, &label, true).to_string()))
    }
}

/// Places in order, with those that overlap as one. It has the label of the first one.
fn merged(mut places: Vec<(Range<usize>, Arc<str>)>) -> Vec<(Range<usize>, Arc<str>)> {
    places.sort_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
    let mut merged: Vec<(Range<usize>, Arc<str>)> = Vec::with_capacity(places.len());
    for (span, label) in places {
        match merged.last_mut() {
            Some((last, _)) if span.start < last.end => last.end = last.end.max(span.end),
            _ => merged.push((span, label)),
        }
    }
    merged
}

/// The parts of places that are outside of others. Both are in order.
fn without(places: Vec<(Range<usize>, Arc<str>)>, others: &[Range<usize>]) -> Vec<(Range<usize>, Arc<str>)> {
    let mut left = Vec::with_capacity(places.len());
    let mut others = others.iter().peekable();
    for (span, label) in places {
        let mut start = span.start;
        while others.next_if(|other| other.end <= start).is_some() {}
        let mut overlapping = others.clone();
        while let Some(other) = overlapping.next_if(|other| other.start < span.end) {
            if start < other.start {
                left.push((start..other.start, Arc::clone(&label)));
            }
            start = start.max(other.end);
        }
        if start < span.end {
            left.push((start..span.end, label));
        }
    }
    left
}
