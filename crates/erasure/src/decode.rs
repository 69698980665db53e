//! Reconstruction: computes each missing chunk as a combination of the present ones.
//!
//! With the present data moved to the other side, the parity equations of the e lost data chunks
//! form an e-by-e system, e <= m, whose matrix is a square submatrix of the code and so invertible.
//! Only that small matrix is inverted, never one of size k.

use crate::{
    code::{Code, CodeError},
    gf256, kernels,
    matrix::Matrix,
};

impl Code {
    /// Rebuilds missing chunks, data or parity, from those present.
    ///
    /// `chunks` holds all k + m chunks by number, `None` for the missing ones; `wanted` pairs the
    /// number of a missing chunk with the slice to fill. Other missing chunks cost no
    /// pass over data.
    ///
    /// # Errors
    /// If fewer than k chunks are present, or if the twin of a wanted chunk of mirrors is missing.
    /// `wanted` is untouched then.
    ///
    /// # Panics
    /// If `chunks` has not k + m entries, if a wanted chunk is present or does not exist, or if
    /// slices differ in length.
    pub fn reconstruct(
        &self,
        chunks: &[Option<&[u8]>],
        wanted: &mut [(usize, &mut [u8])],
    ) -> Result<(), CodeError> {
        assert!(chunks.len() == self.total_chunks(), "reconstruct needs one entry per chunk");
        if self.is_mirrored() {
            return self.copy_twins(chunks, wanted);
        }
        if let [(chunk, output)] = wanted
            && self.rebuild_alone(*chunk, output, chunks)
        {
            return Ok(());
        }
        let decoder = Decoder::new(self, chunks)?;
        for (chunk, output) in wanted {
            assert!(chunks[*chunk].is_none(), "chunk {chunk} is present, not missing");
            let coefficients = decoder.coefficients(*chunk);
            if coefficients.iter().all(|&coefficient| coefficient == 1) {
                kernels::xor(output, decoder.survivors());
            } else {
                kernels::dot(output, &coefficients, decoder.survivors());
            }
        }
        Ok(())
    }

    /// Rebuilds a data chunk or P as the sum of all others of these, if all are present. This is
    /// the most frequent loss, and it needs no matrix. Returns whether it did.
    fn rebuild_alone(&self, chunk: usize, output: &mut [u8], chunks: &[Option<&[u8]>]) -> bool {
        let Some(with_p) = chunks.get(..=self.data_chunks()) else { return false };
        if with_p.get(chunk).is_none_or(Option::is_some) {
            return false;
        }
        let present: Vec<_> = with_p.iter().copied().flatten().collect();
        let alone = present.len() == self.data_chunks();
        if alone {
            kernels::xor(output, &present);
        }
        alone
    }

    fn copy_twins(
        &self,
        chunks: &[Option<&[u8]>],
        wanted: &mut [(usize, &mut [u8])],
    ) -> Result<(), CodeError> {
        let twin = |chunk: usize| chunks[(chunk + self.data_chunks()) % chunks.len()];
        let present = wanted.iter().filter(|(chunk, _)| twin(*chunk).is_some()).count();
        if present < wanted.len() {
            return Err(CodeError::TooFewChunks { present, needed: wanted.len() });
        }
        for (chunk, output) in wanted {
            assert!(chunks[*chunk].is_none(), "chunk {chunk} is present, not missing");
            output.copy_from_slice(twin(*chunk).expect("every twin is present"));
        }
        Ok(())
    }
}

/// A decoding plan for one pattern of missing chunks.
pub(crate) struct Decoder<'a> {
    code: &'a Code,
    /// Numbers of the data chunks present, ascending.
    present_data: Vec<usize>,
    /// Numbers of the data chunks missing, ascending.
    lost_data: Vec<usize>,
    /// Rows of the parity chunks that stand in for lost data: the first ones present, as P alone is
    /// the cheapest.
    parity_rows: Vec<usize>,
    /// Row per lost data chunk, column per parity row used.
    inverse: Matrix,
    /// The slices of the present data, then of the parity rows used: k in all.
    survivors: Vec<&'a [u8]>,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(code: &'a Code, chunks: &[Option<&'a [u8]>]) -> Result<Self, CodeError> {
        let (data, parity) = chunks.split_at(code.data_chunks());
        let (present_data, lost_data): (Vec<_>, Vec<_>) =
            (0..data.len()).partition(|&chunk| data[chunk].is_some());
        let parity_rows: Vec<_> =
            (0..parity.len()).filter(|&row| parity[row].is_some()).take(lost_data.len()).collect();
        if parity_rows.len() < lost_data.len() {
            let present = chunks.iter().flatten().count();
            return Err(CodeError::TooFewChunks { present, needed: data.len() });
        }
        let inverse = Matrix::from_fn(lost_data.len(), lost_data.len(), |row, column| {
            code.parity_row(parity_rows[row])[lost_data[column]]
        })
        .inverted();
        let survivors = data
            .iter()
            .copied()
            .chain(parity_rows.iter().map(|&row| parity[row]))
            .flatten()
            .collect();
        Ok(Self { code, present_data, lost_data, parity_rows, inverse, survivors })
    }

    /// The k slices that the coefficients apply to.
    pub(crate) fn survivors(&self) -> &[&'a [u8]] {
        &self.survivors
    }

    /// The coefficients, one per survivor, that sum up to the missing chunk `chunk`.
    pub(crate) fn coefficients(&self, chunk: usize) -> Vec<u8> {
        match chunk.checked_sub(self.code.data_chunks()) {
            None => self.data_coefficients(chunk),
            Some(row) => self.parity_coefficients(row),
        }
    }

    fn data_coefficients(&self, chunk: usize) -> Vec<u8> {
        let lost = self.lost_data.binary_search(&chunk).expect("a wanted data chunk is missing");
        let weights = self.inverse.row(lost);
        let from_data = self.present_data.iter().map(|&data| {
            self.parity_rows.iter().zip(weights).fold(0, |sum, (&row, &weight)| {
                sum ^ gf256::multiply(weight, self.code.parity_row(row)[data])
            })
        });
        from_data.chain(weights.iter().copied()).collect()
    }

    /// A parity chunk is its row over the present data plus its row over the lost data, themselves
    /// rebuilt.
    fn parity_coefficients(&self, row: usize) -> Vec<u8> {
        let row = self.code.parity_row(row);
        let mut coefficients = vec![0; self.survivors.len()];
        for (coefficient, &data) in coefficients.iter_mut().zip(&self.present_data) {
            *coefficient = row[data];
        }
        for &lost in &self.lost_data {
            let terms = self.data_coefficients(lost);
            for (coefficient, term) in coefficients.iter_mut().zip(terms) {
                *coefficient ^= gf256::multiply(row[lost], term);
            }
        }
        coefficients
    }
}
