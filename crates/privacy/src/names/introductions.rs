//! Finds names by what introduces them: titles, greetings, closings of letters, fields, and addresses of mail.

use super::vocabulary::Traits;
use super::words::{Form, Word, value};
use std::ops::Range;

/// The maximum number of words in a name.
pub(super) const MAX_NAME: usize = 5;

/// Whether something before a place says that a name follows.
pub(super) fn is_introduced(words: &[Word], at: usize) -> bool {
    at > 0 && introduced(words, at - 1).is_some_and(|name| name.start == at)
        || at > 1 && introduced(words, at - 2).is_some_and(|name| name.start == at)
        || at > 0 && words[at - 1].is(Traits::TITLE)
}

/// The name after a title, a greeting, `my name is` or a field such as `Customer:` at a place.
pub(super) fn introduced(words: &[Word], at: usize) -> Option<Range<usize>> {
    let word = &words[at];
    let next = |at: usize| words.get(at).map_or("", |word| word.text);
    if is_title(word, next(at + 1)) {
        let start = at + 1 + usize::from(next(at + 1) == ".");
        return capitalised(words, start).filter(|name| !words[name.start].begins_line);
    }
    if word.is(Traits::GREETING) && word.form == Form::Title {
        let start = at + 1 + usize::from(next(at + 1) == ",");
        let name = capitalised(words, start)?;
        let is_anybody = words[name.clone()]
            .iter()
            .any(|word| word.is(Traits::ANYBODY | Traits::NO_PERSON) && !word.is(Traits::GIVEN));
        let is_addressed = words.get(name.end).is_none_or(|word| {
            word.begins_line || matches!(word.text, "," | "!" | "." | ":" | ";" | "-" | "–" | "—" | "?")
        });
        return (!is_anybody && is_addressed && !words[name.start].begins_line && name.len() < 4).then_some(name);
    }
    let is_short = word.begins_line || at > 0 && words[at - 1].begins_line;
    if word.is(Traits::CLOSING)
        && is_short
        && next(at + 1) == ","
        && words.get(at + 2).is_some_and(|word| word.begins_line)
    {
        return whole_line(words, at + 2);
    }
    if let Some(start) = value(words, at).filter(|_| is_field(words, at)) {
        return whole_line(words, start);
    }
    let is_named = word.text.eq_ignore_ascii_case("name") && matches!(next(at + 1), "is" | "'s" | "’s" | "?")
        || word.text.eq_ignore_ascii_case("call") && next(at + 1) == "me";
    if is_named {
        let start = at + 2;
        return capitalised(words, start).or_else(|| lower(words, start)).filter(|name| !words[name.start].begins_line);
    }
    None
}

fn is_title(word: &Word, next: &str) -> bool {
    const SHORT: [&str; 9] = ["Mr", "Mrs", "Ms", "Dr", "Mr.", "Mrs.", "Ms.", "Dr.", "Prof."];
    let is_certain = SHORT.iter().any(|title| word.text.eq_ignore_ascii_case(title))
        || matches!(word.text, "Miss" | "Professor" | "Herr" | "Frau" | "Mme" | "Mx" | "Prof" | "Señor" | "Señora");
    is_certain && word.is(Traits::TITLE) && next != ":"
}

/// Whether a word is the label of a field with the name of a person, and not of a company or a file.
fn is_field(words: &[Word], at: usize) -> bool {
    const OTHERS: &[&str] = &[
        "company",
        "product",
        "business",
        "brand",
        "file",
        "host",
        "domain",
        "project",
        "server",
        "account",
        "user",
        "organization",
        "organisation",
        "team",
        "event",
        "package",
        "class",
        "table",
        "column",
        "city",
        "street",
    ];
    let word = &words[at];
    let before = at.checked_sub(1).map(|before| words[before].text.to_lowercase());
    if before.is_some_and(|before| OTHERS.contains(&before.as_str())) {
        return false;
    }
    let lower = word.text.to_lowercase();
    if let Some((first, last)) = lower.rsplit_once(['_', '-', '.']) {
        return matches!(last, "name" | "author" | "customer" | "owner" | "assignee") && !OTHERS.contains(&first);
    }
    let is_quoted = at > 0 && words[at - 1].form == Form::Sign;
    word.is(Traits::FIELD) && (word.is_capitalised() || lower == "name" || is_quoted)
        || matches!(word.text, "fullName" | "firstName" | "lastName" | "displayName" | "customerName")
}

/// The capitalised words of a name at a place.
pub(super) fn capitalised(words: &[Word], start: usize) -> Option<Range<usize>> {
    let mut end = start;
    for (at, word) in words.iter().enumerate().skip(start).take(MAX_NAME) {
        let is_part = matches!(word.form, Form::Title | Form::Initial | Form::Upper)
            && !word.is(Traits::FUNCTION | Traits::ORGANISATION | Traits::CLOSING)
            || at > start
                && word.form == Form::Lower
                && word.is(Traits::PARTICLE)
                && words.get(at + 1).is_some_and(|next| next.form == Form::Title && !next.begins_line);
        if !is_part || at > start && word.begins_line {
            break;
        }
        end = at + 1;
    }
    (end > start && words[start].form != Form::Lower && !words[start].is(Traits::TITLE)).then_some(start..end)
}

/// A name in lower case at a place: after `my name is`.
fn lower(words: &[Word], start: usize) -> Option<Range<usize>> {
    let is_part = |word: &&Word| {
        word.form == Form::Lower
            && word.text.chars().count() > 2
            && !word.is(Traits::FUNCTION | Traits::NO_PERSON | Traits::ORGANISATION)
    };
    let count = words.get(start..)?.iter().take(2).take_while(is_part).count();
    let ends = words
        .get(start + count)
        .is_none_or(|word| word.begins_line || word.form == Form::Sign || word.is(Traits::FUNCTION));
    (count > 0 && ends).then(|| start..start + count)
}

/// A name that is all that stands on the rest of a line, maybe with an address of mail.
fn whole_line(words: &[Word], start: usize) -> Option<Range<usize>> {
    let name = capitalised(words, start)?;
    let ends = words
        .get(name.end)
        .is_none_or(|word| word.begins_line || matches!(word.text, "<" | "(" | "," | ";" | "|" | "\"" | "."));
    let is_other = words[name.clone()]
        .iter()
        .any(|word| word.is(Traits::NO_PERSON | Traits::ANYBODY | Traits::COUNTRY) && !word.is(Traits::GIVEN));
    let is_acronym = name.len() == 1 && words[start].form != Form::Title;
    (ends && !is_other && !is_acronym).then_some(name)
}

/// The name before an address of mail in angle brackets at a place.
pub(super) fn before_mail(words: &[Word], at: usize) -> Option<Range<usize>> {
    let mail = words.get(at + 1).is_some_and(|word| word.text.contains('@'));
    if words[at].text != "<" || !mail {
        return None;
    }
    let quoted = usize::from(at > 0 && words[at - 1].text == "\"");
    let end = at - quoted;
    let count = words[..end]
        .iter()
        .rev()
        .take(4)
        .take_while(|word| matches!(word.form, Form::Title | Form::Initial) || word.is(Traits::PARTICLE))
        .count();
    let name = end - count..end;
    let is_other = words[name.clone()]
        .iter()
        .any(|word| word.is(Traits::NO_PERSON | Traits::ORGANISATION | Traits::FIELD) && !word.is(Traits::GIVEN));
    (count > 1 && !is_other).then_some(name)
}
