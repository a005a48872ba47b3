//! Precision and recall on synthetic texts, half of which have no personal data but look like it.
//!
//! `corpus/labelled.txt` has the texts, separated by lines with `%%`. A value is marked as `⟦KIND:value⟧`. Names and
//! addresses are marked too, but are the matter of other tests.

use coracle_privacy::Detector;
use std::collections::BTreeMap;

type Span = (String, usize, usize);

/// A text without its marks, and what was marked.
fn unmarked(marked: &str) -> (String, Vec<Span>) {
    let (mut text, mut spans) = (String::new(), Vec::new());
    let mut rest = marked;
    while let Some((before, after)) = rest.split_once('⟦') {
        text.push_str(before);
        let (mark, after) = after.split_once('⟧').unwrap_or_else(|| panic!("a mark has no end: {after}"));
        let (kind, value) = mark.split_once(':').unwrap_or_else(|| panic!("a mark has no kind: {mark}"));
        spans.push((kind.to_owned(), text.len(), text.len() + value.len()));
        text.push_str(value);
        rest = after;
    }
    text.push_str(rest);
    (text, spans)
}

#[test]
fn structured_kinds_are_found_and_nothing_else() {
    let detector = Detector::default();
    let (mut missed, mut mistaken) = (Vec::new(), Vec::new());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for marked in include_str!("corpus/labelled.txt").split("\n%%\n") {
        let (text, spans) = unmarked(marked.trim_end());
        let found: Vec<Span> = detector
            .find(&text)
            .into_iter()
            .map(|finding| (finding.kind.label().to_owned(), finding.span.start, finding.span.end))
            .filter(|(kind, ..)| kind != "PERSON" && kind != "ADDRESS")
            .collect();
        let spans: Vec<Span> = spans.into_iter().filter(|(kind, ..)| kind != "PERSON" && kind != "ADDRESS").collect();
        for span in &spans {
            *counts.entry(span.0.clone()).or_default() += 1;
            if !found.contains(span) {
                missed.push((span.0.clone(), text[span.1..span.2].to_owned()));
            }
        }
        mistaken.extend(
            found
                .iter()
                .filter(|span| !spans.contains(span))
                .map(|span| (span.0.clone(), text[span.1..span.2].to_owned())),
        );
    }
    assert!(counts.len() >= 17, "{counts:?}");
    assert!(missed.is_empty() && mistaken.is_empty(), "missed {missed:#?}\nmistaken {mistaken:#?}");
}
