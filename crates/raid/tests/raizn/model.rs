//! What a logical zone may hold after a crash.

use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

use bytes::Bytes;

/// A zone: every block that was submitted since the last reset, and how far it is promised.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelZone {
    /// The tag of each block, in order of submission.
    pub(super) tags: Vec<u64>,
    /// Blocks that no crash may take.
    pub(super) floor: usize,
    /// Blocks that were acknowledged.
    pub(super) acked: usize,
    /// The contents before a reset that is not acknowledged yet, oldest first.
    pub(super) before: Vec<ModelZone>,
    /// A finish was submitted; acknowledged.
    pub(super) finish: Option<bool>,
}

/// A zone as a start reports it.
pub(super) struct Found<'a> {
    pub(super) pointer: usize,
    pub(super) is_full: bool,
    /// Finished for want of resources.
    pub(super) by_volume: bool,
    pub(super) capacity: usize,
    pub(super) blocks: &'a [Bytes],
}

/// The contents of a block with a tag.
#[must_use]
pub(super) fn block(tag: u64) -> Bytes {
    let mut buffer = AlignedBuffer::zeroed(BlockCount(1));
    let words = buffer.as_mut().chunks_exact_mut(8);
    for (at, word) in (0_u64..).zip(words) {
        word.copy_from_slice(&(tag ^ at.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes());
    }
    assert_eq!(buffer.as_ref().len(), BLOCK_BYTES);
    buffer.freeze()
}

impl ModelZone {
    /// The length of this zone if it can be the one that was found: a report does not tell how far
    /// a finished zone is written.
    fn length(&self, zone: &Found<'_>) -> Option<usize> {
        let finished = zone.is_full && self.tags.len() < zone.capacity;
        let length = match finished || zone.by_volume {
            true if zone.by_volume => {
                let blocks = self.tags.iter().zip(zone.blocks);
                blocks.take_while(|(tag, found)| block(**tag) == **found).count()
            }
            true => self.tags.len(),
            false => zone.pointer,
        };
        let in_range = self.floor <= length && length <= self.tags.len();
        let may_finish = zone.by_volume || self.finish.is_some() || !finished;
        let must_finish = self.finish == Some(true) && !zone.is_full;
        let fits = in_range && may_finish && !must_finish;
        (fits && self.holds(length, zone.blocks)).then_some(length)
    }

    /// The blocks of a zone, with zeros behind its end.
    fn holds(&self, length: usize, found: &[Bytes]) -> bool {
        let (data, behind) = found.split_at(length);
        let right = self.tags.iter().zip(data).all(|(tag, found)| block(*tag) == *found);
        right && behind.iter().all(|block| zoneweave_zoned::is_zero(block))
    }

    /// The contents that were found: this zone, or one from before a reset that may not have
    /// happened. From then on they are pinned.
    ///
    /// # Panics
    /// If no contents fit.
    pub(super) fn settle(&mut self, found: &Found<'_>) {
        let mut candidates = self.before.clone();
        candidates.push(Self { before: Vec::new(), ..self.clone() });
        let Some(zone) = candidates.iter().rev().find(|zone| zone.length(found).is_some()) else {
            let wrong = |zone: &ModelZone| {
                let blocks = zone.tags.iter().zip(found.blocks);
                let wrong = blocks.clone().position(|(tag, f)| block(*tag) != *f);
                (zone.floor, zone.acked, zone.tags.len(), zone.finish, wrong)
            };
            let candidates: Vec<_> = candidates.iter().map(wrong).collect();
            panic!(
                "found {} blocks (full: {}, by the volume: {}); \
                 (floor, acked, submitted, finish, wrong at): {candidates:?}",
                found.pointer, found.is_full, found.by_volume
            );
        };
        let length = zone.length(found).expect("it fits");
        let finished = found.is_full && length < found.capacity;
        *self = Self {
            tags: zone.tags[..length].to_vec(),
            floor: length,
            acked: length,
            before: Vec::new(),
            finish: finished.then_some(true),
        };
    }
}
