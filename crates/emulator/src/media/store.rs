//! The blocks of all zones, in pages.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, Geometry, OobKind, Payload, ZoneAddress, ZoneId,
    ZoneOffset, zero_blocks,
};

use super::page::{PAGE_BLOCKS, Page, Run};
use super::pattern::{self, Recent};
use crate::Damage;

/// The blocks of one drive.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    zones: Vec<Zone>,
    recent: RefCell<Recent>,
    oob: OobKind,
    capacity: BlockCount,
}

/// All pages but the last are full.
#[derive(Clone, Debug, Default)]
struct Zone {
    pages: Vec<Rc<Page>>,
    blocks: u32,
}

impl Media {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let zones = vec![Zone::default(); geometry.zones as usize];
        let (oob, capacity) = (geometry.oob, geometry.zone_capacity);
        Self { zones, recent: RefCell::default(), oob, capacity }
    }

    /// Blocks stored in a zone.
    pub(crate) fn len(&self, zone: ZoneId) -> ZoneOffset {
        ZoneOffset(self.zones[zone.index()].blocks)
    }

    /// Stores the first `blocks` blocks of a payload at the end of its zone.
    pub(crate) fn append(&mut self, at: ZoneAddress, payload: &Payload, blocks: BlockCount) {
        assert_eq!(self.len(at.zone), at.offset, "{at} is the end of what is stored");
        let oob: &[u8] = if self.oob == OobKind::None { &[] } else { &payload.oob };
        let (capacity, zone) = (self.capacity, &mut self.zones[at.zone.index()]);
        let mut left = blocks;
        for piece in &payload.data {
            let taken = BlockCount::of_data_bytes(piece.len()).min(left);
            let done = BlockCount(blocks.0 - left.0);
            zone.push(piece, taken, part_of_oob(oob, done, taken), capacity);
            left.0 -= taken.0;
        }
        assert_eq!(left, BlockCount(0), "a payload has the blocks its command counts");
    }

    /// Stores zeros at the end of a zone.
    pub(crate) fn append_zeros(&mut self, at: ZoneAddress, blocks: BlockCount) {
        self.append(at, &Payload::new(zero_blocks(blocks), Bytes::new()), blocks);
    }

    /// Reads blocks; those never stored are zeros.
    pub(crate) fn read(&self, at: ZoneAddress, blocks: BlockCount) -> Payload {
        let zone = &self.zones[at.zone.index()];
        let (mut from, to) = (at.offset.0, at.offset.plus(blocks).0);
        let mut data = Vec::with_capacity(1);
        let mut oob = Vec::new();
        while from < to.min(zone.blocks) {
            let (page, first) = (&zone.pages[(from / PAGE_BLOCKS) as usize], from % PAGE_BLOCKS);
            let end = (first + (to.min(zone.blocks) - from)).min(PAGE_BLOCKS);
            let run = page.run(first, end);
            let (done, count) = (BlockCount(from - at.offset.0), run.blocks());
            data.push(match run {
                Run::Patterns(words) => self.recent.borrow_mut().blocks_of(words),
                Run::Bytes(bytes) => bytes,
            });
            if page.has_oob(first) {
                oob.reserve_exact(blocks.oob_bytes() - oob.len());
                oob.resize(done.oob_bytes(), 0);
                page.copy_oob(first, first + count, &mut oob);
            }
            from += count;
        }
        if from < to {
            data.push(zero_blocks(BlockCount(to - from)));
        }
        if self.oob == OobKind::None {
            return Payload { data, oob: Bytes::new() };
        }
        if oob.is_empty() {
            return Payload { data, oob: zero_oob(blocks) };
        }
        oob.resize(blocks.oob_bytes(), 0);
        Payload { data, oob: oob.into() }
    }

    /// Drops the blocks from `to` on.
    pub(crate) fn truncate(&mut self, zone: ZoneId, to: ZoneOffset) {
        let zone = &mut self.zones[zone.index()];
        zone.blocks = zone.blocks.min(to.0);
        zone.pages.truncate(zone.blocks.div_ceil(PAGE_BLOCKS) as usize);
        let left = zone.blocks % PAGE_BLOCKS;
        if left > 0
            && let Some(last) = zone.pages.last_mut()
        {
            Rc::make_mut(last).truncate(left);
        }
    }

    /// Drops every block of a zone and its memory.
    pub(crate) fn reset(&mut self, zone: ZoneId) {
        self.zones[zone.index()] = Zone::default();
    }

    /// Overwrites those blocks that are stored already.
    pub(crate) fn overwrite(&mut self, at: ZoneAddress, payload: &Payload) {
        let oob: &[u8] = if self.oob == OobKind::None { &[] } else { &payload.oob };
        let zone = &mut self.zones[at.zone.index()];
        for (index, block) in (0..).zip(payload.iter_blocks()) {
            let target = at.offset.plus(BlockCount(index)).0;
            if target >= zone.blocks {
                return;
            }
            let page = Rc::make_mut(&mut zone.pages[(target / PAGE_BLOCKS) as usize]);
            let oob = part_of_oob(oob, BlockCount(index), BlockCount(1));
            match pattern::word_of(&block) {
                Some(word) => page.replace(target % PAGE_BLOCKS, Run::Patterns(&[word]), oob),
                None => page.replace(target % PAGE_BLOCKS, Run::Bytes(block), oob),
            }
        }
    }

    /// Bytes of memory that the blocks take, those shared with others included.
    pub(crate) fn memory_bytes(&self) -> usize {
        let pages = self.zones.iter().flat_map(|zone| &zone.pages);
        pages.map(|page| page.memory_bytes() + size_of::<Rc<Page>>()).sum()
    }
}

impl Zone {
    /// Stores the first `blocks` blocks of a piece; `oob` is their metadata or empty.
    fn push(&mut self, piece: &Bytes, blocks: BlockCount, oob: &[u8], capacity: BlockCount) {
        let block = |index: u32| {
            let start = BlockCount(index).data_bytes();
            &piece[start..start + BLOCK_BYTES]
        };
        let mut at = 0;
        while at < blocks.0 {
            if let Some(word) = pattern::word_of(block(at)) {
                let oob = part_of_oob(oob, BlockCount(at), BlockCount(1));
                self.last_page(capacity).push_pattern(word, oob);
                self.blocks += 1;
                at += 1;
                continue;
            }
            let is_pattern = |index: &u32| pattern::word_of(block(*index)).is_some();
            let end = (at + 1..blocks.0).find(is_pattern).unwrap_or(blocks.0);
            let bytes = piece.slice(BlockCount(at).data_bytes()..BlockCount(end).data_bytes());
            let alone = bytes.len() == piece.len();
            let oob = part_of_oob(oob, BlockCount(at), BlockCount(end - at));
            self.push_bytes(if alone { bytes } else { copy(&bytes) }, oob, capacity);
            at = end;
        }
    }

    fn push_bytes(&mut self, mut data: Bytes, mut oob: &[u8], capacity: BlockCount) {
        while !data.is_empty() {
            let room = BlockCount(PAGE_BLOCKS - self.blocks % PAGE_BLOCKS);
            let blocks = room.min(BlockCount::of_data_bytes(data.len()));
            let part = data.split_to(blocks.data_bytes());
            self.last_page(capacity).push_bytes(part, part_of_oob(oob, BlockCount(0), blocks));
            oob = oob.get(blocks.oob_bytes()..).unwrap_or_default();
            self.blocks += blocks.0;
        }
    }

    /// The page that the next block belongs to.
    fn last_page(&mut self, capacity: BlockCount) -> &mut Page {
        if self.blocks.is_multiple_of(PAGE_BLOCKS) {
            let room = PAGE_BLOCKS.min(capacity.0.saturating_sub(self.blocks));
            self.pages.push(Rc::new(Page::with_room(room)));
        }
        Rc::make_mut(self.pages.last_mut().expect("a zone with blocks has a page"))
    }
}

/// Metadata of zeros, shared with the blocks of zeros.
fn zero_oob(blocks: BlockCount) -> Bytes {
    let bytes = blocks.oob_bytes();
    let room = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).expect("fewer blocks than before");
    zero_blocks(BlockCount(room)).slice(..bytes)
}

fn part_of_oob(oob: &[u8], from: BlockCount, blocks: BlockCount) -> &[u8] {
    if oob.is_empty() { oob } else { &oob[from.oob_bytes()..][..blocks.oob_bytes()] }
}

fn copy(bytes: &[u8]) -> Bytes {
    let mut buffer = AlignedBuffer::unfilled(BlockCount::of_data_bytes(bytes.len()));
    buffer.as_mut().copy_from_slice(bytes);
    buffer.freeze()
}

/// A payload after damage; metadata that was left out becomes zeros first.
pub(crate) fn damaged(payload: &Payload, damage: Damage, kind: OobKind) -> Payload {
    let mut data = AlignedBuffer::unfilled(payload.blocks());
    let mut at = 0;
    for piece in &payload.data {
        data.as_mut()[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    let mut oob = payload.oob.to_vec();
    if kind != OobKind::None {
        oob.resize(payload.blocks().oob_bytes(), 0);
    }
    damage.apply(data.as_mut(), &mut oob);
    Payload::new(data.freeze(), oob.into())
}

#[cfg(test)]
mod tests;
