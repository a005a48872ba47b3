//! `samples.txt` has mails, tickets, logs, code and JSON, in which `[[P:…]]` marks persons and `[[A:…]]` addresses.

use super::super::NameFinder;
use crate::{Finding, Kind};
use std::ops::Range;

struct Sample {
    text: String,
    expected: Vec<(Kind, Range<usize>)>,
}

fn samples() -> Vec<Sample> {
    include_str!("samples.txt").lines().map(|line| read(&line.replace("\\n", "\n")).unwrap()).collect()
}

fn read(mut marked: &str) -> Option<Sample> {
    let mut sample = Sample { text: String::new(), expected: Vec::new() };
    while let Some((before, rest)) = marked.split_once("[[") {
        let (label, rest) = rest.split_once(':')?;
        let (inside, rest) = rest.split_once("]]")?;
        sample.text.push_str(before);
        let start = sample.text.len();
        sample.text.push_str(inside);
        let kind = if label == "P" { Kind::Person } else { Kind::Address };
        sample.expected.push((kind, start..sample.text.len()));
        marked = rest;
    }
    sample.text.push_str(marked);
    Some(sample)
}

fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Precision and recall in percent.
fn score(kind: &Kind) -> (usize, usize) {
    let finder = NameFinder::new();
    let (mut found, mut right, mut marked, mut hit) = (0, 0, 0, 0);
    for sample in samples() {
        let findings: Vec<Finding> = finder.find(&sample.text).into_iter().filter(|f| f.kind == *kind).collect();
        let expected: Vec<_> = sample.expected.iter().filter(|(expected, _)| expected == kind).collect();
        found += findings.len();
        right += findings.iter().filter(|f| expected.iter().any(|(_, span)| overlaps(span, &f.span))).count();
        marked += expected.len();
        hit += expected.iter().filter(|(_, span)| findings.iter().any(|f| overlaps(span, &f.span))).count();
    }
    (100 * right / found, 100 * hit / marked)
}

#[test]
fn most_persons_are_found_and_little_else() {
    let (precision, recall) = score(&Kind::Person);
    assert!(precision >= 88 && recall >= 95, "precision {precision} %, recall {recall} %");
}

#[test]
fn most_addresses_are_found_and_little_else() {
    let (precision, recall) = score(&Kind::Address);
    assert!(precision >= 80 && recall >= 88, "precision {precision} %, recall {recall} %");
}
