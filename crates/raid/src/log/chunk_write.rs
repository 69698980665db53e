//! Writing the chunks of a stripe.
//!
//! Chunks of tabled segments are appended at once: the drive picks the row. Those of aligned segments are
//! queued for their zone (`zone_queue`), which a task of its own empties while there is something in it.

use std::rc::Rc;

use zoneweave_runtime::Receiver;
use zoneweave_zoned::{
    Command, Completion, Reply, Status, ZoneAddress, ZoneId, ZoneOffset, ZonedDevice,
};

use crate::layout::Column;
use crate::log::core::Core;
use crate::log::format::EntryKind;
use crate::log::geometry::Row;
use crate::log::index::SegmentSlot;
use crate::log::step::StripePlan;
use crate::log::stripe::Chunk;
use crate::log::write::Hold;
use crate::log::zone_queue::{Written, ZoneWrite};
use crate::marks::INSTRUMENTED;
use crate::mutants::{Mutant, mutant};

/// The most blocks that one write gathers: beyond 256 KiB drives get no faster, and what comes after
/// it waits the longer.
const GATHERED_BLOCKS: u32 = 64;

/// Where a chunk went.
pub(super) type Placed = Result<ZoneAddress, Status>;

/// A chunk on its way.
enum Underway {
    Append(Rc<dyn ZonedDevice>, Completion),
    InPlace(Receiver<Written>),
    Nowhere,
}

/// Submits a chunk, or queues it behind those that were submitted before; the future tells where it is
/// when it is written.
pub(super) fn submit(
    core: &Rc<Core>,
    chunk: &Chunk,
    zone: ZoneId,
    plan: &StripePlan,
) -> impl Future<Output = Placed> + use<> {
    let (column, slot) = (chunk.column, plan.slot);
    let is_parity = chunk.entries.iter().all(|entry| entry.kind == EntryKind::Parity);
    let fua = plan.fua && !(is_parity && mutant(Mutant::FuaSkipsParity));
    let (appends, offset) = {
        let segment = &core.state.borrow().segments[slot];
        (segment.table.is_some(), segment.geometry.offset_of_row(Row(plan.stripe)))
    };
    let at = ZoneAddress { zone, offset };
    let device = core.device(column);
    let append = Command::Append { zone, payload: chunk.payload.clone(), fua };
    let again = (appends && INSTRUMENTED).then(|| (device.clone(), append.clone()));
    let underway = match device {
        None => Underway::Nowhere,
        Some(device) if appends => appended(device, append),
        Some(device) => {
            let open = OpenZone { slot, column, zone, device };
            Underway::InPlace(queue(core, open, chunk, offset, fua))
        }
    };
    let core = core.clone();
    async move {
        if is_parity && mutant(Mutant::AckBeforeParity) {
            let held = Hold::new(&core, slot);
            core.handle.clone().spawn("parity", async move {
                let _placed = placed(&core, column, at, underway).await;
                drop(held);
            });
            return Ok(at);
        }
        match (placed(&core, column, at, underway).await, again) {
            (Err(_), Some((Some(device), append))) if mutant(Mutant::AppendRetriedBlindly) => {
                placed(&core, column, at, appended(device, append)).await
            }
            (placed, _) => placed,
        }
    }
}

fn appended(device: Rc<dyn ZonedDevice>, append: Command) -> Underway {
    let completion = device.submit(append);
    Underway::Append(device, completion)
}

async fn placed(core: &Rc<Core>, column: Column, at: ZoneAddress, underway: Underway) -> Placed {
    match underway {
        // Whoever empties the queue notes how the write went.
        Underway::InPlace(written) => written.await.unwrap_or(Err(Status::Aborted)).map(|()| at),
        Underway::Append(device, completion) => {
            let placed = place_of(completion.await);
            core.note_chunk(column, &device, placed.map(|_| ()));
            placed
        }
        Underway::Nowhere => Err(Status::DeviceGone),
    }
}

fn place_of(reply: Result<Reply, Status>) -> Placed {
    match reply? {
        Reply::Written(at) => Ok(at),
        _ => Err(Status::InternalError),
    }
}

/// A zone of an open segment, and the drive that it is on: a member that comes in its place meanwhile
/// must not get what was meant for it.
struct OpenZone {
    slot: SegmentSlot,
    column: Column,
    zone: ZoneId,
    device: Rc<dyn ZonedDevice>,
}

/// Queues a chunk, and has somebody empty the queue.
fn queue(
    core: &Rc<Core>,
    open: OpenZone,
    chunk: &Chunk,
    at: ZoneOffset,
    fua: bool,
) -> Receiver<Written> {
    let mut state = core.state.borrow_mut();
    let segment = &mut state.segments[open.slot];
    let most = if segment.gathers { GATHERED_BLOCKS } else { 1 };
    let queue = &mut segment.queues[open.column.index()];
    let (written, start) = queue.push(at, chunk.payload.clone(), fua);
    drop(state);
    if start {
        let most = most.min(open.device.geometry().max_transfer.0);
        core.handle.spawn("zone", empty_queue(core.clone(), open, most));
    }
    written
}

/// Writes what waits for a zone, one write after the other, until nothing does: if the member is taken
/// out of service nothing does any more. The stripes that wait for it keep the segment where it is.
async fn empty_queue(core: Rc<Core>, open: OpenZone, most_blocks: u32) {
    let OpenZone { slot, column, zone, device } = open;
    loop {
        let next = core.state.borrow_mut().queue_mut(slot, column).next(most_blocks);
        let Some(ZoneWrite { at, payload, fua, done }) = next else { return };
        let at = ZoneAddress { zone, offset: at };
        let placed = place_of(device.submit(Command::Write { at, payload, fua }).await);
        let elsewhere =
            |told: ZoneAddress| if told == at { Ok(()) } else { Err(Status::InternalError) };
        let written = placed.and_then(elsewhere);
        core.note_chunk(column, &device, written);
        core.state.borrow_mut().queue_mut(slot, column).written(done, written);
    }
}
