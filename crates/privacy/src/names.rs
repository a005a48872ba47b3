//! Finds names of persons and postal addresses in English text.
//!
//! # How
//!
//! A small neural network reads the text: the recogniser of entities of spaCy's pipeline `en_core_web_md`, whose weights are
//! part of the program (`weights/README.md`). Its tokens and entities are those of spaCy, except for what rounding its
//! weights to 8 bits changes. It only reads the neighbourhood of capitalised words. Rules then correct it:
//!
//! - A *person* is what the network takes for one, unless its form, a word of a list, or its neighbours say otherwise.
//!   A title (`Mrs`), a greeting, the closing of a letter, `my name is`, a field (`Customer:`) and an e-mail address in
//!   angle brackets make a name of capitalised words, whatever the network says. A part of a full name is found again
//!   elsewhere in the text.
//! - An *address* is a street with a number, an apartment, a post-office box, a city with its state and postal code, or
//!   several of these in a row, found by their grammar. Cities, states, countries and other geographical names alone count
//!   as addresses too, with a lower confidence.
//!
//! # Precision
//!
//! Both kinds are good enough to be on by default: on 750 synthetic texts, the precision is 0.88 for persons and 0.96 for
//! addresses, and the recall 0.85 and 0.89. Names of places alone have a confidence of 50, so that a caller can leave them
//! out. `docs/privacy-names.md` has more figures.
//!
//! # Limits
//!
//! Names in lower case are found only where something introduces them. Names of organisations that consist of names of
//! persons are a frequent mistake. Texts in other languages than English are read with the rules for English.
//!
//! Invariants: time is linear in the length of the text, and memory is bounded except for the findings. No text causes a
//! panic.

mod addresses;
mod characters;
mod given_names;
mod hashes;
mod hints;
mod introductions;
mod matrix;
mod network;
mod parser;
mod persons;
mod places;
mod streets;
#[cfg(test)]
mod tests;
mod tokenizer;
mod vocabulary;
mod weights;
mod words;

use crate::{Confidence, Finding, Kind};
use network::Network;
use parser::{Entity, Parser};
use persons::Known;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tokenizer::{Token, Tokenizer};
use vocabulary::Traits;
use weights::Weights;
use words::Word;

/// How many tokens are looked at together.
const CHUNK: usize = 256;
/// How many tokens at the end of a chunk may belong to the next one, so that it ends with a sentence.
const FLEXIBLE: usize = 128;
/// A name can contain this many other words between capitalised ones: `Isle of the Dead`.
const BETWEEN: usize = 2;
/// Networks that are kept for later calls. Each remembers words, which makes it fast.
const MAX_IDLE: usize = 4;

/// The confidence of an address that more than one thing speaks for.
const CONFIRMED_ADDRESS: u8 = 90;
/// The confidence of something that has the form of an address.
const ADDRESS: u8 = 70;
/// The confidence of the name of a place.
const PLACE: u8 = 50;

/// Finds names of persons and postal addresses.
///
/// Clones share what they remember of words.
#[derive(Clone, Default)]
pub struct NameFinder {
    idle: Arc<Mutex<Vec<Network>>>,
}

impl NameFinder {
    /// A finder. The first one in a process reads the weights when it is used for the first time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the names of persons ([`Kind::Person`]) and the addresses ([`Kind::Address`]) in a text, in order and without
    /// overlaps.
    pub fn find(&self, text: &str) -> Vec<Finding> {
        if !hints::may_have_names(text) {
            return Vec::new();
        }
        let Some(weights) = Weights::get() else { return Vec::new() };
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut network = idle.unwrap_or_else(|| Network::new(weights));
        let findings = find(weights, &mut network, text);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(network);
        }
        findings
    }
}

impl fmt::Debug for NameFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameFinder").finish_non_exhaustive()
    }
}

fn find(weights: &'static Weights, network: &mut Network, text: &str) -> Vec<Finding> {
    let parser = Parser::leaning(weights);
    let mut tokenizer = Tokenizer::new(weights, text);
    let mut known = Known::default();
    let mut findings = Vec::new();
    let mut tokens: Vec<Token> = Vec::with_capacity(CHUNK);
    loop {
        tokens.extend(tokenizer.by_ref().take(CHUNK - tokens.len()));
        if tokens.is_empty() {
            return findings;
        }
        let end = if tokens.len() < CHUNK { tokens.len() } else { end_of_chunk(text, &tokens) };
        find_in_chunk(&parser, network, text, &tokens[..end], &mut known, &mut findings);
        tokens.drain(..end);
    }
}

/// Where the last paragraph, line or sentence of a chunk ends.
fn end_of_chunk(text: &str, tokens: &[Token]) -> usize {
    let flexible = tokens.len().saturating_sub(FLEXIBLE)..tokens.len();
    let ends: [fn(&str) -> bool; 3] = [
        |space| space.bytes().filter(|byte| *byte == b'\n').count() > 1,
        |space| space.contains('\n'),
        |sign| matches!(sign, "." | "!" | "?"),
    ];
    ends.iter()
        .find_map(|ends| flexible.clone().rev().find(|at| ends(tokens[*at].text(text))))
        .map_or(tokens.len(), |at| at + 1)
}

fn find_in_chunk<'a>(
    parser: &Parser,
    network: &mut Network,
    text: &'a str,
    tokens: &[Token],
    known: &mut Known<'a>,
    findings: &mut Vec<Finding>,
) {
    let words = words::of(text, tokens);
    let mut found = Vec::new();
    let mut taken = vec![false; words.len()];
    for address in addresses::find(&words) {
        taken[address.words.clone()].fill(true);
        let confidence = if address.is_confirmed { CONFIRMED_ADDRESS } else { ADDRESS };
        found.push((address.words, Kind::Address, confidence));
    }
    let mut may_begin = vec![false; tokens.len()];
    for (word, taken) in words.iter().zip(&taken) {
        may_begin[word.token] = word.is_capitalised() && !word.is(Traits::FUNCTION | Traits::TITLE) && !taken;
    }
    let entities: Vec<Entity> = ranges(&may_begin)
        .into_iter()
        .flat_map(|range| parser.parse(network, text, tokens, range, |token| may_begin[token]))
        .filter_map(|entity| in_words(&words, &entity))
        .collect();
    for place in places::announced(&words, &entities, &taken) {
        if !place.clone().any(|at| taken[at]) {
            taken[place.clone()].fill(true);
            found.push((place, Kind::Address, PLACE));
        }
    }
    let mut persons = persons::find(&words, &entities, &taken, known);
    persons.sort_by_key(|person| (std::cmp::Reverse(person.words.len()), std::cmp::Reverse(person.confidence)));
    for person in persons {
        if !person.words.clone().any(|at| taken[at]) {
            taken[person.words.clone()].fill(true);
            found.push((person.words, Kind::Person, person.confidence));
        }
    }
    for place in places::find(&words, &entities, &taken) {
        if !place.clone().any(|at| taken[at]) {
            taken[place.clone()].fill(true);
            found.push((place, Kind::Address, PLACE));
        }
    }
    found.sort_by_key(|(words, ..)| words.start);
    findings.extend(found.into_iter().filter_map(|(range, kind, confidence)| {
        let span = words.get(range.start)?.start..words.get(range.end.checked_sub(1)?)?.end;
        Some(Finding { kind, span, confidence: Confidence(confidence) })
    }));
}

/// The ranges of tokens in which names can be. Ranges that are near each other are one, since the network has to look at
/// the tokens in between anyway.
fn ranges(may_begin: &[bool]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for at in (0..may_begin.len()).filter(|at| may_begin[*at]) {
        match ranges.last_mut() {
            Some(last) if at <= last.end + BETWEEN => last.end = at + 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}

/// An entity in places of words instead of tokens.
fn in_words(words: &[Word], entity: &Entity) -> Option<Entity> {
    let place = |token: usize| words.partition_point(|word| word.token < token);
    let tokens = place(entity.tokens.start)..place(entity.tokens.end);
    (!tokens.is_empty()).then_some(Entity { tokens, ..entity.clone() })
}
