//! Dot products of many vectors with a few, which take most of the time of a search.

use super::pieces::DIMENSIONS;
use super::shard::{Meaning, Vectors};

/// The similarity of each vector to the first text, and its highest similarity to one of the others.
pub(super) fn likeness(vectors: &Vectors, texts: &[Meaning]) -> Vec<(f32, f32)> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: this processor supports the features that the function requires.
        #[expect(unsafe_code, reason = "the features of the processor are known only at run time")]
        return unsafe { with_avx2(vectors, texts) };
    }
    plain(vectors, texts)
}

/// The same, compiled for newer processors, which run it several times as fast.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(vectors: &Vectors, texts: &[Meaning]) -> Vec<(f32, f32)> {
    plain(vectors, texts)
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it is compiled once for each kind of processor")]
fn plain(vectors: &Vectors, texts: &[Meaning]) -> Vec<(f32, f32)> {
    let Some((whole, parts)) = texts.split_first() else { return Vec::new() };
    // Plain loops, because functions that are called from here are not compiled for the same processor.
    let mut pairs = vec![(0.0, -1.0); vectors.numbers.len()];
    for ((numbers, scale), (first, best)) in vectors.numbers.iter().zip(&vectors.scales).zip(&mut pairs) {
        *first = product(numbers, &whole.numbers) * scale * whole.scale;
        for part in parts {
            *best = f32::max(*best, product(numbers, &part.numbers) * scale * part.scale);
        }
    }
    pairs
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it is part of the function above")]
fn product(one: &[i8; DIMENSIONS], other: &[i16; DIMENSIONS]) -> f32 {
    let sum: i32 = one.iter().zip(other).map(|(one, other)| i32::from(*one) * i32::from(*other)).sum();
    #[expect(clippy::cast_precision_loss, reason = "at most 256 times 127 squared")]
    let sum = sum as f32;
    sum
}

#[cfg(test)]
mod tests {
    use super::{DIMENSIONS, Meaning, Vectors, likeness, plain, product};

    #[test]
    fn all_processors_give_the_same_result() {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24).to_le_bytes()[0].cast_signed().max(-127)
        };
        let numbers: Vec<[i8; DIMENSIONS]> = (0..50).map(|_| std::array::from_fn(|_| next())).collect();
        let vectors = Vectors { numbers, scales: vec![0.001; 50] };
        let mut text = || Meaning { numbers: std::array::from_fn(|_| next().into()), scale: 0.002 };
        let texts = [text(), text(), text()];
        assert_eq!(likeness(&vectors, &texts), plain(&vectors, &texts));
        assert_eq!(likeness(&vectors, &texts).len(), 50);
        assert_eq!(likeness(&vectors, &[]), []);
        assert!((product(&[127; DIMENSIONS], &[-127; DIMENSIONS]) + 4_129_024.0).abs() < 1.0);
    }
}
