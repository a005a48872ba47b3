//! How many tokens an answer may have, how its parts share them, and the cut that keeps a text within its share.

use super::token_count::{self, LONGEST_TOKEN};
use coracle_types::Limits;

/// Tokens of an answer to a model, from `execution.limits.output_tokens`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Tokens of the whole answer.
    pub(crate) whole: usize,
}

impl Budget {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self { whole: usize::try_from(limits.output_tokens).unwrap_or(usize::MAX) }
    }

    /// Tokens of the result of code.
    pub(crate) fn result(self) -> usize {
        self.whole / 2
    }

    /// Tokens of standard output.
    pub(crate) fn stdout(self) -> usize {
        self.whole / 4
    }

    /// Tokens of standard error.
    pub(crate) fn stderr(self) -> usize {
        self.whole / 8
    }

    /// Tokens of an error message, or of the traceback that is shown instead of it.
    pub(crate) fn error(self) -> usize {
        self.whole / 8
    }
}

/// The start and the end of a text that has more tokens than this; `None` if it fits. Reads no more of a long text than
/// can be shown.
pub(crate) fn shortened(text: &[u8], tokens: usize) -> Option<String> {
    let window = tokens.saturating_mul(LONGEST_TOKEN).min(text.len());
    let start = String::from_utf8_lossy(&text[..window]);
    if window == text.len() && token_count::fits(&start, tokens) {
        return None;
    }
    let end = String::from_utf8_lossy(&text[text.len() - window..]);
    let (head, tail) = (token_count::head(&start, tokens * 2 / 3), token_count::tail(&end, tokens / 3));
    let left_out = text.len().saturating_sub(head.len() + tail.len());
    Some(coracle_engine::left_out(head, left_out, tail))
}

#[cfg(test)]
mod tests {
    use super::super::token_count::count_tokens;
    use super::{Budget, shortened};
    use coracle_types::Limits;

    #[test]
    fn the_parts_of_an_answer_add_up_to_the_limit() {
        let budget = Budget::of(&Limits { output_tokens: 10_000, ..Limits::default() });
        assert_eq!(budget.whole, 10_000);
        assert_eq!(budget.result() + budget.stdout() + budget.stderr() + budget.error(), budget.whole);
    }

    #[test]
    fn only_the_number_of_tokens_counts() {
        // Tokens of 9 bytes and of 1 byte: an estimate from bytes would be far off in both directions.
        let (long, short) = (" response".repeat(900), "1 ".repeat(900));
        assert_eq!((count_tokens(&long), count_tokens(&short)), (900, 1_800));
        assert_eq!(shortened(long.as_bytes(), 900), None);
        let cut = shortened(short.as_bytes(), 300).unwrap();
        assert!(cut.len() < short.len() && count_tokens(&cut) <= 330, "{cut}");
    }

    #[test]
    fn start_and_end_stay_and_the_middle_is_counted() {
        let text = (0..50_000).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
        let cut = shortened(text.as_bytes(), 250).unwrap();
        assert!(cut.starts_with("line 0\n") && cut.ends_with("line 49999\n"), "{cut}");
        assert!(count_tokens(&cut) <= 270, "{}", count_tokens(&cut));
        let (head, rest) = cut.split_once("\n[… ").unwrap();
        let (left_out, tail) = rest.split_once(" bytes left out …]\n").unwrap();
        assert_eq!(head.len() + left_out.parse::<usize>().unwrap() + tail.len(), text.len());
        assert_eq!(shortened(&[0xff; 5], 5), None);
        assert!(shortened(&vec![0xff; 10_000], 5).is_some());
    }
}
