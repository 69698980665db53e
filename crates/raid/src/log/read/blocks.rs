//! The read path: look up, read, verify, and reconstruct blocks that do not verify.
//!
//! A segment is pinned while its blocks are read, so its zones are not reset meanwhile. Every
//! returned block was verified against the requested identity. A block that can be neither verified
//! nor reconstructed is an error, never zeros.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use zoneweave_runtime::{Nanos, oneshot};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, Payload, Status};

use crate::array::io::MemberIo;
use crate::array::repair::faults::RecordsFaults;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::{BlockIdentity, Oob};
use crate::log::read::batch::{
    Gathered, RawBlock, Spot, are_in_order, gather, gather_seen, spot_of,
};
use crate::log::read::reconstruct::{
    Outlook, Plan, Rebuilt, plan_all, rebuild_block, rebuild_blocks, rebuild_from, rebuild_or_judge,
};
use crate::log::read::route::Route;
use crate::log::segment::pin::pin_all;
use crate::log::segment::table::{DamagedBlock, Fate};
use crate::log::segment::verify::{FoundBlock, verify};
use crate::scheme::ColumnSet;

/// Reads data blocks by place, reconstructing those on slow drives. The segments must be pinned.
pub(super) async fn read_hedged(
    core: &Rc<Core>,
    places: Vec<BlockPlace>,
) -> Vec<Option<FoundBlock>> {
    let route = core.state.borrow_mut().route(&places, || core.handle.now());
    read_by(core, places, route).await
}

pub(super) async fn read_by(
    core: &Rc<Core>,
    places: Vec<BlockPlace>,
    route: Route,
) -> Vec<Option<FoundBlock>> {
    match route {
        Route::Direct => {}
        Route::Around(held_up) => {
            if let Some(found) = read_around(core, &places, held_up).await {
                return found;
            }
            mark(Mark::HedgeFailed);
        }
        Route::Until(late) => return read_until(core, places, late).await,
    }
    read_places(core, &places).await
}

/// Reads blocks by place without any slow drive; `None` if that is impossible.
async fn read_around(
    core: &Rc<Core>,
    places: &[BlockPlace],
    held_up: ColumnSet,
) -> Option<Vec<Option<FoundBlock>>> {
    let ways = ways_of(core, places, held_up);
    let gathered = gather(core, spots_of(&ways)).await;
    let found = places.iter().zip(&ways).map(|(place, way)| match way {
        Way::Direct(spot) => intact_at(core, &gathered, *spot, *place),
        Way::Rebuilt(plan) => {
            let plan = plan.as_ref()?;
            let rebuilt = rebuild_from(core, plan, &gathered, true);
            let unverified = || rebuild_from(core, plan, &gathered, false);
            let careless = rebuilt.is_none() && mutant(Mutant::HedgeNotVerified);
            let Rebuilt { data, coded } = if careless { unverified() } else { rebuilt }?;
            Some(FoundBlock { data, identity: BlockIdentity::decode(&coded)? })
        }
    });
    found.map(|block| block.map(Some)).collect()
}

/// Reads blocks; late ones are also reconstructed, and the first answer counts. A task of its own
/// waits for the slower answer and keeps the segments pinned.
async fn read_until(
    core: &Rc<Core>,
    places: Vec<BlockPlace>,
    late: Nanos,
) -> Vec<Option<FoundBlock>> {
    let mut direct = Box::pin(read_pinned(core.clone(), places.clone()));
    let mut timer = pin!(core.handle.sleep_until(late));
    let in_time = poll_fn(|context| match direct.as_mut().poll(context) {
        Poll::Ready(found) => Poll::Ready(Some(found)),
        Poll::Pending => timer.as_mut().poll(context).map(|()| None),
    });
    if let Some(found) = in_time.await {
        return found;
    }
    let hedge = core.state.borrow_mut().hedge_late(&places, core.handle.now());
    let Some(held_up) = hedge else { return direct.await };
    let (sender, first) = oneshot();
    let answer = Rc::new(Cell::new(Some(sender)));
    let (here, mine) = (core.clone(), answer.clone());
    core.handle.spawn("late read", async move {
        let found = direct.await;
        here.state.borrow_mut().array.late_read_ended();
        if let Some(answer) = mine.take() {
            answer.send(found);
        }
    });
    let here = core.clone();
    let pins = pin_all(core, &places);
    core.handle.spawn("hedge", async move {
        let _pins = pins;
        let Some(found) = read_around(&here, &places, held_up).await else {
            mark(Mark::HedgeFailed);
            return;
        };
        if let Some(answer) = answer.take() {
            mark(Mark::HedgeWon);
            here.state.borrow_mut().counters.hedges_won += 1;
            answer.send(found);
        }
    });
    first.await.expect("the read itself ends")
}

async fn read_pinned(core: Rc<Core>, places: Vec<BlockPlace>) -> Vec<Option<FoundBlock>> {
    let _pins = pin_all(&core, &places);
    read_places(&core, &places).await
}

/// The way in which one place is read.
enum Way {
    /// From its own drive.
    Direct(Spot),
    /// From the other columns: its own is missing.
    Rebuilt(Option<Plan>),
}

/// Reads data blocks by place, verified, and reconstructed if damaged or missing. The segments must
/// be pinned.
pub(in crate::log) async fn read_places(
    core: &Rc<Core>,
    places: &[BlockPlace],
) -> Vec<Option<FoundBlock>> {
    let spots = direct_spots(&core.state.borrow(), places);
    let Some(spots) = spots else { return read_by_ways(core, places).await };
    let mut found = vec![None; places.len()];
    let in_order = are_in_order(&spots);
    let see = |at: usize, raw: RawBlock<'_>| {
        if in_order {
            found[at] = intact(core, raw.data(), raw.oob(), places[at]);
        }
    };
    let gathered = gather_seen(core, spots.clone(), see).await;
    for (at, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
        *found = intact_at(core, &gathered, spots[at], places[at]);
    }
    if found.iter().all(Option::is_some) {
        return found;
    }
    let ways: Vec<_> = spots.into_iter().map(Way::Direct).collect();
    Box::pin(repair_all(core, places, &ways, &gathered, found)).await
}

/// Address of each place; `None` if a member of any place is missing.
fn direct_spots(state: &State, places: &[BlockPlace]) -> Option<Vec<Spot>> {
    places.iter().map(|place| spot_of(state, *place)).collect()
}

/// Reads blocks as [`read_places`] does, with some members missing.
async fn read_by_ways(core: &Rc<Core>, places: &[BlockPlace]) -> Vec<Option<FoundBlock>> {
    let ways = ways_of(core, places, ColumnSet::default());
    let gathered = gather(core, spots_of(&ways)).await;
    let found = places
        .iter()
        .zip(&ways)
        .map(|(place, way)| match way {
            Way::Direct(spot) => intact_at(core, &gathered, *spot, *place),
            Way::Rebuilt(_) => None,
        })
        .collect();
    repair_all(core, places, &ways, &gathered, found).await
}

/// Reconstructs the blocks that were not intact.
async fn repair_all(
    core: &Rc<Core>,
    places: &[BlockPlace],
    ways: &[Way],
    gathered: &Gathered,
    mut found: Vec<Option<FoundBlock>>,
) -> Vec<Option<FoundBlock>> {
    let damaged = |at: &usize| found[*at].is_none() && matches!(ways[*at], Way::Direct(_));
    let damaged: Vec<_> = (0..places.len()).filter(damaged).collect();
    {
        let state = core.state.borrow();
        let pinned = |at: &usize| state.segments[places[*at].slot].readers() > 0;
        assert!(damaged.iter().all(pinned), "a segment of {places:?} is read without a pin");
    }
    let places_of: Vec<_> = damaged.iter().map(|at| places[*at]).collect();
    let mut rebuilt = rebuild_blocks(core, &places_of).await.into_iter();
    for (at, (place, way)) in places.iter().zip(ways).enumerate() {
        if found[at].is_some() {
            continue;
        }
        let (answer, rebuilt) = match way {
            Way::Direct(spot) => (gathered.get(*spot), rebuilt.next().expect("one a place")),
            Way::Rebuilt(plan) => {
                let plan = plan.as_ref();
                (None, plan.and_then(|plan| rebuild_from(core, plan, gathered, true)))
            }
        };
        found[at] = repaired(core, answer.map(|read| read.map(|_| ())), *place, rebuilt).await;
    }
    assert!(rebuilt.next().is_none(), "more blocks are reconstructed than were damaged");
    found
}

/// Reads one data block as [`read_places`] does.
pub(super) async fn read_place(core: &Rc<Core>, place: BlockPlace) -> Option<FoundBlock> {
    let spot = spot_of(&core.state.borrow(), place);
    {
        let state = core.state.borrow();
        let segment = &state.segments[place.slot];
        assert!(segment.readers() > 0, "segment {} is read without a pin", segment.id);
    }
    let Some(spot) = spot else {
        return Box::pin(read_places(core, &[place])).await.pop().flatten();
    };
    let read = core.read_zone(spot.column, spot.at, BlockCount(1)).await;
    let read = match read.map(only_block) {
        Ok((data, oob)) => match intact(core, data, &oob, place) {
            Some(found) => return Some(found),
            None => Ok(()),
        },
        Err(status) => Err(status),
    };
    let rebuilt = Box::pin(rebuild_block(core, place)).await;
    Box::pin(repaired(core, Some(read), place, rebuilt)).await
}

/// Data and metadata of a block that was read by itself.
fn only_block(payload: Payload) -> (Bytes, Bytes) {
    let Payload { mut data, oob } = payload;
    match data.pop() {
        // Drives answer in one piece, which needs no copy.
        Some(block) if data.is_empty() && block.len() == BLOCK_BYTES => (block, oob),
        last => {
            data.extend(last);
            let payload = Payload { data, oob };
            (payload.block(0), payload.block_oob(0))
        }
    }
}

/// The way of each place, if these columns are not read.
fn ways_of(core: &Core, places: &[BlockPlace], except: ColumnSet) -> Vec<Way> {
    let spots: Vec<_> = {
        let state = core.state.borrow();
        let spot = |place: &BlockPlace| {
            spot_of(&state, *place).filter(|spot| !except.contains(spot.column))
        };
        places.iter().map(spot).collect()
    };
    let missing = places.iter().zip(&spots).filter(|(_, spot)| spot.is_none());
    let missing: Vec<_> = missing.map(|(place, _)| *place).collect();
    let mut plans = plan_all(core, &missing, except).into_iter();
    let way = |spot: Option<Spot>| match spot {
        Some(spot) => Way::Direct(spot),
        None => Way::Rebuilt(plans.next().expect("one a place")),
    };
    let ways: Vec<_> = spots.into_iter().map(way).collect();
    assert!(plans.next().is_none(), "more plans than blocks of missing members");
    ways
}

/// Addresses to read; a block may be both a result and a source for another.
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

/// A block that was not intact: reconstructed, or from another attempt.
async fn repaired(
    core: &Rc<Core>,
    read: Option<Result<(), Status>>,
    place: BlockPlace,
    mut rebuilt: Option<Rebuilt>,
) -> Option<FoundBlock> {
    let mut outlook = Outlook::Open;
    for _ in 1..TRIES {
        if rebuilt.is_some() {
            break;
        }
        // A block given up here is lost to a reader, and the collector records it as lost.
        mark(Mark::BlockTriedAgain);
        let spot = spot_of(&core.state.borrow(), place);
        let mut is_answer = true;
        if let Some(spot) = spot {
            let again = gather(core, vec![spot]).await;
            if let Some(block) = intact_at(core, &again, spot, place) {
                return Some(block);
            }
            is_answer = again.are_answers([spot]);
        }
        (rebuilt, outlook) = rebuild_or_judge(core, place).await;
        if !is_answer {
            outlook = Outlook::Open;
        }
    }
    count_repair(core, place, read, rebuilt, outlook)
}

/// The block of a place, if it is intact.
fn intact_at(
    core: &Core,
    gathered: &Gathered,
    spot: Spot,
    place: BlockPlace,
) -> Option<FoundBlock> {
    let raw = gathered.get(spot)?.ok()?;
    intact(core, raw.data(), raw.oob(), place)
}

fn intact(core: &Core, data: Bytes, oob: &[u8], place: BlockPlace) -> Option<FoundBlock> {
    let identity = verified(core, &data, oob, place);
    let careless = identity.is_none() && mutant(Mutant::ReadNotVerified);
    let identity = if careless { Oob::parse(oob)?.identity() } else { identity }?;
    Some(FoundBlock { data, identity })
}

fn verified(core: &Core, data: &[u8], oob: &[u8], place: BlockPlace) -> Option<BlockIdentity> {
    let state = core.state.borrow();
    let oob = verify(&state, place, place.column, data, oob)?;
    let segment = &state.segments[place.slot];
    let (row, _) = segment.geometry.row_of(place.block);
    let stripe = segment.stripe_of(place.column, row);
    if oob.stripe != stripe && !mutant(Mutant::MisdirectedBlockAccepted) {
        mark(Mark::BlockOfOtherStripe);
        return None;
    }
    oob.identity()
}

/// Counts a missing, unreadable or damaged block, and takes the reconstructed one for it. Without
/// one, its outlook says whether it is lost: a drive whose path is down may yet return it.
fn count_repair(
    core: &Rc<Core>,
    place: BlockPlace,
    read: Option<Result<(), Status>>,
    rebuilt: Option<Rebuilt>,
    outlook: Outlook,
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
    let fate = match (&rebuilt, outlook) {
        (Some(_), _) => Some(Fate::Restored),
        (None, Outlook::Lost) => Some(Fate::Lost),
        (None, Outlook::Awaited) => Some(Fate::Found),
        (None, Outlook::Open) => None,
    };
    if fate == Some(Fate::Found) {
        state.note_awaited_at(place);
    }
    if let Some(fate) = fate.filter(|_| !failed_drive) {
        let block = DamagedBlock {
            column: place.column,
            offset: state.segments[place.slot].geometry.offset_of(place.block),
            is_readable: matches!(read, Some(Ok(_))),
        };
        state.count_damage(place.slot, block, fate);
        drop(state);
        core.changed.open();
        core.schedule_fault_record();
    }
    let rebuilt = rebuilt?;
    let identity = BlockIdentity::decode(&rebuilt.coded)?;
    Some(FoundBlock { data: rebuilt.data, identity })
}

/// Attempts at a block that can be neither read nor reconstructed.
pub(super) const TRIES: u32 = 4;
