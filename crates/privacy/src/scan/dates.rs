//! Dates, so that they are not taken for something else, and dates of birth.

use super::Scan;
use super::context::Topic;
use super::view::View;
use crate::kinds::Kind;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

impl Scan<'_> {
    /// Examines the first character of a word, and returns the end of the date there.
    pub(super) fn date(&mut self, start: usize) -> Option<usize> {
        let view = self.view;
        let end = match view.at(start)? {
            b'0'..=b'9' => numeric(&view, start).or_else(|| day_and_month(&view, start))?,
            _ => month_and_day(&view, start)?,
        };
        if !view.is_word_end(end) && !matches!(view.at(end), Some(b'T' | b't')) {
            return None;
        }
        // The context is that of the first date after it: `born on … and graduated on …`.
        let is_birth = self.topic == Some(Topic::Birth) || Topic::Birth.is_between(&view, self.state.last_date, start);
        self.state.last_date = end;
        if is_birth {
            self.found(Kind::DateOfBirth, start..end, 80);
        }
        Some(end)
    }
}

/// Whether a whole text is a date, also without separators.
pub(crate) fn is_date(text: &str) -> bool {
    let view = View { text, is_whole: true };
    let end = match view.at(0) {
        Some(b'0'..=b'9') => numeric(&view, 0).or_else(|| day_and_month(&view, 0)),
        Some(_) => month_and_day(&view, 0),
        None => None,
    };
    if end.is_some_and(|end| end == text.len() || (matches!(view.at(end), Some(b'T' | b' ')) && text.len() < end + 20))
    {
        return true;
    }
    let is_compact = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let part =
        |from: usize, to: usize| text.get(from..to).and_then(|part| part.parse::<u32>().ok()).unwrap_or_default();
    is_compact && is_year(part(0, 4)) && is_month(part(4, 6)) && is_day(part(6, 8))
}

fn is_year(year: u32) -> bool {
    (1_880..=2_100).contains(&year)
}

fn is_month(month: u32) -> bool {
    (1..=12).contains(&month)
}

fn is_day(day: u32) -> bool {
    (1..=31).contains(&day)
}

/// A number of `least` to `most` digits, and its end.
fn number(view: &View<'_>, start: usize, least: usize, most: usize) -> Option<(u32, usize)> {
    let end = view.run(start, most + 1, |byte| byte.is_ascii_digit());
    let length = end - start;
    let value = view.slice(start, end).iter().fold(0_u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    (length >= least && length <= most).then_some((value, end))
}

/// `1980-03-12`, `12/3/1980`, `12.03.80`.
fn numeric(view: &View<'_>, start: usize) -> Option<usize> {
    let (first, at) = number(view, start, 1, 4)?;
    let sign = view.at(at).filter(|sign| matches!(sign, b'-' | b'/' | b'.'))?;
    let (second, next) = number(view, at + 1, 1, 2)?;
    if view.at(next) != Some(sign) {
        return None;
    }
    let first_length = at - start;
    let end = if first_length == 4 {
        let (third, end) = number(view, next + 1, 1, 2)?;
        (is_year(first) && is_month(second) && is_day(third)).then_some(end)?
    } else {
        let (third, end) = number(view, next + 1, 2, 4)?;
        let year = match end - next - 1 {
            4 => is_year(third),
            // Three numbers of two digits with dots are a version as well.
            2 => first_length <= 2 && sign != b'.' || (first_length == 2 && next - at - 1 == 2),
            _ => false,
        };
        let is_order = (is_day(first) && is_month(second)) || (is_month(first) && is_day(second));
        (first_length <= 2 && year && is_order).then_some(end)?
    };
    // A longer number with the same signs is no date.
    let goes_on = view.at(end) == Some(sign) && view.at(end + 1).is_some_and(|byte| byte.is_ascii_alphanumeric());
    (!goes_on).then_some(end)
}

/// The end of the name of a month, also of its first three letters.
fn month(view: &View<'_>, start: usize) -> Option<usize> {
    let first = view.slice(start, start + 3);
    let month = MONTHS.iter().find(|month| first.eq_ignore_ascii_case(&month.as_bytes()[..3]))?.as_bytes();
    let end = view.run(start, 10, |byte| byte.is_ascii_alphabetic());
    let word = view.slice(start, end);
    let is_short = (3..=4).contains(&word.len());
    let is_beginning = || month.get(..word.len()).is_some_and(|begins| begins.eq_ignore_ascii_case(word));
    (word.eq_ignore_ascii_case(month) || is_short && is_beginning()).then_some(end)
}

fn skip(view: &View<'_>, start: usize) -> usize {
    view.run(start, 3, |byte| matches!(byte, b' ' | b'-' | b',' | b'.'))
}

/// The end of a year of four digits.
fn year(view: &View<'_>, start: usize) -> Option<usize> {
    number(view, start, 4, 4).filter(|(year, _)| is_year(*year)).map(|(_, end)| end)
}

/// `12 March 1980`, `12th of March, 1980`, `12-Mar-1980`.
fn day_and_month(view: &View<'_>, start: usize) -> Option<usize> {
    let (day, mut at) = number(view, start, 1, 2)?;
    if [b"st", b"nd", b"rd", b"th"].iter().any(|ending| view.starts_with(at, *ending)) {
        at += 2;
    }
    at = skip(view, at);
    if view.starts_with(at, b"of ") {
        at += 3;
    }
    let at = skip(view, month(view, at)?);
    is_day(day).then(|| year(view, at))?
}

/// `March 12, 1980`.
fn month_and_day(view: &View<'_>, start: usize) -> Option<usize> {
    let at = skip(view, month(view, start)?);
    let (day, mut at) = number(view, at, 1, 2)?;
    if [b"st", b"nd", b"rd", b"th"].iter().any(|ending| view.starts_with(at, *ending)) {
        at += 2;
    }
    is_day(day).then(|| year(view, skip(view, at)))?
}

#[cfg(test)]
mod tests {
    use super::is_date;

    #[test]
    fn dates() {
        for text in [
            "1980-03-12",
            "1980/3/12",
            "12/3/1980",
            "3/12/80",
            "12.03.1980",
            "12.03.80",
            "12-03-1980",
            "12 March 1980",
            "12th of March, 1980",
            "12-Mar-1980",
            "March 12, 1980",
            "Mar 12 1980",
            "Sept. 3, 1999",
            "19800312",
            "1980-03-12T00:00:00Z",
        ] {
            assert!(is_date(text), "{text}");
        }
        for text in ["", "1980", "1980-13-12", "32/3/1980", "1.2.3", "1-2-3-4", "19801312", "March", "12 Marching 1980"]
        {
            assert!(!is_date(text), "{text}");
        }
    }
}
