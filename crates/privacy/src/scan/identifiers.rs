//! Identifiers of people: social security numbers by their form, and what needs context.

use super::Scan;
use super::banks::is_routing;
use super::context::Topic;
use super::numbers::{Run, Sign};
use super::view::is_alphanumeric;
use crate::kinds::Kind;

/// The longest identifier that needs context.
const IDENTIFIER_MOST: usize = 24;
/// Numbers that were printed in advertisements.
const NOT_IN_USE: [&[u8]; 3] = [b"078051120", b"219099999", b"123456789"];

impl Scan<'_> {
    /// Examines a number for `123-45-6789`.
    pub(super) fn social_security(&mut self, run: &Run) -> Option<usize> {
        let groups = run.groups().get(..3)?;
        let [first, second, third] = groups else { return None };
        let lengths = (first.digits, second.digits, third.digits) == (3, 2, 4) && run.ends_after(3);
        let signs = second.sign == third.sign && matches!(second.sign, Sign::Dash | Sign::Space);
        let parentheses = groups.iter().any(|group| group.is_in_parentheses);
        if !lengths || !signs || parentheses || run.has_plus || !self.is_number_end(third.end) {
            return None;
        }
        let digits = Run::digits(&self.view, groups);
        let kind = social_security_kind(digits.as_bytes())?;
        let is_about = self.is_about(Topic::SocialSecurity, run.start);
        if second.sign == Sign::Space && !is_about {
            return None;
        }
        self.found(kind, run.start..third.end, if is_about { 95 } else { 80 });
        Some(third.end)
    }

    /// Examines the start of a word for an identifier that needs context.
    pub(super) fn identifier(&mut self, start: usize) -> Option<usize> {
        let view = self.view;
        if let Some(end) = self.national_alone(start) {
            return Some(end);
        }
        let mut end =
            view.run(start, IDENTIFIER_MOST + 1, |byte| is_alphanumeric(byte) || matches!(byte, b'-' | b'.' | b'/'));
        while end > start && view.at(end - 1).is_some_and(|byte| !is_alphanumeric(byte)) {
            end -= 1;
        }
        let text = view.slice(start, end);
        let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
        if digits < 4 || text.len() > IDENTIFIER_MOST || !view.is_word_end(end) {
            return None;
        }
        let (kind, end, confidence) = self.by_context(start, end, digits)?;
        self.found(kind, start..end, confidence);
        Some(end)
    }

    fn by_context(&self, start: usize, end: usize, digits: usize) -> Option<(Kind, usize, u8)> {
        let text = self.view.slice(start, end);
        let is_plain = digits == text.len();
        let is_joined = text.iter().all(|byte| is_alphanumeric(*byte));
        let is_upper = !text.iter().any(u8::is_ascii_lowercase);
        if is_plain
            && digits == 9
            && let Some(kind) = social_security_kind(text)
            && self.is_about(Topic::SocialSecurity, start)
        {
            return Some((kind, end, 85));
        }
        if is_routing(text) && self.is_about(Topic::BankRouting, start) {
            return Some((Kind::BankRouting, end, 90));
        }
        if let Some(end) = self.national_with_context(start) {
            return Some((Kind::NationalId, end, 80));
        }
        if is_joined && is_upper && (6..=9).contains(&text.len()) && self.is_about(Topic::Passport, start) {
            return Some((Kind::Passport, end, 75));
        }
        let dots = text.iter().any(|byte| matches!(byte, b'.' | b'/'));
        if !dots && (5..=20).contains(&text.len()) && self.is_about(Topic::DriverLicense, start) {
            return Some((Kind::DriverLicense, end, 70));
        }
        let is_account = text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-') && (6..=17).contains(&digits);
        if is_account && self.is_about(Topic::BankAccount, start) {
            return Some((Kind::BankAccount, end, 65));
        }
        None
    }
}

/// What nine digits are by the rules of the Social Security Administration and the IRS.
pub(crate) fn social_security_kind(digits: &[u8]) -> Option<Kind> {
    if digits.len() != 9 || !digits.iter().all(u8::is_ascii_digit) || NOT_IN_USE.contains(&digits) {
        return None;
    }
    let (area, group, serial) = (&digits[..3], &digits[3..5], &digits[5..]);
    if area == b"000" || area == b"666" || group == b"00" || serial == b"0000" {
        return None;
    }
    if area[0] != b'9' {
        return Some(Kind::UsSsn);
    }
    let group = (group[0] - b'0') * 10 + group[1] - b'0';
    matches!(group, 50..=65 | 70..=88 | 90..=92 | 94..=99).then_some(Kind::UsItin)
}
