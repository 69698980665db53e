//! The read path: look up, read, verify, and rebuild what does not verify.
//!
//! A segment is pinned while blocks of it are read, so its zones are not reset underneath. Every
//! block returned was verified against the identity of the block asked for; a block that cannot
//! be verified nor rebuilt is an error, never zeros.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{BlockCount, BlockError, Lba, Payload, Status, ZoneAddress, zero_blocks};

use crate::layout::Column;
use crate::log::core::Core;
use crate::log::format::{BlockIdentity, ContentKind, Oob};
use crate::log::index::{BlockPlace, SegmentSlot};
use crate::log::reconstruct::{Rebuilt, rebuild_block, verify};
use crate::log::state::State;
use crate::marks::{Mark, mark, mark_if};
use crate::mutants::{Mutant, mutant};

/// Blocks read from one zone in one command.
const RUN_BLOCKS: u32 = 32;

/// Keeps a segment's zones from being reset.
pub(super) struct Pin {
    core: Rc<Core>,
    slot: SegmentSlot,
}

impl Pin {
    /// Pins a segment.
    #[must_use]
    pub(super) fn new(core: &Rc<Core>, slot: SegmentSlot) -> Self {
        core.state.borrow_mut().segments[slot].readers += 1;
        Self { core: core.clone(), slot }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // What a panic left behind may contradict itself, and a second panic would abort.
        if std::thread::panicking() {
            return;
        }
        let idle = {
            let mut state = self.core.state.borrow_mut();
            let readers = &mut state.segments[self.slot].readers;
            *readers -= 1;
            *readers == 0
        };
        if idle {
            self.core.changed.open();
        }
    }
}

/// A block found, with its identity.
#[derive(Clone, Debug)]
pub(super) struct FoundBlock {
    /// The data.
    pub data: Bytes,
    /// Its identity.
    pub identity: BlockIdentity,
}

/// How often a block is tried that can be neither read nor rebuilt.
const TRIES: u32 = 4;

/// Reads a range of the volume.
///
/// # Errors
/// The first block that is lost.
pub(super) async fn read_range(
    core: &Rc<Core>,
    lba: Lba,
    blocks: u32,
) -> Result<Vec<Bytes>, BlockError> {
    let places: Vec<_> = {
        let state = core.state.borrow();
        (0..blocks.into()).map(|at| state.data_place(lba.plus(at))).collect()
    };
    let mapped: Vec<_> = places.iter().flatten().copied().collect();
    let _pins = pin_all(core, &mapped);
    let mut found = read_places(core, &mapped).await.into_iter();
    core.state.borrow_mut().counters.user_blocks_read += u64::from(blocks);
    let mut data = Vec::with_capacity(places.len());
    for (at, place) in (0..).zip(places) {
        let lba = lba.plus(at);
        let Some(_) = place else {
            data.push(zero_blocks(BlockCount(1)));
            continue;
        };
        let block = found.next().expect("one result a place");
        let lost = |block: &FoundBlock| block.identity.kind == ContentKind::Lost;
        mark_if(Mark::LostBlockRefused, || block.as_ref().is_some_and(lost));
        let block = block.filter(|block| {
            let ours = block.identity.lba == lba || mutant(Mutant::MisdirectedBlockAccepted);
            block.identity.kind == ContentKind::Data && ours
        });
        if block.is_none() && mutant(Mutant::LostBlockReadsAsZeros) {
            data.push(zero_blocks(BlockCount(1)));
            continue;
        }
        data.push(block.ok_or(BlockError::Unrecoverable { lba })?.data);
    }
    Ok(data)
}

/// Pins every segment that holds one of the places.
#[must_use]
pub(super) fn pin_all(core: &Rc<Core>, places: &[BlockPlace]) -> Vec<Pin> {
    let mut slots: Vec<_> = places.iter().map(|place| place.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    slots.into_iter().map(|slot| Pin::new(core, slot)).collect()
}

/// Reads data blocks by place, verified, rebuilt where they are damaged or their member is
/// missing. The segments must be pinned.
pub(super) async fn read_places(core: &Rc<Core>, places: &[BlockPlace]) -> Vec<Option<FoundBlock>> {
    let runs = runs_of(core, places);
    let reads = runs.iter().map(|run| read_run(core, run, places));
    let mut found: Vec<Option<FoundBlock>> = vec![None; places.len()];
    for (run, blocks) in runs.iter().zip(futures_util::future::join_all(reads).await) {
        for (at, block) in run.members.iter().zip(blocks) {
            found[*at] = block;
        }
    }
    found
}

/// Blocks that lie one behind the other in a zone.
struct Run {
    /// Positions in the list of places, in order of their address.
    members: Vec<usize>,
    at: Option<ZoneAddress>,
}

fn runs_of(core: &Core, places: &[BlockPlace]) -> Vec<Run> {
    let state = core.state.borrow();
    let mut order: Vec<_> = (0..places.len()).collect();
    order.sort_by_key(|at| places[*at]);
    let mut runs: Vec<Run> = Vec::new();
    for at in order {
        let here = address_of(&state, places[at]);
        if let (Some(run), Some(here)) = (runs.last_mut(), here)
            && let Some(start) = run.at
            && let Ok(length) = u32::try_from(run.members.len())
            && places[run.members[0]].column == places[at].column
            && start.zone == here.zone
            && start.offset.plus(BlockCount(length)) == here.offset
            && length < RUN_BLOCKS
        {
            run.members.push(at);
            continue;
        }
        runs.push(Run { members: vec![at], at: here });
    }
    runs
}

async fn read_run(core: &Rc<Core>, run: &Run, places: &[BlockPlace]) -> Vec<Option<FoundBlock>> {
    let first = places[run.members[0]];
    let length = BlockCount(u32::try_from(run.members.len()).expect("at most 32"));
    let whole = read_at(core, first.column, run.at, length).await;
    // One block of them that cannot be read hides the others, of which there may be no other copy.
    let hidden = length.0 > 1 && matches!(whole, Some(Err(status)) if !status.is_fatal());
    mark_if(Mark::RunReadOneByOne, || hidden);
    let mut blocks = Vec::with_capacity(run.members.len());
    for (at, member) in run.members.iter().enumerate() {
        let place = places[*member];
        blocks.push(if hidden {
            let alone = address_of(&core.state.borrow(), place);
            let read = read_at(core, place.column, alone, BlockCount(1)).await;
            found_in(core, read.as_ref(), 0, place).await
        } else {
            found_in(core, whole.as_ref(), at, place).await
        });
    }
    blocks
}

async fn read_at(
    core: &Rc<Core>,
    column: Column,
    at: Option<ZoneAddress>,
    blocks: BlockCount,
) -> Option<Result<Payload, Status>> {
    match at {
        Some(at) => Some(core.read_zone(column, at, blocks).await),
        None => None,
    }
}

/// The block of a place, which is block number `at` of what was read, or is rebuilt.
async fn found_in(
    core: &Rc<Core>,
    read: Option<&Result<Payload, Status>>,
    at: usize,
    place: BlockPlace,
) -> Option<FoundBlock> {
    let good = read.and_then(|read| read.as_ref().ok());
    if let Some(block) = good.and_then(|payload| intact(core, payload, at, place)) {
        return Some(block);
    }
    let mut rebuilt = rebuild_block(core, place).await;
    for _ in 1..TRIES {
        if rebuilt.is_some() {
            break;
        }
        // What is given up here, a reader takes for lost, and the collector makes so.
        mark(Mark::BlockTriedAgain);
        let address = address_of(&core.state.borrow(), place);
        let alone = read_at(core, place.column, address, BlockCount(1)).await;
        let good = alone.as_ref().and_then(|read| read.as_ref().ok());
        if let Some(block) = good.and_then(|payload| intact(core, payload, 0, place)) {
            return Some(block);
        }
        rebuilt = rebuild_block(core, place).await;
    }
    note_repair(core, place, read, rebuilt)
}

fn address_of(state: &State, place: BlockPlace) -> Option<ZoneAddress> {
    let segment = &state.segments[place.slot];
    let zone = segment.zones[place.column.index()]?.zone;
    Some(ZoneAddress { zone, offset: segment.geometry.offset_of(place.block) })
}

fn intact(core: &Core, payload: &Payload, at: usize, place: BlockPlace) -> Option<FoundBlock> {
    let found = verified(core, payload, at, place);
    if found.is_none() && mutant(Mutant::ReadNotVerified) {
        let identity = Oob::parse(&payload.block_oob(at))?.identity()?;
        return Some(FoundBlock { data: payload.block(at), identity });
    }
    found
}

fn verified(core: &Core, payload: &Payload, at: usize, place: BlockPlace) -> Option<FoundBlock> {
    let data = payload.block(at);
    let oob = verify(&core.state.borrow(), place, place.column, &data, &payload.block_oob(at))?;
    let stripe = {
        let state = core.state.borrow();
        let segment = &state.segments[place.slot];
        let (row, _) = segment.geometry.row_of(place.block);
        segment.stripe_of(place.column, row)
    };
    if oob.stripe != stripe && !mutant(Mutant::MisdirectedBlockAccepted) {
        mark(Mark::BlockOfOtherStripe);
        return None;
    }
    Some(FoundBlock { data, identity: oob.identity()? })
}

/// Notes that a block was missing, unreadable or damaged, and takes what was rebuilt for it.
fn note_repair(
    core: &Rc<Core>,
    place: BlockPlace,
    read: Option<&Result<Payload, Status>>,
    rebuilt: Option<Rebuilt>,
) -> Option<FoundBlock> {
    let mut state = core.state.borrow_mut();
    state.counters.degraded_reads += 1;
    let failed_drive = matches!(read, None | Some(Err(Status::DeviceGone)));
    mark(match (&rebuilt, read) {
        (None, _) => Mark::BlockBeyondRepair,
        (Some(_), Some(Ok(_))) => Mark::DamagedBlockRebuilt,
        (Some(_), _) if failed_drive => Mark::MissingBlockRebuilt,
        (Some(_), _) => Mark::UnreadableBlockRebuilt,
    });
    if !failed_drive {
        let errors = &mut state.members[place.column.index()].errors;
        errors.checksum += u64::from(matches!(read, Some(Ok(_))));
        match &rebuilt {
            Some(_) => errors.repaired += 1,
            None => errors.unrepairable += 1,
        }
        state.segments[place.slot].damaged = true;
        drop(state);
        core.changed.open();
    }
    let rebuilt = rebuilt?;
    let identity = BlockIdentity::decode(&rebuilt.coded)?;
    Some(FoundBlock { data: rebuilt.data, identity })
}
