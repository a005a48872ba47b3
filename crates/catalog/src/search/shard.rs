//! The search index of one server's tools: their words and vectors. It depends on that server alone, so a change of one
//! server does not affect the others.

use super::fields::{FIELDS, Fields};
use super::pieces::{DIMENSIONS, Pieces, Vector, quantised, unit};
use super::products::likeness;
use super::words::each_term;
use crate::layout::ServerTools;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::sync::OnceLock;

/// The weight of each field in a tool's vector. Descriptions of parameters do not count.
const MEANING: [f32; FIELDS] = [1.0, 0.5, 1.0, 0.5, 0.0];

/// A term as its hash. A collision treats two terms as one, which is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Term(u64);

impl Term {
    pub(super) fn of(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        Self(hasher.finish())
    }
}

/// A hasher for values that are already hashes.
#[derive(Clone, Debug, Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// A word in one field of a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posting {
    pub(super) tool: u32,
    pub(super) field: u8,
    pub(super) times: u16,
}

/// The postings of one term.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    end: u32,
    tools: u32,
}

/// The vectors of all tools of a server.
#[derive(Debug)]
pub(super) struct Vectors {
    pub(super) numbers: Vec<[i8; DIMENSIONS]>,
    pub(super) scales: Vec<f32>,
}

#[derive(Debug)]
pub(super) struct Shard {
    /// The postings of each term, and the number of tools that have it.
    terms: HashMap<Term, Place, BuildHasherDefault<Itself>>,
    /// Postings of each term, by tool.
    postings: Vec<Posting>,
    /// The number of terms in each field, per tool and in total.
    lengths: Vec<[u32; FIELDS]>,
    totals: [u64; FIELDS],
    vectors: OnceLock<Vectors>,
    /// Vectors from an external model.
    pub(super) foreign: OnceLock<super::foreign::Vectors>,
}

impl Shard {
    /// Indexes the words. `find_meanings` computes the vectors.
    pub(super) fn new(server: &ServerTools) -> Self {
        let mut by_term: HashMap<Term, Vec<Posting>, BuildHasherDefault<Itself>> = HashMap::default();
        let mut lengths = Vec::with_capacity(server.tools.len());
        let mut totals = [0; FIELDS];
        for (tool, definition) in (0..).zip(&server.tools) {
            let fields = Fields::of(server, definition);
            let mut length = [0; FIELDS];
            for ((field, text), length) in (0..).zip(fields.all()).zip(&mut length) {
                each_term(text, |term| {
                    *length += 1;
                    let posting = Posting { tool, field, times: 1 };
                    let postings = by_term.entry(Term::of(term)).or_default();
                    match postings.last_mut() {
                        Some(last) if last.tool == tool && last.field == field => {
                            last.times = last.times.saturating_add(1);
                        }
                        _ => postings.push(posting),
                    }
                });
            }
            for (total, length) in totals.iter_mut().zip(length) {
                *total += u64::from(length);
            }
            lengths.push(length);
        }
        let mut postings = Vec::with_capacity(by_term.values().map(Vec::len).sum());
        let mut place = |of_term: Vec<Posting>| {
            let (start, tools) = (postings.len(), of_term.chunk_by(|one, other| one.tool == other.tool).count());
            postings.extend(of_term);
            let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            Place { start: number(start), end: number(postings.len()), tools: number(tools) }
        };
        let terms = by_term.into_iter().map(|(term, of_term)| (term, place(of_term))).collect();
        Self { terms, postings, lengths, totals, vectors: OnceLock::new(), foreign: OnceLock::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.lengths.len()
    }

    pub(super) fn totals(&self) -> [u64; FIELDS] {
        self.totals
    }

    /// The postings of a term, by tool and then by field, and the number of tools that have it.
    pub(super) fn postings(&self, term: Term) -> (&[Posting], usize) {
        let Some(place) = self.terms.get(&term) else { return (&[], 0) };
        let postings = self.postings.get(place.start as usize..place.end as usize);
        (postings.unwrap_or_default(), place.tools as usize)
    }

    pub(super) fn length(&self, posting: Posting) -> u32 {
        let lengths = self.lengths.get(posting.tool as usize);
        lengths.and_then(|lengths| lengths.get(usize::from(posting.field))).copied().unwrap_or_default()
    }

    pub(super) fn has_meanings(&self) -> bool {
        self.vectors.get().is_some()
    }

    /// Computes the vectors. `server` must be the one that the shard was created from.
    pub(super) fn find_meanings(&self, server: &ServerTools) {
        self.vectors.get_or_init(|| {
            let pieces = Pieces::get();
            // Shared by all tools of the server.
            let of_server = pieces.vector(server.name.as_str());
            let mut vectors =
                Vectors { numbers: Vec::with_capacity(self.len()), scales: Vec::with_capacity(self.len()) };
            for tool in &server.tools {
                let fields = Fields::of(server, tool);
                let mut sum: Vector = [0.0; DIMENSIONS];
                for (index, (text, weight)) in fields.all().into_iter().zip(MEANING).enumerate() {
                    if weight == 0.0 {
                        continue;
                    }
                    let vector = if index == 1 { of_server } else { pieces.vector(text) };
                    for (sum, number) in sum.iter_mut().zip(vector) {
                        *sum += weight * number;
                    }
                }
                let (numbers, scale) = quantised(&unit(sum));
                vectors.numbers.push(numbers);
                vectors.scales.push(scale);
            }
            vectors
        });
    }

    /// The similarity of each tool to the first text, from -1 to 1, and its highest similarity to one of the others.
    /// Empty if the vectors are not computed yet.
    pub(super) fn likeness(&self, texts: &[Meaning]) -> Vec<(f32, f32)> {
        self.vectors.get().map(|vectors| likeness(vectors, texts)).unwrap_or_default()
    }
}

/// The vector of a query or of one of its parts.
pub(super) struct Meaning {
    pub(super) numbers: [i16; DIMENSIONS],
    pub(super) scale: f32,
}

impl Meaning {
    /// The vector of a text, with a weight for each word.
    pub(super) fn of(text: &str, weight: impl Fn(&str) -> f32) -> Self {
        let (numbers, scale) = quantised(&Pieces::get().weighted(text, weight));
        Self { numbers: numbers.map(i16::from), scale }
    }
}
