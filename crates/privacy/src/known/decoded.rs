//! Texts that are encoded within a text, decoded, with the places that they come from.

use std::ops::Range;

/// The minimum length of encoded text, in characters: less cannot contain a long value.
const LEAST_BASE64: usize = 8;
const LEAST_HEX: usize = 12;

/// Stands between two parts. It is not part of UTF-8, so nothing is found across it.
const GAP: u8 = 0xff;

/// Decoded parts of a text.
pub(crate) struct Decoded {
    bytes: Vec<u8>,
    /// Where each part begins: here, and in the text.
    parts: Vec<(usize, usize)>,
    /// The number of bits of each character, or none if the places are those of single bytes.
    bits: Option<usize>,
    length: usize,
}

impl Decoded {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All characters that have bits of these bytes.
    pub(crate) fn source(&self, span: &Range<usize>) -> Range<usize> {
        let part = |at: usize| {
            let index = self.parts.partition_point(|(begin, _)| *begin <= at).saturating_sub(1);
            self.parts.get(index).copied().unwrap_or_default()
        };
        if let Some(bits) = self.bits {
            let (begin, source) = part(span.start);
            let (from, to) = ((span.start - begin) * 8, (span.end - begin) * 8);
            source + from / bits..source + to.div_ceil(bits)
        } else {
            let end = self.parts.get(span.end).map_or(self.length, |(_, source)| *source);
            part(span.start).1..end
        }
    }
}

const fn base64_digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

const fn hex_digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => return None,
    })
}

/// Places of text that may be encoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    base64: Vec<Range<usize>>,
    hexadecimal: Vec<Range<usize>>,
}

/// What a character can be, as bits: each of the four characters of base64 that stand for three bytes of printable ASCII,
/// and a hexadecimal digit, or the first one of such a byte.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut class = 0;
        if let Some(digit) = base64_digit(byte as u8) {
            class |= if digit >= 8 && digit < 32 { 1 } else { 0 };
            class |= if digit % 16 >= 2 && digit % 16 < 8 { 2 } else { 0 };
            class |= if digit % 4 < 2 { 4 } else { 0 };
            class |= 8;
        }
        if let Some(digit) = hex_digit(byte as u8) {
            class |= if digit >= 2 && digit < 8 { 48 } else { 16 };
        }
        classes[byte] = class;
        byte += 1;
    }
    classes
};

/// The number of ways in which encoded text can be aligned: four of base64, and two of hexadecimal digits. Each has a byte
/// that counts characters.
const ALIGNMENTS: usize = 6;
/// One in each of these bytes.
const ONES: u64 = 0x0101_0101_0101;
/// What the counts lack to 16 when there are enough characters.
const LACKING: u64 = {
    let (base64, hexadecimal) = (16 - LEAST_BASE64 as u64, 16 - LEAST_HEX as u64);
    (base64 * 0x0101_0101) | (hexadecimal * 0x0101_0000_0000)
};
const BASE64_COUNTS: u64 = 0xffff_ffff;

/// By the place of a character modulo 4 and its class: the counts that go on.
static GOES_ON: [[u64; 64]; 4] = {
    let mut all = [[0; 64]; 4];
    let mut place = 0;
    while place < 4 {
        let mut class = 0;
        while class < 64 {
            let mut alignment = 0;
            while alignment < ALIGNMENTS {
                let bit = if alignment < 4 { (place + 4 - alignment) % 4 } else { 4 + (place + 1 + alignment) % 2 };
                if class >> bit & 1 == 1 {
                    all[place][class] |= 0xff << (8 * alignment);
                }
                alignment += 1;
            }
            class += 1;
        }
        place += 1;
    }
    all
};

impl Runs {
    /// All places that are long enough.
    pub(crate) fn all(text: &str) -> Self {
        Self { base64: runs(text, LEAST_BASE64, base64_digit), hexadecimal: runs(text, LEAST_HEX, hex_digit) }
    }

    /// The places that may stand for at least six bytes of printable ASCII. Few words of a language do.
    pub(crate) fn of_ascii(text: &str) -> Self {
        let bytes = text.as_bytes();
        let (mut found, mut counts) = (Self::default(), 0_u64);
        for (at, byte) in bytes.iter().enumerate() {
            let class = usize::from(CLASSES[usize::from(*byte)] & 63);
            counts = (counts + ONES) & GOES_ON[at & 3][class];
            let full = (counts + LACKING) & (ONES << 4);
            if full != 0 {
                if full & BASE64_COUNTS != 0 {
                    add_run(&mut found.base64, bytes, at, base64_digit);
                }
                if full & !BASE64_COUNTS != 0 {
                    add_run(&mut found.hexadecimal, bytes, at, hex_digit);
                }
                // These count from the beginning, so that they stay small.
                counts &= !((full >> 4) * 0xff);
            }
        }
        found
    }

    /// Everything that may be base64, decoded in the four ways in which it can be aligned: encoded text may follow directly on
    /// other letters.
    pub(crate) fn base64(&self, text: &str) -> impl Iterator<Item = Decoded> {
        let count = if self.base64.is_empty() { 0 } else { 4 };
        (0..count).map(move |skip| parts(text, &self.base64, skip, 6, base64_digit))
    }

    /// Everything that may be hexadecimal, decoded in the two ways in which it can be aligned.
    pub(crate) fn hexadecimal(&self, text: &str) -> impl Iterator<Item = Decoded> {
        let count = if self.hexadecimal.is_empty() { 0 } else { 2 };
        (0..count).map(move |skip| parts(text, &self.hexadecimal, skip, 4, hex_digit))
    }
}

/// Adds all digits around a place, unless they are the last run already.
fn add_run(runs: &mut Vec<Range<usize>>, bytes: &[u8], at: usize, digit: fn(u8) -> Option<u8>) {
    if runs.last().is_some_and(|last| at < last.end) {
        return;
    }
    let (before, after) = bytes.split_at(at);
    let start = at - before.iter().rev().take_while(|byte| digit(**byte).is_some()).count();
    let end = at + after.iter().take_while(|byte| digit(**byte).is_some()).count();
    runs.push(start..end);
}

fn runs(text: &str, least: usize, digit: fn(u8) -> Option<u8>) -> Vec<Range<usize>> {
    let (source, mut runs, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < source.len() {
        let length = source[at..].iter().take_while(|byte| digit(**byte).is_some()).count();
        if length >= least {
            runs.push(at..at + length);
        }
        at += length + 1;
    }
    runs
}

fn parts(text: &str, runs: &[Range<usize>], skip: usize, bits: usize, digit: fn(u8) -> Option<u8>) -> Decoded {
    let source = text.as_bytes();
    let mut decoded = Decoded { bytes: Vec::new(), parts: Vec::new(), bits: Some(bits), length: source.len() };
    for run in runs {
        let start = (run.start + skip).min(run.end);
        decoded.parts.push((decoded.bytes.len(), start));
        let (mut held, mut count) = (0_u32, 0);
        for digit in source[start..run.end].iter().filter_map(|byte| digit(*byte)) {
            held = held << bits | u32::from(digit);
            count += bits;
            if count >= 8 {
                count -= 8;
                decoded.bytes.push((held >> count) as u8);
                held &= (1 << count) - 1;
            }
        }
        decoded.bytes.push(GAP);
    }
    decoded
}

/// How much of a text around encoded characters is decoded with them.
const AROUND: usize = 256;

/// Decodes what is encoded for a URL in a text, with what is around it. It is empty if there is nothing to decode.
pub(crate) fn percent(text: &str) -> Decoded {
    let source = text.as_bytes();
    let mut decoded = Decoded { bytes: Vec::new(), parts: Vec::new(), bits: None, length: source.len() };
    let digit = |at: usize| source.get(at).copied().and_then(hex_digit);
    let mut at = 0;
    for (first, _) in text.match_indices('%') {
        if first < at || digit(first + 1).is_none() || digit(first + 2).is_none() {
            continue;
        }
        if !decoded.bytes.is_empty() && first - at > AROUND {
            decoded.parts.push((decoded.bytes.len(), at));
            decoded.bytes.push(GAP);
        }
        at = at.max(first.saturating_sub(AROUND));
        // Goes on until nothing is encoded any more.
        let mut end = first + 3 + AROUND;
        while at < end.min(source.len()) {
            decoded.parts.push((decoded.bytes.len(), at));
            if let (b'%', Some(high), Some(low)) = (source[at], digit(at + 1), digit(at + 2)) {
                decoded.bytes.push(high << 4 | low);
                at += 3;
                end = at + AROUND;
            } else {
                decoded.bytes.push(source[at]);
                at += 1;
            }
        }
    }
    decoded.length = at;
    decoded
}

#[cfg(test)]
mod tests {
    use super::Runs;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn places_of_encoded_ascii_are_among_those_of_all() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let plain: String = (0..rng.usize(6..40)).map(|_| char::from(rng.u8(0x20..0x7f))).collect();
            let before: String = (0..rng.usize(..9)).map(|_| rng.alphanumeric()).collect();
            for encoded in [STANDARD.encode(&plain), hex::encode(&plain), hex::encode_upper(&plain)] {
                let text = format!("some words. {before}{encoded} and more");
                let (some, all) = (Runs::of_ascii(&text), Runs::all(&text));
                let is_part = |run: &std::ops::Range<usize>| all.base64.contains(run) || all.hexadecimal.contains(run);
                assert!(some.base64.iter().chain(&some.hexadecimal).all(is_part), "{text}: {some:?} {all:?}");
                let is_hex = encoded.bytes().all(|byte| byte.is_ascii_hexdigit());
                let runs = if is_hex { &some.hexadecimal } else { &some.base64 };
                // The last digit: padding stands for nothing.
                let place = text.trim_end_matches(" and more").trim_end_matches('=').len() - 1;
                assert!(runs.iter().any(|run| run.contains(&place)), "{text}: {some:?}");
            }
        }
        let prose =
            "Everything that a customer writes is considered confidential information until further notice. ".repeat(9);
        assert!(Runs::all(&prose).base64.len() > 20 * Runs::of_ascii(&prose).base64.len().max(1) / 10, "{prose}");
    }
}
