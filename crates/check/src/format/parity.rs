//! Parity: docs/format.md section 7. Multiplication is by shift and add, decoding by Gaussian
//! elimination. No code is shared with the engine.

use std::collections::BTreeMap;

use crate::format::shape::Scheme;

/// The product in GF(2^8) with polynomial 0x11D.
fn multiply(left: u8, right: u8) -> u8 {
    let (mut product, mut left, mut right) = (0, left, right);
    while right != 0 {
        if right & 1 == 1 {
            product ^= left;
        }
        left = (left << 1) ^ if left & 0x80 == 0 { 0 } else { 0x1D };
        right >>= 1;
    }
    product
}

/// The inverse: the 254th power, as the multiplicative group has 255 elements.
fn inverse(element: u8) -> u8 {
    (0..254).fold(1, |power, _| multiply(power, element))
}

/// g to the given power.
fn power(exponent: usize) -> u8 {
    (0..exponent % 255).fold(1, |power, _| multiply(power, 2))
}

/// The coefficient of data chunk `data` in parity chunk `parity`.
fn coefficient(parity: usize, data: usize) -> u8 {
    match parity {
        0 => 1,
        1 => power(data),
        _ => {
            let y = power(parity - 1);
            multiply(1 ^ y, inverse(inverse(power(data)) ^ y))
        }
    }
}

/// Bytes that are multiplied together: the compiler makes vector instructions of their loops.
const TOGETHER: usize = 64;

/// Adds `factor` times `source` to `target`.
fn add_multiple(target: &mut [u8], factor: u8, source: &[u8]) {
    assert!(target.len() == source.len(), "{} and {} bytes", target.len(), source.len());
    if factor == 1 {
        // Most coefficients of parity are 1, and the compiler vectorises this loop.
        return target.iter_mut().zip(source).for_each(|(target, source)| *target ^= source);
    }
    let (targets, target) = target.as_chunks_mut::<TOGETHER>();
    let (sources, source) = source.as_chunks::<TOGETHER>();
    for (target, source) in targets.iter_mut().zip(sources) {
        let products = multiply_all(factor, source);
        target.iter_mut().zip(products).for_each(|(target, product)| *target ^= product);
    }
    for (target, source) in target.iter_mut().zip(source) {
        *target ^= multiply(factor, *source);
    }
}

/// The products of many bytes with one factor, by Horner's rule over the factor's bits.
fn multiply_all(factor: u8, source: &[u8; TOGETHER]) -> [u8; TOGETHER] {
    let mut products = [0; TOGETHER];
    for bit in (0..u8::BITS - factor.leading_zeros()).rev() {
        for product in &mut products {
            *product = (*product << 1) ^ if *product & 0x80 == 0 { 0 } else { 0x1D };
        }
        if factor >> bit & 1 == 1 {
            products.iter_mut().zip(source).for_each(|(product, source)| *product ^= source);
        }
    }
    products
}

/// The codes of the segments of an array. They differ in k only.
pub(crate) struct Codes(BTreeMap<u32, Code>);

impl Codes {
    /// The codes of these schemes.
    pub(crate) fn new(schemes: impl Iterator<Item = Scheme>) -> Self {
        let mut codes = BTreeMap::new();
        for scheme in schemes {
            codes.entry(scheme.data_chunks).or_insert_with(|| Code::new(scheme));
        }
        Self(codes)
    }

    pub(crate) fn of(&self, scheme: &Scheme) -> &Code {
        &self.0[&scheme.data_chunks]
    }
}

/// A code of k data and m parity chunks.
pub(crate) struct Code {
    data_chunks: usize,
    /// For every role, its coefficients over the data chunks.
    rows: Vec<Vec<u8>>,
}

impl Code {
    pub(crate) fn new(scheme: Scheme) -> Self {
        let (data_chunks, parity_chunks) =
            (scheme.data_chunks as usize, scheme.parity_chunks as usize);
        let row = |role: usize| {
            let element = |data| match role.checked_sub(data_chunks) {
                None => u8::from(role == data),
                Some(copied) if scheme.mirrored => u8::from(copied == data),
                Some(parity) => coefficient(parity, data),
            };
            (0..data_chunks).map(element).collect()
        };
        Self { data_chunks, rows: (0..data_chunks + parity_chunks).map(row).collect() }
    }

    /// The chunk of `role`, from all data chunks.
    pub(crate) fn encode(&self, role: usize, data: &[&[u8]]) -> Vec<u8> {
        let mut chunk = vec![0; data[0].len()];
        for (factor, source) in self.rows[role].iter().zip(data) {
            add_multiple(&mut chunk, *factor, source);
        }
        chunk
    }

    /// All data chunks, from exactly k chunks of the given roles.
    pub(crate) fn decode(&self, present: &[(usize, &[u8])]) -> Vec<Vec<u8>> {
        assert!(present.len() == self.data_chunks, "{} chunks to decode from", present.len());
        let mut rows: Vec<_> = present
            .iter()
            .map(|(role, chunk)| (self.rows[*role].clone(), chunk.to_vec()))
            .collect();
        for pivot in 0..self.data_chunks {
            let found = (pivot..rows.len()).find(|row| rows[*row].0[pivot] != 0);
            rows.swap(pivot, found.expect("every k chunks determine the data"));
            let factor = inverse(rows[pivot].0[pivot]);
            let (left, right) = rows[pivot].clone();
            let (mut unit, mut chunk) = (vec![0; left.len()], vec![0; right.len()]);
            add_multiple(&mut unit, factor, &left);
            add_multiple(&mut chunk, factor, &right);
            for (row, (coefficients, bytes)) in rows.iter_mut().enumerate() {
                let factor = coefficients[pivot];
                if row != pivot && factor != 0 {
                    add_multiple(coefficients, factor, &unit);
                    add_multiple(bytes, factor, &chunk);
                }
            }
            rows[pivot] = (unit, chunk);
        }
        rows.into_iter().map(|(_, chunk)| chunk).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_of_the_field() {
        assert_eq!(multiply(0x80, 2), 0x1D);
        assert_eq!((coefficient(0, 5), coefficient(1, 0), coefficient(1, 8)), (1, 1, 0x1D));
        assert!((1..=255).all(|element| multiply(element, inverse(element)) == 1));
        assert!((0..9).all(|parity| coefficient(parity, 0) == 1), "rows start with 1");
    }

    #[test]
    fn many_products_are_those_of_one_byte_each() {
        for factor in 0..=255 {
            for first in (0..=255).step_by(TOGETHER) {
                let mut source = [0; TOGETHER];
                source.iter_mut().zip(first..=255).for_each(|(at, value)| *at = value);
                let products = source.map(|value| multiply(factor, value));
                assert_eq!(multiply_all(factor, &source), products, "by {factor}");
            }
        }
    }

    #[test]
    fn any_k_chunks_give_the_data_back() {
        let (k, m) = (4, 3);
        let code = Code::new(Scheme::parse(4, 3, 0).unwrap());
        let data: Vec<Vec<u8>> = (0..4_u8)
            .map(|chunk| (0..=255).map(|at: u8| at.wrapping_mul(chunk ^ 93)).collect())
            .collect();
        let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let all: Vec<_> = (0..k + m).map(|role| code.encode(role, &slices)).collect();
        assert_eq!(all[..k], data);
        for set in (0_u32..1 << (k + m)).filter(|set| set.count_ones() == 4) {
            let present: Vec<_> = (0..k + m)
                .filter(|role| set >> role & 1 == 1)
                .map(|role| (role, all[role].as_slice()))
                .collect();
            assert_eq!(code.decode(&present), data, "set {set:b}");
        }
    }
}
