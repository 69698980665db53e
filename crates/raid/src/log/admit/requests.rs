//! Users' requests: admission, sequences, and waiting.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{BLOCK_BYTES, BlockError, Lba};

use crate::array::health::Members;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::admit::pending::{
    Origin, PendingBlock, PendingData, PendingTrim, Request, Ticket, TicketReceiver, answered,
};
use crate::log::engine::class::Lifetime;
use crate::log::engine::core::Core;
use crate::log::format::{ContentKind, TrimExtent, data_checksum};
use crate::log::index::cache::{For, hold_range};
use crate::log::index::steps::{Looks, step_of};
use crate::log::segment::open::check_writable;

impl Core {
    fn takes_writes(&self) -> bool {
        let stopped = self.state.borrow().array.stopped.is_some();
        !(self.closing.get() || self.refusing.get() || self.is_unpublished() || stopped)
    }
}

/// Checks that a range lies within the volume.
///
/// # Errors
/// If it does not.
pub(in crate::log) fn check_range(core: &Core, lba: Lba, blocks: u64) -> Result<(), BlockError> {
    let capacity = core.state.borrow().array.config.log().volume_blocks;
    match lba.0.checked_add(blocks) {
        Some(end) if end <= capacity => Ok(()),
        _ => Err(BlockError::OutOfRange { lba, blocks, capacity }),
    }
}

fn blocks_of(data: &[Bytes]) -> u64 {
    data.iter().map(|piece| (piece.len() / BLOCK_BYTES) as u64).sum()
}

/// Writes blocks, as [`write()`] does, if they can be queued without waiting.
pub(in crate::log) fn write_at_once(
    core: &Rc<Core>,
    lba: Lba,
    data: &[Bytes],
    fua: bool,
) -> Option<TicketReceiver> {
    let blocks = blocks_of(data);
    let end = lba.0.checked_add(blocks).filter(|end| blocks > 0 && *end > lba.0)?;
    {
        let state = core.state.borrow();
        let inside = end <= state.array.config.log().volume_blocks;
        let ready = inside && state.mapping.has_whole_index() && !state.writes.has_few_sequences();
        if !ready || !core.takes_writes() || state.writes.inflight.write_must_wait(&(lba.0..end)) {
            return None;
        }
    }
    let admitted = core.admission.try_acquire_many(blocks);
    Some(queue_write(core, lba, data, Request { admitted: Some(admitted?), fua }))
}

/// Writes blocks; done when they are as durable as promised.
///
/// # Errors
/// If the range is wrong or the volume takes no writes.
pub(in crate::log) async fn write(
    core: &Rc<Core>,
    lba: Lba,
    data: Vec<Bytes>,
    fua: bool,
) -> Result<(), BlockError> {
    let blocks = blocks_of(&data);
    check_range(core, lba, blocks)?;
    if blocks == 0 {
        return Ok(());
    }
    let range = lba.0..lba.0 + blocks;
    let _held = hold_range(core, For::Users, range.clone()).await?;
    let admitted = Some(core.admission.acquire_many(blocks).await);
    check_writable(core).await?;
    while core.state.borrow().writes.inflight.write_must_wait(&range) {
        mark(Mark::WriteWaitsForTrim);
        core.changed.wait().await;
        // Closing the volume does not wait for requests that are not in flight yet.
        check_writable(core).await?;
    }
    let done = queue_write(core, lba, &data, Request { admitted, fua });
    answered(done.await)
}

fn queue_write(core: &Core, lba: Lba, data: &[Bytes], request: Request) -> TicketReceiver {
    let (blocks, fua) = (blocks_of(data), request.fua);
    assert!(
        data.iter().all(|piece| piece.len().is_multiple_of(BLOCK_BYTES)),
        "a write at {lba} of pieces that are not whole blocks"
    );
    let (ticket, done) = Ticket::of(request, blocks);
    let room = {
        let mut state = core.state.borrow_mut();
        let (end, capacity) = (lba.0 + blocks, state.array.config.log().volume_blocks);
        assert!(end <= capacity, "a write up to block {end} of {capacity} was admitted");
        assert!(
            !state.writes.inflight.write_must_wait(&(lba.0..end)),
            "a write of {blocks} blocks at {lba} overtakes a trim"
        );
        state.writes.inflight.begin_write(lba.0..lba.0 + blocks);
        let sequence = state.writes.take_sequence();
        // By its first block: the blocks of a request stay together.
        let lifetime = state.lifetime_of_write(lba, blocks);
        let class = state.writes.user.class_of(blocks, lifetime);
        state.writes.user.record_request(blocks);
        state.writes.user.fua += u64::from(fua);
        let seed = state.array.seed;
        let pieces = data.iter().flat_map(|piece| {
            (0..piece.len()).step_by(BLOCK_BYTES).map(move |at| piece.slice(at..at + BLOCK_BYTES))
        });
        for (at, block) in (0..).zip(pieces) {
            let lba = lba.plus(at);
            let block = PendingBlock::Data(PendingData {
                lba,
                sequence,
                kind: ContentKind::Data,
                data_checksum: data_checksum(seed, lba, sequence, &block),
                data: block,
                origin: Origin::User,
                ticket: ticket.clone(),
            });
            state.writes.user.queue_mut(class).push_back(block);
        }
        state.has_plenty()
    };
    // The tasks that free space react to waiting requests.
    if room {
        core.queued.open()
    } else {
        core.changed.open()
    }
    done
}

/// Makes a range read as zeros, as durably as a write.
///
/// # Errors
/// If the range is wrong or the volume takes no writes.
pub(in crate::log) async fn trim(
    core: &Rc<Core>,
    lba: Lba,
    blocks: u64,
    fua: bool,
) -> Result<(), BlockError> {
    check_range(core, lba, blocks)?;
    let end = lba.0 + blocks;
    let (mut start, mut looks) = (lba.0, Looks::default());
    while start < end {
        let length = step_of(core, For::Users).min(end - start);
        assert!(length > 0, "a trim at block {start} makes no progress");
        let _held = hold_range(core, For::Users, start..start + length).await?;
        let _admitted = core.admission.acquire().await;
        check_writable(core).await?;
        trim_extent(core, Lba(start), length, fua, &mut looks).await?;
        start += length;
    }
    Ok(())
}

async fn trim_extent(
    core: &Rc<Core>,
    lba: Lba,
    blocks: u64,
    fua: bool,
    looks: &mut Looks,
) -> Result<(), BlockError> {
    let (trim, sequence) = {
        let mut state = core.state.borrow_mut();
        let trim = state.writes.inflight.begin_trim(lba.0..lba.0 + blocks);
        (trim, state.writes.take_sequence())
    };
    while core.state.borrow().writes.inflight.trim_must_wait(trim) {
        mark(Mark::TrimWaits);
        core.changed.wait().await;
    }
    let extent = TrimExtent { lba, blocks, sequence };
    assert!(
        sequence < core.state.borrow().writes.next_sequence,
        "a trim at {lba} with sequence {sequence}, which is not assigned yet"
    );
    let result = if holds_data(core, &extent, looks).await {
        write_tombstone(core, extent, fua).await
    } else {
        // Nothing to hide: the range continues to read as zeros for the same reason as before.
        mark(Mark::TrimOfNothing);
        if fua { flush(core).await } else { Ok(()) }
    };
    core.state.borrow_mut().writes.inflight.end_trim(trim);
    core.changed.open();
    result
}

async fn write_tombstone(core: &Rc<Core>, extent: TrimExtent, fua: bool) -> Result<(), BlockError> {
    if mutant(Mutant::TrimNotWritten) {
        forget_range(core, &extent);
        return Ok(());
    }
    let (ticket, done) = Ticket::of(Request { admitted: None, fua }, 1);
    {
        let mut state = core.state.borrow_mut();
        state.writes.user.fua += u64::from(fua);
        let trim = PendingTrim { extent, origin: Origin::User, ticket };
        state.writes.user.push_trim(Lifetime::Long, trim);
    }
    core.changed.open();
    answered(done.await)
}

/// Drops the entries without a record of the trim; for [`Mutant::TrimNotWritten`].
fn forget_range(core: &Core, extent: &TrimExtent) {
    let range = extent.lba.0..extent.lba.0 + extent.blocks;
    range.for_each(|lba| core.state.borrow_mut().remap(Lba(lba), None));
}

/// Whether a range that is being trimmed holds data. Examined blocks do not change while this
/// yields: their pages are pinned, earlier writes are done, and later ones wait for the trim.
async fn holds_data(core: &Core, extent: &TrimExtent, looks: &mut Looks) -> bool {
    for part in Looks::parts(extent.lba.0..extent.lba.0 + extent.blocks) {
        let any = {
            let state = core.state.borrow();
            part.clone().any(|lba| state.data_place(Lba(lba)).is_some())
        };
        if any {
            return true;
        }
        looks.add(core, &part).await;
    }
    false
}

/// Makes every request answered so far durable.
///
/// # Errors
/// If too few members are left.
pub(in crate::log) async fn flush(core: &Rc<Core>) -> Result<(), BlockError> {
    if mutant(Mutant::FlushNotSent) {
        return Ok(());
    }
    if core.is_unpublished() {
        // Nothing was written in this life, and no membership changes before it is.
        core.flush_caches().await;
        return Ok(core.state.borrow().array.stopped.map_or(Ok(()), Err)?);
    }
    Ok(core.flush_members().await?)
}
