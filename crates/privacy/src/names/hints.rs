//! Tells quickly that a text certainly has no names and addresses, as most logs and data of programs.

use crate::scan::Words;
use std::sync::LazyLock;

/// From this length on, a word is cut, so that anything may begin a token. Shorter than what the tokenizer takes.
const MAX_WORD: usize = 240;

/// Words of the rules that find something without capital letters: `my name is kim`, `po box 12`, `unit 5 box 7`,
/// `zip code: 12345`.
static RULES: LazyLock<Words> = LazyLock::new(|| {
    Words::new([
        "name",
        "call",
        "po",
        "p.o",
        "post",
        "postfach",
        "postboks",
        "apt",
        "apartment",
        "suite",
        "ste",
        "appt",
        "lgh",
        "unit",
        "flat",
        "floor",
        "fl",
        "room",
        "rm",
        "box",
        "building",
        "bldg",
        "lot",
        "block",
        "office",
        "zip",
        "zipcode",
        "postcode",
        "postal",
        "plz",
        "address",
        "city",
        "town",
        "country",
        "location",
        "where",
        "street",
        "village",
    ])
});

/// Whether a text may have a name or an address. A text without capital letters at the beginning of tokens has one only where
/// a rule finds it by other words or signs.
pub(super) fn may_have_names(text: &str) -> bool {
    may_begin_with_capital(text.as_bytes()) || RULES.are_in(text.as_bytes())
}

fn may_begin_with_capital(text: &[u8]) -> bool {
    let (mut before, mut word) = (b' ', 0);
    for (at, byte) in text.iter().copied().enumerate() {
        word = if matches!(byte, b' ' | b'\t'..=b'\r') { 0 } else { word + 1 };
        let is_sign = matches!(byte, b'#' | b'<');
        if word > MAX_WORD || is_sign || !byte.is_ascii() {
            return true;
        }
        if byte.is_ascii_uppercase() && !before.is_ascii_alphabetic() {
            // A unit is a token of its own after a number: `5 MB`, `5MB`.
            let is_unit = || {
                matches!(byte, b'G' | b'K' | b'M' | b'P' | b'T') && !text.get(at + 1).is_some_and(u8::is_ascii_digit)
            };
            if !before.is_ascii_digit() || is_unit() {
                return true;
            }
        }
        before = byte;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::may_have_names;
    use crate::NameFinder;

    #[test]
    fn texts_without_hints_have_no_names() {
        let finder = NameFinder::new();
        for text in [
            "",
            "2026-03-12T10:00:00.123Z info request id=08fa12bc path=/v1/items/7 took=12ms",
            "the server has answered each of the questions that were sent",
            r#"{"id": 7, "updated": "2026-03-12T10:00:00Z", "tags": ["new", "sale"]}"#,
        ] {
            assert!(!may_have_names(text), "{text}");
            assert!(finder.find(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn texts_with_names_have_hints() {
        let finder = NameFinder::new();
        let long = format!("{}Abel Smith", "x".repeat(300));
        for text in [
            "my name is kim quinn",
            "call me kim",
            "po box 12",
            "unit 5 box 7",
            "#4 #5",
            "zip code: 12345",
            "de la <kim@example.org>",
            "i met Kim Quinn",
            "(Kim)",
            "from:Kim",
            "élan",
            &long,
        ] {
            assert!(may_have_names(text), "{text}");
        }
        let found = |text: &str| finder.find(text).len();
        assert!(found("my name is kim quinn") > 0 && found("po box 12") > 0 && found("unit 5 box 7") > 0);
    }
}
