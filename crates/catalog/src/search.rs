//! Finds tools by words and by meaning: BM25 over fields, and the similarity of vectors from a built-in table.
//!
//! Texts become terms (`words.rs`) and vectors (`pieces.rs`), and the tools of a server become a `Shard`. A query and
//! its parts (`parts.rs`) are compared with all shards here. The same tools and the same query give the same answer
//! everywhere.

mod fields;
mod foreign;
mod groups;
mod parts;
mod pieces;
mod products;
mod rarity;
mod reread;
mod select;
mod shard;
mod steps;
mod words;

use crate::catalog::{Catalog, Entry};
use crate::layout::ServerTools;
use fields::FIELDS;
pub use foreign::{Direction, Foreign, MAX_DIMENSIONS, Unread};
pub use groups::Group;
pub(crate) use pieces::Vector;
use rarity::Rarity;
use shard::{Meaning, Shard, Term};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The weight of a word by field: name, server, description, parameters, details.
const WEIGHTS: [f32; FIELDS] = [4.0, 2.0, 1.0, 1.0, 1.0];

/// The parameters of BM25: saturation of repeated words, and influence of length.
const SATURATION: f32 = 2.0;
const LENGTH: f32 = 0.5;

/// The word score of a tool is relative to what the rarest `TELLING` words of the query could score, not to the best
/// tool's score: if no tool has the rarest words, the others say little. `REACHED` is the part of that maximum that a
/// good match reaches.
const TELLING: usize = 3;
const REACHED: f32 = 0.8;

/// The weights of the similarity of the whole query and of its best part, relative to words.
const WHOLE: f32 = 1.0;
const PART: f32 = 1.0;

/// The number of best tools that are ranked again.
const REREAD: usize = 50;

/// The minimum similarity of a tool that shares no word with the query.
const ALIKE: f32 = 0.2;

/// The maximum number of tools whose vectors are computed within a search. For more, a thread does it in the
/// background, and searches use only words until then.
const AT_ONCE: usize = 3_000;

/// The number of tools up to which one thread builds the shards. For more, several threads do.
const ALONE: usize = 500;
const WORKERS: usize = 8;

/// The maximum bonus of a tool that this user's programs have called successfully: less than any word.
const USED: f32 = 0.1;
/// The number of calls at which the bonus reaches its maximum.
const USED_ENOUGH: f32 = 20.0;

/// Successful calls, by the wire names of server and tool.
pub type Uses = HashMap<(String, String), u64>;

/// A search query.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a> {
    /// Free text. Without any words, everything matches.
    pub text: &'a str,
    /// Only tools of this server, by its name or package.
    pub server: Option<&'a str>,
    /// Only tools of this category.
    pub category: Option<&'a str>,
    /// Previous uses, which slightly raise the score.
    pub uses: Option<&'a Uses>,
    /// The query's vectors from an external model. Used if all tools have vectors from it.
    pub foreign: Option<&'a Foreign>,
}

impl<'a> Query<'a> {
    /// A query with text only.
    pub fn new(text: &'a str) -> Self {
        Self { text, ..Self::default() }
    }
}

/// A search result.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    /// The tool.
    pub entry: &'a Entry,
    /// The score, comparable only within the same search.
    pub score: f32,
}

/// The shards of all servers, in the order of the servers. Each is created on first use, and shared with the catalogue
/// that follows this one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    shards: Vec<Arc<OnceLock<Shard>>>,
    /// Whether a background thread has been started to compute missing vectors.
    is_being_read: Arc<AtomicBool>,
}

impl Index {
    /// Reuses the shards of servers that have not changed.
    pub(crate) fn new(servers: &[Arc<ServerTools>], before: Option<(&Self, &[Arc<ServerTools>])>) -> Self {
        let known = |server: &Arc<ServerTools>| {
            let (index, servers) = before?;
            let place = servers.iter().position(|other| Arc::ptr_eq(other, server) || other == server)?;
            index.shards.get(place).map(Arc::clone)
        };
        let shards = servers.iter().map(|server| known(server).unwrap_or_default()).collect();
        Self { shards, is_being_read: Arc::default() }
    }

    /// All shards, with their words, and also with their vectors if there are not too many to compute.
    fn ready(&self, servers: &[Arc<ServerTools>]) -> Vec<&Shard> {
        let pairs = || self.shards.iter().zip(servers);
        let missing: Vec<_> = pairs().filter(|(shard, _)| shard.get().is_none()).collect();
        if missing.iter().map(|(_, server)| server.tools.len()).sum::<usize>() > ALONE {
            let workers = std::thread::available_parallelism().map_or(1, |count| count.get().min(WORKERS));
            let next = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|| {
                        while let Some((shard, server)) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                            shard.get_or_init(|| Shard::new(server));
                        }
                    });
                }
            });
        }
        let shards: Vec<&Shard> = pairs().map(|(shard, server)| shard.get_or_init(|| Shard::new(server))).collect();
        let missing = shards.iter().filter(|shard| !shard.has_meanings());
        if missing.map(|shard| shard.len()).sum::<usize>() <= AT_ONCE {
            shards.iter().zip(servers).for_each(|(shard, server)| shard.find_meanings(server));
            return shards;
        }
        if self.is_being_read.swap(true, Ordering::Relaxed) {
            return shards;
        }
        let later: Vec<_> = pairs().map(|(shard, server)| (Arc::clone(shard), Arc::clone(server))).collect();
        std::thread::spawn(move || {
            for (shard, server) in later {
                shard.get_or_init(|| Shard::new(&server)).find_meanings(&server);
            }
        });
        shards
    }
}

impl Catalog {
    /// The `limit` best tools for a query, best first. A query without words returns all tools in order.
    pub fn search(&self, query: &Query<'_>, limit: usize) -> Vec<Hit<'_>> {
        if !query.text.chars().any(char::is_alphanumeric) {
            let all = self.searched().map(|(_, entry)| entry).filter(|entry| self.is_wanted(entry, query));
            return all.take(limit).map(|entry| Hit { entry, score: 0.0 }).collect();
        }
        let shards = self.index().ready(self.indexed());
        let mut scores = Scores::of(query, &shards);
        if query.server.is_some() || query.category.is_some() {
            for (place, entry) in self.searched() {
                if !self.is_wanted(entry, query) {
                    scores.rule_out(place);
                }
            }
        }
        let lifts = query.uses.map(|uses| self.lifts(uses)).unwrap_or_default();
        let lifted = |(place, score): (usize, f32)| (place, score + lifts.get(&place).copied().unwrap_or_default());
        let fitting: Vec<(usize, f32)> =
            if lifts.is_empty() { scores.total().collect() } else { scores.total().map(lifted).collect() };
        let best = best_of(fitting, limit.max(REREAD), |place| self.order(place));
        let mut best = self.reread(query, best);
        best.truncate(limit);
        best.into_iter().filter_map(|(place, score)| Some(Hit { entry: self.at(place)?, score })).collect()
    }

    fn is_wanted(&self, entry: &Entry, query: &Query<'_>) -> bool {
        query.server.is_none_or(|server| entry.server == server || entry.package == server)
            && query.category.is_none_or(|category| self.is_in(entry, category))
    }

    /// The bonus of previously used tools, by position.
    fn lifts(&self, uses: &Uses) -> HashMap<usize, f32> {
        let lift = |times: u64| {
            let times = number(usize::try_from(times).unwrap_or(usize::MAX)).min(USED_ENOUGH);
            USED * times.ln_1p() / USED_ENOUGH.ln_1p()
        };
        let placed = uses.iter().filter_map(|((server, tool), times)| Some((self.place(server, tool)?, lift(*times))));
        placed.collect()
    }

    /// Does the work of the first search now.
    pub fn prepare_search(&self) {
        self.index().ready(self.indexed());
    }

    /// Whether searches use vectors: computing them for a large catalogue takes a moment.
    pub fn knows_meanings(&self) -> bool {
        self.index().shards.iter().all(|shard| shard.get().is_some_and(Shard::has_meanings))
    }
}

/// The `limit` best, best first. Ties are resolved by order.
fn best_of(mut scored: Vec<(usize, f32)>, limit: usize, order: impl Fn(usize) -> usize) -> Vec<(usize, f32)> {
    let by_score = |one: &(usize, f32), other: &(usize, f32)| {
        other.1.total_cmp(&one.1).then_with(|| order(one.0).cmp(&order(other.0)))
    };
    if (1..scored.len()).contains(&limit) {
        scored.select_nth_unstable_by(limit - 1, by_score);
    }
    scored.truncate(limit);
    scored.sort_unstable_by(by_score);
    scored
}

/// The scores of all tools for a query.
struct Scores {
    /// The position of each server's first tool.
    begins: Vec<usize>,
    words: Vec<f32>,
    /// The maximum score of the rarest words.
    most: f32,
    alike: Vec<f32>,
}

impl Scores {
    fn of(query: &Query<'_>, shards: &[&Shard]) -> Self {
        let mut begins = Vec::with_capacity(shards.len());
        let mut count = 0;
        for shard in shards {
            begins.push(count);
            count += shard.len();
        }
        let mut scores = Self { begins, words: vec![0.0; count], most: 0.0, alike: vec![0.0; count] };
        scores.add_words(query.text, shards);
        match query.foreign.and_then(|foreign| foreign.alike(shards)) {
            Some(alike) => scores.alike = alike,
            None => scores.add_meanings(query.text, shards),
        }
        scores
    }

    fn add_words(&mut self, query: &str, shards: &[&Shard]) {
        let count = number(self.words.len());
        let means: [f32; FIELDS] = std::array::from_fn(|field| {
            let total: u64 = shards.iter().map(|shard| shard.totals()[field]).sum();
            #[expect(clippy::cast_precision_loss, reason = "a mean need not be exact")]
            let total = total as f32;
            (total / count.max(1.0)).max(f32::MIN_POSITIVE)
        });
        let rarities = Rarity::new(shards);
        let mut all = Vec::new();
        for text in words::terms(query) {
            let term = Term::of(&text);
            let rarity = rarities.of(term);
            all.push((!rarity::is_number(&text), rarity));
            for (shard, begin) in shards.iter().zip(&self.begins) {
                for of_tool in shard.postings(term).0.chunk_by(|one, other| one.tool == other.tool) {
                    let weight: f32 = of_tool
                        .iter()
                        .map(|posting| {
                            let field = usize::from(posting.field);
                            let length = number(shard.length(*posting) as usize) / means[field];
                            WEIGHTS[field] * f32::from(posting.times) / (1.0 - LENGTH + LENGTH * length)
                        })
                        .sum();
                    let place = of_tool.first().map_or(0, |posting| posting.tool as usize);
                    if let Some(score) = self.words.get_mut(begin + place) {
                        *score += rarity * weight * (SATURATION + 1.0) / (weight + SATURATION);
                    }
                }
            }
        }
        if all.iter().any(|(is_word, _)| *is_word) {
            all.retain(|(is_word, _)| *is_word);
        }
        all.sort_unstable_by(|(_, one), (_, other)| other.total_cmp(one));
        self.most = all.iter().take(TELLING).map(|(_, rarity)| rarity).sum::<f32>() * (SATURATION + 1.0) * REACHED;
    }

    fn add_meanings(&mut self, query: &str, shards: &[&Shard]) {
        let rarities = Rarity::new(shards);
        let weight = |word: &str| rarities.of_word(word).sqrt();
        let mut texts = vec![Meaning::of(query, weight)];
        let parts = parts::parts(query);
        if parts.len() > 1 {
            texts.extend(parts.iter().map(|part| Meaning::of(part, weight)));
        }
        for (shard, begin) in shards.iter().zip(&self.begins) {
            let alike = self.alike.get_mut(*begin..).unwrap_or_default();
            for (score, (whole, best)) in alike.iter_mut().zip(shard.likeness(&texts)) {
                // Kept as one number, because both have the same weight.
                *score = if texts.len() == 1 { whole } else { (whole * WHOLE + best * PART) / (WHOLE + PART) };
            }
        }
    }

    /// Excludes a tool from the results.
    fn rule_out(&mut self, place: usize) {
        for scores in [&mut self.words, &mut self.alike] {
            if let Some(score) = scores.get_mut(place) {
                *score = 0.0;
            }
        }
    }

    /// All tools with a score, by position, with words and meaning combined.
    fn total(&self) -> impl Iterator<Item = (usize, f32)> {
        let scored = self.words.iter().zip(&self.alike).enumerate();
        scored
            .filter(|(_, (words, alike))| **words > 0.0 || **alike >= ALIKE)
            .map(|(place, (words, alike))| (place, words / self.most.max(f32::MIN_POSITIVE) + (WHOLE + PART) * alike))
    }
}

/// The vector of a text: a unit vector, or zero if no word is known.
pub(crate) fn meaning(text: &str) -> Vector {
    pieces::Pieces::get().vector(text)
}

fn number(count: usize) -> f32 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of tools and words are small, and a score need not be exact"
    )]
    let number = count as f32;
    number
}

#[cfg(test)]
mod tests;
