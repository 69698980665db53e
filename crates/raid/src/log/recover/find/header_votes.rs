//! Identifies a segment from the blocks behind a damaged header.
//!
//! Fault model: any of these blocks may be damaged or unreadable. The majority of verifying blocks
//! decides, and only a block of the right column counts.

use std::collections::BTreeMap;
use std::rc::Rc;

use zoneweave_zoned::{BlockCount, Payload, ZoneAddress, ZoneInfo, ZonedDevice};

use crate::array::io::MemberIo;
use crate::array::io::is_blank;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::{Generation, Oob, Place};
use crate::scheme::{Column, ColumnSet};

/// Generations in the block metadata behind a damaged header, with the number of blocks of each.
/// The event that damaged the header may also have put blocks of another segment behind it.
#[derive(Default)]
pub(super) struct Witnesses {
    generations: BTreeMap<Generation, Witness>,
    /// Some blocks, or the header, could not be read: the next start may see others.
    pub(in crate::log) unread: bool,
}

/// Votes for one generation.
#[derive(Clone, Copy, Default)]
struct Witness {
    blocks: usize,
    absent: ColumnSet,
}

impl Witnesses {
    /// The generation that more than half of the blocks carry.
    pub(super) fn majority(&self) -> Option<Generation> {
        self.told().map(|(generation, _)| generation)
    }

    /// The majority's generation, with the columns that its segment is not on.
    pub(super) fn told(&self) -> Option<(Generation, ColumnSet)> {
        let total: usize = self.generations.values().map(|witness| witness.blocks).sum();
        let most = |(_, witness): &(&Generation, &Witness)| witness.blocks * 2 > total;
        let told = self.generations.iter().find(most);
        told.map(|(generation, witness)| (*generation, witness.absent))
    }
}

/// Attempts to read a block that identifies a zone's segment, as a drive may fail a read now and
/// then.
const READS: u32 = 4;

pub(super) async fn read_stubbornly(
    core: &Rc<Core>,
    column: Column,
    at: ZoneAddress,
) -> Option<Payload> {
    for _ in 0..READS {
        match core.read_zone(column, at, BlockCount(1)).await {
            Ok(payload) => return Some(payload),
            Err(status) if status.is_fatal() => break,
            Err(_) => {}
        }
    }
    None
}

/// Blocks behind a damaged header that are read for the segment's generation.
const WITNESSES: u32 = 32;

/// The generations that the blocks behind a damaged header carry.
pub(super) async fn ask_witnesses(core: &Rc<Core>, column: Column, info: ZoneInfo) -> Witnesses {
    let mut asked = Witnesses::default();
    let written = info.write_pointer.0.min(WITNESSES + 1);
    for offset in 0..written {
        let at = ZoneAddress::new(info.zone, offset);
        let Some(payload) = read_stubbornly(core, column, at).await else {
            asked.unread = true;
            continue;
        };
        let state = core.state.borrow();
        let (block, oob) = (payload.block(0), payload.block_oob(0));
        let found = verify(&state, &oob, &block);
        if let Some(oob) = found.filter(|oob| oob.column == column) {
            let witness = asked.generations.entry(oob.generation).or_default();
            *witness = Witness { blocks: witness.blocks + 1, absent: oob.absent };
        }
    }
    asked
}

/// The metadata of a block if it verifies and belongs to a segment of this array, headers excepted.
fn verify(state: &State, oob: &[u8], block: &[u8]) -> Option<Oob> {
    let chunk = Oob::verify_any_chunk(state.array.seed, oob, block, state.array.scheme().parity());
    chunk.or_else(|| Oob::verify_other(state.array.seed, oob, block, Place::Index))
}

/// Whether a zone of a drive outside the array may hold a block of a segment of this array.
pub(in crate::log) async fn may_hold_segment(
    core: &Core,
    device: &dyn ZonedDevice,
    info: &ZoneInfo,
) -> bool {
    for offset in 0..info.capacity.0.min(WITNESSES + 1) {
        let read =
            zoneweave_journal::read_stubbornly(device, ZoneAddress::new(info.zone, offset)).await;
        if is_blank(&read) {
            continue;
        }
        let Ok(payload) = read else { return true };
        let state = core.state.borrow();
        let (block, oob) = (payload.block(0), payload.block_oob(0));
        let header = || Oob::verify_other(state.array.seed, &oob, &block, Place::Header);
        if verify(&state, &oob, &block).or_else(header).is_some() {
            return true;
        }
    }
    false
}
