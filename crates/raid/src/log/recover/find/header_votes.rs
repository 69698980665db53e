//! What the blocks behind a damaged header tell of its segment.
//!
//! Fault model: any of them may be damaged or unreadable, so most of those that verify decide, and
//! only a block of the right column counts.

use std::collections::BTreeMap;
use std::rc::Rc;

use zoneweave_zoned::{BlockCount, Payload, ZoneAddress, ZoneInfo, ZonedDevice};

use crate::log::engine::core::{Core, is_blank};
use crate::log::engine::state::State;
use crate::log::format::{Oob, Place};
use crate::log::recover::records;
use crate::scheme::{Column, ColumnSet};

/// Which generations the blocks behind a damaged header carry, and how many of them each. What
/// damaged the header may have put blocks of another segment behind it.
#[derive(Default)]
pub(in crate::log) struct Witnesses {
    generations: BTreeMap<u64, Witness>,
    /// Some of them, or the header, cannot be read: the next start may be told something else.
    pub(in crate::log) unread: bool,
}

/// What blocks of one generation tell.
#[derive(Clone, Copy, Default)]
struct Witness {
    blocks: usize,
    absent: ColumnSet,
}

impl Witnesses {
    /// The generation that more than half of the blocks carry.
    pub(in crate::log) fn majority(&self) -> Option<u64> {
        self.told().map(|(generation, _)| generation)
    }

    /// The same, with the columns that its segment is not on.
    pub(in crate::log) fn told(&self) -> Option<(u64, ColumnSet)> {
        let total: usize = self.generations.values().map(|witness| witness.blocks).sum();
        let most = |(_, witness): &(&u64, &Witness)| witness.blocks * 2 > total;
        let told = self.generations.iter().find(most);
        told.map(|(generation, witness)| (*generation, witness.absent))
    }
}

/// How often a block is read that tells which segment a zone belongs to. A drive may err now and
/// then.
const READS: u32 = 4;

pub(in crate::log) async fn read_stubbornly(
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

/// Blocks behind a damaged header that are asked for the segment's generation.
const WITNESSES: u32 = 32;

/// The generations that the blocks behind a damaged header carry.
pub(in crate::log) async fn ask_witnesses(
    core: &Rc<Core>,
    column: Column,
    info: ZoneInfo,
) -> Witnesses {
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

/// What is beside a block of a segment of this array, if it is one, but for headers.
fn verify(state: &State, oob: &[u8], block: &[u8]) -> Option<Oob> {
    let chunk = Oob::verify_any_chunk(state.seed, oob, block, state.scheme().parity());
    chunk.or_else(|| Oob::verify_other(state.seed, oob, block, Place::Index))
}

/// Whether a zone of a drive that is no member may hold something of a segment of this array.
pub(in crate::log) async fn may_hold_segment(
    core: &Core,
    device: &dyn ZonedDevice,
    info: &ZoneInfo,
) -> bool {
    for offset in 0..info.capacity.0.min(WITNESSES + 1) {
        let read = records::read_stubbornly(device, ZoneAddress::new(info.zone, offset)).await;
        if is_blank(&read) {
            continue;
        }
        let Ok(payload) = read else { return true };
        let state = core.state.borrow();
        let (block, oob) = (payload.block(0), payload.block_oob(0));
        let header = || Oob::verify_other(state.seed, &oob, &block, Place::Header);
        if verify(&state, &oob, &block).or_else(header).is_some() {
            return true;
        }
    }
    false
}
