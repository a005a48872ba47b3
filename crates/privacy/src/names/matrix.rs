//! Multiplies rows by matrices with the widest instructions that the processor has.

use fearless_simd::{Level, Simd, SimdBase, SimdFloat, dispatch, f32x16};

/// The outputs that are computed together.
const BLOCK: usize = 16;
/// The rows that are multiplied together, so that each weight is read once for all. The sums of four rows fit in the
/// registers of processors with AVX2, together with the weights.
const TOGETHER: usize = 4;

/// A matrix that rows are multiplied by.
pub(super) struct Matrix {
    inputs: usize,
    outputs: usize,
    /// For each block of outputs, and in it for each input, the weights of the outputs. The last block is filled with zeros.
    weights: Vec<[f32; BLOCK]>,
}

impl Matrix {
    /// A matrix from one list of weights for each output.
    pub(super) fn new(inputs: usize, rows: &[Vec<f32>]) -> Self {
        let mut weights = vec![[0.0; BLOCK]; inputs * rows.len().div_ceil(BLOCK)];
        for (output, row) in rows.iter().enumerate() {
            for (input, weight) in row.iter().take(inputs).enumerate() {
                weights[output / BLOCK * inputs + input][output % BLOCK] = *weight;
            }
        }
        Self { inputs, outputs: rows.len(), weights }
    }

    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// The length of a row of outputs: as many as there are, and up to a multiple of the size of a block.
    pub(super) fn width(&self) -> usize {
        self.outputs.next_multiple_of(BLOCK)
    }

    /// Multiplies rows of inputs. Each row of outputs is as long as `width` says.
    pub(super) fn multiply(&self, level: Level, rows: &[f32], outputs: &mut [f32]) {
        self.multiply_overlapping(level, rows, self.inputs, outputs);
    }

    /// Multiplies rows of inputs that begin at multiples of a number.
    pub(super) fn multiply_overlapping(&self, level: Level, rows: &[f32], stride: usize, outputs: &mut [f32]) {
        dispatch!(level, simd => multiply(simd, self, rows, stride, outputs));
    }
}

/// Computes one block of outputs for all rows after the other, so that its weights stay in the fastest cache.
#[expect(
    clippy::inline_always,
    reason = "it has to become a part of a function that is compiled for a kind of processor"
)]
#[inline(always)]
fn multiply<S: Simd>(simd: S, matrix: &Matrix, rows: &[f32], stride: usize, outputs: &mut [f32]) {
    let (inputs, width) = (matrix.inputs, matrix.width());
    let count = rows.len().checked_sub(inputs).map_or(0, |rest| rest / stride + 1);
    for (block, weights) in matrix.weights.chunks_exact(inputs).enumerate() {
        for (group, outputs) in outputs.chunks_mut(TOGETHER * width).enumerate() {
            let first = group * TOGETHER;
            let rows = rows.get(first * stride..).unwrap_or_default();
            let outputs = outputs.get_mut(block * BLOCK..).unwrap_or_default();
            match count.saturating_sub(first) {
                0 => {}
                1 => multiply_some::<S, 1>(simd, weights, rows, stride, outputs, width),
                2 => multiply_some::<S, 2>(simd, weights, rows, stride, outputs, width),
                3 => multiply_some::<S, 3>(simd, weights, rows, stride, outputs, width),
                _ => multiply_some::<S, TOGETHER>(simd, weights, rows, stride, outputs, width),
            }
        }
    }
}

#[expect(
    clippy::inline_always,
    reason = "it has to become a part of a function that is compiled for a kind of processor"
)]
#[inline(always)]
fn multiply_some<S: Simd, const COUNT: usize>(
    simd: S,
    weights: &[[f32; BLOCK]],
    rows: &[f32],
    stride: usize,
    outputs: &mut [f32],
    width: usize,
) {
    let inputs = weights.len();
    if rows.len() < (COUNT - 1) * stride + inputs || outputs.len() < (COUNT - 1) * width + BLOCK {
        return;
    }
    let rows: [&[f32]; COUNT] = std::array::from_fn(|row| &rows[row * stride..row * stride + inputs]);
    let mut sums = [f32x16::splat(simd, 0.0); COUNT];
    for (input, weights) in weights.iter().enumerate() {
        let weights = f32x16::from_slice(simd, weights);
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum = weights.mul_add(f32x16::splat(simd, row[input]), *sum);
        }
    }
    for (sum, outputs) in sums.iter().zip(outputs.chunks_mut(width)) {
        sum.store_slice(&mut outputs[..BLOCK]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_right_for_any_number_of_rows() {
        let weights: Vec<Vec<f32>> = vec![vec![1.0, 2.0], vec![-3.0, 0.5], vec![0.0, 4.0]];
        let matrix = Matrix::new(2, &weights);
        for level in [Level::new(), Level::baseline()] {
            for count in 0_u8..8 {
                let rows: Vec<f32> = (0..count).flat_map(|row| [f32::from(row), 1.0]).collect();
                let mut outputs = vec![0.0; usize::from(count) * matrix.width()];
                matrix.multiply(level, &rows, &mut outputs);
                for (row, outputs) in outputs.chunks(matrix.width()).enumerate() {
                    let row = f32::from(u8::try_from(row).unwrap());
                    assert_eq!(outputs[..3], [row + 2.0, -3.0 * row + 0.5, 4.0]);
                }
            }
        }
    }
}
