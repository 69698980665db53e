//! Random write areas of a drive in RAM, block by block.
//!
//! A block of an area may be rewritten before it is committed, so each has two versions: the one
//! that would survive a power failure, and the latest. With a protected cache a completed write
//! survives; with a volatile one it takes a flush or FUA. A power failure keeps or loses the latest
//! version of each block independently. (A drive may persist more than it promised: a promised
//! write that was overwritten by a write in flight may be replaced by the latter.)

use std::collections::BTreeMap;

use bytes::Bytes;
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, OOB_BYTES, Payload, ZoneAddress, ZoneId};

use crate::CrashChoices;

#[derive(Clone, Debug, Default)]
struct AreaBlock {
    /// The version that survives a power failure.
    durable: Option<Payload>,
    /// The latest version, which may be lost.
    latest: Option<Payload>,
    /// Whether the host was told of a write that is in `latest` or that it replaced.
    completed: bool,
}

impl AreaBlock {
    fn contents(&self) -> &Payload {
        self.latest.as_ref().or(self.durable.as_ref()).expect("a block of an area was written")
    }

    fn persist(&mut self) {
        self.completed = false;
        if let Some(latest) = self.latest.take() {
            self.durable = Some(latest);
        }
    }
}

/// The blocks of all areas of one drive that are not committed.
#[derive(Clone, Debug)]
pub(crate) struct RandomWriteAreas {
    volatile: bool,
    blocks: BTreeMap<ZoneAddress, AreaBlock>,
}

impl RandomWriteAreas {
    pub(crate) fn new(volatile: bool) -> Self {
        Self { volatile, blocks: BTreeMap::new() }
    }

    /// Stores the first `blocks` blocks of a payload.
    pub(crate) fn write(&mut self, at: ZoneAddress, payload: &Payload, blocks: BlockCount) {
        let range = range_of(at, blocks);
        for (offset, block) in range.zip(single_blocks(payload)) {
            let at = ZoneAddress::new(at.zone, offset);
            self.blocks.entry(at).or_default().latest = Some(block);
        }
    }

    /// The host learns that a write is complete.
    pub(crate) fn complete(&mut self, at: ZoneAddress, blocks: BlockCount, fua: bool) {
        if self.blocks.is_empty() {
            return;
        }
        // A refused write may have had any address.
        let end = ZoneAddress::new(at.zone, at.offset.0.saturating_add(blocks.0));
        for block in self.blocks.range_mut(at..end).map(|(_, block)| block) {
            if fua || !self.volatile {
                block.persist();
            } else {
                block.completed |= block.latest.is_some();
            }
        }
    }

    /// The host can see every block, whether or not it was told: they are complete.
    pub(crate) fn seen(&mut self) {
        for block in self.blocks.values_mut() {
            if self.volatile {
                block.completed |= block.latest.is_some();
            } else {
                block.persist();
            }
        }
    }

    /// Everything completed is made durable.
    pub(crate) fn flush(&mut self) {
        self.blocks.values_mut().filter(|block| block.completed).for_each(AreaBlock::persist);
    }

    /// Takes a block out that is committed.
    pub(crate) fn take(&mut self, at: ZoneAddress) -> Option<Payload> {
        self.blocks.remove(&at).map(|block| block.contents().clone())
    }

    pub(crate) fn reset(&mut self, zone: ZoneId) {
        if !self.blocks.is_empty() {
            self.blocks.retain(|at, _| at.zone != zone);
        }
    }

    /// Replaces a block, if it was written.
    pub(crate) fn overwrite(&mut self, at: ZoneAddress, payload: Payload) {
        if let Some(block) = self.blocks.get_mut(&at) {
            *block = AreaBlock { durable: Some(payload), ..AreaBlock::default() };
        }
    }

    /// Overlays the committed blocks of a read with the written blocks of the area.
    pub(crate) fn lay_over(&self, at: ZoneAddress, below: Payload) -> Payload {
        if self.blocks.is_empty() {
            return below;
        }
        let end = ZoneAddress { zone: at.zone, offset: at.offset.plus(below.blocks()) };
        if self.blocks.range(at..end).next().is_none() {
            return below;
        }
        let mut data: Vec<_> =
            single_blocks(&below).map(|mut block| block.data.remove(0)).collect();
        let mut oob = below.oob.to_vec();
        for (found, block) in self.blocks.range(at..end) {
            let index = (found.offset.0 - at.offset.0) as usize;
            let Payload { data: new, oob: beside } = block.contents();
            data[index] = new[0].clone();
            if let Some(place) = oob.chunks_exact_mut(OOB_BYTES).nth(index) {
                place.fill(0);
                place[..beside.len()].copy_from_slice(beside);
            }
        }
        Payload { data, oob: oob.into() }
    }

    /// The power fails: latest versions are kept or lost. Returns the blocks without any version
    /// left.
    pub(crate) fn lose(&mut self, choices: &mut dyn CrashChoices) -> Vec<ZoneAddress> {
        let mut lost = Vec::new();
        for (at, block) in &mut self.blocks {
            block.completed = false;
            if block.latest.is_none() {
                continue;
            }
            let after = at.offset.plus(BlockCount(1));
            if choices.kept(at.zone, at.offset, after) == after {
                block.persist();
                continue;
            }
            block.latest = None;
            if block.durable.is_none() {
                lost.push(*at);
            }
        }
        lost.iter().for_each(|at| drop(self.blocks.remove(at)));
        lost
    }
}

fn range_of(at: ZoneAddress, blocks: BlockCount) -> std::ops::Range<u32> {
    at.offset.0..at.offset.plus(blocks).0
}

/// The blocks of a payload, each sharing its memory.
fn single_blocks(payload: &Payload) -> impl Iterator<Item = Payload> + '_ {
    let whole = |data: &Bytes| data.len() / BLOCK_BYTES;
    let pieces = payload.data.iter().flat_map(move |data| {
        (0..whole(data)).map(|index| data.slice(index * BLOCK_BYTES..(index + 1) * BLOCK_BYTES))
    });
    pieces.enumerate().map(|(index, data)| {
        let oob = match payload.oob.is_empty() {
            true => Bytes::new(),
            false => payload.oob.slice(index * OOB_BYTES..(index + 1) * OOB_BYTES),
        };
        Payload { data: vec![data], oob }
    })
}
