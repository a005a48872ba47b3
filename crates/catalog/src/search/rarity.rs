//! The rarity of words among the tools: a word that few tools have is significant.

use super::shard::{Shard, Term};
use super::{number, words};

/// Rarity among all tools of these shards.
pub(super) struct Rarity<'a> {
    shards: &'a [&'a Shard],
    count: f32,
}

impl<'a> Rarity<'a> {
    pub(super) fn new(shards: &'a [&'a Shard]) -> Self {
        Self { shards, count: number(shards.iter().map(|shard| shard.len()).sum()) }
    }

    /// The rarity of a term: nearly zero if all tools have it, highest if none does.
    pub(super) fn of(&self, term: Term) -> f32 {
        let having = number(self.shards.iter().map(|shard| shard.postings(term).1).sum());
        (1.0 + (self.count - having + 0.5) / (having + 0.5)).ln()
    }

    /// The rarity of a word before stemming. Numbers count as not significant.
    pub(super) fn of_word(&self, word: &str) -> f32 {
        if is_number(word) { 0.0 } else { self.of(Term::of(&words::stem_of(word))) }
    }
}

pub(super) fn is_number(word: &str) -> bool {
    word.chars().all(char::is_numeric)
}
