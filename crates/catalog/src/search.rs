//! Finds tools by words and by meaning: BM25 over fields, and the likeness of vectors from a table inside the program.
//!
//! Texts become terms (`words.rs`) and directions (`pieces.rs`); a server's tools become a `Shard`; a query and its parts
//! (`parts.rs`) are compared with all of them here. The same tools and the same query give the same answer everywhere.

mod fields;
mod parts;
mod pieces;
mod shard;
mod words;

use crate::catalog::{Catalog, Entry};
use crate::layout::ServerTools;
use fields::FIELDS;
use shard::{Meaning, Shard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// How much a word counts by where it stands: name, server, description, parameters, details.
const WEIGHTS: [f32; FIELDS] = [4.0, 2.0, 1.0, 1.0, 1.0];

/// The constants of BM25: how soon a repeated word stops counting, and how much length does.
const SATURATION: f32 = 2.0;
const LENGTH: f32 = 0.5;

/// How much the meaning of the whole query and of its best part count beside the words.
const WHOLE: f32 = 1.5;
const PART: f32 = 1.5;

/// A tool that shares no word with the query is found if it is as alike as this.
const ALIKE: f32 = 0.2;

/// More tools than this learn what they mean while the first searches go by words alone.
const AT_ONCE: usize = 3_000;

/// A tool that was found.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    /// The tool.
    pub entry: &'a Entry,
    /// How well it fits: for comparing with others of the same search.
    pub score: f32,
}

/// The shards of all servers, in the order of the servers; each is made when it is first needed, and shared with the
/// catalogue that comes after this one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    shards: Vec<Arc<OnceLock<Shard>>>,
    /// Somebody finds out what is missing.
    is_being_read: Arc<AtomicBool>,
}

impl Index {
    /// Takes over what is known of servers that have not changed.
    pub(crate) fn new(servers: &[Arc<ServerTools>], before: Option<(&Self, &[Arc<ServerTools>])>) -> Self {
        let known = |server: &Arc<ServerTools>| {
            let (index, servers) = before?;
            let place = servers.iter().position(|other| Arc::ptr_eq(other, server) || other == server)?;
            index.shards.get(place).map(Arc::clone)
        };
        let shards = servers.iter().map(|server| known(server).unwrap_or_default()).collect();
        Self { shards, is_being_read: Arc::default() }
    }

    /// All shards, ready for words; for meanings as well if that does not take long.
    fn ready(&self, servers: &[Arc<ServerTools>]) -> Vec<&Shard> {
        let pairs = || self.shards.iter().zip(servers);
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
    /// The tools that fit a query best, best first; with no words in the query, all in order. `server` keeps those of one
    /// server, by its name or package.
    pub fn search(&self, query: &str, server: Option<&str>, limit: usize) -> Vec<Hit<'_>> {
        let is_wanted = |entry: &Entry| server.is_none_or(|server| entry.server == server || entry.package == server);
        let mut hits: Vec<Hit<'_>> = if query.chars().any(char::is_alphanumeric) {
            let shards = self.index().ready(self.servers());
            let scores = Scores::of(query, &shards);
            let wanted: Vec<_> = self.placed().filter(|(_, entry)| is_wanted(entry)).collect();
            let best = wanted.iter().filter_map(|(place, _)| scores.words(*place)).fold(0.0, f32::max);
            let fits = |(place, entry)| Some(Hit { entry, score: scores.get(place, best)? });
            best_of(wanted.into_iter().filter_map(fits), limit)
        } else {
            self.placed().filter(|(_, entry)| is_wanted(entry)).map(|(_, entry)| Hit { entry, score: 0.0 }).collect()
        };
        hits.truncate(limit);
        hits
    }

    /// Does now what the first search would do.
    pub fn prepare_search(&self) {
        self.index().ready(self.servers());
    }

    /// Whether searches go by meaning, too: for large catalogues that takes a moment.
    pub fn knows_meanings(&self) -> bool {
        self.index().shards.iter().all(|shard| shard.get().is_some_and(Shard::has_meanings))
    }
}

/// So many of the best, best first; equals in the order they come in.
fn best_of<'a>(hits: impl Iterator<Item = Hit<'a>>, limit: usize) -> Vec<Hit<'a>> {
    let mut hits: Vec<(usize, Hit<'a>)> = hits.enumerate().collect();
    let order = |one: &(usize, Hit<'_>), other: &(usize, Hit<'_>)| {
        other.1.score.total_cmp(&one.1.score).then(one.0.cmp(&other.0))
    };
    if (1..hits.len()).contains(&limit) {
        hits.select_nth_unstable_by(limit - 1, order);
        hits.truncate(limit);
    }
    hits.sort_unstable_by(order);
    hits.into_iter().map(|(_, hit)| hit).collect()
}

/// How well every tool fits a query.
struct Scores {
    /// Where each server's tools begin.
    begins: Vec<usize>,
    words: Vec<f32>,
    alike: Vec<f32>,
}

impl Scores {
    fn of(query: &str, shards: &[&Shard]) -> Self {
        let mut begins = Vec::with_capacity(shards.len());
        let mut count = 0;
        for shard in shards {
            begins.push(count);
            count += shard.len();
        }
        let mut scores = Self { begins, words: vec![0.0; count], alike: vec![0.0; count] };
        scores.add_words(query, shards);
        scores.add_meanings(query, shards);
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
        for term in words::terms(query) {
            let postings = || shards.iter().map(|shard| shard.postings(&term));
            let having: usize = postings().map(|all| all.chunk_by(|one, other| one.tool == other.tool).count()).sum();
            let having = number(having);
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            for ((shard, begin), postings) in shards.iter().zip(&self.begins).zip(postings()) {
                for of_tool in postings.chunk_by(|one, other| one.tool == other.tool) {
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
    }

    fn add_meanings(&mut self, query: &str, shards: &[&Shard]) {
        let whole = Meaning::of(query);
        let parts: Vec<Meaning> = match parts::parts(query) {
            parts if parts.len() > 1 => parts.iter().map(|part| Meaning::of(part)).collect(),
            _ => Vec::new(),
        };
        for (shard, begin) in shards.iter().zip(&self.begins) {
            let alike = self.alike.get_mut(*begin..).unwrap_or_default();
            for (score, likeness) in alike.iter_mut().zip(shard.likeness(&whole)) {
                *score = likeness;
            }
            if parts.is_empty() {
                continue;
            }
            let mut best = vec![-1.0_f32; shard.len()];
            for part in &parts {
                for (best, likeness) in best.iter_mut().zip(shard.likeness(part)) {
                    *best = best.max(likeness);
                }
            }
            for (score, best) in alike.iter_mut().zip(best).filter(|_| shard.has_meanings()) {
                // Kept as one number: both parts weigh the same.
                *score = (*score * WHOLE + best * PART) / (WHOLE + PART);
            }
        }
    }

    /// By words alone, of the tool at this place among its server's.
    fn words(&self, (server, tool): (usize, usize)) -> Option<f32> {
        self.words.get(self.begins.get(server)? + tool).copied()
    }

    /// In all, where the best has so much by words; nothing if it does not fit at all.
    fn get(&self, (server, tool): (usize, usize), best: f32) -> Option<f32> {
        let alike = *self.alike.get(self.begins.get(server)? + tool)?;
        let words = self.words((server, tool))?;
        let share = if best > 0.0 { words / best } else { 0.0 };
        (words > 0.0 || alike >= ALIKE).then_some(share + (WHOLE + PART) * alike)
    }
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
