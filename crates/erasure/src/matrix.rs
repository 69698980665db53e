//! Small dense matrices over GF(2^8): the parity coefficients of a code, and the inverse that
//! decodes.
//!
//! Row-major, one byte per element. Nothing here touches chunk bytes.

use crate::gf256;

/// A dense matrix; `elements[row * columns + column]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    columns: usize,
    elements: Box<[u8]>,
}

impl Matrix {
    /// Builds a matrix by asking `element` for each (row, column).
    pub(crate) fn from_fn(
        rows: usize,
        columns: usize,
        element: impl Fn(usize, usize) -> u8,
    ) -> Self {
        let element = &element;
        let elements = (0..rows)
            .flat_map(|row| (0..columns).map(move |column| element(row, column)))
            .collect();
        Self { columns, elements }
    }

    /// The elements of one row.
    pub(crate) fn row(&self, row: usize) -> &[u8] {
        &self.elements[row * self.columns..][..self.columns]
    }

    /// The inverse of a square matrix, by Gauss-Jordan elimination with row exchange.
    ///
    /// The matrices of this crate are invertible by construction, so a singular one is a bug.
    pub(crate) fn inverted(mut self) -> Self {
        let size = self.columns;
        assert!(self.elements.len() == size * size, "only a square matrix has an inverse");
        let mut inverse = Self::from_fn(size, size, |row, column| u8::from(row == column));
        for pivot in 0..size {
            let row = (pivot..size)
                .find(|&row| self.row(row)[pivot] != 0)
                .expect("every square submatrix of the code is invertible");
            let factor = gf256::inverse(self.row(row)[pivot]);
            for matrix in [&mut self, &mut inverse] {
                matrix.exchange(row, pivot);
                matrix.scale(pivot, factor);
            }
            for row in (0..size).filter(|&row| row != pivot) {
                let factor = self.row(row)[pivot];
                self.add_multiple(row, pivot, factor);
                inverse.add_multiple(row, pivot, factor);
            }
        }
        inverse
    }

    fn exchange(&mut self, row: usize, other: usize) {
        for column in 0..self.columns {
            self.elements.swap(row * self.columns + column, other * self.columns + column);
        }
    }

    fn scale(&mut self, row: usize, factor: u8) {
        for element in &mut self.elements[row * self.columns..][..self.columns] {
            *element = gf256::multiply(*element, factor);
        }
    }

    /// Adds `factor` times row `source` to row `target`.
    fn add_multiple(&mut self, target: usize, source: usize, factor: u8) {
        for column in 0..self.columns {
            let term = gf256::multiply(factor, self.row(source)[column]);
            self.elements[target * self.columns + column] ^= term;
        }
    }
}
