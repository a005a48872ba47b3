//! The weights of the network, as `weights/make.py` writes them.

use super::hashes;
use super::matrix::Matrix;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The number of values that describe a token, in all layers.
pub(super) const WIDTH: usize = 96;
/// The number of values that a maxout layer computes for each value that it returns.
pub(super) const PIECES: usize = 3;
/// The outputs of a maxout layer before the maximum is taken.
pub(super) const UNMAXED: usize = WIDTH * PIECES;
/// The number of window layers: each lets a token see one more neighbour on both sides.
pub(super) const WINDOW_LAYERS: usize = 4;
/// The number of hash embeddings: norm, prefix, suffix and shape.
pub(super) const FEATURES: usize = 4;
/// The inputs of the mixing layer: the hash embeddings and the vector of the word.
pub(super) const INPUTS: usize = (FEATURES + 1) * WIDTH;
/// The tokens that a window layer reads: a token and its neighbours.
pub(super) const WINDOW: usize = 3;
/// The number of tokens that the parser looks at: the next one, the first and the last of the open entity.
pub(super) const PARSER_TOKENS: usize = 3;
/// The hidden units of the parser.
pub(super) const UNITS: usize = 64;
/// The pieces of each hidden unit of the parser.
pub(super) const UNIT_PIECES: usize = 2;
/// What one token contributes to the hidden units for one of its roles.
pub(super) const CONTRIBUTION: usize = UNITS * UNIT_PIECES;

static FILE: &[u8] = include_bytes!("../../weights/names.bin");
const MAGIC: &[u8] = b"PNAMES01";
const BUCKETS: usize = 1 << 16;

/// A token of an exception of the tokenizer: its length in bytes, and the id of its norm if that is an exception too.
pub(super) type Piece = (usize, Option<u64>);

pub(super) struct Weights {
    symbols: HashMap<&'static str, u64>,
    norms: HashMap<u64, u64>,
    pub(super) exceptions: HashMap<&'static str, Vec<Piece>>,
    /// Where the words begin whose hashes start with the same 16 bits.
    buckets: Vec<u32>,
    rests: &'static [[u8; 2]],
    rows: &'static [[u8; 2]],
    pub(super) vectors: Table,
    pub(super) embeddings: Vec<(u32, Table)>,
    pub(super) mixing: Maxout,
    /// The first window layer, whose outputs are the shares of one token in those of the next token, itself and the last one.
    pub(super) first_window: Maxout,
    /// The other window layers. Their inputs are those of three tokens.
    pub(super) windows: Vec<Maxout>,
    pub(super) parser: Matrix,
    pub(super) parser_bias: Vec<f32>,
    pub(super) absent: Vec<f32>,
    pub(super) unit_bias: Vec<f32>,
    pub(super) moves: Matrix,
    pub(super) move_bias: Vec<f32>,
    pub(super) move_names: Vec<&'static str>,
}

impl Weights {
    /// The weights, which are read on first use; `None` if the file is damaged, which a test excludes.
    pub(super) fn get() -> Option<&'static Self> {
        static WEIGHTS: OnceLock<Option<Weights>> = OnceLock::new();
        WEIGHTS.get_or_init(|| Self::read(Reader { rest: FILE })).as_ref()
    }

    fn read(mut file: Reader) -> Option<Self> {
        if file.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let symbols = file.text()?.lines().map(symbol).collect::<Option<_>>()?;
        let count = file.count()?;
        let norms = file.numbers(2 * count)?;
        let norms = norms.as_chunks::<2>().0.iter().map(|[word, norm]| (*word, *norm)).collect();
        let exceptions = file.text()?.lines().map(exception).collect::<Option<_>>()?;
        let count = file.count()?;
        let mut begin = 0;
        let mut buckets = vec![0];
        buckets.extend(file.take(BUCKETS)?.iter().map(|count| {
            begin += u32::from(*count);
            begin
        }));
        let rests = file.take(2 * count)?.as_chunks().0;
        let rows = file.take(2 * count)?.as_chunks().0;
        let vectors = file.table()?;
        let embeddings = (0..FEATURES).map(|_| Some((file.u32()?, file.table()?))).collect::<Option<_>>()?;
        let mixing = file.maxout(INPUTS)?;
        let first_window = file.shares()?;
        let windows = (1..WINDOW_LAYERS).map(|_| file.maxout(WINDOW * WIDTH)).collect::<Option<_>>()?;
        let weights = Self {
            symbols,
            norms,
            exceptions,
            buckets,
            rests,
            rows,
            vectors,
            embeddings,
            mixing,
            first_window,
            windows,
            parser: file.matrix(WIDTH)?,
            parser_bias: file.floats()?,
            absent: file.floats()?,
            unit_bias: file.floats()?,
            moves: file.matrix(UNITS)?,
            move_bias: file.floats()?,
            move_names: file.text()?.lines().collect(),
        };
        weights.is_complete().then_some(weights)
    }

    fn is_complete(&self) -> bool {
        let count = self.rests.len() as u32;
        let moves = self.move_names.len();
        self.buckets.last() == Some(&count)
            && self.rows.iter().all(|row| usize::from(u16::from_le_bytes(*row)) < self.vectors.count())
            && self.embeddings.iter().all(|(_, table)| table.count() > 0)
            && self.parser.outputs() == PARSER_TOKENS * CONTRIBUTION
            && self.parser_bias.len() == PARSER_TOKENS * CONTRIBUTION
            && self.absent.len() == PARSER_TOKENS * CONTRIBUTION
            && self.unit_bias.len() == CONTRIBUTION
            && self.moves.outputs() == moves
            && self.move_bias.len() == moves
    }

    /// The id of a string: mostly its hash.
    pub(super) fn id(&self, text: &str) -> u64 {
        self.symbols.get(text).copied().unwrap_or_else(|| hashes::of_string(text))
    }

    /// The id of the norm of a word, if it is not just the word in lower case.
    pub(super) fn norm(&self, id: u64) -> Option<u64> {
        self.norms.get(&id).copied()
    }

    /// The row of a word in the table of vectors, by the hash of the word.
    pub(super) fn vector_row(&self, hash: u64) -> Option<usize> {
        let bucket = (hash >> 48) as usize;
        let (begin, end) = (*self.buckets.get(bucket)? as usize, *self.buckets.get(bucket + 1)? as usize);
        let rest = (hash >> 32) as u16;
        let at = self.rests.get(begin..end)?.binary_search_by_key(&rest, |rest| u16::from_le_bytes(*rest)).ok()?;
        self.rows.get(begin + at).map(|row| usize::from(u16::from_le_bytes(*row)))
    }
}

fn symbol(line: &'static str) -> Option<(&'static str, u64)> {
    let (name, id) = line.split_once('\t')?;
    Some((name, id.parse().ok()?))
}

fn exception(line: &'static str) -> Option<(&'static str, Vec<Piece>)> {
    let mut fields = line.split('\t');
    let word = fields.next()?;
    let mut pieces = Vec::new();
    while let Some(piece) = fields.next() {
        let norm = fields.next()?.parse().ok()?;
        pieces.push((piece.len(), (norm != 0).then_some(norm)));
    }
    (pieces.iter().map(|(length, _)| length).sum::<usize>() == word.len()).then_some((word, pieces))
}

/// Rows of `WIDTH` numbers, which are looked up.
pub(super) struct Table {
    scales: Vec<f32>,
    rows: &'static [[u8; WIDTH]],
}

impl Table {
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row to a vector.
    pub(super) fn add(&self, row: usize, vector: &mut [f32]) {
        if let (Some(scale), Some(row)) = (self.scales.get(row), self.rows.get(row)) {
            for (sum, number) in vector.iter_mut().zip(row) {
                *sum += scale * f32::from(number.cast_signed());
            }
        }
    }
}

/// A layer that computes three values for each value that it returns, the maximum, and then normalises all.
pub(super) struct Maxout {
    pub(super) matrix: Matrix,
    pub(super) bias: Vec<f32>,
    pub(super) gain: Vec<f32>,
    pub(super) shift: Vec<f32>,
}

struct Reader {
    rest: &'static [u8],
}

impl Reader {
    fn take(&mut self, count: usize) -> Option<&'static [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }

    fn text(&mut self) -> Option<&'static str> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    fn numbers(&mut self, count: usize) -> Option<Vec<u64>> {
        let (numbers, _) = self.take(count.checked_mul(8)?)?.as_chunks();
        Some(numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    }

    fn some_floats(&mut self, count: usize) -> Option<Vec<f32>> {
        let (floats, _) = self.take(count.checked_mul(4)?)?.as_chunks();
        Some(floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    fn floats(&mut self) -> Option<Vec<f32>> {
        let count = self.count()?;
        self.some_floats(count)
    }

    fn table(&mut self) -> Option<Table> {
        let (count, columns) = (self.count()?, self.count()?);
        let scales = self.some_floats(count)?;
        let (rows, _) = self.take(count.checked_mul(columns)?)?.as_chunks();
        (columns == WIDTH).then_some(Table { scales, rows })
    }

    /// The rows of a matrix.
    fn rows(&mut self, inputs: usize) -> Option<Vec<Vec<f32>>> {
        let (outputs, columns) = (self.count()?, self.count()?);
        let scales = self.some_floats(outputs)?;
        let bytes = self.take(outputs.checked_mul(columns)?)?;
        if columns != inputs {
            return None;
        }
        let rows = bytes.chunks_exact(columns).zip(scales);
        Some(rows.map(|(row, scale)| row.iter().map(|byte| scale * f32::from(byte.cast_signed())).collect()).collect())
    }

    fn matrix(&mut self, inputs: usize) -> Option<Matrix> {
        Some(Matrix::new(inputs, &self.rows(inputs)?))
    }

    fn maxout(&mut self, inputs: usize) -> Option<Maxout> {
        let rows = self.rows(inputs)?;
        self.rest_of_maxout(inputs, &rows)
    }

    /// A window layer, with its matrix taken apart.
    fn shares(&mut self) -> Option<Maxout> {
        let rows = self.rows(WINDOW * WIDTH)?;
        let shares: Vec<_> = (0..WINDOW)
            .flat_map(|part| rows.iter().map(move |row| row[part * WIDTH..(part + 1) * WIDTH].to_vec()))
            .collect();
        self.rest_of_maxout(WIDTH, &shares)
    }

    fn rest_of_maxout(&mut self, inputs: usize, rows: &[Vec<f32>]) -> Option<Maxout> {
        let matrix = Matrix::new(inputs, rows);
        let layer = Maxout { matrix, bias: self.floats()?, gain: self.floats()?, shift: self.floats()? };
        let complete = rows.len().is_multiple_of(UNMAXED)
            && layer.bias.len() == UNMAXED
            && layer.gain.len() == WIDTH
            && layer.shift.len() == WIDTH;
        complete.then_some(layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_complete() {
        assert!(Weights::get().is_some());
    }
}
