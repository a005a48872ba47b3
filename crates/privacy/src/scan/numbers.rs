//! Numbers in groups, and the order in which their kinds are tried.

use super::Scan;
use super::view::View;
use crate::kinds::Kind;

/// What is between two groups of digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sign {
    /// Only a parenthesis.
    #[default]
    None,
    Space,
    Dash,
    Dot,
    Slash,
}

/// Digits that follow each other, and the parentheses around them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Group {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The number of digits.
    pub(super) digits: usize,
    /// What is before the group.
    pub(super) sign: Sign,
    pub(super) is_in_parentheses: bool,
}

const GROUPS_MOST: usize = 10;
/// Longer numbers are no finding of any kind.
pub(super) const DIGITS_MOST: usize = 24;

/// Groups of digits with single signs between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    groups: [Group; GROUPS_MOST],
    length: usize,
    pub(super) start: usize,
    pub(super) has_plus: bool,
    /// There are more groups or digits than there may be.
    pub(super) is_too_long: bool,
}

impl Run {
    pub(super) fn groups(&self) -> &[Group] {
        self.groups.get(..self.length).unwrap_or_default()
    }

    /// Whether a space or nothing follows the first `count` groups.
    pub(super) fn ends_after(&self, count: usize) -> bool {
        self.groups().get(count).is_none_or(|next| next.sign == Sign::Space)
    }

    /// Reads the groups from a digit, a `+` or a `(` on.
    pub(super) fn read(view: &View<'_>, start: usize) -> Self {
        let mut run =
            Self { groups: [Group::default(); GROUPS_MOST], length: 0, start, has_plus: false, is_too_long: false };
        let mut at = start;
        if view.at(at) == Some(b'+') {
            run.has_plus = true;
            at += 1;
        }
        let mut sign = Sign::None;
        let mut total = 0;
        loop {
            let is_in_parentheses = view.at(at) == Some(b'(');
            let first = at + usize::from(is_in_parentheses);
            let last = view.run(first, DIGITS_MOST + 1, |byte| byte.is_ascii_digit());
            let is_closed = !is_in_parentheses || view.at(last) == Some(b')');
            if last == first || !is_closed {
                break;
            }
            total += last - first;
            let Some(group) = run.groups.get_mut(run.length).filter(|_| total <= DIGITS_MOST) else {
                run.is_too_long = true;
                break;
            };
            let end = last + usize::from(is_in_parentheses);
            *group = Group { start: at, end, digits: last - first, sign, is_in_parentheses };
            run.length += 1;
            let width;
            (sign, width) = sign_at(view, end);
            at = end + width;
        }
        run
    }

    /// The digits of some groups.
    pub(super) fn digits(view: &View<'_>, groups: &[Group]) -> Digits {
        let mut digits = Digits { bytes: [0; DIGITS_MOST], length: 0 };
        let bytes =
            groups.iter().flat_map(|group| view.slice(group.start, group.end)).filter(|byte| byte.is_ascii_digit());
        for (place, byte) in digits.bytes.iter_mut().zip(bytes) {
            *place = *byte;
            digits.length += 1;
        }
        digits
    }
}

fn sign_at(view: &View<'_>, at: usize) -> (Sign, usize) {
    match view.at(at) {
        Some(b' ') => (Sign::Space, 1),
        Some(b'-') => (Sign::Dash, 1),
        Some(b'.') => (Sign::Dot, 1),
        Some(b'/') => (Sign::Slash, 1),
        Some(0xc2) if view.at(at + 1) == Some(0xa0) => (Sign::Space, 2),
        // Non-breaking hyphen, figure dash, en dash; narrow and thin spaces.
        Some(0xe2) if view.at(at + 1) == Some(0x80) => match view.at(at + 2) {
            Some(0x90..=0x93) => (Sign::Dash, 3),
            Some(0x87 | 0x89 | 0xaf) => (Sign::Space, 3),
            _ => (Sign::None, 0),
        },
        _ => (Sign::None, 0),
    }
}

/// ASCII digits without what was between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digits {
    bytes: [u8; DIGITS_MOST],
    length: usize,
}

impl Digits {
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl Scan<'_> {
    /// Examines a number, and returns where to go on if it is something.
    pub(super) fn number(&mut self, start: usize) -> Option<usize> {
        let view = self.view;
        let is_digit = view.at(start).is_some_and(|byte| byte.is_ascii_digit());
        if is_digit {
            let digits_end = view.run(start, 20, |byte| byte.is_ascii_digit());
            if let Some(end) =
                self.date(start).or_else(|| self.telegram(start, digits_end)).or_else(|| self.ipv4(start))
            {
                return Some(end);
            }
        }
        let run = Run::read(&view, start);
        let last = run.groups().last()?.end;
        if run.is_too_long {
            return None;
        }
        // An amount of money is nothing else, however its digits are grouped.
        if matches!(view.before(start, 1), Some(b'$')) || view.str(start.saturating_sub(3), start) == "€" {
            return Some(last);
        }
        if is_digit {
            let found = self.card(&run).or_else(|| self.social_security(&run)).or_else(|| self.national_alone(start));
            if found.is_some() {
                return found;
            }
            if let Some(end) = self.national_with_context(start) {
                self.found(Kind::NationalId, start..end, 80);
                return Some(end);
            }
        }
        self.phone(&run)
    }

    /// Whether nothing that belongs to a number follows a position.
    pub(super) fn is_number_end(&self, end: usize) -> bool {
        let view = &self.view;
        if !view.is_word_end(end) {
            return false;
        }
        let next = view.at(end + 1);
        match view.at(end) {
            Some(b'%' | b'@') => false,
            Some(b':' | b',' | b'.' | b'/') => {
                !next.is_some_and(|next| next.is_ascii_digit())
                    || (view.at(end) == Some(b',') && !self.is_grouping(end))
            }
            // `-Office` may follow, but no more of an identifier.
            Some(b'-') => {
                let word_end = view.run(end + 1, 12, super::view::is_alphanumeric);
                let word = view.slice(end + 1, word_end);
                word.is_empty() || (word.len() >= 3 && word.iter().all(u8::is_ascii_alphabetic))
            }
            _ => true,
        }
    }

    /// Whether a comma is followed by exactly three digits, as in `1,234`.
    fn is_grouping(&self, comma: usize) -> bool {
        self.view.run(comma + 1, 4, |byte| byte.is_ascii_digit()) == comma + 4
    }
}
