//! However a text is cut, the findings are those of the whole; and findings are in order, apart, and on the boundaries
//! of characters, whatever the text is.

use coracle_privacy::{CustomPattern, Detector, DetectorSettings, Finding, Kind, Matcher};
use proptest::prelude::*;

fn detector() -> Detector {
    let mut settings = DetectorSettings::default();
    settings.enable.push(Kind::Url);
    settings.min_confidence = 0;
    let custom =
        |label: &str, matcher| CustomPattern { label: label.to_owned(), matcher, context: Vec::new(), confidence: 90 };
    settings.custom.push(custom("TICKET", Matcher::Regex(r"\bT-\d{3,6}\b".to_owned())));
    settings.custom.push(custom("PROJECT", Matcher::Words(vec!["blue heron".to_owned(), "heron".to_owned()])));
    Detector::new(settings).unwrap_or_else(|error| panic!("{error}"))
}

fn in_pieces(detector: &Detector, text: &str, cuts: &[usize]) -> Vec<Finding> {
    let mut scanner = detector.scanner();
    let mut found = Vec::new();
    let mut from = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut % (text.len() + 1))).collect();
    cuts.sort_unstable();
    for cut in cuts.into_iter().chain([text.len()]) {
        let settled = scanner.settled();
        let new = scanner.push(&text[from..cut]);
        for finding in &new {
            assert!(finding.span.end > settled, "{finding:?} was reported after {settled} was settled");
            assert!(finding.span.end <= scanner.settled(), "{finding:?} is beyond {}", scanner.settled());
        }
        assert!(text.is_char_boundary(scanner.settled()) && scanner.settled() <= cut);
        found.extend(new);
        from = cut;
    }
    found.extend(scanner.finish());
    found
}

fn check(detector: &Detector, text: &str, found: &[Finding]) {
    let mut end = 0;
    for finding in found {
        assert!(finding.span.start >= end && finding.span.start < finding.span.end, "{finding:?}");
        assert!(text.get(finding.span.clone()).is_some(), "{finding:?}");
        assert!(detector.looks_for(&finding.kind) && finding.confidence.0 <= 100);
        end = finding.span.end;
    }
}

/// Pieces of which texts are made: findings, their beginnings, and what is around them.
fn piece() -> impl Strategy<Value = String> {
    let block = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "Ab3+".repeat(900));
    let cut = format!("-----BEGIN RSA PRIVATE KEY-----\n{}", "Ab3+".repeat(40));
    let jwt = format!("eyJhbGciOiJIUzI1NiJ9.{}.x_1", "eyJzdWIi".repeat(200));
    let known = prop::sample::select(vec![
        "ann@example.org".to_owned(),
        "+44 20 7946 0958".to_owned(),
        "202-555-0143 x12".to_owned(),
        "phone ".to_owned(),
        "4111 1111 1111 1111".to_owned(),
        "DE89 3704 0044 0532 0130 00".to_owned(),
        "ssn 536-90-4399".to_owned(),
        "81.2.69.142".to_owned(),
        "2001:db8::1".to_owned(),
        "https://ann:hunter2@example.org/".to_owned(),
        "https://example.org/a/b?c=".to_owned(),
        "password=Tr0ub4dor&3".to_owned(),
        "born 12 March 1980".to_owned(),
        "T-1234".to_owned(),
        "Blue Heron".to_owned(),
        "eyJhbGci".to_owned(),
        "-----BEGIN ".to_owned(),
        "\\n".to_owned(),
        " ".to_owned(),
        "\n".to_owned(),
        "é😀".to_owned(),
        "a".repeat(300),
        "7".repeat(40),
        block,
        cut,
        jwt,
    ]);
    prop_oneof![6 => known, 1 => "[ -~]{0,30}", 1 => "\\PC{0,10}", 1 => "[0-9 ().+-]{0,40}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn cuts_do_not_matter(pieces in prop::collection::vec(piece(), 1..60), cuts in prop::collection::vec(any::<usize>(), 0..12)) {
        let text = pieces.concat();
        let detector = detector();
        let whole = detector.find(&text);
        check(&detector, &text, &whole);
        prop_assert_eq!(&in_pieces(&detector, &text, &cuts), &whole);
    }

    #[test]
    fn any_text_is_searched(text in "\\PC{0,400}", key in "\\PC{0,20}") {
        let detector = detector();
        check(&detector, &text, &detector.find(&text));
        check(&detector, &text, &detector.find_in_value(&key, &text));
    }
}

#[test]
fn single_characters_and_long_blocks() {
    let detector = detector();
    let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "Ab3+\n".repeat(6_000));
    let too_long = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "Ab3+\n".repeat(14_000));
    let prose = "The quick brown fox calls 202-555-0143 about T-1234. ".repeat(300);
    for text in [
        format!("{prose}{key}{prose}"),
        format!("{prose}{too_long}{prose}"),
        format!("x{}@example.org", "é".repeat(70_000)),
    ] {
        let whole = detector.find(&text);
        check(&detector, &text, &whole);
        let mut scanner = detector.scanner();
        let mut found = Vec::new();
        for (index, c) in text.char_indices() {
            found.extend(scanner.push(&text[index..index + c.len_utf8()]));
            assert!(index + c.len_utf8() - scanner.settled() <= 2 * 66 * 1024, "too much is kept back at {index}");
        }
        found.extend(scanner.finish());
        assert_eq!(found, whole);
    }
    let found = detector.find(&key);
    assert_eq!((found.len(), found[0].kind.label(), found[0].span.clone()), (1, "PRIVATE_KEY", 0..key.len()));
}
