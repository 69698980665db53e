//! The code itself: its shape, its coefficients, and encoding. Decoding is in `decode`.

use crate::{gf256, kernels, matrix::Matrix};

/// The most chunks, data and parity together, that a stripe may have.
pub const MAX_CHUNKS: usize = 255;

/// A systematic erasure code of k data chunks and m parity chunks.
///
/// Chunks of a stripe are numbered 0..k for data, then k..k+m for parity (P first, then Q). The
/// crate documentation gives the coefficients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    data_chunks: usize,
    parity_chunks: usize,
    /// One row per parity chunk, one column per data chunk.
    coefficients: Matrix,
    /// Parity chunk j is a copy of data chunk j, and of no use to any other.
    mirrored: bool,
}

/// Why a code cannot be made or cannot decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// A code over no data was asked for.
    #[error("a stripe needs at least one data chunk; give k >= 1")]
    NoDataChunks,
    /// More chunks than the coefficients are defined for.
    #[error(
        "{data_chunks} data and {parity_chunks} parity chunks are too many; \
         use at most {MAX_CHUNKS} together"
    )]
    TooManyChunks {
        /// Data chunks asked for.
        data_chunks: usize,
        /// Parity chunks asked for.
        parity_chunks: usize,
    },
    /// Fewer chunks survive than decoding needs.
    #[error(
        "only {present} chunks of the stripe are present but {needed} are needed; \
         bring back a missing member or restore the stripe from a backup"
    )]
    TooFewChunks {
        /// Chunks present.
        present: usize,
        /// Chunks needed: the number of data chunks.
        needed: usize,
    },
}

impl Code {
    /// Makes the code of `data_chunks` (k) and `parity_chunks` (m).
    ///
    /// # Errors
    /// If k is zero or k + m exceeds [`MAX_CHUNKS`].
    pub fn new(data_chunks: usize, parity_chunks: usize) -> Result<Self, CodeError> {
        if data_chunks == 0 {
            return Err(CodeError::NoDataChunks);
        }
        if data_chunks.saturating_add(parity_chunks) > MAX_CHUNKS {
            return Err(CodeError::TooManyChunks { data_chunks, parity_chunks });
        }
        let coefficients = Matrix::from_fn(parity_chunks, data_chunks, coefficient);
        Ok(Self { data_chunks, parity_chunks, coefficients, mirrored: false })
    }

    /// Makes the code of `data_chunks` (k) data chunks and a copy of each. Not any k chunks decode
    /// it: a chunk is rebuilt from its twin only.
    ///
    /// # Errors
    /// If k is zero or 2k exceeds [`MAX_CHUNKS`].
    pub fn mirrored(data_chunks: usize) -> Result<Self, CodeError> {
        let code = Self::new(data_chunks, data_chunks)?;
        let coefficients =
            Matrix::from_fn(data_chunks, data_chunks, |row, column| u8::from(row == column));
        Ok(Self { coefficients, mirrored: true, ..code })
    }

    /// The number of data chunks, k.
    pub fn data_chunks(&self) -> usize {
        self.data_chunks
    }

    /// The number of parity chunks, m: the losses that a stripe survives. For mirrors, the number
    /// of copies.
    pub fn parity_chunks(&self) -> usize {
        self.parity_chunks
    }

    /// All chunks of a stripe, k + m.
    pub fn total_chunks(&self) -> usize {
        self.data_chunks + self.parity_chunks
    }

    /// Computes all parity chunks from all data chunks. Allocates nothing.
    ///
    /// # Panics
    /// If there are not exactly k data and m parity slices, all of one length.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        assert!(data.len() == self.data_chunks, "encode needs every data chunk");
        assert!(parity.len() == self.parity_chunks, "encode fills every parity chunk");
        if self.mirrored {
            data.iter().zip(parity).for_each(|(chunk, copy)| copy.copy_from_slice(chunk));
            return;
        }
        match parity {
            [] => kernels::assert_equal_lengths(data[0].len(), data),
            [p] => kernels::xor(p, data),
            [p, q, others @ ..] => {
                kernels::p_and_q(p, q, data);
                for (row, output) in (2..).zip(others) {
                    kernels::dot(output, self.coefficients.row(row), data);
                }
            }
        }
    }

    /// Whether parity chunk j is a copy of data chunk j.
    pub(crate) fn is_mirrored(&self) -> bool {
        self.mirrored
    }

    /// The coefficients of parity chunk `row` (0 for P), one per data chunk.
    pub(crate) fn parity_row(&self, row: usize) -> &[u8] {
        self.coefficients.row(row)
    }
}

/// The coefficient of data chunk `column` in parity chunk `row`; the crate documentation has the
/// formula.
fn coefficient(row: usize, column: usize) -> u8 {
    let y = match row {
        0 => return 1,
        1 => 0,
        _ => gf256::power(row - 1),
    };
    let x = gf256::inverse(gf256::power(column));
    gf256::multiply(1 ^ y, gf256::inverse(x ^ y))
}

#[cfg(test)]
mod tests;
