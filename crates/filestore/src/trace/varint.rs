//! Numbers of one to ten bytes: seven bits each, the lowest first, the top bit set on all but the
//! last. A number has one form: a last byte of zero behind others is refused.

/// Adds a number.
pub(super) fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    into.push((number & 0x7F) as u8);
}

/// The rest of an input; reads are bounds-checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next number, in its one form.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            // The tenth byte has one bit.
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return (byte != 0 || shift == 0).then_some(number);
            }
        }
        None
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut fields = Fields::new(&bytes);
            assert_eq!(fields.number(), Some(number));
            assert!(fields.is_empty());
            let last = bytes.len() - 1;
            assert_eq!(Fields::new(&bytes[..last]).number(), None, "{number} without its end");
            bytes[last] |= 0x80;
            bytes.push(0);
            assert_eq!(Fields::new(&bytes).number(), None, "{number} in a longer form");
        }
        assert_eq!(Fields::new(&[0xFF; 11]).number(), None);
        let above = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02];
        assert_eq!(Fields::new(&above).number(), None, "65 bits");
    }
}
