//! Contents of the physical blocks: eight bytes for a block that repeats them, other blocks in
//! full.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoneweave_zoned::BLOCK_BYTES;

use super::ftl::{Place, SuperblockId};
use crate::media::pattern;

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// These eight bytes over and over.
    Pattern(u64),
    /// Anything else.
    Bytes(Bytes),
}

impl Content {
    pub(super) const ZEROS: Self = Self::Pattern(0);

    /// The content of a block, copied.
    pub(super) fn of(block: &[u8]) -> Self {
        assert_eq!(block.len(), BLOCK_BYTES, "a block is a block");
        match pattern::word_of(block) {
            Some(word) => Self::Pattern(word),
            None => Self::Bytes(Bytes::copy_from_slice(block)),
        }
    }

    /// The block.
    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Self::Pattern(word) => pattern::blocks_of(&[word]),
            Self::Bytes(bytes) => bytes,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Stored {
    /// By offset; of blocks that are no patterns it says nothing.
    words: Vec<u64>,
    others: BTreeMap<u32, Bytes>,
}

/// The contents of all superblocks.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    superblocks: Vec<Stored>,
    superblock_blocks: u32,
}

impl Contents {
    pub(super) fn new(superblocks: u32, superblock_blocks: u32) -> Self {
        Self { superblocks: vec![Stored::default(); superblocks as usize], superblock_blocks }
    }

    pub(super) fn put(&mut self, place: Place, content: Content) {
        let (stored, offset) = self.at(place);
        if stored.words.len() <= offset as usize {
            stored.words.resize(offset as usize + 1, 0);
        }
        match content {
            Content::Pattern(word) => stored.words[offset as usize] = word,
            Content::Bytes(bytes) => {
                stored.others.insert(offset, bytes);
            }
        }
    }

    /// The contents written to a place since its superblock was erased.
    pub(super) fn get(&self, place: Place) -> Content {
        let stored = &self.superblocks[(place.0 / self.superblock_blocks) as usize];
        let offset = place.0 % self.superblock_blocks;
        match stored.others.get(&offset) {
            Some(bytes) => Content::Bytes(bytes.clone()),
            None => Content::Pattern(stored.words[offset as usize]),
        }
    }

    pub(super) fn erase(&mut self, superblock: SuperblockId) {
        self.superblocks[superblock.0 as usize] = Stored::default();
    }

    fn at(&mut self, place: Place) -> (&mut Stored, u32) {
        let superblock = (place.0 / self.superblock_blocks) as usize;
        (&mut self.superblocks[superblock], place.0 % self.superblock_blocks)
    }
}
