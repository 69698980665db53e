//! What the volume must hold: a version for each block, and which blocks a request is about.
//!
//! Requests in flight together never overlap, as clients that let them are promised no order; so what a read
//! returns is known exactly.

use std::ops::Range;

use zoneweave_runtime::Random;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, Lba};

/// Ranges drawn before others get their turn to end.
const DRAWS: u32 = 64;

/// Which write a block has its data of; 0 reads as zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version(u32);

/// All blocks.
pub(super) struct Content {
    versions: Vec<Version>,
    busy: Vec<bool>,
    next: u32,
}

impl Content {
    /// A volume of zeros.
    pub(super) fn new(blocks: u64) -> Self {
        let blocks = usize::try_from(blocks).expect("what is in memory can be counted");
        Self { versions: vec![Version(0); blocks], busy: vec![false; blocks], next: 0 }
    }

    /// A range that no request in flight is about, and now one is; `None` if that is hard to find.
    pub(super) fn claim(&mut self, random: &mut Random, blocks: u32) -> Option<Range<usize>> {
        let length = blocks as usize;
        let places = (self.versions.len() + 1).saturating_sub(length).max(1) as u64;
        for _ in 0..DRAWS {
            let first = usize::try_from(random.below(places)).expect("a place in memory");
            let range = first..(first + length).min(self.versions.len());
            if !self.busy[range.clone()].contains(&true) {
                self.busy[range.clone()].fill(true);
                return Some(range);
            }
        }
        None
    }

    /// The request is over.
    pub(super) fn release(&mut self, range: Range<usize>) {
        self.busy[range].fill(false);
    }

    /// A version for the next write. It comes again after 2^32 of them, when hardly a block still has it.
    pub(super) fn draw(&mut self) -> Version {
        self.next = self.next.checked_add(1).unwrap_or(1);
        Version(self.next)
    }

    /// The blocks hold that version now.
    pub(super) fn set(&mut self, range: Range<usize>, version: Version) {
        self.versions[range].fill(version);
    }

    /// The first block of `data`, which was read from `first` on, that is not what was written.
    pub(super) fn first_wrong<'a>(
        &self,
        first: usize,
        data: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Lba> {
        let blocks = data.flat_map(|piece| piece.chunks(BLOCK_BYTES));
        let mut places = first..;
        for (at, block) in places.by_ref().zip(blocks) {
            if !is_of(self.versions[at], at, block) {
                return Some(Lba(at as u64));
            }
        }
        None
    }
}

/// The data of consecutive blocks in a version, different for every block.
pub(super) fn data_of(version: Version, range: Range<usize>) -> bytes::Bytes {
    let count = BlockCount(u32::try_from(range.len()).expect("a short write"));
    let mut buffer = AlignedBuffer::unfilled(count);
    for (at, block) in range.zip(buffer.as_mut().chunks_mut(BLOCK_BYTES)) {
        let seed = seed(version, at);
        let (words, _) = block.as_chunks_mut::<8>();
        (0..).zip(words).for_each(|(number, to)| *to = word(seed, number));
    }
    buffer.freeze()
}

fn is_of(version: Version, at: usize, block: &[u8]) -> bool {
    if block.len() != BLOCK_BYTES {
        return false;
    }
    if version == Version(0) {
        return block.iter().all(|byte| *byte == 0);
    }
    let seed = seed(version, at);
    let (words, _) = block.as_chunks::<8>();
    (0..).zip(words).all(|(number, found)| *found == word(seed, number))
}

fn seed(version: Version, at: usize) -> u64 {
    Random::new(u64::from(version.0) << 32 ^ at as u64).next()
}

/// Words of a block differ, so that parts of it that changed places are noticed.
fn word(seed: u64, number: u64) -> [u8; 8] {
    seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_of_its_version_and_place_only() {
        let mut content = Content::new(16);
        let version = content.draw();
        let data = data_of(version, 3..5);
        content.set(3..5, version);
        assert_eq!(content.first_wrong(3, [&data[..]].into_iter()), None);
        assert_eq!(content.first_wrong(4, [&data[4096..]].into_iter()), None);
        assert_eq!(content.first_wrong(3, [&data[4096..]].into_iter()), Some(Lba(3)));
        let newer = content.draw();
        content.set(4..5, newer);
        assert_eq!(content.first_wrong(3, [&data[..]].into_iter()), Some(Lba(4)));
        assert_eq!(content.first_wrong(0, [&[0; 4096][..]].into_iter()), None);
    }

    #[test]
    fn requests_in_flight_do_not_overlap() {
        let (mut content, mut random) = (Content::new(64), Random::new(1));
        let claimed: Vec<_> = (0..4).map_while(|_| content.claim(&mut random, 16)).collect();
        let blocks: usize = claimed.iter().map(Range::len).sum();
        assert_eq!(blocks, content.busy.iter().filter(|busy| **busy).count());
        assert_eq!(content.claim(&mut random, 64), None);
        claimed.into_iter().for_each(|range| content.release(range));
        assert_eq!(content.claim(&mut random, 64), Some(0..64));
    }
}
