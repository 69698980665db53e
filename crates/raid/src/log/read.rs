//! The read path: look up, read, verify, and rebuild what does not verify.
//!
//! A segment is pinned while blocks of it are read, so its zones are not reset underneath. Every
//! block returned was verified against the identity of the block asked for; a block that cannot
//! be verified nor rebuilt is an error, never zeros.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{BlockCount, BlockError, Lba, Status, ZoneAddress, zero_blocks};

use crate::log::core::Core;
use crate::log::format::{BlockIdentity, ContentKind, Oob};
use crate::log::gather::{RawBlock, Spot, gather};
use crate::log::index::{BlockPlace, SegmentSlot};
use crate::log::reconstruct::{
    Plan, Rebuilt, plan_all, rebuild_block, rebuild_blocks, rebuild_from, verify,
};
use crate::log::state::State;
use crate::marks::{Mark, mark, mark_if};
use crate::mutants::{Mutant, mutant};

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

/// How one place is read.
enum Way {
    /// From its own drive.
    Direct(Spot),
    /// From the others: its own is missing.
    Rebuilt(Option<Plan>),
}

/// Reads data blocks by place, verified, rebuilt where they are damaged or their member is
/// missing. The segments must be pinned.
pub(super) async fn read_places(core: &Rc<Core>, places: &[BlockPlace]) -> Vec<Option<FoundBlock>> {
    let ways = ways_of(core, places);
    let gathered = gather(core, spots_of(&ways)).await;
    let mut found: Vec<_> = places
        .iter()
        .zip(&ways)
        .map(|(place, way)| match way {
            Way::Direct(spot) => intact(core, gathered.get(*spot)?.as_ref().ok()?, *place),
            Way::Rebuilt(_) => None,
        })
        .collect();
    let damaged = |at: &usize| found[*at].is_none() && matches!(ways[*at], Way::Direct(_));
    let damaged: Vec<_> = (0..places.len()).filter(damaged).collect();
    let places_of: Vec<_> = damaged.iter().map(|at| places[*at]).collect();
    let mut rebuilt = rebuild_blocks(core, &places_of).await.into_iter();
    for (at, (place, way)) in places.iter().zip(&ways).enumerate() {
        if found[at].is_some() {
            continue;
        }
        let (answer, rebuilt) = match way {
            Way::Direct(spot) => (gathered.get(*spot), rebuilt.next().expect("one a place")),
            Way::Rebuilt(plan) => {
                let plan = plan.as_ref();
                (None, plan.and_then(|plan| rebuild_from(core, plan, &gathered)))
            }
        };
        found[at] = repaired(core, answer, *place, rebuilt).await;
    }
    found
}

fn ways_of(core: &Core, places: &[BlockPlace]) -> Vec<Way> {
    let spots: Vec<_> = {
        let state = core.state.borrow();
        places.iter().map(|place| spot_of(&state, *place)).collect()
    };
    let missing = places.iter().zip(&spots).filter(|(_, spot)| spot.is_none());
    let missing: Vec<_> = missing.map(|(place, _)| *place).collect();
    let mut plans = plan_all(core, &missing).into_iter();
    let way = |spot: Option<Spot>| match spot {
        Some(spot) => Way::Direct(spot),
        None => Way::Rebuilt(plans.next().expect("one a place")),
    };
    spots.into_iter().map(way).collect()
}

/// What has to be read; a block may be both wanted and needed for another one.
fn spots_of(ways: &[Way]) -> Vec<Spot> {
    let mut spots = Vec::with_capacity(ways.len());
    for way in ways {
        match way {
            Way::Direct(spot) => spots.push(*spot),
            Way::Rebuilt(plan) => spots.extend(plan.iter().flat_map(Plan::spots)),
        }
    }
    spots
}

/// A block that was not intact: as it was rebuilt, or as another try finds it.
async fn repaired(
    core: &Rc<Core>,
    read: Option<&Result<RawBlock, Status>>,
    place: BlockPlace,
    mut rebuilt: Option<Rebuilt>,
) -> Option<FoundBlock> {
    for _ in 1..TRIES {
        if rebuilt.is_some() {
            break;
        }
        // What is given up here, a reader takes for lost, and the collector makes so.
        mark(Mark::BlockTriedAgain);
        let spot = spot_of(&core.state.borrow(), place);
        if let Some(spot) = spot {
            let again = gather(core, vec![spot]).await;
            let good = again.get(spot).and_then(|read| read.as_ref().ok());
            if let Some(block) = good.and_then(|raw| intact(core, raw, place)) {
                return Some(block);
            }
        }
        rebuilt = rebuild_block(core, place).await;
    }
    note_repair(core, place, read, rebuilt)
}

fn spot_of(state: &State, place: BlockPlace) -> Option<Spot> {
    let segment = &state.segments[place.slot];
    let zone = segment.zones[place.column.index()]?.zone;
    let offset = segment.geometry.offset_of(place.block);
    Some(Spot { column: place.column, at: ZoneAddress { zone, offset } })
}

fn intact(core: &Core, raw: &RawBlock, place: BlockPlace) -> Option<FoundBlock> {
    let found = verified(core, raw, place);
    if found.is_none() && mutant(Mutant::ReadNotVerified) {
        let (data, oob) = raw;
        let identity = Oob::parse(oob)?.identity()?;
        return Some(FoundBlock { data: data.clone(), identity });
    }
    found
}

fn verified(core: &Core, (data, oob): &RawBlock, place: BlockPlace) -> Option<FoundBlock> {
    let state = core.state.borrow();
    let oob = verify(&state, place, place.column, data, oob)?;
    let segment = &state.segments[place.slot];
    let (row, _) = segment.geometry.row_of(place.block);
    let stripe = segment.stripe_of(place.column, row);
    if oob.stripe != stripe && !mutant(Mutant::MisdirectedBlockAccepted) {
        mark(Mark::BlockOfOtherStripe);
        return None;
    }
    Some(FoundBlock { data: data.clone(), identity: oob.identity()? })
}

/// Notes that a block was missing, unreadable or damaged, and takes what was rebuilt for it.
fn note_repair(
    core: &Rc<Core>,
    place: BlockPlace,
    read: Option<&Result<RawBlock, Status>>,
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
