//! Phone numbers.
//!
//! A number with a country's calling code is valid by the lengths of that country. Numbers without one have a form that
//! other numbers rarely have, or a word such as `phone` or `call` beside them.

use super::Scan;
use super::context::{Topic, denies_phone, says_phone};
use super::numbers::{Group, Run, Sign};
use crate::kinds::Kind;

/// The form of a number, by how it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `+44 …`
    International,
    /// `0044 …`, `001-…`
    InternationalPrefix,
    /// `202-555-0143`, `(202) 555-0143`, `1-202-555-0143`
    NorthAmerican,
    /// `0490 75 40 81`, `(08) 8747 6301`
    WithTrunkPrefix,
    /// `(37) 788-063`
    WithAreaCode,
    /// Anything else.
    Plain,
}

/// Forms in the order in which they are tried.
const FORMS: [Form; 5] =
    [Form::InternationalPrefix, Form::NorthAmerican, Form::WithTrunkPrefix, Form::WithAreaCode, Form::Plain];

impl Scan<'_> {
    /// Examines a number for one of a phone.
    pub(super) fn phone(&mut self, run: &Run) -> Option<usize> {
        if self.view.before(run.start, 1).is_some_and(|sign| matches!(sign, b'$' | b'#' | b'*')) {
            return None;
        }
        let forms: &[Form] = if run.has_plus { &[Form::International] } else { &FORMS };
        for form in forms {
            // The longest number that has the form.
            for count in (1..=run.groups().len()).rev() {
                let groups = run.groups().get(..count)?;
                let end = groups.last()?.end;
                if !run.ends_after(count) {
                    continue;
                }
                let (end, has_extension) = self.extension(end);
                if !has_extension && !self.is_number_end(end) {
                    continue;
                }
                if let Some(confidence) = self.fits(*form, run, groups, end) {
                    self.found(Kind::Phone, run.start..end, confidence);
                    return Some(end);
                }
            }
        }
        None
    }

    fn fits(&self, form: Form, run: &Run, groups: &[Group], end: usize) -> Option<u8> {
        let view = &self.view;
        let digits = Run::digits(view, groups);
        let digits = digits.as_str();
        let says = || self.topic == Some(Topic::Phone) || says_phone(view, run.start, end);
        let denies = || denies_phone(view, run.start);
        match form {
            Form::International => international(run, groups, view.text),
            Form::InternationalPrefix => {
                let number = digits.strip_prefix("00").or_else(|| digits.strip_prefix("011"))?;
                let is_form = (9..=15).contains(&number.len()) && (groups.len() > 1 || says()) && is_valid(number);
                let is_north_american = number.len() == 11 && number.starts_with('1') && groups.len() > 1;
                ((is_form || is_north_american) && (says() || !denies())).then_some(75)
            }
            Form::NorthAmerican => {
                let is_certain = is_north_american(digits, groups)?;
                match (says(), denies()) {
                    (true, _) => Some(90),
                    (false, false) => Some(if is_certain { 75 } else { 60 }),
                    (false, true) => None,
                }
            }
            Form::WithTrunkPrefix => {
                // A list of numbers has no end where that of a phone would be.
                let is_whole = run.groups().len() == groups.len();
                let is_certain = has_trunk_prefix(digits, groups)? && is_whole;
                match (says(), denies()) {
                    (true, _) => Some(85),
                    (false, false) if is_certain => Some(60),
                    _ => None,
                }
            }
            Form::WithAreaCode => {
                let fits = has_area_code(digits, groups);
                (fits && (says() || !denies())).then(|| if says() { 80 } else { 60 })
            }
            Form::Plain => {
                let is_near = self.topic == Some(Topic::Phone) || (is_plain(digits, groups) && says() && !denies());
                (is_near && is_plain(digits, groups) && !self.has_better(groups)).then_some(70)
            }
        }
    }

    /// Whether a number of a clearer form starts at a later group.
    fn has_better(&self, groups: &[Group]) -> bool {
        (1..groups.len()).any(|from| {
            let Some(rest) = groups.get(from..) else { return false };
            let is_apart = rest.first().is_some_and(|group| group.sign == Sign::Space);
            let digits = Run::digits(&self.view, rest);
            is_apart
                && (is_north_american(digits.as_str(), rest).is_some()
                    || has_trunk_prefix(digits.as_str(), rest).is_some())
        })
    }

    /// The end of an extension after a number (`x123`, `ext. 45`), and whether there is one.
    fn extension(&self, end: usize) -> (usize, bool) {
        let view = &self.view;
        let word = view.run(end, 2, |byte| matches!(byte, b' ' | b','));
        for mark in [b"extension".as_slice(), b"ext.", b"ext", b"x", b"#"] {
            if view.starts_with_ignoring_case(word, mark) {
                let first = view.run(word + mark.len(), 2, |byte| matches!(byte, b' ' | b':' | b'.'));
                let last = view.run(first, 7, |byte| byte.is_ascii_digit());
                if (1..=6).contains(&(last - first)) && view.is_word_end(last) {
                    return (last, true);
                }
            }
        }
        (end, false)
    }
}

fn is_valid(number: &str) -> bool {
    let mut text = String::with_capacity(16);
    text.push('+');
    text.push_str(number);
    phonelib::is_valid_phone_number(&text)
}

fn international(run: &Run, groups: &[Group], text: &str) -> Option<u8> {
    // The `(0)` of `+46 (0)8 …` is not dialled from abroad.
    let mut number = String::with_capacity(24);
    for (index, group) in groups.iter().enumerate() {
        let part = text.get(group.start..group.end)?;
        if index > 0 && part == "(0)" {
            continue;
        }
        number.extend(part.chars().filter(char::is_ascii_digit));
    }
    let length = number.len();
    if !(8..=15).contains(&length) || groups.len() > 8 || number.starts_with('0') || !run.has_plus {
        return None;
    }
    if is_valid(&number) {
        return Some(95);
    }
    // Numbers that are not in use are still meant as such, if they are written like one.
    (length >= 10 && groups.len() > 1 && groups.len() <= 6).then_some(65)
}

/// Whether the form is `NXX-XXX-XXXX`, and whether its signs are certain to be those of a phone number.
fn is_north_american(digits: &str, groups: &[Group]) -> Option<bool> {
    let (groups, digits) = match groups.first() {
        Some(first) if first.digits == 1 && digits.starts_with('1') => (groups.get(1..)?, digits.get(1..)?),
        _ => (groups, digits),
    };
    let [area, exchange, line] = groups else { return None };
    let lengths = (area.digits, exchange.digits, line.digits) == (3, 3, 4);
    let parentheses = !exchange.is_in_parentheses && !line.is_in_parentheses;
    let starts = matches!(digits.as_bytes().first(), Some(b'2'..=b'9'));
    if !lengths || !parentheses || !starts || line.sign == Sign::None {
        return None;
    }
    let is_certain =
        area.is_in_parentheses || (line.sign == Sign::Dash || (line.sign == Sign::Dot && exchange.sign == Sign::Dot));
    Some(is_certain)
}

/// Whether the number starts with one zero and has the groups of a national number, and whether that is certain
/// without context.
fn has_trunk_prefix(digits: &str, groups: &[Group]) -> Option<bool> {
    let (first, rest) = groups.split_first()?;
    let is_number = digits.starts_with('0') && !digits.starts_with("00") && (9..=11).contains(&digits.len());
    let (second, later) = rest.split_first()?;
    let is_same_sign = later.iter().all(|group| group.sign == later.first().map_or(second.sign, |group| group.sign))
        && (first.is_in_parentheses
            || later.is_empty()
            || second.sign == Sign::Slash
            || later.first().map(|group| group.sign) == Some(second.sign)
            || second.sign == Sign::Dash);
    let lengths = (2..=5).contains(&first.digits)
        && rest.iter().all(|group| (2..=8).contains(&group.digits) && !group.is_in_parentheses);
    if !is_number || !is_same_sign || !lengths || rest.len() > 5 {
        return None;
    }
    let pairs = first.digits == 2 && rest.iter().all(|group| group.digits == 2);
    // Two numbers beside each other look the same; pairs of digits are a number only if there are five of them.
    let is_alone = first.is_in_parentheses || rest.len() > 1 || matches!(second.sign, Sign::Dash | Sign::Slash);
    Some(is_alone && (!pairs || rest.len() == 4))
}

fn has_area_code(digits: &str, groups: &[Group]) -> bool {
    let Some((first, rest)) = groups.split_first() else { return false };
    let is_year = first.digits == 4 && (digits.starts_with("19") || digits.starts_with("20"));
    first.is_in_parentheses
        && (2..=5).contains(&first.digits)
        && !is_year
        && (1..=4).contains(&rest.len())
        && (8..=12).contains(&digits.len())
        && rest.iter().all(|group| group.digits >= 2 && !group.is_in_parentheses && group.sign != Sign::Slash)
}

/// Whether a number could be one of a phone if the context says so.
fn is_plain(digits: &str, groups: &[Group]) -> bool {
    let is_of_years = groups.len() > 1
        && groups.iter().all(|group| group.digits == 4)
        && digits.as_bytes().chunks(4).all(|year| year.starts_with(b"19") || year.starts_with(b"20"));
    let dots = groups.iter().filter(|group| group.sign == Sign::Dot).count();
    let slashes = groups.iter().any(|group| group.sign == Sign::Slash);
    (7..=12).contains(&digits.len()) && groups.len() <= 6 && !is_of_years && dots != 1 && !slashes
}

/// Whether a whole value, whose key says that it is a phone number, can be one.
pub(crate) fn is_phone(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_of_number = |c: char| c.is_ascii_digit() || " +-.()/x#,\u{a0}".contains(c);
    (5..=20).contains(&digits) && text.len() <= 40 && text.chars().all(is_of_number)
}
