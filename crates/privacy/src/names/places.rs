//! Decides which words are names of places.

use super::parser::{Entity, Label};
use super::vocabulary::Traits;
use super::words::{Form, Word, country};
use std::ops::Range;

/// The maximum number of words in the name of a place.
const MAX_NAME: usize = 6;

/// The places in some words. Entities are in places of words.
pub(super) fn find(words: &[Word], entities: &[Entity], taken: &[bool]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = entities
        .iter()
        .filter(|entity| matches!(entity.label, Label::Region | Label::Place))
        .map(|entity| trim(words, entity.tokens.clone()))
        .filter(|place| is_place(&words[place.clone()]) && !is_employer(words, place.start))
        .collect();
    let mut at = 0;
    while at < words.len() {
        let count = country(&words[at..]);
        if count > 0 && is_country(words, at, count) {
            found.push(at..at + count);
        }
        at += count.max(1);
    }
    found.retain(|place| !place.clone().any(|at| taken[at]));
    found
}

/// The places that verbs such as `flew to` announce, whatever the network says of them.
pub(super) fn announced(words: &[Word], entities: &[Entity], taken: &[bool]) -> Vec<Range<usize>> {
    const REACH: usize = 3;
    let is_announced = |at: usize| {
        let [.., last] = &words[at.saturating_sub(REACH)..at] else { return false };
        let before = &words[at.saturating_sub(REACH)..at - 1];
        let is_present = before.last().is_some_and(|word| matches!(word.text, "am" | "'m" | "’m")) && last.text == "in";
        matches!(last.text, "to" | "in" | "from" | "at") && before.iter().any(|word| word.is(Traits::MOTION))
            || is_present
    };
    let mut found = Vec::new();
    for at in (1..words.len()).filter(|at| words[*at].is_capitalised() && is_announced(*at)) {
        let is_part = |word: &&Word| matches!(word.form, Form::Title | Form::Upper) && !word.is(Traits::FUNCTION);
        let place = at..at + words[at..].iter().take(3).take_while(is_part).count();
        let entity = entities.iter().find(|entity| entity.tokens.contains(&at));
        let is_organisation = entity.is_some_and(|entity| matches!(entity.label, Label::Organisation | Label::Other))
            && words[at].form == Form::Title;
        let is_other = words[place.clone()].iter().any(|word| {
            word.is(Traits::NO_PLACE | Traits::NO_PERSON | Traits::GIVEN | Traits::TITLE | Traits::ORGANISATION)
        });
        let is_free = !place.clone().any(|at| taken[at] || at > place.start && words[at].begins_line);
        if !place.is_empty() && !is_organisation && !is_other && is_free {
            found.push(place);
        }
    }
    found
}

/// Whether a place is that of an employer: after `works for` or `a year at`.
pub(super) fn is_employer(words: &[Word], at: usize) -> bool {
    at > 1
        && matches!(words[at - 1].text, "for" | "at" | "by")
        && words[at - 2].is(Traits::WORK)
        && !words[at].is(Traits::GIVEN | Traits::TITLE)
}

/// Leaves out what surrounds the name of a place: `the`, signs, numbers, and other lines.
fn trim(words: &[Word], range: Range<usize>) -> Range<usize> {
    let Range { mut start, mut end } = range;
    while start < end && (!words[start].is_capitalised() || words[start].is(Traits::FUNCTION)) {
        start += 1;
    }
    end = (start + 1..end).find(|at| words[*at].begins_line).unwrap_or(end);
    while start < end && !words[end - 1].is_capitalised() {
        end -= 1;
    }
    start..end
}

fn is_place(place: &[Word]) -> bool {
    let [first, rest @ ..] = place else { return false };
    if place.len() > MAX_NAME || place.iter().any(|word| word.form == Form::Code || word.is(Traits::NO_PLACE)) {
        return false;
    }
    if !rest.is_empty() {
        return true;
    }
    let is_acronym = first.form == Form::Upper && first.text.chars().count() < 4 || first.form == Form::Initial;
    let is_known =
        matches!(first.text, "US" | "UK" | "UAE" | "USA" | "EU" | "NYC" | "LA" | "DC") || first.text.contains('.');
    (!is_acronym || is_known)
        && !first.is(Traits::TITLE | Traits::ORGANISATION | Traits::GIVEN | Traits::UNIT)
        && !matches!(first.text, "St." | "St")
}

/// Whether a word such as `Turkey` is the country: not `Jordan Smith`.
fn is_country(words: &[Word], at: usize, count: usize) -> bool {
    const AMBIGUOUS: [&str; 8] = ["jordan", "chad", "georgia", "turkey", "china", "guinea", "oman", "niger"];
    if count > 1 {
        return true;
    }
    let is_ambiguous = AMBIGUOUS.iter().any(|name| words[at].text.eq_ignore_ascii_case(name));
    words[at].form == Form::Title && !is_ambiguous
        || matches!(words[at].text, "USA" | "UK" | "UAE")
        || words[at].form == Form::Upper && !is_ambiguous && words[at].text.len() > 4
}
