//! Identifies an operation of the dies by a number, which its completion returns.

use super::SuperblockId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// A chunk that the host wrote is programmed.
    Program(SuperblockId, u32),
    /// A chunk of moved blocks is programmed.
    MoveProgram(SuperblockId, u32),
    /// A chunk of parity is programmed.
    Parity,
    /// Valid blocks of a chunk are read, to be moved.
    MoveRead(SuperblockId, u32),
    /// A die erases its part.
    Erase(SuperblockId),
}

const KIND_SHIFT: u32 = 61;
const SUPERBLOCK_SHIFT: u32 = 29;

impl Tag {
    pub(super) fn encode(self) -> u64 {
        let (kind, superblock, chunk) = match self {
            Self::Program(superblock, chunk) => (0_u64, superblock, chunk),
            Self::MoveProgram(superblock, chunk) => (1, superblock, chunk),
            Self::Parity => (2, SuperblockId(0), 0),
            Self::MoveRead(superblock, chunk) => (3, superblock, chunk),
            Self::Erase(superblock) => (4, superblock, 0),
        };
        assert!(chunk < 1 << SUPERBLOCK_SHIFT, "a superblock has fewer chunks");
        kind << KIND_SHIFT | u64::from(superblock.0) << SUPERBLOCK_SHIFT | u64::from(chunk)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the bits of each number are cut out")]
    pub(super) fn decode(tag: u64) -> Self {
        let superblock = SuperblockId((tag >> SUPERBLOCK_SHIFT) as u32);
        let chunk = tag as u32 & ((1 << SUPERBLOCK_SHIFT) - 1);
        match tag >> KIND_SHIFT {
            0 => Self::Program(superblock, chunk),
            1 => Self::MoveProgram(superblock, chunk),
            2 => Self::Parity,
            3 => Self::MoveRead(superblock, chunk),
            kind => {
                assert_eq!(kind, 4, "there is no other kind");
                Self::Erase(superblock)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_survive_their_numbers() {
        let (superblock, chunk) = (SuperblockId(u32::MAX), (1 << SUPERBLOCK_SHIFT) - 1);
        for tag in [
            Tag::Program(superblock, chunk),
            Tag::MoveProgram(SuperblockId(3), 4),
            Tag::Parity,
            Tag::MoveRead(superblock, 0),
            Tag::Erase(superblock),
        ] {
            assert_eq!(Tag::decode(tag.encode()), tag);
        }
    }
}
