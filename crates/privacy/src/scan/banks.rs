//! Numbers of banks: IBAN, US routing numbers, accounts.

use super::Scan;
use super::view::{View, is_alphanumeric};
use crate::kinds::Kind;

/// Lengths of the IBAN by country.
#[rustfmt::skip]
const LENGTHS: [(&[u8; 2], usize); 89] = [
    (b"AD", 24), (b"AE", 23), (b"AL", 28), (b"AT", 20), (b"AZ", 28), (b"BA", 20), (b"BE", 16), (b"BG", 22),
    (b"BH", 22), (b"BI", 27), (b"BR", 29), (b"BY", 28), (b"CH", 21), (b"CR", 22), (b"CY", 28), (b"CZ", 24),
    (b"DE", 22), (b"DJ", 27), (b"DK", 18), (b"DO", 28), (b"EE", 20), (b"EG", 29), (b"ES", 24), (b"FI", 18),
    (b"FK", 18), (b"FO", 18), (b"FR", 27), (b"GB", 22), (b"GE", 22), (b"GI", 23), (b"GL", 18), (b"GR", 27),
    (b"GT", 28), (b"HN", 28), (b"HR", 21), (b"HU", 28), (b"IE", 22), (b"IL", 23), (b"IQ", 23), (b"IS", 26),
    (b"IT", 27), (b"JO", 30), (b"KW", 30), (b"KZ", 20), (b"LB", 28), (b"LC", 32), (b"LI", 21), (b"LT", 20),
    (b"LU", 20), (b"LV", 21), (b"LY", 25), (b"MC", 27), (b"MD", 24), (b"ME", 22), (b"MK", 19), (b"MN", 20),
    (b"MR", 27), (b"MT", 31), (b"MU", 30), (b"NI", 28), (b"NL", 18), (b"NO", 15), (b"OM", 23), (b"PK", 24),
    (b"PL", 28), (b"PS", 29), (b"PT", 25), (b"QA", 29), (b"RO", 24), (b"RS", 22), (b"RU", 33), (b"SA", 24),
    (b"SC", 31), (b"SD", 18), (b"SE", 24), (b"SI", 19), (b"SK", 24), (b"SM", 27), (b"SO", 23), (b"ST", 25),
    (b"SV", 28), (b"TL", 23), (b"TN", 24), (b"TR", 26), (b"UA", 29), (b"VA", 22), (b"VG", 24), (b"XK", 20),
    (b"YE", 30),
];

impl Scan<'_> {
    /// Examines the start of a word for an IBAN.
    pub(super) fn iban(&mut self, start: usize) -> Option<usize> {
        let end = iban_end(&self.view, start)?;
        self.found(Kind::Iban, start..end, 97);
        Some(end)
    }
}

/// The end of a valid IBAN.
fn iban_end(view: &View<'_>, start: usize) -> Option<usize> {
    let country = [view.at(start)?.to_ascii_uppercase(), view.at(start + 1)?.to_ascii_uppercase()];
    if !country.iter().all(u8::is_ascii_uppercase) || !view.at(start + 2)?.is_ascii_digit() {
        return None;
    }
    let length = LENGTHS.iter().find(|(known, _)| **known == country).map(|(_, length)| *length)?;
    let mut letters = Vec::with_capacity(length);
    let mut at = start;
    let separator = view.at(start + 4).filter(|byte| matches!(byte, b' ' | b'-'));
    while letters.len() < length {
        let byte = view.at(at)?;
        if is_alphanumeric(byte) {
            letters.push(byte.to_ascii_uppercase());
        } else if Some(byte) != separator || letters.len() % 4 != 0 {
            return None;
        }
        at += 1;
    }
    (view.is_word_end(at) && is_valid_iban(&letters)).then_some(at)
}

/// Whether the remainder by 97 is one, with the first four characters at the end.
fn is_valid_iban(letters: &[u8]) -> bool {
    let Some((head, body)) = letters.split_at_checked(4) else { return false };
    let remainder = body.iter().chain(head).fold(0_u32, |remainder, letter| match letter {
        b'0'..=b'9' => (remainder * 10 + u32::from(letter - b'0')) % 97,
        _ => (remainder * 100 + u32::from(letter.wrapping_sub(b'A')) + 10) % 97,
    });
    remainder == 1
}

/// Whether nine digits are a US routing number: a range of the Federal Reserve, and the checksum.
pub(crate) fn is_routing(digits: &[u8]) -> bool {
    if digits.len() != 9 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let prefix = (digits[0] - b'0') * 10 + digits[1] - b'0';
    let sum: u32 =
        digits.iter().zip([3, 7, 1].iter().cycle()).map(|(digit, weight)| u32::from(digit - b'0') * weight).sum();
    matches!(prefix, 1..=12 | 21..=32 | 61..=72 | 80) && sum.is_multiple_of(10)
}
