//! Numbers of payment cards: brands and the Luhn checksum.

use super::Scan;
use super::context::{Topic, denies_phone};
use super::numbers::{Run, Sign};
use crate::kinds::Kind;

/// How the digits of a card are grouped.
const GROUPINGS: [&[usize]; 7] =
    [&[4, 4, 4, 4], &[4, 4, 4, 4, 3], &[4, 6, 5], &[4, 6, 4], &[4, 4, 4, 3], &[4, 4, 4, 1], &[6, 13]];

impl Scan<'_> {
    /// Examines a number for one of a card.
    pub(super) fn card(&mut self, run: &Run) -> Option<usize> {
        let count = card_groups(run)?;
        let groups = run.groups().get(..count)?;
        let digits = Run::digits(&self.view, groups);
        let digits = digits.as_bytes();
        if !is_luhn(digits) || !self.is_number_end(groups.last()?.end) {
            return None;
        }
        let is_about_card = self.is_about(Topic::Card, run.start);
        // Without separators or context, a number of an unusual length is more probably something else.
        let is_usual = matches!(digits.len(), 14..=16) || count > 1;
        let is_denied = denies_phone(&self.view, run.start);
        let confidence = match (is_about_card, is_brand(digits)) {
            (true, true) => 95,
            (true, false) if matches!(digits[0], b'2'..=b'6') => 75,
            (false, true) if is_usual && !is_denied => 80,
            _ => return None,
        };
        let end = groups.last()?.end;
        self.found(Kind::CreditCard, run.start..end, confidence);
        Some(end)
    }
}

/// How many groups the number of a card has.
fn card_groups(run: &Run) -> Option<usize> {
    let groups = run.groups();
    let first = groups.first()?;
    if run.has_plus || first.is_in_parentheses {
        return None;
    }
    if (12..=19).contains(&first.digits) && run.ends_after(1) {
        return Some(1);
    }
    let sign = groups.get(1)?.sign;
    if !matches!(sign, Sign::Space | Sign::Dash) {
        return None;
    }
    let fits = |grouping: &[usize]| {
        grouping.len() <= groups.len()
            && groups.iter().zip(grouping).all(|(group, digits)| group.digits == *digits && !group.is_in_parentheses)
            && groups.iter().take(grouping.len()).skip(1).all(|group| group.sign == sign)
            && run.ends_after(grouping.len())
    };
    GROUPINGS.iter().filter(|grouping| fits(grouping)).map(|grouping| grouping.len()).max()
}

/// Whether a whole text of digits is the number of a card.
pub(crate) fn is_card(digits: &[u8]) -> bool {
    (12..=19).contains(&digits.len()) && is_luhn(digits) && is_brand(digits)
}

pub(super) fn is_luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let value = u32::from(digit.wrapping_sub(b'0'));
            match place % 2 {
                0 => value,
                _ if value > 4 => value * 2 - 9,
                _ => value * 2,
            }
        })
        .sum();
    let is_one_digit = digits.iter().all(|digit| Some(digit) == digits.first());
    sum.is_multiple_of(10) && !is_one_digit
}

/// Whether a brand has numbers with this prefix and length.
fn is_brand(digits: &[u8]) -> bool {
    let prefix = digits.iter().take(6).fold(0_u32, |sum, digit| sum * 10 + u32::from(digit.wrapping_sub(b'0')));
    let length = digits.len();
    match prefix {
        // Visa
        400_000..=499_999 => matches!(length, 13 | 16 | 19),
        // Mastercard, and Troy
        510_000..=559_999 | 222_100..=272_099 | 979_200..=979_299 => length == 16,
        // American Express, and JCB
        340_000..=349_999 | 370_000..=379_999 | 180_000..=180_099 | 213_100..=213_199 => length == 15,
        // Diners Club
        300_000..=305_999 | 309_500..=309_599 | 360_000..=369_999 | 380_000..=399_999 => {
            (14..=19).contains(&length) && length != 15
        }
        // JCB, Mir, Discover, UnionPay, RuPay
        352_800..=358_999
        | 220_000..=220_499
        | 600_000..=609_999
        | 644_000..=659_999
        | 620_000..=629_999
        | 817_200..=820_199
        | 508_500..=508_999 => (16..=19).contains(&length),
        // Maestro
        501_800..=501_899
        | 502_000..=502_099
        | 503_800..=503_899
        | 561_200..=561_299
        | 589_300..=589_399
        | 630_400..=630_499
        | 639_000..=639_099
        | 675_900..=675_999
        | 676_100..=676_399
        | 60_400..=60_499 => (12..=19).contains(&length),
        _ => false,
    }
}
