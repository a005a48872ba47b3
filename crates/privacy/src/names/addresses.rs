//! Finds postal addresses by their grammar.
//!
//! A *core* is something that is hardly ever anything else than a part of an address: a street with a number, an
//! apartment, a post-office box. From there, the address extends over what usually follows: apartments, cities, states,
//! postal codes and countries, separated by commas and ends of lines, as long as something confirms it.

use super::streets::{
    corner, ends_line, expected_street, is_house_number, is_one_of, name_between_numbers, named_street,
    numbered_street, street_before_number,
};
use super::vocabulary::Traits;
use super::words::{Form, Word, country, value};
use std::ops::Range;

/// The maximum number of words in the name of a city.
const MAX_NAME: usize = 4;
/// The maximum number of parts of an address after its core.
const MAX_PARTS: usize = 7;
/// The maximum number of parts that may be a city, a district or anything else, before one that confirms the address.
const MAX_UNCONFIRMED: usize = 2;

/// Words that are an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) words: Range<usize>,
    /// Whether more than one thing speaks for it.
    pub(super) is_confirmed: bool,
}

/// The addresses in some words, in order.
pub(super) fn find(words: &[Word]) -> Vec<Address> {
    let mut found: Vec<Address> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let Some(core) = core(words, at) else {
            at += 1;
            continue;
        };
        let limit = found.last().map_or(0, |last| last.words.end);
        let start = extend_left(words, core.words.start, limit);
        let end = extend_right(words, core.words.end);
        let is_confirmed = core.is_confirmed || end > core.words.end || start < core.words.start;
        at = end.max(at + 1);
        found.push(Address { words: start..end, is_confirmed });
    }
    found
}

/// What is a core by itself, in the order in which it is tried: the number of words at the beginning.
const SURE: [fn(&[Word]) -> usize; 8] =
    [military, post_box, numbered_unit, city_and_code, uk_postcode, numbered_street, street_before_number, corner];

/// A core that begins at a place.
fn core(words: &[Word], at: usize) -> Option<Address> {
    let rest = &words[at..];
    let confirmed = |count: usize, is_confirmed| Address { words: at..at + count, is_confirmed };
    if let Some(count) = SURE.iter().map(|length| length(rest)).find(|count| *count > 0) {
        return Some(confirmed(count, true));
    }
    let is_expected = follows_whereabouts(words, at);
    let count = name_between_numbers(rest);
    if count > 0 && (is_expected || unit(&rest[count..]) > 0 || ends_line(rest, count) && words[at].begins_line) {
        return Some(confirmed(count, false));
    }
    let expected = if is_expected { expected_street(rest) } else { 0 };
    let maybe = [expected, named_street(rest), after_label(words, at)];
    maybe.into_iter().find(|count| *count > 0).map(|count| confirmed(count, false))
}

/// After `ZIP code:`, a code; after `City:` and the like, the capitalised words or numbers of the line.
fn after_label(words: &[Word], at: usize) -> usize {
    const REACH: usize = 4;
    let first = at.saturating_sub(REACH);
    let is_code = |word: &Word| is_one_of(word, &["zip", "zipcode", "postcode", "postal", "plz"]);
    let is_value = (first..at).any(|label| value(words, label) == Some(at)) || at > 0 && words[at - 1].text == "is";
    if is_value && words[first..at].iter().any(is_code) {
        return postal_code(&words[at..]).max(uk_postcode(&words[at..]));
    }
    let is_label = |label: &usize| {
        const LABELS: &[&str] = &["address", "city", "town", "country", "location", "where", "street", "village"];
        let word = &words[*label];
        let is_marked = word.is_capitalised() || word.begins_line || *label > 0 && words[*label - 1].form == Form::Sign;
        is_one_of(word, LABELS) && is_marked && value(words, *label) == Some(at)
    };
    if !(first..at).any(|label| is_label(&label)) {
        return 0;
    }
    let is_part = |(place, word): &(usize, &Word)| {
        (word.is_capitalised() || word.is_number() || *place > 0 && word.is(Traits::PARTICLE))
            && (*place == 0 || !word.begins_line)
    };
    let count = words[at..].iter().enumerate().take_while(is_part).count();
    let value = &words[at..at + count];
    let is_other = value.iter().any(|word| word.is(Traits::NO_PLACE | Traits::FUNCTION));
    if count <= MAX_NAME && !is_other && !value.iter().all(Word::is_number) { count } else { 0 }
}

/// `APO AE 09123`
fn military(words: &[Word]) -> usize {
    let [first, second, third, ..] = words else { return 0 };
    let is_post = matches!(first.text, "APO" | "FPO" | "DPO") && matches!(second.text, "AA" | "AE" | "AP");
    if is_post && third.digits() == 5 {
        return 3;
    }
    // A ship: `USS Nimitz` and its post office.
    let is_ship = first.text.starts_with("US") && first.form == Form::Upper && first.text.len() > 2;
    let name = words[1..].iter().take(MAX_NAME).take_while(|word| word.form == Form::Title).count();
    let post = if is_ship && name > 0 { military(&words[1 + name..]) } else { 0 };
    if post > 0 { 1 + name + post } else { 0 }
}

/// `P.O. Box 12`, `PSC 12, Box 34`
fn post_box(words: &[Word]) -> usize {
    let count = match words {
        [first, second, ..] if is_one_of(first, &["po", "p.o", "p.o."]) && is_one_of(second, &["box"]) => 2,
        [first, second, third, ..]
            if is_one_of(first, &["p.", "post"])
                && is_one_of(second, &["o.", "office"])
                && is_one_of(third, &["box"]) =>
        {
            3
        }
        [first, second, ..] if first.text == "PSC" && second.is_number() => return 2,
        [first, ..] if is_one_of(first, &["postfach", "postboks"]) => 1,
        _ => return 0,
    };
    if words.get(count).is_some_and(Word::is_number) { count + 1 } else { 0 }
}

/// `Apt. 12`, `Suite 100`, `Unit 5 Box 7`
fn numbered_unit(words: &[Word]) -> usize {
    let count = unit(words);
    let is_certain = words.first().is_some_and(|word| word.is(Traits::UNIT) && word.is_capitalised());
    let second = unit(&words[count..]);
    match (count, second) {
        (0, _) => 0,
        (_, 0) if is_certain => count,
        (_, 0) => 0,
        _ => count + second,
    }
}

/// The number of words of an apartment or the like: `Apt. 12`, `# 4`, `Floor 3`.
fn unit(words: &[Word]) -> usize {
    let Some(first) = words.first() else { return 0 };
    if !first.is(Traits::UNIT | Traits::MAYBE_UNIT) && first.text != "#" {
        return 0;
    }
    let mut count = 1;
    while words.get(count).is_some_and(|word| matches!(word.text, "." | "#")) {
        count += 1;
    }
    let is_number = |word: &Word| {
        word.is_number() || matches!(word.form, Form::Initial) || word.form == Form::Code && word.digits() > 0
    };
    if words.get(count).is_some_and(|word| is_number(word) && !word.begins_line) { count + 1 } else { 0 }
}

/// `Springfield, IL 62701`
fn city_and_code(words: &[Word]) -> usize {
    let name = words.iter().take(MAX_NAME).take_while(|word| matches!(word.form, Form::Title | Form::Upper)).count();
    for length in (1..=name).rev() {
        let mut count = length;
        if words.get(count).is_some_and(|word| word.text == ",") {
            count += 1;
        }
        let Some(state) = words.get(count) else { continue };
        let is_state = state.is(Traits::STATE) && state.form == Form::Upper && state.text.len() == 2;
        if is_state && words.get(count + 1).is_some_and(|code| is_zip(code)) && !words[0].is(Traits::FUNCTION) {
            return count + 2;
        }
    }
    0
}

fn is_zip(word: &Word) -> bool {
    let digits = word.digits();
    digits == 5
        && matches!(word.text.len(), 5 | 10)
        && word.text.bytes().skip(5).all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// `SW1A 2AA`
fn uk_postcode(words: &[Word]) -> usize {
    let [first, second, ..] = words else { return 0 };
    let outward = first.text.as_bytes();
    let letters = outward.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let is_outward = (2..=4).contains(&outward.len())
        && (1..=2).contains(&letters)
        && outward.get(letters).is_some_and(u8::is_ascii_digit)
        && outward.iter().skip(letters + 1).all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    let is_inward = matches!(second.text.as_bytes(), [digit, first, second]
        if digit.is_ascii_digit() && first.is_ascii_uppercase() && second.is_ascii_uppercase());
    if is_outward && is_inward && !second.begins_line { 2 } else { 0 }
}

/// Whether words such as `lives at` or `address is` precede a place.
fn follows_whereabouts(words: &[Word], at: usize) -> bool {
    const REACH: usize = 4;
    let before = &words[at.saturating_sub(REACH)..at];
    let Some(last) = before.last() else { return false };
    let is_link = is_one_of(last, &["at", "on", "in", "to", "is", ":", "from"]);
    is_link && before.iter().any(|word| word.is(Traits::WHEREABOUTS))
}

/// Where an address begins whose core begins at a place: before an apartment or a number on the same line.
fn extend_left(words: &[Word], start: usize, limit: usize) -> usize {
    let mut start = start;
    while start > limit && !words[start].begins_line {
        let before = &words[start - 1];
        if is_house_number(before) && before.digits() >= 2 {
            start -= 1;
        } else if start >= limit + 3 && before.text == "," && unit(&words[start - 3..start - 1]) == 2 {
            start -= 3;
        } else if start >= limit + 2 && unit(&words[start - 2..start]) == 2 {
            start -= 2;
        } else {
            break;
        }
    }
    start
}

/// Where an address ends whose core ends at a place: after the last part that confirms it.
fn extend_right(words: &[Word], end: usize) -> usize {
    let mut confirmed = end;
    let mut at = end;
    let mut unconfirmed = 0;
    for _ in 0..MAX_PARTS {
        at = skip_separators(words, at);
        // `12 Mill Road in Leeds`
        let city = if at == end { city_after_in(&words[at.min(words.len())..]) } else { 0 };
        if city > 0 {
            at += city;
            confirmed = at;
            continue;
        }
        let rest = &words[at.min(words.len())..];
        if rest.is_empty() || unconfirmed > MAX_UNCONFIRMED {
            break;
        }
        // Some leave a line empty before the country.
        if rest[0].begins_paragraph && country(rest) == 0 && name_and_code(rest) == 0 {
            break;
        }
        let sure = [
            unit(rest),
            military(rest),
            post_box(rest),
            state_and_code(rest),
            country(rest),
            uk_postcode(rest),
            postal_code(rest),
            name_and_code(rest),
        ];
        if let Some(count) = sure.into_iter().find(|count| *count > 0) {
            at += count;
            confirmed = at;
            unconfirmed = 0;
            continue;
        }
        let name = city_length(rest);
        if name == 0 {
            break;
        }
        at += name;
        unconfirmed += 1;
    }
    confirmed
}

/// `in Leeds` after a street.
fn city_after_in(words: &[Word]) -> usize {
    let Some(rest) = words.split_first().filter(|(first, _)| first.text == "in").map(|(_, rest)| rest) else {
        return 0;
    };
    let is_part = |word: &&Word| word.form == Form::Title && !word.is(Traits::FUNCTION | Traits::NO_PLACE);
    let count = rest.iter().take(3).take_while(is_part).count();
    if count > 0 { 1 + count } else { 0 }
}

/// Skips commas and what quotes lines in mails.
fn skip_separators(words: &[Word], at: usize) -> usize {
    let is_separator = |word: &Word| {
        matches!(word.text, "," | ">" | "|" | "-" | "–" | "/" | "." | "(" | ")")
            || word.text.bytes().all(|byte| byte == b'?')
    };
    let count = words[at.min(words.len())..].iter().take(MAX_NAME).take_while(|word| is_separator(word)).count();
    // A full stop at the end of a sentence ends the address.
    let begins_sentence = count > 0
        && words[at + count - 1].text == "."
        && words.get(at + count).is_some_and(|word| word.form == Form::Title);
    if begins_sentence { words.len() } else { at + count }
}

fn state_and_code(words: &[Word]) -> usize {
    let Some(state) = words.first().filter(|word| word.is(Traits::STATE)) else { return 0 };
    let is_short = state.form == Form::Upper && state.text.len() <= 3;
    let has_code = words.get(1).is_some_and(|word| word.is_number() && word.digits() >= 4);
    if has_code {
        return 2;
    }
    usize::from(is_short || state.form == Form::Title)
}

/// `80331`, `394 13`, `75534-030`, `7412 SL`
fn postal_code(words: &[Word]) -> usize {
    let Some(first) = words.first().filter(|word| word.is_number() && (3..=6).contains(&word.digits())) else {
        return 0;
    };
    let second = words.get(1).filter(|word| !word.begins_line);
    let goes_on = second.is_some_and(|word| {
        first.digits() == 3 && word.is_number() && word.digits() == 2
            || first.digits() == 4 && word.form == Form::Upper && word.text.len() == 2
    });
    1 + usize::from(goes_on)
}

/// `Veracruz 91700`: a name and a code that are alone on a line.
fn name_and_code(words: &[Word]) -> usize {
    let name = words.iter().take(3).take_while(|word| matches!(word.form, Form::Title | Form::Upper)).count();
    let code = words.get(name).filter(|word| word.is_number() && (4..=6).contains(&word.digits()) && !word.begins_line);
    let is_alone = name > 0 && words[0].begins_line && code.is_some() && ends_line(words, name + 1);
    if is_alone { name + 1 } else { 0 }
}

/// The length of what may be the name of a city, if nothing else follows on its line.
fn city_length(words: &[Word]) -> usize {
    let is_part = |word: &Word| {
        word.is_capitalised() && !word.is(Traits::FUNCTION)
            || word.is(Traits::PARTICLE)
            || matches!(word.text, "nan" | "nad" | "am" | "sur" | "on" | "an" | "im" | "ob")
    };
    let mut length = 0;
    for (at, word) in words.iter().enumerate().take(MAX_NAME) {
        if at > 0 && word.begins_line || !is_part(word) {
            break;
        }
        length = at + 1;
    }
    let ends = words.get(length).is_none_or(|word| word.begins_line || word.form == Form::Sign || word.is_number());
    let country = (0..length).find(|at| country(&words[*at..]) > 0 || state_and_code(&words[*at..]) > 1);
    match country {
        Some(at) if at > 0 => at,
        _ if ends => length,
        _ => 0,
    }
}
