//! Decides which words are names of persons: what the network says, corrected by what stands around and inside.

use super::introductions::{MAX_NAME, before_mail, capitalised, introduced, is_introduced};
use super::parser::{Entity, Label};
use super::places::is_employer;
use super::vocabulary::Traits;
use super::words::{Form, Word};
use std::collections::HashSet;
use std::ops::Range;

/// The maximum number of names that are recognised again in the rest of a text.
const MAX_KNOWN: usize = 512;

/// How likely a name is one, in percent.
pub(super) mod confidence {
    /// Something before or after it says so: a title, a greeting, an e-mail address.
    pub(in super::super) const CONTEXT: u8 = 90;
    /// The network says so, and it consists of several words.
    pub(in super::super) const FULL: u8 = 80;
    /// It is a part of a name that is in the same text.
    pub(in super::super) const REPEATED: u8 = 75;
    /// The network says so.
    pub(in super::super) const SINGLE: u8 = 60;
    /// It starts with a given name, or contains an initial.
    pub(in super::super) const FORM: u8 = 55;
}

/// Words that are a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) words: Range<usize>,
    pub(super) confidence: u8,
}

/// Names in a text, so that parts of them are recognised later.
#[derive(Debug, Default)]
pub(super) struct Known<'a> {
    parts: HashSet<&'a str>,
}

/// The names in some words. Entities are in places of words.
pub(super) fn find<'a>(words: &[Word<'a>], entities: &[Entity], taken: &[bool], known: &mut Known<'a>) -> Vec<Person> {
    let mut found: Vec<Person> = Vec::new();
    let mut add = |range: Range<usize>, confidence| {
        if !range.is_empty() && !range.clone().any(|at| taken[at]) && !is_eponym(words, range.end) {
            found.push(Person { words: range, confidence });
        }
    };
    for entity in entities {
        let name = trim(words, entity.tokens.clone());
        if entity.label == Label::Person {
            if is_name(words, name.clone()) {
                let confidence = if name.len() > 1 { confidence::FULL } else { confidence::SINGLE };
                add(name, confidence);
            }
        } else if has_form_of_name(words, name.clone(), entity.label) {
            add(name, confidence::FORM);
        }
    }
    for at in 0..words.len() {
        if let Some(name) = introduced(words, at) {
            add(name, confidence::CONTEXT);
        }
        if let Some(name) = before_mail(words, at) {
            add(name, confidence::CONTEXT);
        }
        if let Some(name) = around_initial(words, at) {
            add(name, confidence::FORM);
        }
        let label = entities.iter().find(|entity| entity.tokens.contains(&at)).map(|entity| entity.label);
        if let Some(name) = acting(words, at, label).or_else(|| given(words, at, label)) {
            add(name, confidence::FORM);
        }
        if let Some(name) = addressee(words, at, label, taken) {
            add(name, confidence::FORM);
        }
    }
    for person in &found {
        known.learn(words, person);
    }
    for (at, word) in words.iter().enumerate() {
        if known.parts.contains(word.text) && !taken[at] && !is_part_of_organisation(words, at..at + 1) {
            found.push(Person { words: at..at + 1, confidence: confidence::REPEATED });
        }
    }
    found
}

impl<'a> Known<'a> {
    /// Remembers the parts of a name that hardly mean anything else.
    fn learn(&mut self, words: &[Word<'a>], person: &Person) {
        let name = &words[person.words.clone()];
        if person.confidence < confidence::FULL || name.len() < 2 {
            return;
        }
        for word in name {
            let is_certain = word.form == Form::Title
                && word.text.chars().count() > 2
                && !word.is(Traits::NO_PERSON
                    | Traits::FUNCTION
                    | Traits::TITLE
                    | Traits::PARTICLE
                    | Traits::STATE
                    | Traits::COUNTRY);
            if is_certain && self.parts.len() < MAX_KNOWN {
                self.parts.insert(word.text);
            }
        }
    }
}

/// Whether something that is named after a person follows a name: `the Euler method`.
fn is_eponym(words: &[Word], end: usize) -> bool {
    const THINGS: &[&str] = &[
        "method",
        "theorem",
        "transform",
        "distribution",
        "equation",
        "equations",
        "algorithm",
        "constant",
        "number",
        "numbers",
        "filter",
        "function",
        "matrix",
        "series",
        "score",
        "syndrome",
        "disease",
        "effect",
        "principle",
        "conjecture",
        "lemma",
        "coefficient",
        "scale",
        "paradox",
        "process",
        "award",
        "prize",
        "test",
        "law",
    ];
    words.get(end).is_some_and(|word| !word.begins_line && THINGS.contains(&word.text))
}

/// Leaves out what surrounds a name in an entity: signs, titles, small words, and other lines.
fn trim(words: &[Word], range: Range<usize>) -> Range<usize> {
    let Range { mut start, mut end } = range;
    let is_outside = |word: &Word| !word.is_capitalised() || word.is(Traits::TITLE | Traits::GREETING);
    if words[start..end].iter().any(Word::is_capitalised) {
        while start < end && is_outside(&words[start]) {
            start += 1;
        }
    }
    let line = (start + 1..end).find(|at| words[*at].begins_line);
    end = line.unwrap_or(end);
    while start < end && matches!(words[end - 1].form, Form::Sign | Form::Number | Form::Code) {
        end -= 1;
    }
    while start < end && (words[end - 1].text.starts_with(['\'', '’'])) {
        end -= 1;
    }
    start..end
}

/// Whether words that the network takes for a name can be one.
fn is_name(words: &[Word], name: Range<usize>) -> bool {
    let inside = &words[name.clone()];
    let Some(first) = inside.first() else { return false };
    if inside.len() > MAX_NAME || inside.iter().any(|word| matches!(word.form, Form::Number | Form::Code)) {
        return false;
    }
    if inside.iter().all(|word| word.form == Form::Lower) {
        return is_introduced(words, name.start) && !first.is(Traits::FUNCTION | Traits::NO_PERSON);
    }
    if inside.len() == 1 {
        let is_acronym = first.form == Form::Upper && first.text.len() < 5 || first.form == Form::Initial;
        let is_other = first.is(Traits::NO_PERSON | Traits::FUNCTION | Traits::COUNTRY | Traits::ANYBODY)
            && !first.is(Traits::GIVEN);
        if (is_acronym || is_other) && !is_introduced(words, name.start) {
            return false;
        }
    }
    let others =
        inside.iter().filter(|word| word.is(Traits::NO_PERSON | Traits::FUNCTION) && !word.is(Traits::GIVEN)).count();
    let is_street = |word: &Word| word.is(Traits::STREET) && word.form != Form::Upper && word.text.len() > 2;
    let ends_as_street = inside.len() > 1 && inside.iter().any(is_street);
    let is_at_work = inside.len() == 1 && is_employer(words, name.start);
    others * 2 <= inside.len() && !ends_as_street && !is_at_work && !is_part_of_organisation(words, name)
}

/// Whether words such as `Ltd` belong to a name.
fn is_part_of_organisation(words: &[Word], name: Range<usize>) -> bool {
    let is_word = |word: &Word| word.is(Traits::ORGANISATION) && word.form != Form::Lower && word.text.len() > 1;
    if name.len() > 1 && words[name.clone()].iter().any(is_word) {
        return true;
    }
    if is_firm(words, &name) {
        return true;
    }
    let is_next = |at: usize| words.get(at).is_some_and(|word| !word.begins_line && is_word(word));
    let comma = words.get(name.end).is_some_and(|word| word.text == ",");
    let and = words.get(name.end).is_some_and(|word| matches!(word.text, "&" | "and"));
    is_next(name.end) || (comma || and) && is_next(name.end + 1)
}

/// Whether a name is one of those of a firm that is alone on a line: `Marsh, Webb and Stone`.
fn is_firm(words: &[Word], name: &Range<usize>) -> bool {
    const LENGTH: usize = 5;
    (0..LENGTH).step_by(2).filter_map(|before| name.start.checked_sub(before)).any(|start| {
        let Some([first, comma, second, and, third]) = words.get(start..start + LENGTH) else { return false };
        let is_alone = first.begins_line
            && words.get(start + LENGTH).is_none_or(|word| word.begins_line || word.form == Form::Sign);
        let are_names = [first, second, third].iter().all(|word| word.form == Form::Title && !word.is(Traits::GIVEN));
        is_alone && are_names && comma.text == "," && matches!(and.text, "and" | "&")
    })
}

/// Whether words that the network takes for something else look like the name of a person.
fn has_form_of_name(words: &[Word], name: Range<usize>, label: Label) -> bool {
    let inside = &words[name.clone()];
    let [first, rest @ ..] = inside else { return false };
    if inside.len() > MAX_NAME || matches!(label, Label::Facility | Label::Place) || !is_name(words, name.clone()) {
        return false;
    }
    let is_capitalised =
        inside.iter().all(|word| matches!(word.form, Form::Title | Form::Initial) || word.is(Traits::PARTICLE));
    is_capitalised
        && first.is(Traits::GIVEN)
        && (label != Label::Region || !rest.is_empty())
        && rest.iter().all(|word| !word.is(Traits::NO_PERSON))
}

/// A name of which something is said that only persons do, or that is spoken to: `Ana lives`, `Ana, could you`.
fn acting(words: &[Word], at: usize, label: Option<Label>) -> Option<Range<usize>> {
    let is_beginning = at == 0 || words[at].begins_line || matches!(words[at - 1].text, "." | "!" | "?" | "\"" | "“");
    if !is_beginning || matches!(label, Some(Label::Person | Label::Organisation | Label::Facility)) {
        return None;
    }
    let name = capitalised(words, at)?;
    let next = words.get(name.end)?;
    let is_asked = next.text == ","
        && words
            .get(name.end + 1)
            .is_some_and(|word| matches!(word.text, "can" | "could" | "would" | "will" | "please" | "are" | "do"));
    let is_other = words[name.clone()].iter().any(|word| {
        word.form != Form::Title
            || word.is(Traits::NO_PERSON | Traits::ANYBODY | Traits::COUNTRY | Traits::TITLE | Traits::STREET)
    });
    let acts = next.is(Traits::DEED) || name.len() > 1 && next.text == "moved";
    ((acts || is_asked) && next.form != Form::Title && !is_other && name.len() < 4).then_some(name)
}

/// A given name that the network takes for nothing, with the capitalised words that follow.
fn given(words: &[Word], at: usize, label: Option<Label>) -> Option<Range<usize>> {
    let word = &words[at];
    let is_part_of_place = at > 0 && matches!(words[at - 1].text, "St." | "St" | "San" | "Santa" | "Saint" | "São");
    if label.is_some()
        || !word.is(Traits::GIVEN)
        || word.is(Traits::NO_PERSON)
        || word.form != Form::Title
        || is_part_of_place
    {
        return None;
    }
    let name = capitalised(words, at)?;
    let is_other =
        |word: &Word| word.is(Traits::NO_PERSON | Traits::STREET | Traits::MAYBE_STREET) || word.form == Form::Upper;
    let count = words[name.start + 1..name.end].iter().take_while(|word| !is_other(word)).count();
    let name = name.start..name.start + 1 + count;
    (!is_part_of_organisation(words, name.clone())).then_some(name)
}

/// A name that is alone on the line before an address.
fn addressee(words: &[Word], at: usize, label: Option<Label>, taken: &[bool]) -> Option<Range<usize>> {
    if !words[at].begins_line || label == Some(Label::Person) {
        return None;
    }
    let name = capitalised(words, at)?;
    let is_line = words.get(name.end).is_some_and(|word| word.begins_line) && taken.get(name.end) == Some(&true);
    let is_other = words[name.clone()].iter().any(|word| {
        !matches!(word.form, Form::Title | Form::Initial)
            || word.is(Traits::NO_PERSON | Traits::ANYBODY | Traits::STATE | Traits::COUNTRY)
    });
    let is_organisation = label == Some(Label::Organisation) && !words[at].is(Traits::GIVEN);
    (is_line && !is_other && !is_organisation && (2..5).contains(&name.len())).then_some(name)
}

/// `Anna K. Berg`: an initial with a full stop between two capitalised words, the first of which does not begin a sentence
/// as another word would.
fn around_initial(words: &[Word], at: usize) -> Option<Range<usize>> {
    let inside = words.get(at..at + 3)?;
    let is_name = |word: &Word| {
        word.form == Form::Title
            && !word.is(Traits::FUNCTION | Traits::NO_PERSON | Traits::ORGANISATION | Traits::TITLE)
    };
    let is_initial = inside[1].form == Form::Initial && inside[1].text.ends_with('.');
    let in_line = inside[1..].iter().all(|word| !word.begins_line);
    (is_name(&inside[0]) && is_name(&inside[2]) && is_initial && in_line && !is_part_of_organisation(words, at..at + 3))
        .then(|| at..at + 3)
}
