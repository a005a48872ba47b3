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

fn base64_digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

fn hex_digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => return None,
    })
}

/// Decodes everything that may be base64. An encoded text may follow directly on other letters, so the first `skip`
/// characters of each part are left out: one of four values is right.
pub(crate) fn base64(text: &str, skip: usize) -> Decoded {
    parts(text, skip, LEAST_BASE64, 6, base64_digit)
}

/// Decodes everything that may be hexadecimal, without the first `skip` characters of each part.
pub(crate) fn hexadecimal(text: &str, skip: usize) -> Decoded {
    parts(text, skip, LEAST_HEX, 4, hex_digit)
}

fn parts(text: &str, skip: usize, least: usize, bits: usize, digit: fn(u8) -> Option<u8>) -> Decoded {
    let source = text.as_bytes();
    let mut decoded = Decoded { bytes: Vec::new(), parts: Vec::new(), bits: Some(bits), length: source.len() };
    let mut at = 0;
    while at < source.len() {
        let length = source[at..].iter().take_while(|byte| digit(**byte).is_some()).count();
        if length >= least {
            decoded.parts.push((decoded.bytes.len(), at + skip));
            let (mut held, mut count) = (0_u32, 0);
            for digit in source[at + skip..at + length].iter().filter_map(|byte| digit(*byte)) {
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
        at += length + 1;
    }
    decoded
}

/// Decodes a text for a URL. It is empty if there is nothing to decode.
pub(crate) fn percent(text: &str) -> Decoded {
    let source = text.as_bytes();
    let mut decoded = Decoded { bytes: Vec::new(), parts: Vec::new(), bits: None, length: source.len() };
    if !source.contains(&b'%') {
        return decoded;
    }
    let mut at = 0;
    while let Some(&byte) = source.get(at) {
        decoded.parts.push((decoded.bytes.len(), at));
        let digits = |offset: usize| source.get(at + offset).copied().and_then(hex_digit);
        if let (b'%', Some(high), Some(low)) = (byte, digits(1), digits(2)) {
            decoded.bytes.push(high << 4 | low);
            at += 3;
        } else {
            decoded.bytes.push(byte);
            at += 1;
        }
    }
    decoded
}
