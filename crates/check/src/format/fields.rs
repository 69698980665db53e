//! Fields at known offsets, and the checksum of the format.

/// Bytes of a structure. The caller has checked that they cover every field it reads.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes<const N: usize>(self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    pub(crate) fn u8(self, at: usize) -> u8 {
        self.0[at]
    }

    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    pub(crate) fn from(self, at: usize) -> &'a [u8] {
        &self.0[at..]
    }
}

/// The identity of an array, which seeds every checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Array(pub(crate) [u8; 16]);

impl Array {
    /// CRC-32C of the UUID followed by the pieces.
    pub(crate) fn checksum(self, pieces: &[&[u8]]) -> u32 {
        let seed = crc32c::crc32c(&self.0);
        pieces.iter().fold(seed, |sum, piece| crc32c::crc32c_append(sum, piece))
    }

    /// The checksum of a data block.
    pub(crate) fn data_checksum(self, lba: u64, sequence: u64, data: &[u8]) -> u32 {
        self.checksum(&[&lba.to_le_bytes(), &sequence.to_le_bytes(), data])
    }
}

/// Writes 16 bytes as a UUID.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
    parts.join("-")
}
