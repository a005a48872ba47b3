//! Addresses of cryptocurrencies, with their checksums.

use super::Scan;
use crate::kinds::Kind;
use sha2::{Digest, Sha256};
use sha3::Keccak256;

const BASE58: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const BECH32: &[u8] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
/// First bytes of addresses: Bitcoin, Litecoin, Tron, Dogecoin.
const VERSIONS: [u8; 8] = [0x00, 0x05, 0x30, 0x32, 0x41, 0x1e, 0x16, 0x6f];

impl Scan<'_> {
    /// Examines a word of letters and digits.
    pub(super) fn crypto(&mut self, start: usize, end: usize) -> bool {
        let word = self.view.slice(start, end);
        let confidence = match (word.len(), word) {
            (42, [b'0', b'x' | b'X', hex @ ..]) => ethereum(hex),
            (26..=35, [b'1' | b'3' | b'L' | b'M' | b'T' | b'D' | b'A' | b'9', ..]) => {
                is_base58check(word).then_some(97)
            }
            (42..=74, [b'b' | b'B' | b'l' | b'L', ..]) => is_bech32(word).then_some(97),
            _ => None,
        };
        if let Some(confidence) = confidence {
            self.found(Kind::CryptoAddress, start..end, confidence);
        }
        confidence.is_some()
    }
}

/// An address of Ethereum may carry a checksum in the case of its letters.
fn ethereum(hex: &[u8]) -> Option<u8> {
    if !hex.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let upper = hex.iter().any(u8::is_ascii_uppercase);
    let lower = hex.iter().any(u8::is_ascii_lowercase);
    if !(upper && lower) {
        let different = hex.iter().collect::<std::collections::BTreeSet<_>>().len();
        return (different > 4).then_some(60);
    }
    let hash = Keccak256::digest(hex.to_ascii_lowercase());
    let fits = hex.iter().enumerate().all(|(position, digit)| {
        let byte = hash.get(position / 2).copied().unwrap_or_default();
        let nibble = if position % 2 == 0 { byte >> 4 } else { byte & 15 };
        !digit.is_ascii_alphabetic() || (nibble >= 8) == digit.is_ascii_uppercase()
    });
    fits.then_some(97)
}

fn is_base58check(word: &[u8]) -> bool {
    // One version byte, twenty bytes of a hash, four of a checksum.
    let mut number = [0_u8; 25];
    for letter in word {
        let Some(digit) = BASE58.iter().position(|known| known == letter) else { return false };
        let mut carry = digit as u32;
        for byte in number.iter_mut().rev() {
            carry += u32::from(*byte) * 58;
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        if carry != 0 {
            return false;
        }
    }
    let (body, checksum) = number.split_at(21);
    VERSIONS.contains(&number[0]) && Sha256::digest(Sha256::digest(body)).starts_with(checksum)
}

fn is_bech32(word: &[u8]) -> bool {
    let lower = word.to_ascii_lowercase();
    if lower != word && word.iter().any(u8::is_ascii_lowercase) {
        return false;
    }
    let Some((prefix, data)) = [b"bc1".as_slice(), b"ltc1"].iter().find_map(|prefix| {
        lower.strip_prefix(*prefix).map(|data| (prefix.strip_suffix(b"1").unwrap_or_default(), data))
    }) else {
        return false;
    };
    let mut check = 1_u32;
    let mut step = |value: u32| {
        let top = check >> 25;
        check = (check & 0x01ff_ffff) << 5 ^ value;
        for (bit, generator) in
            [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3].into_iter().enumerate()
        {
            if top >> bit & 1 == 1 {
                check ^= generator;
            }
        }
    };
    for letter in prefix {
        step(u32::from(letter >> 5));
    }
    step(0);
    for letter in prefix {
        step(u32::from(letter & 31));
    }
    for letter in data {
        let Some(digit) = BECH32.iter().position(|known| known == letter) else { return false };
        step(digit as u32);
    }
    // The older and the newer form of the checksum.
    check == 1 || check == 0x2bc8_30a3
}

#[cfg(test)]
mod tests {
    use super::{ethereum, is_base58check, is_bech32};

    #[test]
    fn checksums_are_verified() {
        assert!(is_base58check(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"));
        assert!(!is_base58check(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb"));
        assert!(is_bech32(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"));
        assert!(is_bech32(b"BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4"));
        assert!(is_bech32(b"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"));
        assert!(!is_bech32(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5"));
        assert_eq!(ethereum(b"5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"), Some(97));
        assert_eq!(ethereum(b"5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD"), None);
        assert_eq!(ethereum(b"5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"), Some(60));
    }
}
