//! The expected contents of the volume: a version per block, and the blocks of requests in flight.
//!
//! Requests in flight never overlap, since the order of overlapping requests is undefined. So the
//! result of every read is known exactly.

use std::ops::Range;

use zoneweave_runtime::Random;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, Lba};

/// Ranges drawn before the caller yields to other requests.
const DRAWS: u32 = 64;

/// The write that a block has its data from; 0 reads as zeros.
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
        let blocks = usize::try_from(blocks).expect("an in-memory volume is addressable");
        Self { versions: vec![Version(0); blocks], busy: vec![false; blocks], next: 0 }
    }

    /// Claims a range without requests in flight; `None` after [`DRAWS`] attempts.
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

    /// A version for the next write. Versions repeat after 2^32 writes, when hardly a block still
    /// has the old one.
    pub(super) fn draw(&mut self) -> Version {
        self.next = self.next.checked_add(1).unwrap_or(1);
        Version(self.next)
    }

    /// Records that the blocks hold a version.
    pub(super) fn set(&mut self, range: Range<usize>, version: Version) {
        self.versions[range].fill(version);
    }

    /// The first block of `data`, read from `first` on, that differs from the version written.
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

/// Words of a block differ, so that swapped parts are noticed.
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
