//! Text that is meant to cause a panic, or work that is not linear.

use super::super::NameFinder;
use super::found;

/// Some tens of kilobytes of each of these. If time were quadratic, this test would not end.
#[test]
fn long_texts_of_any_kind_are_read() {
    const LENGTH: usize = 40_000;
    let parts = [
        "(",
        "\"",
        ".",
        "'s",
        "A",
        "a",
        "1",
        "Ä",
        "A ",
        "A.",
        "A, ",
        "Dr. ",
        "Dear ",
        "Name: ",
        "1 Elm Street, ",
        "Apt. 1 ",
        "\n",
        " ",
        " \n",
        "<a@b.c>",
        "John Smith ",
        "corner of A and ",
        "US A ",
        "\u{300}",
        "👩‍👧",
        "{\"name\":\"",
        "A-",
        "---",
        "12345 ",
        "St. ",
        "lives at ",
        "P.O. Box ",
        "Anna K. ",
        "[PERSON_1] ",
        "\0",
        "ﬃ",
        "İ",
    ];
    let finder = NameFinder::new();
    for part in parts {
        let text = part.repeat(LENGTH / part.len());
        check(&finder, &text);
    }
}

#[test]
fn random_texts_are_read() {
    const PARTS: [&str; 40] = [
        "John", "Smith", "Dr.", "Mrs", "1", "42", "12345", "Elm", "Street", "St.", "Apt", "#", ",", ".", "\n", "\n\n",
        " ", "  ", "(", ")", "\"", "'s", "’s", "é", "Ö", "中文", "🙂", "<", "a@b.co", ">", ":", "lives", "at", "in",
        "Berlin", "NY", "and", "of", "the", "-",
    ];
    let finder = NameFinder::new();
    let mut state = 1_u64;
    for _ in 0..2_000 {
        let mut text = String::new();
        for _ in 0..40 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(PARTS[(state >> 33) as usize % PARTS.len()]);
            if state >> 63 == 0 {
                text.push(' ');
            }
        }
        check(&finder, &text);
    }
}

/// Findings are in order, do not overlap, and are places of the text.
fn check(finder: &NameFinder, text: &str) {
    let mut end = 0;
    for finding in finder.find(text) {
        assert!(finding.span.start >= end && finding.span.start < finding.span.end);
        assert!(text.get(finding.span.clone()).is_some());
        end = finding.span.end;
    }
}

#[test]
fn names_are_found_after_long_words_and_chunks() {
    for filler in ["x".repeat(5_000), "lorem ipsum ".repeat(500), "line\n".repeat(1_000), "(".repeat(2_000)] {
        let text = format!("{filler}\n\nMy name is Margaret O'Brien.");
        assert_eq!(found(&text), ["P:Margaret O'Brien"], "after {}", &filler[..5]);
    }
}

#[test]
fn an_empty_text_has_no_names() {
    assert_eq!(found(""), [""; 0]);
}

#[test]
fn debug_output_has_no_text() {
    let finder = NameFinder::new();
    assert_eq!(finder.find("Dear Mrs. Pemberton,").len(), 1);
    assert!(!format!("{finder:?}").contains("Pemberton"));
}
