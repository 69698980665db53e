//! Writing the newest blocks of weak stripes again, to complete stripes.
//!
//! No two candidates are versions of the same block of the volume, so their order is free. Many are
//! written at a time, so that stripes are full: the contents of one segment must fit into one, as
//! only one is in reserve.

use std::rc::Rc;

use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::log::admit::pending::{
    Origin, PendingBlock, PendingData, PendingTrim, Ticket, TicketReceiver,
};
use crate::log::engine::class::Lifetime;
use crate::log::engine::core::Core;
use crate::log::format::{ContentKind, TrimExtent};
use crate::log::index::partition::Candidate;
use crate::log::read::blocks::read_places;
use crate::log::segment::pin::pin_all;
use crate::log::segment::verify::FoundBlock;

/// Blocks rewritten at a time, rounded up to whole stripes.
const REWRITTEN_BLOCKS: usize = 512;

/// Writes candidates to complete stripes.
///
/// # Errors
/// If writes stop.
pub(super) async fn rewrite_weak(
    core: &Rc<Core>,
    candidates: &[Candidate],
) -> Result<(), StopReason> {
    let recovers = core.state.borrow().recovering.is_some();
    assert!(recovers, "{} weak blocks are rewritten after recovery", candidates.len());
    let (data, trims): (Vec<_>, Vec<_>) =
        candidates.iter().partition(|candidate| candidate.hides.is_empty());
    let stripe = core.state.borrow().writes.relocation_shape().stripe_blocks();
    // Padding a stripe at the end of each batch could make the contents of a segment exceed one.
    for batch in data.chunks(REWRITTEN_BLOCKS.next_multiple_of(stripe)) {
        rewrite_weak_data(core, batch).await?;
    }
    rewrite_weak_trims(core, trims.iter().flat_map(|candidate| &candidate.hides)).await
}

async fn rewrite_weak_trims<'a>(
    core: &Rc<Core>,
    extents: impl Iterator<Item = &'a TrimExtent>,
) -> Result<(), StopReason> {
    let extents: Vec<_> = extents.copied().collect();
    if extents.is_empty() {
        return Ok(());
    }
    mark(Mark::WeakTrimRewritten);
    let (ticket, done) = Ticket::new(extents.len() as u64);
    {
        let mut state = core.state.borrow_mut();
        for extent in extents {
            let trim = PendingTrim { extent, origin: Origin::User, ticket: ticket.clone() };
            state.writes.relocation.push_trim(Lifetime::Long, trim);
        }
    }
    core.changed.open();
    wait(core, done).await
}

async fn rewrite_weak_data(core: &Rc<Core>, candidates: &[&Candidate]) -> Result<(), StopReason> {
    let places: Vec<_> = candidates.iter().map(|candidate| candidate.place).collect();
    let _pins = pin_all(core, &places);
    let found = read_places(core, &places).await;
    assert!(found.len() == places.len(), "{} answers for {} blocks", found.len(), places.len());
    if found.iter().any(Option::is_none) {
        // A drive has failed since the stripe was judged, and the stripe had no chunk to spare. It
        // was therefore never acknowledged; but an older version, which it superseded, may have
        // been.
        mark(Mark::WeakBlockGone);
        return Err(core.state.borrow_mut().stop_recovery());
    }
    let blocks: Vec<_> = found.into_iter().flatten().collect();
    let is_listed = |(candidate, block): (&&Candidate, &FoundBlock)| {
        matches!(block.identity.kind, ContentKind::Data | ContentKind::Lost)
            && block.identity.lba == candidate.lba
    };
    if !candidates.iter().zip(&blocks).all(is_listed) {
        // Only a faulty drive returns another block now than when the stripe was judged.
        return Err(core.state.borrow_mut().stop_recovery());
    }
    mark(Mark::WeakBlockRewritten);
    let (ticket, done) = Ticket::new(blocks.len() as u64);
    {
        let mut state = core.state.borrow_mut();
        let class = state.writes.relocation.class_of(1, Lifetime::Long);
        for FoundBlock { data, identity } in blocks {
            state.writes.inflight.begin_write(identity.lba.0..identity.lba.0 + 1);
            let block = PendingBlock::Data(PendingData {
                lba: identity.lba,
                sequence: identity.sequence,
                kind: identity.kind,
                data,
                data_checksum: identity.data_checksum,
                origin: Origin::User,
                ticket: ticket.clone(),
            });
            state.writes.relocation.queue_mut(class).push_back(block);
        }
    }
    core.changed.open();
    wait(core, done).await
}

async fn wait(core: &Core, done: TicketReceiver) -> Result<(), StopReason> {
    let refused = match done.await {
        Some(Ok(())) => return Ok(()),
        Some(Err(reason)) => reason,
        None => StopReason::BlocksNotRewritten,
    };
    // The reason why writes stopped also decides whether recovery may begin anew.
    Err(core.state.borrow().array.stopped.unwrap_or(refused))
}
