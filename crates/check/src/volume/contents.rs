//! The contents of the volume, from raw media.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;

use crate::array::catalogue::Segment;
use crate::array::membership::Membership;
use crate::format::parity::Codes;
use crate::report::Findings;
use crate::verify::group::Group;
use crate::verify::stripes::{Slice, read_slice};
use crate::volume::versions::{Spot, Versions};

/// The newest version of a block of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest {
    /// Never written, or forgotten after a trim: reads as zeros.
    Unwritten,
    /// Reads as zeros since a trim.
    Trimmed {
        /// The sequence of the trim.
        sequence: u64,
    },
    /// Holds data.
    Data {
        /// The sequence of the write.
        sequence: u64,
    },
    /// Its data is lost: reading it is an error.
    Lost {
        /// The sequence of the write.
        sequence: u64,
    },
}

impl Newest {
    /// Whether the block has no data: it was never written, or was trimmed since.
    #[must_use]
    pub const fn reads_as_zeros(self) -> bool {
        matches!(self, Self::Unwritten | Self::Trimmed { .. })
    }
}

/// A block whose data is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("LBA {lba}: the data is lost, or fewer chunks than needed can be read")]
pub struct Unavailable {
    /// The block of the volume.
    pub lba: u64,
}

/// A cached group: ordinal of its segment, first row, and chunks.
type KeptGroup = (u32, u32, Rc<Group>);

/// A cached slice: ordinal of its segment, stripe, block, and chunks.
type KeptSlice = ((u32, u32, u32), Rc<Slice>);

/// The contents of the volume. Data is read from the drives on demand, so they must not change
/// meanwhile.
pub struct Contents {
    membership: Membership,
    codes: Codes,
    segments: Vec<Segment>,
    versions: Versions,
    /// The group that was read last: neighbours in the volume are mostly neighbours on media.
    last: RefCell<Option<KeptGroup>>,
    /// The slice judged last, likewise.
    slice: RefCell<Option<KeptSlice>>,
}

impl Contents {
    pub(crate) fn new(
        membership: Membership,
        codes: Codes,
        segments: Vec<Segment>,
        versions: Versions,
    ) -> Self {
        let (last, slice) = (RefCell::new(None), RefCell::new(None));
        Self { membership, codes, segments, versions, last, slice }
    }

    /// Blocks of the volume.
    #[must_use]
    pub fn volume_blocks(&self) -> u64 {
        self.membership.config.volume_blocks
    }

    /// The newest version of a block.
    #[must_use]
    pub fn newest(&self, lba: u64) -> Newest {
        match (self.versions.newest(lba), self.versions.trimmed(lba)) {
            (Some((sequence, spot)), _) => newest(sequence, spot),
            (None, Some(sequence)) => Newest::Trimmed { sequence },
            (None, None) => Newest::Unwritten,
        }
    }

    /// Every mapped or lost block, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Newest)> + '_ {
        self.versions.iter().map(|(lba, sequence, spot)| (lba, newest(sequence, spot)))
    }

    /// Every block that holds data or is lost, in the order in which they lie on media: reading
    /// them in this order reads each group and judges each stripe once.
    #[must_use]
    pub fn in_media_order(&self) -> Vec<u64> {
        let mut places: Vec<_> = self
            .versions
            .iter()
            .map(|(lba, _, spot)| ((spot.segment, spot.stripe_block, spot.column), lba))
            .collect();
        places.sort_unstable();
        places.into_iter().map(|(_, lba)| lba).collect()
    }

    /// The data of a block: `None` reads as zeros. Damaged and missing chunks are reconstructed.
    ///
    /// # Errors
    /// If the data is lost.
    pub async fn read(&self, lba: u64) -> Result<Option<Bytes>, Unavailable> {
        let Some((sequence, spot)) = self.versions.newest(lba) else { return Ok(None) };
        if spot.lost {
            return Err(Unavailable { lba });
        }
        let segment = self.segments.get(spot.segment as usize).ok_or(Unavailable { lba })?;
        let shape = &segment.header.shape;
        let (stripe, block) =
            (spot.stripe_block / shape.chunk_blocks, spot.stripe_block % shape.chunk_blocks);
        let role = shape.role_of(spot.column.into(), stripe) as usize;
        let slice = self.slice(segment, (spot.segment, stripe, block)).await;
        let found = match &*slice {
            Slice::Whole(blocks) => blocks.get(role),
            Slice::Lost(blocks) => blocks.get(role).and_then(Option::as_ref),
            Slice::Contradictory => None,
        };
        let genuine =
            found.filter(|found| (found.identity.lba, found.identity.sequence) == (lba, sequence));
        genuine.map(|block| Some(block.data.clone())).ok_or(Unavailable { lba })
    }

    /// A block of every chunk of a stripe: the segment among those found, the stripe, the block.
    async fn slice(&self, segment: &Segment, place: (u32, u32, u32)) -> Rc<Slice> {
        if let Some((_, slice)) = self.slice.borrow().as_ref().filter(|(of, _)| *of == place) {
            return Rc::clone(slice);
        }
        let (ordinal, stripe, block) = place;
        let shape = &segment.header.shape;
        let group = self.group(segment, ordinal, shape.group_of(stripe)).await;
        let (array, code) = (self.membership.array, self.codes.of(&shape.scheme));
        let slice = Rc::new(read_slice(array, shape, code, &group, stripe, block));
        *self.slice.borrow_mut() = Some((place, Rc::clone(&slice)));
        slice
    }

    async fn group(
        &self,
        segment: &Segment,
        ordinal: u32,
        rows: std::ops::Range<u32>,
    ) -> Rc<Group> {
        if let Some((of, first, group)) = &*self.last.borrow()
            && (*of, *first) == (ordinal, rows.start)
        {
            return Rc::clone(group);
        }
        let first = rows.start;
        let mut unheard = Findings::new(0);
        let group = Rc::new(Group::read(&self.membership, segment, rows, &mut unheard).await);
        *self.last.borrow_mut() = Some((ordinal, first, Rc::clone(&group)));
        group
    }
}

fn newest(sequence: u64, spot: Spot) -> Newest {
    if spot.lost { Newest::Lost { sequence } } else { Newest::Data { sequence } }
}
