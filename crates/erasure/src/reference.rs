//! The code written as plainly as possible, for tests to compare with: one byte at a time,
//! multiplication by shift and add, decoding by inverting the full k-by-k generator.
//!
//! Shares nothing with the code it checks.

/// The product in GF(2^8), polynomial 0x11d, by long multiplication.
pub(crate) fn multiply(left: u8, right: u8) -> u8 {
    let mut product = 0u16;
    for bit in 0..8 {
        if right >> bit & 1 == 1 {
            product ^= u16::from(left) << bit;
        }
    }
    for bit in (8..16).rev() {
        if product >> bit & 1 == 1 {
            product ^= 0x11d << (bit - 8);
        }
    }
    u8::try_from(product).unwrap()
}

/// The inverse, by trying every element.
pub(crate) fn inverse(element: u8) -> u8 {
    (1..=255).find(|&candidate| multiply(element, candidate) == 1).unwrap()
}

/// The coefficient of data chunk `column` in parity chunk `row`.
pub(crate) fn coefficient(row: usize, column: usize) -> u8 {
    let power = |exponent| (0..exponent).fold(1, |power, _| multiply(power, 2));
    match row {
        0 => 1,
        1 => power(column),
        _ => {
            let y = power(row - 1);
            multiply(1 ^ y, inverse(inverse(power(column)) ^ y))
        }
    }
}

/// Parity chunks of `data`.
pub(crate) fn encode(parity_chunks: usize, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    (0..parity_chunks)
        .map(|row| {
            let coefficients: Vec<_> =
                (0..data.len()).map(|column| coefficient(row, column)).collect();
            dot(&coefficients, data)
        })
        .collect()
}

/// The sum of coefficients times sources.
pub(crate) fn dot(coefficients: &[u8], sources: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = vec![0; sources[0].len()];
    for (&coefficient, source) in coefficients.iter().zip(sources) {
        for (sum, &byte) in sum.iter_mut().zip(source) {
            *sum ^= multiply(coefficient, byte);
        }
    }
    sum
}

/// All data chunks from the last k chunks present. `chunks` numbers data first, then parity.
pub(crate) fn decode(data_chunks: usize, chunks: &[Option<Vec<u8>>]) -> Vec<Vec<u8>> {
    let present: Vec<_> = (0..chunks.len())
        .rev()
        .filter(|&chunk| chunks[chunk].is_some())
        .take(data_chunks)
        .collect();
    let sources: Vec<_> = present.iter().map(|&chunk| chunks[chunk].clone().unwrap()).collect();
    let generator = present
        .iter()
        .map(|&chunk| {
            (0..data_chunks).map(|column| generator(data_chunks, chunk, column)).collect()
        })
        .collect();
    invert(generator).iter().map(|row| dot(row, &sources)).collect()
}

fn generator(data_chunks: usize, chunk: usize, column: usize) -> u8 {
    match chunk.checked_sub(data_chunks) {
        None => u8::from(chunk == column),
        Some(row) => coefficient(row, column),
    }
}

fn invert(mut matrix: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let size = matrix.len();
    for (index, row) in matrix.iter_mut().enumerate() {
        row.extend((0..size).map(|column| u8::from(index == column)));
    }
    for pivot in 0..size {
        let row = (pivot..size).find(|&row| matrix[row][pivot] != 0).unwrap();
        matrix.swap(row, pivot);
        let factor = inverse(matrix[pivot][pivot]);
        matrix[pivot].iter_mut().for_each(|element| *element = multiply(*element, factor));
        let pivot_row = matrix[pivot].clone();
        for row in (0..size).filter(|&row| row != pivot) {
            let factor = matrix[row][pivot];
            for (element, &term) in matrix[row].iter_mut().zip(&pivot_row) {
                *element ^= multiply(factor, term);
            }
        }
    }
    matrix.into_iter().map(|row| row[size..].to_vec()).collect()
}
