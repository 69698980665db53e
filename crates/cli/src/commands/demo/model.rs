//! The expected contents of the volume: for every block the versions that a read may return.

use zoneweave_runtime::Random;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

/// A version of a block; 0 reads as zeros.
pub(super) type Version = u64;

/// Every block's possible versions.
pub(super) struct Model {
    /// By block: the durable version, then newer ones that are not flushed and may be there after a
    /// power failure.
    versions: Vec<Vec<Version>>,
    next: Version,
}

impl Model {
    /// A volume of zeros.
    pub(super) fn new(blocks: u64) -> Self {
        let blocks = usize::try_from(blocks).unwrap_or(0);
        Self { versions: vec![vec![0]; blocks], next: 1 }
    }

    /// The number of blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.versions.len() as u64
    }

    /// A version never used before.
    pub(super) fn draw(&mut self) -> Version {
        self.next += 1;
        self.next - 1
    }

    /// The blocks are being given a version; until [`Model::settle`] older ones may come back.
    pub(super) fn write(&mut self, first: u64, blocks: u64, version: Version) {
        for at in first..first + blocks {
            self.of_mut(at).push(version);
        }
    }

    /// Everything written so far is durable.
    pub(super) fn settle(&mut self) {
        for versions in &mut self.versions {
            versions.drain(..versions.len() - 1);
        }
    }

    /// Whether `data` is the newest version of a block, the only valid one without a power failure.
    pub(super) fn is_newest(&self, at: u64, data: &[u8]) -> bool {
        self.of(at).last().is_some_and(|version| content(*version, at)[..] == *data)
    }

    /// Accepts `data`, found after a power failure, as the durable version, if it is a valid one.
    pub(super) fn accept(&mut self, at: u64, data: &[u8]) -> bool {
        let found = self.of(at).iter().copied().find(|version| content(*version, at)[..] == *data);
        if let Some(version) = found {
            *self.of_mut(at) = vec![version];
        }
        found.is_some()
    }

    /// Whether a block reads as zeros for certain.
    pub(super) fn is_zero(&self, at: u64) -> bool {
        self.of(at).last() == Some(&0)
    }

    fn of(&self, at: u64) -> &Vec<Version> {
        &self.versions[usize::try_from(at).expect("a block of a small volume")]
    }

    fn of_mut(&mut self, at: u64) -> &mut Vec<Version> {
        &mut self.versions[usize::try_from(at).expect("a block of a small volume")]
    }
}

/// The data of a block in a version, different for every block.
pub(super) fn content(version: Version, at: u64) -> [u8; BLOCK_BYTES] {
    let mut data = [0; BLOCK_BYTES];
    if version > 0 {
        Random::new(version << 24 ^ at).fill(&mut data);
    }
    data
}

/// The data of consecutive blocks.
pub(super) fn contents(version: Version, first: u64, blocks: u64) -> bytes::Bytes {
    let count = u32::try_from(blocks).expect("a short write");
    let mut buffer = AlignedBuffer::zeroed(BlockCount(count));
    for (at, block) in (first..).zip(buffer.as_mut().chunks_mut(BLOCK_BYTES)) {
        block.copy_from_slice(&content(version, at));
    }
    buffer.freeze()
}
