//! Little-endian fields at fixed offsets, as NVMe lays out all of its structures.
//!
//! The offsets are those of the specifications, so that a reader can compare them. An offset beyond
//! the structure is a bug and panics; lengths from the wire are checked before.

use bytes::Bytes;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has N bytes")
}

/// A data structure under construction, zero where nothing was put.
pub(crate) struct Page(Vec<u8>);

impl Page {
    pub(crate) fn new(length: usize) -> Self {
        Self(vec![0; length])
    }

    pub(crate) fn put<const N: usize>(mut self, at: usize, field: [u8; N]) -> Self {
        self.0[at..at + N].copy_from_slice(&field);
        self
    }

    pub(crate) fn u8(self, at: usize, value: u8) -> Self {
        self.put(at, [value])
    }

    pub(crate) fn u16(self, at: usize, value: u16) -> Self {
        self.put(at, value.to_le_bytes())
    }

    pub(crate) fn u32(self, at: usize, value: u32) -> Self {
        self.put(at, value.to_le_bytes())
    }

    pub(crate) fn u64(self, at: usize, value: u64) -> Self {
        self.put(at, value.to_le_bytes())
    }

    /// Text padded with spaces, cut to `length`.
    pub(crate) fn padded(mut self, at: usize, length: usize, text: &str) -> Self {
        let field = &mut self.0[at..at + length];
        field.fill(b' ');
        let used = text.len().min(length);
        field[..used].copy_from_slice(&text.as_bytes()[..used]);
        self
    }

    /// Text that ends with a zero byte, cut to fit.
    pub(crate) fn terminated(mut self, at: usize, length: usize, text: &str) -> Self {
        let used = text.len().min(length - 1);
        self.0[at..at + used].copy_from_slice(&text.as_bytes()[..used]);
        self
    }

    pub(crate) fn freeze(self) -> Bytes {
        self.0.into()
    }
}
