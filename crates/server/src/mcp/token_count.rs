//! Token counts of texts for models.

use tiktoken_rs::{CoreBPE, o200k_base_singleton};

/// Texts are counted in pieces of about this many bytes, because the time for text without spaces would otherwise grow
/// with the square of its length.
const PIECE: usize = 512;

/// Length of the longest token of the vocabulary in bytes.
pub(crate) const LONGEST_TOKEN: usize = 128;

fn vocabulary() -> &'static CoreBPE {
    o200k_base_singleton()
}

/// Counts the tokens of a text in the o200k vocabulary. The count is slightly too high for long texts, which are
/// counted in pieces.
pub fn count_tokens(text: &str) -> usize {
    pieces(text).map(|piece| vocabulary().encode_ordinary(piece).len()).sum()
}

/// Whether a text fits a budget. Reads no more of the text than necessary.
pub(crate) fn fits(text: &str, budget: usize) -> bool {
    if text.len() <= budget {
        return true;
    }
    if text.len() > budget.saturating_mul(LONGEST_TOKEN) {
        return false;
    }
    let mut left = budget;
    for piece in pieces(text) {
        match left.checked_sub(vocabulary().encode_ordinary(piece).len()) {
            Some(rest) => left = rest,
            None => return false,
        }
    }
    true
}

/// Longest start of a text that fits the budget, approximately.
pub(crate) fn head(text: &str, budget: usize) -> &str {
    let mut left = budget;
    let mut end = 0;
    for piece in pieces(text) {
        let count = vocabulary().encode_ordinary(piece).len();
        if count > left {
            return &text[..end + part(piece, left, count)];
        }
        left -= count;
        end += piece.len();
    }
    text
}

/// Longest end of a text that fits the budget, approximately.
pub(crate) fn tail(text: &str, budget: usize) -> &str {
    // Counts from the end, so that most of a long text is never read.
    let mut start = text.len();
    let mut left = budget;
    while start > 0 {
        let from = floor(text, start.saturating_sub(PIECE));
        let count = vocabulary().encode_ordinary(&text[from..start]).len();
        if count > left {
            let keep = (start - from) * left / count.max(1);
            return &text[ceil(text, start - keep)..];
        }
        left -= count;
        start = from;
    }
    text
}

/// Length of the part of a piece that fits, estimated in proportion.
fn part(piece: &str, left: usize, count: usize) -> usize {
    floor(piece, piece.len() * left / count.max(1))
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Splits a text into pieces, after a space or a line break if there is one.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = floor(rest, rest.len().min(PIECE));
        if end < rest.len()
            && let Some(space) = rest[..end].rfind([' ', '\n'])
            && space > 0
        {
            end = space;
        }
        let (piece, others) = rest.split_at(end);
        rest = others;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::{count_tokens, fits, head, pieces, tail};

    #[test]
    fn counts_match_the_vocabulary() {
        assert_eq!(count_tokens("hello world"), 2);
        assert_eq!(count_tokens(""), 0);
        let long = "The quick brown fox jumps over the lazy dog.\n".repeat(200);
        let whole = tiktoken_rs::o200k_base_singleton().encode_ordinary(&long).len();
        let counted = count_tokens(&long);
        assert!(counted >= whole && counted <= whole + whole / 20, "{counted} of {whole}");
    }

    #[test]
    fn pieces_add_up_to_the_text() {
        for text in ["a b c".repeat(1000), "é".repeat(3000), " ".repeat(2000), "x".to_owned()] {
            assert_eq!(pieces(&text).collect::<String>(), text);
        }
    }

    #[test]
    fn head_and_tail_stay_within_their_budget() {
        for text in ["word ".repeat(5000), "é".repeat(9000), "0123456789".repeat(3000)] {
            for budget in [0, 1, 7, 100, 1000] {
                assert!(count_tokens(head(&text, budget)) <= budget + 2, "{budget}");
                assert!(count_tokens(tail(&text, budget)) <= budget + 2, "{budget}");
            }
            assert!(text.starts_with(head(&text, 50)) && text.ends_with(tail(&text, 50)));
        }
        assert_eq!(head("short", 10), "short");
        assert_eq!(tail("short", 10), "short");
    }

    #[test]
    fn fitting_is_decided_without_reading_the_whole_text() {
        assert!(fits("abc", 3));
        assert!(fits(&"word ".repeat(100), 105));
        assert!(!fits(&"word ".repeat(100), 50));
        assert!(!fits(&"x".repeat(100 << 20), 1000));
    }
}
