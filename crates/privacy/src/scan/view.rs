//! The text around a position, and what characters are.

/// The text that has arrived so far. Positions outside it have no character.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) text: &'a str,
    /// Nothing follows the text.
    pub(crate) is_whole: bool,
}

impl<'a> View<'a> {
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn at(&self, position: usize) -> Option<u8> {
        self.bytes().get(position).copied()
    }

    /// The byte `back` places before a position.
    pub(crate) fn before(&self, position: usize, back: usize) -> Option<u8> {
        position.checked_sub(back).and_then(|position| self.at(position))
    }

    /// The bytes of a span, cut to the text.
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a [u8] {
        let end = end.min(self.len());
        self.bytes().get(start.min(end)..end).unwrap_or_default()
    }

    /// The text of a span, or an empty one if it splits a character.
    pub(crate) fn str(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    pub(crate) fn starts_with(&self, position: usize, prefix: &[u8]) -> bool {
        self.bytes().get(position..).is_some_and(|rest| rest.starts_with(prefix))
    }

    pub(crate) fn starts_with_ignoring_case(&self, position: usize, prefix: &[u8]) -> bool {
        self.slice(position, position + prefix.len()).eq_ignore_ascii_case(prefix)
    }

    /// The first position from `from` on whose byte is not in the set, at most `most` bytes further.
    pub(crate) fn run(&self, from: usize, most: usize, is_in: impl Fn(u8) -> bool) -> usize {
        let bytes = self.slice(from, from.saturating_add(most));
        from + bytes.iter().position(|byte| !is_in(*byte)).unwrap_or(bytes.len())
    }

    /// The first position of the run of bytes in the set that ends before `to`, at most `most` bytes earlier.
    pub(crate) fn run_back(&self, to: usize, most: usize, is_in: impl Fn(u8) -> bool) -> usize {
        let bytes = self.slice(to.saturating_sub(most), to);
        to - bytes.iter().rev().position(|byte| !is_in(*byte)).unwrap_or(bytes.len())
    }

    /// Whether a word can start here: the byte before is no ASCII letter, digit or part of one, or belongs to an
    /// escape such as `\n`.
    pub(crate) fn is_word_start(&self, position: usize) -> bool {
        match self.before(position, 1) {
            None => true,
            Some(b'n' | b'r' | b't') if self.before(position, 2) == Some(b'\\') => true,
            Some(byte) => !byte.is_ascii_alphanumeric(),
        }
    }

    /// Whether a word can end here: the byte at the position is no ASCII letter, digit or underscore.
    pub(crate) fn is_word_end(&self, position: usize) -> bool {
        self.at(position).is_none_or(|byte| !byte.is_ascii_alphanumeric() && byte != b'_')
    }
}

pub(crate) fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

pub(crate) fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Whether a text is varied enough to be a random key: bits for each of its characters, times ten.
pub(crate) fn entropy_tenths(text: &[u8]) -> u32 {
    let mut counts = [0_u32; 256];
    for byte in text {
        counts[usize::from(*byte)] += 1;
    }
    let length = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX).max(1));
    let bits: f64 = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / length)
        .map(|share| -share * share.log2())
        .sum();
    (bits * 10.0) as u32
}
