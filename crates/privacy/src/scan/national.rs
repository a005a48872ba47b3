//! National identification numbers and personal tax numbers: forms by country, verified by their checksums.

use super::Scan;
use super::context::Topic;
use crate::kinds::Kind;
use std::sync::LazyLock;
use stdnum::{Validator, country};

/// How a number is verified.
enum Check {
    /// By the checksum and rules of the country, without separators.
    Compact(&'static dyn Validator),
    /// The same, with the separators, which tell the century.
    Full(&'static dyn Validator),
    Own(fn(&[u8]) -> bool),
}

/// A form in which numbers are written. In `shape`, `9` is a digit, `A` is a capital letter, `X` is either, and all
/// other characters are themselves.
struct Form {
    country: &'static str,
    shape: &'static [u8],
    check: Check,
    /// Confidence without context, or zero if context is needed.
    alone: u8,
}

const fn compact(country: &'static str, shape: &'static str, alone: u8, check: &'static dyn Validator) -> Form {
    Form { country, shape: shape.as_bytes(), check: Check::Compact(check), alone }
}

const fn full(country: &'static str, shape: &'static str, alone: u8, check: &'static dyn Validator) -> Form {
    Form { country, shape: shape.as_bytes(), check: Check::Full(check), alone }
}

const fn own(country: &'static str, shape: &'static str, alone: u8, check: fn(&[u8]) -> bool) -> Form {
    Form { country, shape: shape.as_bytes(), check: Check::Own(check), alone }
}

/// Context is needed where the form is that of many other numbers, whatever the checksum says.
#[rustfmt::skip]
static FORMS: &[Form] = &[
    compact("Argentina", "99-99999999-9", 80, &country::ar::CUIT),
    compact("Argentina", "99999999999", 0, &country::ar::CUIT),
    compact("Australia", "999 999 999", 0, &country::au::TFN),
    compact("Australia", "999999999", 0, &country::au::TFN),
    compact("Austria", "9999 999999", 0, &country::at::VNR),
    compact("Austria", "9999999999", 0, &country::at::VNR),
    compact("Belgium", "99.99.99-999.99", 90, &country::be::NN),
    compact("Belgium", "99999999999", 0, &country::be::NN),
    compact("Brazil", "999.999.999-99", 90, &country::br::CPF),
    compact("Brazil", "99999999999", 0, &country::br::CPF),
    compact("Bulgaria", "9999999999", 0, &country::bg::EGN),
    compact("Canada", "999-999-999", 0, &country::ca::SIN),
    compact("Canada", "999 999 999", 0, &country::ca::SIN),
    compact("Canada", "999999999", 0, &country::ca::SIN),
    compact("Chile", "99.999.999-X", 80, &country::cl::RUT),
    compact("Chile", "99999999-X", 0, &country::cl::RUT),
    compact("China", "99999999999999999X", 85, &country::cn::RIC),
    compact("Croatia", "99999999999", 0, &country::hr::OIB),
    full("Czechia", "999999/9999", 75, &country::cz::RC),
    full("Denmark", "999999-9999", 0, &country::dk::CPR),
    compact("Denmark", "9999999999", 0, &country::dk::CPR),
    compact("Estonia", "99999999999", 0, &country::ee::IK),
    full("Finland", "999999-999X", 85, &country::fi::HETU),
    full("Finland", "999999+999X", 85, &country::fi::HETU),
    full("Finland", "999999A999X", 80, &country::fi::HETU),
    compact("France", "9 99 99 99 999 999 99", 85, &country::fr::NIR),
    compact("France", "999999999999999", 70, &country::fr::NIR),
    compact("Germany", "99 999 999 999", 0, &country::de::IDNR),
    compact("Germany", "99999999999", 0, &country::de::IDNR),
    compact("Greece", "99999999999", 0, &country::gr::AMKA),
    compact("Hong Kong", "A999999(X)", 80, &country::hk::HKID),
    own("Iceland", "999999-9999", 60, is_icelandic),
    compact("India", "9999 9999 9999", 0, &country::r#in::AADHAAR),
    compact("India", "999999999999", 0, &country::r#in::AADHAAR),
    compact("India", "AAAAA9999A", 75, &country::r#in::PAN),
    compact("Ireland", "9999999A", 0, &country::ie::PPS),
    compact("Ireland", "9999999AA", 0, &country::ie::PPS),
    compact("Israel", "999999999", 0, &country::il::IDNR),
    compact("Italy", "AAAAAA99A99A999A", 90, &country::it::CODICEFISCALE),
    compact("Lithuania", "99999999999", 0, &country::lt::ASMENS),
    compact("Mexico", "AAAA999999AAAAAAX9", 85, &country::mx::CURP),
    compact("Netherlands", "999999999", 0, &country::nl::BSN),
    compact("Norway", "999999 99999", 75, &country::no::FODSELSNUMMER),
    compact("Norway", "99999999999", 0, &country::no::FODSELSNUMMER),
    compact("Poland", "99999999999", 0, &country::pl::PESEL),
    compact("Portugal", "999999999", 0, &country::pt::NIF),
    compact("Portugal", "999 999 999", 0, &country::pt::NIF),
    compact("Romania", "9999999999999", 0, &country::ro::CNP),
    compact("Serbia", "9999999999999", 0, &country::rs::JMBG),
    own("Singapore", "A9999999A", 75, is_singapore),
    compact("South Africa", "999999 9999 999", 75, &country::za::IDNR),
    compact("South Africa", "9999999999999", 0, &country::za::IDNR),
    full("South Korea", "999999-9999999", 80, &country::kr::RRN),
    compact("Spain", "99999999A", 65, &country::es::DNI),
    compact("Spain", "99999999-A", 70, &country::es::DNI),
    compact("Spain", "A9999999A", 65, &country::es::NIE),
    compact("Spain", "A-9999999-A", 75, &country::es::NIE),
    full("Sweden", "999999-9999", 60, &country::se::PERSONNUMMER),
    full("Sweden", "99999999-9999", 75, &country::se::PERSONNUMMER),
    full("Sweden", "999999999999", 0, &country::se::PERSONNUMMER),
    compact("Switzerland", "999.9999.9999.99", 95, &country::ch::SSN),
    compact("Switzerland", "9999999999999", 70, &country::ch::SSN),
    compact("Taiwan", "A999999999", 65, &country::tw::NATID),
    compact("Thailand", "9-9999-99999-99-9", 90, &country::th::IDNR),
    compact("Thailand", "9999999999999", 0, &country::th::IDNR),
    compact("Turkey", "99999999999", 0, &country::tr::TCKIMLIK),
    compact("United Kingdom", "AA999999A", 75, &country::gb::NINO),
    compact("United Kingdom", "AA 99 99 99 A", 85, &country::gb::NINO),
    own("United Kingdom", "999 999 9999", 0, is_nhs),
    own("United Kingdom", "999-999-9999", 0, is_nhs),
    own("United Kingdom", "9999999999", 0, is_nhs),
];

/// The countries whose national identification numbers are found.
pub fn countries() -> Vec<&'static str> {
    let mut names: Vec<&str> = FORMS.iter().map(|form| form.country).collect();
    names.dedup();
    names
}

impl Scan<'_> {
    /// Examines the start of a word for a number whose form and checksum are enough.
    pub(super) fn national_alone(&mut self, start: usize) -> Option<usize> {
        let (end, confidence) = self.national(start, |form| form.alone > 0)?;
        self.found(Kind::NationalId, start..end, confidence);
        Some(end)
    }

    /// The end of a number that needs context, if there is context.
    pub(super) fn national_with_context(&self, start: usize) -> Option<usize> {
        let (end, _) = self.national(start, |form| form.alone == 0)?;
        self.is_about(Topic::NationalId, start).then_some(end)
    }

    fn national(&self, start: usize, is_wanted: impl Fn(&Form) -> bool) -> Option<(usize, u8)> {
        let digits = self.view.run(start, LEADING.len(), |byte| byte.is_ascii_digit()) - start;
        if digits == 0 && !self.view.at(start)?.is_ascii_uppercase() {
            return None;
        }
        let fitting = LEADING.get(digits)?.iter().map(|index| &FORMS[usize::from(*index)]);
        fitting.filter(|form| is_wanted(form)).find_map(|form| {
            let end = start + form.shape.len();
            let text = self.view.bytes().get(start..end).filter(|text| has_shape(text, form.shape))?;
            (self.is_number_end(end) && is_valid(&form.check, text)).then_some((end, form.alone))
        })
    }
}

/// The most digits that a form starts with, and one more.
const MOST_LEADING: usize = 20;

/// By the number of digits that a text starts with: the forms that it can have, in the order of `FORMS`. A form whose shape
/// starts with as many digits fits, and one that goes on with a letter or digit also if that is one digit more. More digits
/// than that cannot follow, because no digit follows a number.
static LEADING: LazyLock<[Vec<u8>; MOST_LEADING]> = LazyLock::new(|| {
    let mut leading: [Vec<u8>; MOST_LEADING] = Default::default();
    for (index, form) in FORMS.iter().enumerate() {
        let digits = form.shape.iter().take_while(|shape| **shape == b'9').count();
        let either = form.shape.iter().skip(digits).take_while(|shape| **shape == b'X').count();
        for list in leading.iter_mut().skip(digits).take(either + 1) {
            list.extend(u8::try_from(index));
        }
    }
    leading
});

/// Whether a whole text is a number of some country.
pub(crate) fn is_national(text: &str) -> bool {
    let text = text.as_bytes();
    FORMS.iter().any(|form| has_shape(text, form.shape) && is_valid(&form.check, text))
}

fn has_shape(text: &[u8], shape: &[u8]) -> bool {
    text.len() == shape.len()
        && text.iter().zip(shape).all(|(byte, shape)| match shape {
            b'9' => byte.is_ascii_digit(),
            b'A' => byte.is_ascii_uppercase(),
            b'X' => byte.is_ascii_digit() || byte.is_ascii_uppercase(),
            sign => byte == sign,
        })
}

fn is_valid(check: &Check, text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let joined = || text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    // Checksums are modulo something: a number of one digit often has a valid one.
    let first = joined().bytes().find(u8::is_ascii_digit);
    if joined().bytes().filter(u8::is_ascii_digit).all(|digit| Some(digit) == first) {
        return false;
    }
    match check {
        Check::Compact(validator) => validator.validate(&joined()).is_ok(),
        Check::Full(validator) => validator.validate(text).is_ok(),
        Check::Own(check) => check(joined().as_bytes()),
    }
}

/// The last digit of a kennitala is the century, which `stdnum` does not look at.
fn is_icelandic(digits: &[u8]) -> bool {
    let is_valid = std::str::from_utf8(digits).is_ok_and(|digits| country::is::KENNITALA.validate(digits).is_ok());
    is_valid && matches!(digits.last(), Some(b'8' | b'9' | b'0'))
}

/// The number of the National Health Service: weights from ten down, modulo eleven.
fn is_nhs(digits: &[u8]) -> bool {
    let Some((last, body)) = digits.split_last() else { return false };
    let sum: u32 = body.iter().zip((2..=10).rev()).map(|(digit, weight)| u32::from(digit - b'0') * weight).sum();
    let check = (11 - sum % 11) % 11;
    body.len() == 9 && check == u32::from(last - b'0')
}

/// NRIC and FIN of Singapore: the letter at the end is a checksum, by the letter at the start.
fn is_singapore(text: &[u8]) -> bool {
    let (Some(first), Some(last), Some(digits)) = (text.first(), text.last(), text.get(1..8)) else { return false };
    let sum: usize =
        digits.iter().zip([2, 7, 6, 5, 4, 3, 2]).map(|(digit, weight)| usize::from(digit - b'0') * weight).sum();
    let (offset, letters): (usize, &[u8]) = match first {
        b'S' => (0, b"JZIHGFEDCBA"),
        b'T' => (4, b"JZIHGFEDCBA"),
        b'F' => (0, b"XWUTRQPNMLK"),
        b'G' => (4, b"XWUTRQPNMLK"),
        b'M' => (3, b"XWUTRQPNJLK"),
        _ => return false,
    };
    let index = (sum + offset) % 11;
    let index = if *first == b'M' { 10 - index } else { index };
    text.len() == 9 && letters.get(index) == Some(last)
}
