//! How telling a word is among the tools that are there: what stands in few of them tells much.

use super::shard::{Shard, Term};
use super::{number, words};

/// Of all tools of these shards.
pub(super) struct Rarity<'a> {
    shards: &'a [&'a Shard],
    count: f32,
}

impl<'a> Rarity<'a> {
    pub(super) fn new(shards: &'a [&'a Shard]) -> Self {
        Self { shards, count: number(shards.iter().map(|shard| shard.len()).sum()) }
    }

    /// From nearly zero for what stands everywhere; most for what stands nowhere.
    pub(super) fn of(&self, term: Term) -> f32 {
        let having = number(self.shards.iter().map(|shard| shard.postings(term).1).sum());
        (1.0 + (self.count - having + 0.5) / (having + 0.5)).ln()
    }

    /// The same of a word before it is stemmed. Numbers do not tell what is to be done.
    pub(super) fn of_word(&self, word: &str) -> f32 {
        if is_number(word) { 0.0 } else { self.of(Term::of(&words::stem_of(word))) }
    }
}

pub(super) fn is_number(word: &str) -> bool {
    word.chars().all(char::is_numeric)
}
