//! Blocks in RAM: per zone the written extents, each sharing the memory of the write it came from.
//!
//! Nothing is copied on the way in or out, so a stored block keeps the whole buffer alive that its
//! command carried. A zone's extents are contiguous from block 0 up to its length, which is the
//! write pointer.

use bytes::Bytes;
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, OOB_BYTES, OobKind, Payload, ZoneAddress, ZoneId,
    ZoneOffset, zero_blocks,
};

use crate::Damage;

/// Consecutive blocks from one piece of one command.
#[derive(Clone, Debug)]
struct Extent {
    first: u32,
    data: Bytes,
    /// Empty if the command brought none: zeros.
    oob: Bytes,
}

impl Extent {
    fn blocks(&self) -> u32 {
        BlockCount::of_data_bytes(self.data.len()).0
    }

    fn end(&self) -> u32 {
        self.first + self.blocks()
    }

    /// The part of the extent between two offsets, clipped.
    fn part(&self, from: u32, to: u32) -> Option<Self> {
        let first = from.max(self.first);
        let end = to.min(self.end());
        if first >= end {
            return None;
        }
        let (start, stop) = ((first - self.first) as usize, (end - self.first) as usize);
        let data = self.data.slice(start * BLOCK_BYTES..stop * BLOCK_BYTES);
        let oob = match self.oob.is_empty() {
            true => Bytes::new(),
            false => self.oob.slice(start * OOB_BYTES..stop * OOB_BYTES),
        };
        Some(Self { first, data, oob })
    }

    fn push_oob(&self, to: &mut Vec<u8>) {
        match self.oob.is_empty() {
            true => to.resize(to.len() + BlockCount(self.blocks()).oob_bytes(), 0),
            false => to.extend_from_slice(&self.oob),
        }
    }
}

/// The blocks of one drive.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    zones: Vec<Vec<Extent>>,
    oob: OobKind,
}

impl Media {
    pub(crate) fn new(zones: u32, oob: OobKind) -> Self {
        Self { zones: vec![Vec::new(); zones as usize], oob }
    }

    /// Blocks stored in a zone.
    pub(crate) fn len(&self, zone: ZoneId) -> ZoneOffset {
        ZoneOffset(self.zones[zone.index()].last().map_or(0, Extent::end))
    }

    /// Stores the first `blocks` blocks of a payload at the end of its zone.
    pub(crate) fn append(&mut self, at: ZoneAddress, payload: &Payload, blocks: BlockCount) {
        assert_eq!(self.len(at.zone), at.offset, "{at} is the end of what is stored");
        let (mut first, end) = (at.offset.0, at.offset.plus(blocks).0);
        for extent in extents(payload, at.offset.0, self.oob) {
            let Some(extent) = extent.part(first, end) else { break };
            first = extent.end();
            self.zones[at.zone.index()].push(extent);
        }
        assert_eq!(first, end, "a payload has the blocks its command counts");
    }

    /// Stores zeros at the end of a zone.
    pub(crate) fn append_zeros(&mut self, at: ZoneAddress, blocks: BlockCount) {
        self.append(at, &Payload::new(zero_blocks(blocks), Bytes::new()), blocks);
    }

    /// Reads blocks; those never stored are zeros.
    pub(crate) fn read(&self, at: ZoneAddress, blocks: BlockCount) -> Payload {
        let (from, to) = (at.offset.0, at.offset.plus(blocks).0);
        let zone = &self.zones[at.zone.index()];
        let start = zone.partition_point(|extent| extent.end() <= from);
        let mut parts: Vec<_> = zone[start..].iter().map_while(|one| one.part(from, to)).collect();
        let stored = parts.last().map_or(from, Extent::end);
        if stored < to {
            let data = zero_blocks(BlockCount(to - stored));
            parts.push(Extent { first: stored, data, oob: Bytes::new() });
        }
        let oob = self.oob_of(&parts, blocks);
        Payload { data: parts.into_iter().map(|part| part.data).collect(), oob }
    }

    fn oob_of(&self, parts: &[Extent], blocks: BlockCount) -> Bytes {
        if self.oob == OobKind::None {
            return Bytes::new();
        }
        if let [part] = parts
            && !part.oob.is_empty()
        {
            return part.oob.clone();
        }
        let mut oob = Vec::with_capacity(blocks.oob_bytes());
        parts.iter().for_each(|part| part.push_oob(&mut oob));
        oob.into()
    }

    /// Drops the blocks from `to` on.
    pub(crate) fn truncate(&mut self, zone: ZoneId, to: ZoneOffset) {
        let extents = &mut self.zones[zone.index()];
        extents.truncate(extents.partition_point(|extent| extent.first < to.0));
        if let Some(last) = extents.last_mut() {
            *last = last.part(0, to.0).expect("the extent begins below the cut");
        }
    }

    /// Drops every block of a zone and its memory.
    pub(crate) fn reset(&mut self, zone: ZoneId) {
        self.zones[zone.index()] = Vec::new();
    }

    /// Overwrites those blocks that are stored already.
    pub(crate) fn overwrite(&mut self, at: ZoneAddress, payload: &Payload) {
        let stored = self.len(at.zone).0;
        let end = at.offset.plus(payload.blocks()).0.min(stored);
        if at.offset.0 >= end {
            return;
        }
        let before = std::mem::take(&mut self.zones[at.zone.index()]);
        let parts = |from, to| before.iter().filter_map(move |extent| extent.part(from, to));
        let new = extents(payload, at.offset.0, self.oob);
        let new = new.iter().filter_map(|extent| extent.part(at.offset.0, end));
        let all = parts(0, at.offset.0).chain(new).chain(parts(end, stored));
        self.zones[at.zone.index()] = all.collect();
    }
}

/// A payload after damage; metadata that was left out becomes zeros first.
pub(crate) fn damaged(payload: &Payload, damage: Damage, kind: OobKind) -> Payload {
    let mut data = AlignedBuffer::zeroed(payload.blocks());
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

fn extents(payload: &Payload, first: u32, kind: OobKind) -> Vec<Extent> {
    let mut done = 0_u32;
    let mut extents = Vec::with_capacity(payload.data.len());
    for data in payload.data.iter().filter(|data| !data.is_empty()) {
        let blocks = BlockCount::of_data_bytes(data.len());
        let start = BlockCount(done).oob_bytes();
        let oob = match payload.oob.is_empty() || kind == OobKind::None {
            true => Bytes::new(),
            false => payload.oob.slice(start..start + blocks.oob_bytes()),
        };
        extents.push(Extent { first: first + done, data: data.clone(), oob });
        done += blocks.0;
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: ZoneId = ZoneId(0);

    fn filled(bytes: &[u8]) -> Payload {
        let piece = |byte: &u8| Bytes::from(vec![*byte; BLOCK_BYTES]);
        let oob: Vec<_> = bytes.iter().flat_map(|byte| [*byte; OOB_BYTES]).collect();
        Payload { data: bytes.iter().map(piece).collect(), oob: oob.into() }
    }

    fn first_bytes(payload: &Payload) -> (Vec<u8>, Vec<u8>) {
        let data = payload.iter_blocks().map(|block| block[0]).collect();
        (data, payload.oob.iter().step_by(OOB_BYTES).copied().collect())
    }

    #[test]
    fn extents_are_cut_overwritten_and_padded_with_zeros() {
        let mut media = Media::new(1, OobKind::Separate);
        media.append(ZoneAddress::new(ZONE, 0), &filled(&[1, 2, 3]), BlockCount(3));
        media.append(ZoneAddress::new(ZONE, 3), &filled(&[4, 5, 6]), BlockCount(2));
        media.append_zeros(ZoneAddress::new(ZONE, 5), BlockCount(1));
        media.overwrite(ZoneAddress::new(ZONE, 2), &filled(&[7, 8]));
        let all = media.read(ZoneAddress::new(ZONE, 0), BlockCount(8));
        let expected = vec![1, 2, 7, 8, 5, 0, 0, 0];
        assert_eq!(first_bytes(&all), (expected.clone(), expected));
        media.overwrite(ZoneAddress::new(ZONE, 5), &filled(&[9, 9, 9]));
        media.truncate(ZONE, ZoneOffset(4));
        let tail = media.read(ZoneAddress::new(ZONE, 3), BlockCount(3));
        assert_eq!(first_bytes(&tail), (vec![8, 0, 0], vec![8, 0, 0]));
        assert_eq!(media.len(ZONE), ZoneOffset(4));
        media.truncate(ZONE, ZoneOffset(0));
        assert_eq!(media.len(ZONE), ZoneOffset(0));
    }

    #[test]
    fn one_write_reads_back_as_one_piece() {
        let mut media = Media::new(1, OobKind::Separate);
        let payload = Payload::new(vec![3; 4 * BLOCK_BYTES].into(), vec![4; 4 * OOB_BYTES].into());
        media.append(ZoneAddress::new(ZONE, 0), &payload, BlockCount(4));
        let middle = media.read(ZoneAddress::new(ZONE, 1), BlockCount(2));
        assert_eq!(middle.data.len(), 1);
        assert_eq!(middle.oob.len(), 2 * OOB_BYTES);
    }
}
