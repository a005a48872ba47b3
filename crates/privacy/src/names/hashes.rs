//! The hashes that select rows of the tables. They must be those of spaCy, with which the tables were trained.

const SEED_OF_STRINGS: u64 = 1;

/// The 64-bit MurmurHash2 of a string.
pub(super) fn of_string(text: &str) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    let bytes = text.as_bytes();
    let mut hash = SEED_OF_STRINGS ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (blocks, rest) = bytes.as_chunks::<8>();
    for block in blocks {
        let mut number = u64::from_le_bytes(*block).wrapping_mul(MULTIPLIER);
        number ^= number >> 47;
        hash = (hash ^ number.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let number = rest.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        hash = (hash ^ number).wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> 47
}

/// The four 32-bit parts of the 128-bit MurmurHash3 of a number.
pub(super) fn of_number(number: u64, seed: u32) -> [u32; 4] {
    let seed = u64::from(seed);
    let mut first = number.wrapping_mul(0x87c3_7b91_1142_53d5).rotate_left(31).wrapping_mul(0x4cf5_ad43_2745_937f);
    first ^= seed ^ 8;
    let mut second = seed ^ 8;
    first = first.wrapping_add(second);
    second = second.wrapping_add(first);
    first = finish(first);
    second = finish(second);
    first = first.wrapping_add(second);
    second = second.wrapping_add(first);
    [first as u32, (first >> 32) as u32, second as u32, (second >> 32) as u32]
}

fn finish(mut number: u64) -> u64 {
    number ^= number >> 33;
    number = number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^= number >> 33;
    number = number.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_numbers_are_those_of_spacy() {
        assert_eq!(of_number(12_345_678_901_234_567, 8), [1_519_880_696, 3_764_588_297, 132_337_396, 3_499_398_798]);
        assert_eq!(of_number(5, 8), [1_797_445_366, 4_269_458_499, 548_684_401, 4_256_704_101]);
    }
}
