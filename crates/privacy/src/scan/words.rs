//! What starts like a word: the order in which its kinds are tried.

use super::Scan;
use super::tokens::Token;
use super::view::is_alphanumeric;

/// Longer runs of letters and digits are examined for tokens only.
const WORD_MOST: usize = 96;

impl Scan<'_> {
    /// Examines a letter or digit, and returns where to go on, or nothing if more text is needed.
    pub(super) fn word(&mut self, start: usize) -> Option<usize> {
        let view = self.view;
        let most = super::AHEAD - 8;
        let end = view.run(start, most, is_alphanumeric);
        // Inside a word, such as one that was too long.
        if !view.is_word_start(start) {
            return Some(end);
        }
        // The escape of a line break belongs to no word.
        if view.before(start, 1) == Some(b'\\') && matches!(view.at(start), Some(b'n' | b'r' | b't')) && end > start + 1
        {
            return Some(start + 1);
        }
        match self.token(start) {
            Token::Ends(end) => return Some(end),
            Token::Unsure => return None,
            Token::No => {}
        }
        if end - start > WORD_MOST {
            return Some(end);
        }
        let word = view.slice(start, end);
        let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
        let is_hex_group = word.len() <= 4 && matches!(view.at(end), Some(b':' | b'-' | b'.'));
        if is_hex_group
            && word.iter().all(u8::is_ascii_hexdigit)
            && let Some(end) = self.ipv6_or_mac(start)
        {
            return Some(end);
        }
        let first = word.first().copied().unwrap_or_default();
        if first.is_ascii_digit() {
            if self.is_apart(start)
                && let Some(end) = self.number(start)
            {
                return Some(end);
            }
        } else if digits == 0 {
            if word.len() <= 9
                && let Some(end) = self.date(start)
            {
                return Some(end);
            }
            if word.len() == 6 && view.at(end) == Some(b' ') {
                self.bearer(start);
            }
            if word.len() > 2 {
                return Some(end);
            }
        }
        let found = self.iban(start).or_else(|| self.crypto(start, end).then_some(end)).or_else(|| {
            let is_apart = self.is_apart(start);
            is_apart.then(|| self.identifier(start))?
        });
        Some(found.unwrap_or(end))
    }

    /// Whether a number or identifier can start here: it is no part of a longer one, of a path or of a decimal.
    fn is_apart(&self, start: usize) -> bool {
        let view = &self.view;
        let Some(before) = view.before(start, 1) else { return true };
        let earlier = view.before(start, 2);
        // The host of a URL.
        if before == b'/' && earlier == Some(b'/') && view.before(start, 3) == Some(b':') {
            return true;
        }
        match before {
            b'-' | b'/' | b'_' | b'\\' => {
                let is_escape = before != b'\\' && earlier == Some(b'\\');
                is_escape
                    || earlier
                        .is_none_or(|earlier| !earlier.is_ascii_alphanumeric() && earlier != before && earlier != b'.')
            }
            b'.' | b'~' | b'^' | b'+' => false,
            b':' => earlier.is_none_or(|earlier| !earlier.is_ascii_digit()),
            _ => true,
        }
    }
}
