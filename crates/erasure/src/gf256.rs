//! Arithmetic in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and the generator 2.
//!
//! This is the field of Linux md RAID-6, ISA-L and SnapRAID. Addition is exclusive or. These
//! functions work on single coefficients, when a code or a decoding plan is set up; whole chunks go
//! through
//! `kernels`, which needs nothing but doubling.

/// The low byte of the polynomial: what doubling folds back in when x^8 overflows.
pub(crate) const POLYNOMIAL_LOW: u8 = 0x1d;

/// The order of the multiplicative group: exponents of the generator count modulo this.
const GROUP_ORDER: usize = 255;

/// Powers of the generator, twice over, so that a sum of two logarithms needs no reduction.
const POWERS: [u8; 2 * GROUP_ORDER] = powers();

/// The exponent of each nonzero element; the entry for zero is never read.
const LOGARITHMS: [u8; 256] = logarithms();

/// The generator 2 raised to `exponent`.
pub(crate) fn power(exponent: usize) -> u8 {
    POWERS[exponent % GROUP_ORDER]
}

/// The product of two elements.
pub(crate) fn multiply(left: u8, right: u8) -> u8 {
    if left == 0 || right == 0 {
        return 0;
    }
    POWERS[logarithm(left) + logarithm(right)]
}

/// The element whose product with `element` is one. Zero has none: asking for it is a bug.
pub(crate) fn inverse(element: u8) -> u8 {
    assert!(element != 0, "zero has no inverse in GF(2^8)");
    POWERS[GROUP_ORDER - logarithm(element)]
}

fn logarithm(element: u8) -> usize {
    usize::from(LOGARITHMS[usize::from(element)])
}

/// Twice `element`.
pub(crate) const fn double(element: u8) -> u8 {
    (element << 1) ^ if element & 0x80 != 0 { POLYNOMIAL_LOW } else { 0 }
}

const fn powers() -> [u8; 2 * GROUP_ORDER] {
    let mut powers = [0; 2 * GROUP_ORDER];
    let mut element = 1;
    let mut exponent = 0;
    while exponent < powers.len() {
        powers[exponent] = element;
        element = double(element);
        exponent += 1;
    }
    powers
}

const fn logarithms() -> [u8; 256] {
    let mut logarithms = [0; 256];
    let mut exponent: u8 = 0;
    while exponent < 255 {
        logarithms[POWERS[exponent as usize] as usize] = exponent;
        exponent += 1;
    }
    logarithms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    #[test]
    fn tables_agree_with_long_multiplication() {
        for left in 0..=255 {
            for right in 0..=255 {
                assert_eq!(multiply(left, right), reference::multiply(left, right));
            }
        }
    }

    #[test]
    fn every_nonzero_element_has_its_inverse() {
        for element in 1..=255 {
            assert_eq!(reference::multiply(element, inverse(element)), 1);
        }
    }
}
