//! Output of `bench pii`: JSON, tables, and lists of mistakes.

use super::texts::{Span, Text};
use crate::tables::{align, plain, thousandths};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

/// How many times as fast as Presidio the search has to be.
const TIMES_AS_FAST: f64 = 50.0;
/// Types that are found by names rather than by their structure.
const NAMES: [&str; 2] = ["PERSON", "ADDRESS"];

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) texts: usize,
    pub(super) bytes: usize,
    pub(super) rows: Vec<Row>,
}

/// Results of one program.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    kinds: BTreeMap<String, Counts>,
    megabytes_per_second: f64,
}

/// Counts for one type. A finding is right if it overlaps with a label of the same type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    labelled: usize,
    /// Labels that were found.
    hit: usize,
    found: usize,
    /// Findings that are right.
    right: usize,
}

impl Counts {
    fn precision(self) -> f64 {
        share(self.right, self.found)
    }

    fn recall(self) -> f64 {
        share(self.hit, self.labelled)
    }

    fn f1(self) -> f64 {
        let (precision, recall) = (self.precision(), self.recall());
        if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn overlap(one: &Span, other: &Span) -> bool {
    one.kind == other.kind && one.span.start < other.span.end && other.span.start < one.span.end
}

impl Row {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), kinds: BTreeMap::new(), megabytes_per_second: 0.0 }
    }

    /// Counts what was found in one text.
    pub(super) fn add(&mut self, labelled: &[Span], found: &[Span]) {
        for label in labelled {
            let counts = self.kinds.entry(label.kind.clone()).or_default();
            counts.labelled += 1;
            counts.hit += usize::from(found.iter().any(|finding| overlap(finding, label)));
        }
        for finding in found {
            let counts = self.kinds.entry(finding.kind.clone()).or_default();
            counts.found += 1;
            counts.right += usize::from(labelled.iter().any(|label| overlap(label, finding)));
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "texts are small")]
    pub(super) fn took(&mut self, time: Duration, bytes: usize) {
        self.megabytes_per_second = bytes as f64 / time.as_secs_f64().max(1e-9) / 1e6;
    }

    fn counts(&self, kind: &str) -> Counts {
        self.kinds.get(kind).copied().unwrap_or_default()
    }
}

impl Report {
    /// Types that are labelled in the texts.
    fn labelled(&self) -> BTreeSet<&str> {
        let counts = self.rows.iter().flat_map(|row| &row.kinds);
        counts.filter(|(_, counts)| counts.labelled > 0).map(|(kind, _)| kind.as_str()).collect()
    }

    /// Types that both programs know: each found something of it.
    fn shared(&self) -> Vec<&str> {
        let known = |kind: &&str| self.rows.iter().all(|row| row.counts(kind).found > 0);
        self.labelled().into_iter().filter(known).collect()
    }

    /// Whether F1 is at least that of the other program for each type that both know, and the search fast enough.
    pub(super) fn is_good(&self) -> bool {
        let [own, other] = self.rows.as_slice() else { return true };
        let is_fast = own.megabytes_per_second >= TIMES_AS_FAST * other.megabytes_per_second;
        is_fast && self.shared().iter().all(|kind| own.counts(kind).f1() >= other.counts(kind).f1())
    }

    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let mut table = plain([row.name.as_str(), "labelled", "precision", "recall", "F1", "found", "by mistake"]);
            for kind in self.labelled() {
                let counts = row.counts(kind);
                // What nothing was found of is not known to the program, or switched off.
                let share = |value: f64| if counts.found == 0 { "–".to_owned() } else { format!("{value:.3}") };
                table.add_row([
                    kind.to_owned(),
                    counts.labelled.to_string(),
                    share(counts.precision()),
                    share(counts.recall()),
                    share(counts.f1()),
                    counts.found.to_string(),
                    (counts.found - counts.right).to_string(),
                ]);
            }
            align(&mut table, 1..=6);
            let labelled = self.labelled();
            let unlabelled: Vec<String> = row
                .kinds
                .iter()
                .filter(|(kind, _)| !labelled.contains(kind.as_str()))
                .map(|(kind, counts)| format!("{} {kind}", counts.found))
                .collect();
            let _ = writeln!(text, "{table}\n{:.3} MB/s on one thread", row.megabytes_per_second);
            if !unlabelled.is_empty() {
                let _ = writeln!(text, "Also found, of types that are not labelled: {}", unlabelled.join(", "));
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{} texts with {} bytes. {HOW}", self.texts, self.bytes);
        text.push_str(&self.comparison());
        text
    }

    fn comparison(&self) -> String {
        let [own, other] = self.rows.as_slice() else { return String::new() };
        let times = thousandths(own.megabytes_per_second / other.megabytes_per_second.max(1e-9));
        let mut text = format!("{} is {times:.0} times as fast as {}.\n", own.name, other.name);
        for kind in self.shared() {
            let (mine, theirs) = (own.counts(kind).f1(), other.counts(kind).f1());
            if mine < theirs {
                let note = if NAMES.contains(&kind) { " (a statistical kind)" } else { "" };
                let _ = writeln!(text, "{kind}: F1 {mine:.3} is less than {theirs:.3}{note}");
            }
        }
        text
    }
}

const HOW: &str = "A finding is right if it overlaps with a label of the same type.";

/// What is missed and what is found by mistake in one text.
pub(super) fn mistakes(text: &Text, found: &[Span]) -> String {
    let mut lines = String::new();
    let value = |span: &Span| text.text.get(span.span.clone()).unwrap_or_default().to_owned();
    for label in text.spans.iter().filter(|label| !found.iter().any(|finding| overlap(finding, label))) {
        let _ = writeln!(lines, "missed   {} {:?} in {:?}", label.kind, value(label), text.text);
    }
    for finding in found.iter().filter(|finding| !text.spans.iter().any(|label| overlap(label, finding))) {
        let _ = writeln!(lines, "mistaken {} {:?} in {:?}", finding.kind, value(finding), text.text);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Counts, Report, Row};
    use crate::pii::texts::Span;
    use std::time::Duration;

    fn spans(spans: &[(&str, usize, usize)]) -> Vec<Span> {
        spans.iter().map(|(kind, start, end)| Span { kind: (*kind).to_owned(), span: *start..*end }).collect()
    }

    #[test]
    fn overlaps_of_the_same_type_are_right() {
        let mut row = Row::new("x");
        row.add(
            &spans(&[("EMAIL", 0, 5), ("EMAIL", 10, 15), ("PHONE", 20, 30)]),
            &spans(&[("EMAIL", 4, 8), ("PHONE", 30, 35), ("PHONE", 22, 23)]),
        );
        assert_eq!(row.counts("EMAIL"), Counts { labelled: 2, hit: 1, found: 1, right: 1 });
        assert_eq!(row.counts("PHONE"), Counts { labelled: 1, hit: 1, found: 2, right: 1 });
        assert!((row.counts("EMAIL").f1() - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_report_is_good_if_nothing_is_worse() {
        let row = |found: &[(&str, usize, usize)], time| {
            let mut row = Row::new("x");
            row.add(&spans(&[("EMAIL", 0, 5), ("PERSON", 6, 9)]), &spans(found));
            row.took(time, 1_000);
            row
        };
        let (fast, slow) = (Duration::from_micros(1), Duration::from_millis(1));
        let report = |rows| Report { texts: 1, bytes: 1, rows }.is_good();
        assert!(report(vec![row(&[("EMAIL", 0, 5)], fast)]));
        // A type that only one of them knows does not count.
        assert!(report(vec![row(&[("EMAIL", 0, 5)], fast), row(&[("EMAIL", 0, 5), ("PERSON", 6, 9)], slow)]));
        assert!(!report(vec![row(&[("EMAIL", 0, 5)], fast), row(&[("EMAIL", 0, 5)], fast)]));
        assert!(!report(vec![row(&[("EMAIL", 5, 6)], fast), row(&[("EMAIL", 0, 5)], slow)]));
    }
}
