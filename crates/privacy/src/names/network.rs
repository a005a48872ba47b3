//! The network: from tokens to vectors that describe each token in its context of four tokens on both sides.

use super::hashes;
use super::tokenizer::Token;
use super::weights::{
    CONTRIBUTION, FEATURES, INPUTS, Maxout, PARSER_TOKENS, PIECES, UNMAXED, WIDTH, WINDOW, WINDOW_LAYERS, Weights,
};
use fearless_simd::Level;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// What one token contributes to the outputs of a window layer: to those of the next token, its own, and the last one's.
const SHARES: usize = WINDOW * UNMAXED;

/// What a token contributes to the hidden units of the parser, for each role that it can have.
const ROLES: usize = PARSER_TOKENS * CONTRIBUTION;

/// How many words are remembered. Each needs about 4 KB.
const MAX_KNOWN_WORDS: usize = 1024;

const EPSILON: f32 = 1e-8;

/// A list of words with the values that only depend on the word, and buffers.
pub(super) struct Network {
    weights: &'static Weights,
    level: Level,
    known: HashMap<Key, usize, BuildHasherDefault<Identity>>,
    /// For each known word, its vector, and its shares in the first window layer.
    words: Vec<f32>,
    shares: Vec<f32>,
    /// The rows of the tokens that are being described.
    rows: Vec<f32>,
    sums: Vec<f32>,
}

/// What the parser needs to know of each token: its contribution for each role that it can have.
pub(super) type Contributions = Vec<[f32; ROLES]>;

impl Network {
    pub(super) fn new(weights: &'static Weights) -> Self {
        let level = Level::new();
        Self {
            weights,
            level,
            known: HashMap::default(),
            words: Vec::new(),
            shares: Vec::new(),
            rows: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Describes the tokens of a range. Their neighbours are taken into account.
    pub(super) fn describe(&mut self, text: &str, tokens: &[Token], range: Range<usize>) -> Contributions {
        // Row 0 belongs to the token four places before the range. Places before and after the text are zero.
        let count = range.len() + 2 * WINDOW_LAYERS;
        let around = range.start.saturating_sub(WINDOW_LAYERS)..(range.end + WINDOW_LAYERS).min(tokens.len());
        self.learn(text, &tokens[around.clone()]);
        let words: Vec<Option<usize>> = (range.start..range.start + count)
            .map(|row| tokens.get(row.checked_sub(WINDOW_LAYERS)?))
            .map(|token| self.known.get(&key(text, token?)).copied())
            .collect();
        self.rows.clear();
        self.rows.resize(count * WIDTH, 0.0);
        for (word, row) in words.iter().zip(self.rows.chunks_exact_mut(WIDTH)) {
            if let Some(word) = word {
                row.copy_from_slice(&self.words[word * WIDTH..(word + 1) * WIDTH]);
            }
        }
        self.add_shares(&words);
        let weights = self.weights;
        self.take_in(&weights.first_window, 1..count - 1);
        for (window, layer) in weights.windows.iter().zip(1..) {
            let outputs = layer + 1..count - layer - 1;
            let rows = &self.rows[layer * WIDTH..(count - layer) * WIDTH];
            self.sums.clear();
            self.sums.resize(outputs.len() * UNMAXED, 0.0);
            window.matrix.multiply_overlapping(self.level, rows, WIDTH, &mut self.sums);
            self.take_in(window, outputs);
        }
        let rows = &self.rows[WINDOW_LAYERS * WIDTH..(count - WINDOW_LAYERS) * WIDTH];
        let mut contributions = vec![[0.0; ROLES]; range.len()];
        self.weights.parser.multiply(self.level, rows, contributions.as_flattened_mut());
        for contribution in &mut contributions {
            for (value, bias) in contribution.iter_mut().zip(&self.weights.parser_bias) {
                *value += bias;
            }
        }
        contributions
    }

    /// The scores of all moves of the parser.
    pub(super) fn scores(&self, hidden: &[f32], scores: &mut [f32]) {
        self.weights.moves.multiply(self.level, hidden, scores);
        for (score, bias) in scores.iter_mut().zip(&self.weights.move_bias) {
            *score += bias;
        }
    }

    /// Adds up what words contribute to the first window layer: each to the next, to its own and to the last row.
    fn add_shares(&mut self, words: &[Option<usize>]) {
        self.sums.clear();
        self.sums.resize((words.len() - 2) * UNMAXED, 0.0);
        for (neighbours, sums) in words.windows(WINDOW).zip(self.sums.chunks_exact_mut(UNMAXED)) {
            for (role, word) in neighbours.iter().enumerate() {
                let Some(word) = word else { continue };
                let begin = word * SHARES + role * UNMAXED;
                for (sum, share) in sums.iter_mut().zip(&self.shares[begin..begin + UNMAXED]) {
                    *sum += share;
                }
            }
        }
    }

    /// Adds to some rows what a window layer makes of its sums.
    fn take_in(&mut self, window: &Maxout, rows: Range<usize>) {
        let rows = self.rows[rows.start * WIDTH..rows.end * WIDTH].chunks_exact_mut(WIDTH);
        for (row, sums) in rows.zip(self.sums.as_chunks_mut::<UNMAXED>().0) {
            for (sum, bias) in sums.iter_mut().zip(&window.bias) {
                *sum += bias;
            }
            for (value, output) in row.iter_mut().zip(normalise(window, sums)) {
                *value += output;
            }
        }
    }

    /// Describes the words that are not known yet, without their context.
    fn learn(&mut self, text: &str, tokens: &[Token]) {
        if self.known.len() + tokens.len() > MAX_KNOWN_WORDS {
            self.known.clear();
            self.words.clear();
            self.shares.clear();
        }
        let before = self.known.len();
        let mut inputs = Vec::new();
        for token in tokens {
            let key = key(text, token);
            let place = self.known.len();
            if let Entry::Vacant(entry) = self.known.entry(key) {
                entry.insert(place);
                inputs.extend_from_slice(&look_up(self.weights, token.text(text), key));
            }
        }
        let count = self.known.len() - before;
        let mut sums = vec![[0.0; UNMAXED]; count];
        self.weights.mixing.matrix.multiply(self.level, &inputs, sums.as_flattened_mut());
        for sums in &mut sums {
            for (sum, bias) in sums.iter_mut().zip(&self.weights.mixing.bias) {
                *sum += bias;
            }
            self.words.extend_from_slice(&normalise(&self.weights.mixing, sums));
        }
        self.shares.resize(self.known.len() * SHARES, 0.0);
        let first = &self.weights.first_window.matrix;
        first.multiply(self.level, &self.words[before * WIDTH..], &mut self.shares[before * SHARES..]);
    }
}

/// What identifies a word: its hash, and its norm if the tokenizer knows one.
type Key = (u64, u64);

fn key(text: &str, token: &Token) -> Key {
    (hashes::of_string(token.text(text)), token.norm.unwrap_or_default())
}

/// What the tables contain for a word: its features one after the other, and its vector.
fn look_up(weights: &Weights, word: &str, (hash, norm): Key) -> [f32; INPUTS] {
    let norm = Some(norm).filter(|norm| *norm != 0).or_else(|| weights.norm(hash));
    let norm = norm.unwrap_or_else(|| weights.id(&word.to_lowercase()));
    let first = &word[..word.chars().next().map_or(0, char::len_utf8)];
    let last = word.char_indices().rev().nth(2).map_or(word, |(at, _)| &word[at..]);
    let features = [norm, weights.id(first), weights.id(last), weights.id(&shape(word))];
    let mut inputs = [0.0; INPUTS];
    let (parts, _) = inputs.as_chunks_mut::<WIDTH>();
    for (((seed, table), feature), part) in weights.embeddings.iter().zip(features).zip(parts.iter_mut()) {
        for row in hashes::of_number(feature, *seed) {
            table.add(row as usize % table.count(), part);
        }
    }
    if let Some(row) = weights.vector_row(hash) {
        weights.vectors.add(row, &mut parts[FEATURES]);
    }
    inputs
}

/// The word with letters replaced by `X` or `x` and digits by `d`, and no more than four of the same in a row.
fn shape(word: &str) -> String {
    const MAX_LETTERS: usize = 100;
    const MAX_RUN: usize = 4;
    if word.chars().nth(MAX_LETTERS - 1).is_some() {
        return "LONG".to_owned();
    }
    let mut shape = String::with_capacity(word.len());
    let (mut last, mut run) = ('\0', 0);
    for letter in word.chars() {
        let class = match letter {
            letter if letter.is_alphabetic() && letter.is_uppercase() => 'X',
            letter if letter.is_alphabetic() => 'x',
            letter if letter.is_numeric() => 'd',
            letter => letter,
        };
        run = if class == last { run + 1 } else { 1 };
        last = class;
        if run <= MAX_RUN {
            shape.push(class);
        }
    }
    shape
}

/// The last steps of a layer: takes the largest of each three values, and brings all to mean 0 and variance 1.
#[expect(clippy::cast_precision_loss, reason = "the width is a small number")]
fn normalise(layer: &Maxout, sums: &[f32; UNMAXED]) -> [f32; WIDTH] {
    let mut values = [0.0; WIDTH];
    let (pieces, _) = sums.as_chunks::<PIECES>();
    for (value, [first, second, third]) in values.iter_mut().zip(pieces) {
        *value = first.max(*second).max(*third);
    }
    let mean = in_lanes(&values, |sum, value| sum + value).iter().sum::<f32>() / WIDTH as f32;
    let squares = in_lanes(&values, |sum, value| sum + (value - mean) * (value - mean));
    let variance = squares.iter().sum::<f32>() / WIDTH as f32;
    let factor = (variance + EPSILON).sqrt().recip();
    for ((value, gain), shift) in values.iter_mut().zip(&layer.gain).zip(&layer.shift) {
        *value = (*value - mean) * factor * gain + shift;
    }
    values
}

/// Folds every eighth value of a row, so that the processor can do eight at a time.
#[inline]
fn in_lanes(row: &[f32], fold: impl Fn(f32, f32) -> f32) -> [f32; 8] {
    let mut lanes = [0.0; 8];
    for values in row.as_chunks::<8>().0 {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = fold(*lane, *value);
        }
    }
    lanes
}

/// Keys are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = self.0.rotate_left(5) ^ number;
    }
}
