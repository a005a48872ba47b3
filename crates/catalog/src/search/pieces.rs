//! The vectors of texts, from a built-in table with one vector per word piece.
//!
//! `weights/make_wordpieces.py` creates the table and describes its contents.

use super::words::{each_run, each_word, is_stop_word};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The number of dimensions of a vector.
pub(super) const DIMENSIONS: usize = 256;

static TABLE: &[u8] = include_bytes!("../../weights/wordpieces.bin");
const MAGIC: &[u8] = b"WPTABLE1";
const HEADER: usize = 24;

/// The first letter beyond Latin. The model knows English: words with such letters only count for BM25.
const BEYOND: char = '\u{250}';

/// The maximum length of a word.
const MAX_WORD: usize = 100;

/// A unit vector, or zero if no word is known.
pub(crate) type Vector = [f32; DIMENSIONS];

/// The table, indexed for lookups.
pub(super) struct Pieces {
    /// IDs of pieces that begin a word, and of those that continue one.
    beginnings: HashMap<&'static str, u32>,
    continuations: HashMap<&'static str, u32>,
    /// The length of the longest piece in letters.
    longest: usize,
    /// The first piece that has a vector.
    first: usize,
    scales: Vec<f32>,
    rows: &'static [u8],
}

impl Pieces {
    /// The table, which is read on first use.
    pub(super) fn get() -> &'static Self {
        static PIECES: OnceLock<Pieces> = OnceLock::new();
        PIECES.get_or_init(|| Self::read(TABLE).unwrap_or_else(Self::empty))
    }

    /// A table without vectors.
    fn empty() -> Self {
        Self {
            beginnings: HashMap::new(),
            continuations: HashMap::new(),
            longest: 0,
            first: 0,
            scales: Vec::new(),
            rows: &[],
        }
    }

    fn read(table: &'static [u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = table.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_le_bytes(bytes)).ok()
        };
        let (count, first, dimensions, length) = (number(8)?, number(12)?, number(16)?, number(20)?);
        if !table.starts_with(MAGIC) || dimensions != DIMENSIONS {
            return None;
        }
        let rows = count.checked_sub(first)?;
        let vocabulary = std::str::from_utf8(table.get(HEADER..HEADER + length)?).ok()?;
        let scales = table.get(HEADER + length..)?.get(..4 * rows)?;
        let numbers = table.get(HEADER + length + 4 * rows..)?;
        if numbers.len() != rows * DIMENSIONS {
            return None;
        }
        let mut pieces = Self {
            first,
            scales: scales.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok().map(f32::from_le_bytes)).collect(),
            rows: numbers,
            ..Self::empty()
        };
        for (id, piece) in (0..).zip(vocabulary.split('\n')) {
            let letters = match piece.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => {
                    pieces.continuations.insert(rest, id);
                    rest
                }
                _ => {
                    pieces.beginnings.insert(piece, id);
                    piece
                }
            };
            pieces.longest = pieces.longest.max(letters.chars().count());
        }
        Some(pieces)
    }

    /// The sum of the rows of all tokens, as a unit vector.
    pub(super) fn vector(&self, text: &str) -> Vector {
        self.weighted(text, |_| 1.0)
    }

    /// Like [`Self::vector`], with a weight for each word.
    pub(super) fn weighted(&self, text: &str, weight: impl Fn(&str) -> f32) -> Vector {
        let mut sum = [0.0; DIMENSIONS];
        self.each_token(text, |word, row| {
            let scale = self.scales.get(row).copied().unwrap_or_default() * weight(word);
            for (sum, number) in sum.iter_mut().zip(self.row(row)) {
                *sum += scale * f32::from(number.cast_signed());
            }
        });
        unit(sum)
    }

    /// The rows of up to `most` tokens of a text. Their scales are omitted, because they do not change a direction.
    pub(super) fn rows(&self, text: &str, most: usize) -> Vec<&'static [u8]> {
        let mut rows = Vec::new();
        self.each_token(text, |_, row| rows.push(self.row(row)));
        rows.truncate(most);
        rows
    }

    /// Like [`Self::rows`], with a weight for each: the weight of its word, and less if the piece is frequent.
    pub(super) fn weighted_rows(
        &self,
        text: &str,
        most: usize,
        weight: impl Fn(&str) -> f32,
    ) -> Vec<(&'static [u8], f32)> {
        let mut rows = Vec::new();
        self.each_token(text, |word, row| {
            let numbers = self.row(row);
            let scale = self.scales.get(row).copied().unwrap_or_default();
            rows.push((numbers, scale * length(numbers) * weight(word)));
        });
        rows.truncate(most);
        rows
    }

    fn row(&self, row: usize) -> &'static [u8] {
        self.rows.get(row * DIMENSIONS..(row + 1) * DIMENSIONS).unwrap_or_default()
    }

    /// Calls `token_found` with the word and the row of each piece of all words except stop words, each piece once, in
    /// order. Pieces without a vector are skipped.
    fn each_token(&self, text: &str, mut token_found: impl FnMut(&str, usize)) {
        // Texts are short, so scanning a list is faster than hashing.
        let mut seen: Vec<usize> = Vec::new();
        each_word(text, |word| {
            each_run(word, |run, _| {
                if !is_stop_word(run) && run.chars().all(|letter| letter < BEYOND) {
                    self.cut(run, &mut |token: u32| {
                        let row = usize::try_from(token).ok().and_then(|token| token.checked_sub(self.first));
                        if let Some(row) = row
                            && !seen.contains(&row)
                        {
                            seen.push(row);
                            token_found(run, row);
                        }
                    });
                }
            });
        });
    }

    /// Splits a word into the longest piece that begins it, then the longest that continues it, and so on. Keeps
    /// nothing if that fails.
    fn cut(&self, word: &str, keep: &mut impl FnMut(u32)) {
        let ends: Vec<usize> = word.char_indices().map(|(at, _)| at).skip(1).chain([word.len()]).collect();
        if ends.len() > MAX_WORD {
            return;
        }
        let (mut found, mut begin, mut begun) = (Vec::new(), 0, 0);
        while begun < ends.len() {
            let pieces = if begun == 0 { &self.beginnings } else { &self.continuations };
            let last = ends.len().min(begun + self.longest);
            let next = (begun..last).rev().find_map(|end| Some((end, *pieces.get(&word[begin..ends[end]])?)));
            let Some((end, id)) = next else { return };
            found.push(id);
            (begin, begun) = (ends[end], end + 1);
        }
        found.into_iter().for_each(keep);
    }
}

/// The cosine of two rows.
pub(super) fn alike(one: &[u8], other: &[u8]) -> f32 {
    let product: i32 =
        one.iter().zip(other).map(|(one, other)| i32::from(one.cast_signed()) * i32::from(other.cast_signed())).sum();
    #[expect(clippy::cast_precision_loss, reason = "at most 256 times 127 squared")]
    let product = product as f32;
    product / (length(one) * length(other)).max(f32::MIN_POSITIVE)
}

fn length(row: &[u8]) -> f32 {
    let square: i32 = row.iter().map(|number| i32::from(number.cast_signed()).pow(2)).sum();
    #[expect(clippy::cast_precision_loss, reason = "at most 256 times 127 squared")]
    let square = square as f32;
    square.sqrt()
}

/// Scales a vector to length one.
pub(super) fn unit(mut vector: Vector) -> Vector {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if length > 0.0 {
        for number in &mut vector {
            *number /= length;
        }
    }
    vector
}

/// Quantises a vector to eight bits per number, with a scale.
pub(super) fn quantised(vector: &Vector) -> ([i8; DIMENSIONS], f32) {
    let scale = vector.iter().fold(0.0_f32, |most, number| most.max(number.abs())) / 127.0;
    let mut numbers = [0; DIMENSIONS];
    if scale > 0.0 {
        for (small, number) in numbers.iter_mut().zip(vector) {
            #[expect(clippy::cast_possible_truncation, reason = "between -127 and 127")]
            let rounded = (number / scale).round_ties_even() as i8;
            *small = rounded;
        }
    }
    (numbers, scale)
}

#[cfg(test)]
mod tests {
    use super::{DIMENSIONS, Pieces, TABLE, Vector, quantised};

    fn likeness(one: &str, other: &str) -> f32 {
        let vector = |text: &str| -> Vector { Pieces::get().vector(text) };
        vector(one).iter().zip(vector(other)).map(|(one, other)| one * other).sum()
    }

    #[test]
    fn the_table_is_complete() {
        let pieces = Pieces::read(TABLE).unwrap();
        assert_eq!(pieces.beginnings.len() + pieces.continuations.len(), 30_522);
        assert_eq!(pieces.scales.len(), 30_522 - pieces.first);
        assert!(Pieces::read(&TABLE[..TABLE.len() - 1]).is_none(), "a truncated table is rejected");
        assert!(Pieces::read(b"something else that is long enough").is_none());
    }

    #[test]
    fn texts_with_the_same_meaning_are_similar() {
        for (one, same, other) in [
            ("send an email", "mail a message", "delete a database"),
            ("weather forecast", "temperature tomorrow", "stock price"),
            ("remove a folder", "delete directory", "play music"),
        ] {
            assert!(likeness(one, same) > likeness(one, other) + 0.1, "{one}: {same}, {other}");
        }
        assert!((likeness("résumé", "resume") - 1.0).abs() < 1e-4, "accents do not count");
        assert!(likeness("", "file").abs() < 1e-6);
        assert!(likeness("文件", "🎉").abs() < 1e-6);
    }

    #[test]
    fn eight_bits_per_number_are_enough() {
        let vector = Pieces::get().vector("list the open issues of a repository");
        let (numbers, scale) = quantised(&vector);
        for (number, small) in vector.iter().zip(numbers) {
            assert!((number - f32::from(small) * scale).abs() <= scale, "{number} {small}");
        }
        assert_eq!(quantised(&[0.0; DIMENSIONS]), ([0; DIMENSIONS], 0.0));
    }
}
