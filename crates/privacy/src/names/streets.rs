//! The grammar of streets: with a number, before a number, between numbers, at a corner, or by name alone.

use super::vocabulary::{STREET_ENDINGS, Traits};
use super::words::{Form, Word};

/// The maximum number of words in the name of a street.
const MAX_NAME: usize = 4;

/// `12 Long Hill Road`, `1200 NW Ocean Drive`, `69 Av Sidi Lakhmi`
pub(super) fn numbered_street(words: &[Word]) -> usize {
    let [number, rest @ ..] = words else { return 0 };
    if !is_house_number(number) || rest.first().is_some_and(|word| word.begins_line) {
        return 0;
    }
    let name = name_length(rest);
    for length in (2..=name).rev() {
        let last = &rest[length - 1];
        let is_street = last.is(Traits::STREET) || last.is(Traits::MAYBE_STREET) && number.digits() >= 2;
        let is_place = rest[..length - 1].iter().any(|word| word.is(Traits::NO_PLACE | Traits::FUNCTION));
        if is_street && !is_place {
            let compass = rest.get(length).is_some_and(|word| word.is(Traits::COMPASS) && word.form == Form::Upper);
            return 1 + length + usize::from(compass);
        }
    }
    let (count, _) = street_of_type(rest);
    if count > 0 { 1 + count } else { 0 }
}

/// `Rue de Lyon 5`, `ul. Krucza`: a type of street and a name, and whether a number follows.
fn street_of_type(words: &[Word]) -> (usize, bool) {
    let Some((first, after)) = words.split_first() else { return (0, false) };
    let is_lower = is_one_of(first, &["rue", "avenue", "boulevard", "calle", "rua", "ul", "quai", "chemin"]);
    if !first.is(Traits::STREET_BEGIN) || !(first.is_capitalised() || is_lower) {
        return (0, false);
    }
    let stop = usize::from(after.first().is_some_and(|word| word.text == "."));
    let small = stop + after[stop..].iter().take(2).take_while(|word| word.is(Traits::PARTICLE)).count();
    let name = small + name_length(&after[small..]);
    let has_number = after.get(name).is_some_and(|word| is_house_number(word) && !word.begins_line);
    if name > small { (1 + name + usize::from(has_number), has_number) } else { (0, false) }
}

/// `Via Roma 12`, `Lindenstraße 5`, `Victor Hugo u. 49`
pub(super) fn street_before_number(words: &[Word]) -> usize {
    if let (count @ 1.., true) = street_of_type(words) {
        return count;
    }
    let name = name_length(words);
    let Some(number) = words.get(name).filter(|word| is_house_number(word) && !word.begins_line) else { return 0 };
    if name == 0 || words[0].is(Traits::FUNCTION) {
        return 0;
    }
    let last = &words[name - 1];
    let ends = name >= 2
        && last.is(Traits::STREET | Traits::MAYBE_STREET)
        && last.form != Form::Upper
        && number.digits() <= 4
        && is_foreign(words, name);
    let is_compound = words[..name].iter().any(|word| has_street_ending(word));
    if ends || is_compound { name + 1 } else { 0 }
}

/// Whether the last word of a name of a street stands before numbers in its language, unlike in English: `Chapter Hill 3`.
fn is_foreign(words: &[Word], name: usize) -> bool {
    let last = words[name - 1].text;
    last.ends_with('.')
        || !last.is_ascii()
        || last.chars().all(char::is_lowercase)
        || is_one_of(&words[name - 1], &["str", "street", "utca"])
}

/// Whether a word such as `Hauptstraße` is the name of a street.
fn has_street_ending(word: &Word) -> bool {
    if !matches!(word.form, Form::Title | Form::Upper) {
        return false;
    }
    let lower = word.text.trim_end_matches('.').to_lowercase();
    STREET_ENDINGS.iter().any(|ending| {
        lower.strip_suffix(ending).is_some_and(|stem| stem.chars().count() >= if ending.len() <= 4 { 4 } else { 2 })
    }) || lower.len() > 5 && lower.ends_with("str")
}

/// `4844 Søndergade 52`: a name between two numbers.
pub(super) fn name_between_numbers(words: &[Word]) -> usize {
    let Some(number) = words.first().filter(|word| is_house_number(word) && word.digits() >= 3) else { return 0 };
    let name = name_length(&words[1..]);
    let is_name = name > 0
        && words[1].form != Form::Initial
        && !words[1].is(Traits::NO_PLACE | Traits::FUNCTION | Traits::NO_PERSON);
    let last = words.get(1 + name).filter(|word| is_house_number(word) && !word.begins_line && word.digits() <= 4);
    if is_name && last.is_some() && number.text.len() <= 6 { name + 2 } else { 0 }
}

/// After `lives at`: a name with a number on either side, or the name of a street.
pub(super) fn expected_street(words: &[Word]) -> usize {
    let before = usize::from(words.first().is_some_and(is_house_number));
    let name = name_length(&words[before..]);
    if name == 0 || words[before].is(Traits::FUNCTION) {
        return 0;
    }
    let count = before + name;
    let after = usize::from(words.get(count).is_some_and(|word| is_house_number(word) && !word.begins_line));
    let last = &words[count - 1];
    let is_street = name >= 2 && last.is(Traits::STREET)
        || has_street_ending(last)
        || words[before].is(Traits::STREET_BEGIN) && name >= 2;
    if before + after > 0 && words[before].form != Form::Initial || is_street { count + after } else { 0 }
}

/// The number of words of a name, on one line: capitalised words, with small words and `u.` or `str` in between or after.
fn name_length(words: &[Word]) -> usize {
    let mut length = 0;
    for (at, word) in words.iter().enumerate().take(MAX_NAME + 1) {
        let goes_on = at == 0 || !word.begins_line;
        let is_small = at > 0
            && (word.is(Traits::PARTICLE)
                || word.form == Form::Lower && word.is(Traits::STREET | Traits::MAYBE_STREET)
                || word.text == "u."
                || word.text == "dei"
                || word.text == "u" && word.form == Form::Lower);
        if !goes_on || !(word.is_capitalised() || is_small) || word.is(Traits::UNIT) {
            break;
        }
        length = at + 1;
    }
    // A full stop after an abbreviation is a token of its own.
    while length > 0 && words[length - 1].is(Traits::PARTICLE) && words[length - 1].form == Form::Lower {
        length -= 1;
    }
    length
}

pub(super) fn is_house_number(word: &Word) -> bool {
    word.is_number() && (1..=6).contains(&word.digits()) && word.text.len() <= 8
}

pub(super) fn ends_line(words: &[Word], count: usize) -> bool {
    words.get(count).is_none_or(|word| word.begins_line)
}

/// `the corner of 5 Elm Street and Oak Avenue`, from the first street on.
pub(super) fn corner(words: &[Word]) -> usize {
    let [corner, of, rest @ ..] = words else { return 0 };
    if !is_one_of(corner, &["corner", "intersection", "junction"]) || of.text != "of" {
        return 0;
    }
    let street = |words: &[Word]| {
        let before = usize::from(words.first().is_some_and(is_house_number));
        let name = name_length(&words[before..]);
        let after = words[before + name..]
            .iter()
            .take(2)
            .take_while(|word| is_house_number(word) || is_one_of(word, &["st", "st.", "street", "."]))
            .count();
        if name > 0 { before + name + after } else { 0 }
    };
    let first = street(rest);
    let second =
        rest.get(first).filter(|word| matches!(word.text, "and" | "&")).map_or(0, |_| street(&rest[first + 1..]));
    if first > 0 && second > 0 { 2 + first + 1 + second } else { 0 }
}

/// `Clarke Avenue`, `Old Mill Road`: without a number.
pub(super) fn named_street(words: &[Word]) -> usize {
    let name = name_length(words);
    for length in (2..=name).rev() {
        let last = &words[length - 1];
        let is_street =
            is_one_of(last, &["street", "avenue", "road", "boulevard", "blvd", "lane", "st.", "ave.", "rd."]);
        let is_other =
            words[..length].iter().any(|word| word.is(Traits::NO_PLACE | Traits::FUNCTION | Traits::ORGANISATION));
        if is_street
            && last.is_capitalised()
            && !is_other
            && words[..length - 1].iter().all(|word| word.form == Form::Title)
        {
            return length;
        }
    }
    0
}

pub(super) fn is_one_of(word: &Word, texts: &[&str]) -> bool {
    texts.iter().any(|text| word.text.eq_ignore_ascii_case(text))
}
