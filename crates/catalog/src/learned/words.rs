//! The words that name fields. A key with other words may be data, and is not stored.

use std::collections::HashSet;
use std::sync::LazyLock;

/// The maximum length of a key.
const MAX_KEY: usize = 40;
/// The maximum number of digits at the end of a key, as in `line1` and `address2`.
const MAX_DIGITS: usize = 2;

/// Words in the singular and in lower case. They do not include names of people, places or things.
static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("words.txt").split_whitespace().collect());

/// Whether every word of this key names fields.
pub(super) fn name_a_field(key: &str) -> bool {
    if key.is_empty() || key.len() > MAX_KEY {
        return false;
    }
    let stem = key.trim_start_matches(['_', '$', '@']);
    let name = stem.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if name.is_empty() || stem.len() - name.len() > MAX_DIGITS {
        return false;
    }
    let mut word = String::new();
    let mut previous_is_lower = false;
    for letter in name.chars() {
        let is_separator = matches!(letter, '_' | '-' | '.');
        if !is_separator && !letter.is_ascii_alphabetic() {
            return false;
        }
        if is_separator || (letter.is_ascii_uppercase() && previous_is_lower) {
            if !word.is_empty() && !is_known(&word) {
                return false;
            }
            word.clear();
        }
        if !is_separator {
            word.push(letter.to_ascii_lowercase());
        }
        previous_is_lower = letter.is_ascii_lowercase();
    }
    word.is_empty() || is_known(&word)
}

fn is_known(word: &str) -> bool {
    let has = |word: &str| WORDS.contains(word);
    has(word)
        || word.strip_suffix('s').is_some_and(has)
        || word.strip_suffix("es").is_some_and(has)
        || word.strip_suffix("ies").is_some_and(|stem| has(&format!("{stem}y")))
}

/// The list of words, for tests.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    include_str!("words.txt").split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_are_known() {
        for key in [
            "id",
            "createdAt",
            "created_at",
            "html_url",
            "pull_requests",
            "entries",
            "_links",
            "line1",
            "ID",
            "isDirectory",
        ] {
            assert!(name_a_field(key), "{key}");
        }
    }

    #[test]
    fn data_is_not() {
        for key in [
            "",
            "alice",
            "Alice Smith",
            "a@b.example",
            "2026-11-15",
            "42",
            "deadbeef",
            "user_12345",
            "名前",
            "id123",
            "555-1234",
            "C:\\x",
            "/etc/passwd",
            "alice_name",
            "berlin",
        ] {
            assert!(!name_a_field(key), "{key}");
        }
    }
}
