//! Reads of users: a range of the volume, with its index pages pinned.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{BlockCount, BlockError, Lba, zero_blocks};

use crate::array::repair::faults::RecordsFaults;
use crate::instrument::marks::{Mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::core::Core;
use crate::log::format::ContentKind;
use crate::log::index::cache::{For, hold_range};
use crate::log::read::blocks::{read_by, read_hedged, read_place};
use crate::log::read::route::Route;
use crate::log::segment::pin::{Pin, pin_all};
use crate::log::segment::verify::FoundBlock;

/// Reads a range of the volume.
///
/// # Errors
/// The first block that is lost.
pub(in crate::log) async fn read_range(
    core: &Rc<Core>,
    lba: Lba,
    blocks: u32,
) -> Result<Vec<Bytes>, BlockError> {
    if blocks == 1 {
        return Ok(vec![read_one(core, lba).await?]);
    }
    let places: Vec<_> = {
        let _held = hold_range(core, For::Users, lba.0..lba.0 + u64::from(blocks)).await?;
        let state = core.state.borrow();
        (0..blocks.into()).map(|at| state.data_place(lba.plus(at))).collect()
    };
    let mapped: Vec<_> = places.iter().flatten().copied().collect();
    let _pins = pin_all(core, &mapped);
    let mut found = read_hedged(core, mapped).await.into_iter();
    core.state.borrow_mut().counters.user_blocks_read += u64::from(blocks);
    let mut data = Vec::with_capacity(places.len());
    for (at, place) in (0..).zip(places) {
        let Some(place) = &place else {
            data.push(zero_blocks(BlockCount(1)));
            continue;
        };
        let found = found.next().expect("one result a place");
        data.push(contents(core, lba.plus(at), *place, found)?);
    }
    assert!(found.next().is_none(), "more blocks were read at {lba} than are mapped");
    Ok(data)
}

/// Reads one block of the volume, without lists: most reads are of one block.
async fn read_one(core: &Rc<Core>, lba: Lba) -> Result<Bytes, BlockError> {
    let place = if core.state.borrow().mapping.has_whole_index() {
        core.state.borrow().data_place(lba)
    } else {
        let _held = Box::pin(hold_range(core, For::Users, lba.0..lba.0 + 1)).await?;
        core.state.borrow().data_place(lba)
    };
    let Some(place) = place else {
        core.state.borrow_mut().counters.user_blocks_read += 1;
        return Ok(zero_blocks(BlockCount(1)));
    };
    let _pin = Pin::new(core, place.slot);
    let route = core.state.borrow_mut().route(&[place], || core.handle.now());
    let found = match route {
        Route::Direct => read_place(core, place).await,
        route => Box::pin(read_by(core, vec![place], route)).await.pop().flatten(),
    };
    core.state.borrow_mut().counters.user_blocks_read += 1;
    contents(core, lba, place, found)
}

/// Lists a lost block. One that a drive may bring back is not lost yet.
fn record_loss(core: &Core, lba: Lba, place: BlockPlace, is_on_record: bool) {
    let mut state = core.state.borrow_mut();
    let pba = state.space.pba(place);
    state.awaited.identify(pba, lba);
    let segment = &state.segments[place.slot];
    let offset = segment.geometry.offset_of(place.block);
    if is_on_record || segment.damage.is_lost(place.column, offset) {
        let known = state.array.lost.lose(lba);
        drop(state);
        if !known {
            core.schedule_fault_record();
        }
    }
}

/// The contents of a mapped block.
fn contents(
    core: &Core,
    lba: Lba,
    place: BlockPlace,
    found: Option<FoundBlock>,
) -> Result<Bytes, BlockError> {
    let lost = |block: &FoundBlock| block.identity.kind == ContentKind::Lost;
    mark_if(Mark::LostBlockRefused, || found.as_ref().is_some_and(lost));
    if found.as_ref().is_none_or(lost) {
        record_loss(core, lba, place, found.is_some());
    }
    let found = found.filter(|block| {
        let ours = block.identity.lba == lba || mutant(Mutant::MisdirectedBlockAccepted);
        block.identity.kind == ContentKind::Data && ours
    });
    if found.is_none() && mutant(Mutant::LostBlockReadsAsZeros) {
        return Ok(zero_blocks(BlockCount(1)));
    }
    Ok(found.ok_or(BlockError::Unrecoverable { lba })?.data)
}
