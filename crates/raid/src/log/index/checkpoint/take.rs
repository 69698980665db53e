//! Writing checkpoints.

use std::rc::Rc;

use super::upkeep::Piece;
use crate::array::health::Members;
use crate::array::stop::StopReason;
use crate::log::admit::pending::{Origin, PendingBlock, PendingData, Ticket};
use crate::log::engine::address::{Page, Pba};
use crate::log::engine::class::Lifetime;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::checkpoint::{BlockLocation, RootBlock};
use crate::log::format::{ContentKind, RecordBody, data_checksum};
use crate::log::index::cache::{For, hold};
use crate::log::segment::open::check_writable;

/// Blocks of a checkpoint that are in flight at a time.
const BATCH_BLOCKS: usize = 64;

/// Writes checkpoints when they are due, until the volume closes.
pub(in crate::log) async fn run(core: Rc<Core>) {
    while !core.closing.get() {
        let due = core.state.borrow().next_checkpoint();
        if due.is_none() || core.refusing.get() {
            core.changed.wait().await;
            continue;
        }
        let taken = take(&core).await.is_some();
        core.state.borrow_mut().end_checkpoint(taken, core.refusing.get());
        core.changed.open();
        if !taken && !core.closing.get() {
            // The reason why it was not written has to change first.
            core.changed.wait().await;
        }
    }
}

/// Writes a checkpoint. `None` also if none is due any more: a concurrent record may have broken
/// the one before it.
async fn take(core: &Rc<Core>) -> Option<()> {
    check_writable(core).await.ok()?;
    let pages = {
        let mut state = core.state.borrow_mut();
        let extent = state.next_checkpoint()?;
        state.begin_checkpoint(extent)
    };
    for batch in pages.chunks(BATCH_BLOCKS) {
        write_pages(core, batch).await?;
    }
    let directories = core.state.borrow_mut().checkpoints.missing_directories();
    for batch in directories.chunks(BATCH_BLOCKS) {
        let fix =
            |state: &mut State| batch.iter().map(|number| state.fix_directory(*number)).collect();
        let places = write(core, batch.len(), fix).await?;
        assert!(
            places.len() == batch.len(),
            "{} addresses of {} directories",
            places.len(),
            batch.len()
        );
        let mut state = core.state.borrow_mut();
        batch
            .iter()
            .zip(places)
            .for_each(|(number, at)| state.checkpoints.place_directory(*number, at));
    }
    let (root, at) = write_chain(core).await?;
    core.flush_members().await.ok()?;
    let pointer = core.state.borrow_mut().checkpoints.announce_checkpoint(&root, at)?;
    core.superblock.commit(core, RecordBody::Checkpoint(pointer)).await.ok()
}

async fn write_pages(core: &Rc<Core>, pages: &[Page]) -> Option<()> {
    let ranges = {
        let state = core.state.borrow();
        let ranges = pages.iter().map(|page| state.mapping.index.blocks_of(*page));
        ranges.filter(|_| state.mapping.offload.is_some()).collect::<Vec<_>>()
    };
    let _held = hold(core, For::Moving, &ranges).await.ok()?;
    let mut told = Vec::new();
    let fix = |state: &mut State| {
        let mut pieces = Vec::new();
        for page in pages {
            if state.adopt_page(*page) {
                continue;
            }
            if let Some(piece) = state.fix_page(*page) {
                told.push(*page);
                pieces.push(piece);
            } else {
                state.checkpoints.place_page(*page, None);
            }
        }
        pieces
    };
    let places = write(core, pages.len(), fix).await?;
    assert!(places.len() == told.len(), "{} addresses of {} pages", places.len(), told.len());
    let mut state = core.state.borrow_mut();
    told.into_iter()
        .zip(places)
        .for_each(|(page, at)| state.checkpoints.place_page(page, Some(at)));
    Some(())
}

/// Writes the chain from its end, as every block names the next; returns the first block.
async fn write_chain(core: &Rc<Core>) -> Option<(RootBlock, BlockLocation)> {
    let writable = check_writable(core).await;
    writable.ok()?;
    let mut chain = core.state.borrow_mut().chain();
    let mut next = None;
    while let Some(mut block) = chain.pop() {
        block.next = next;
        let fix = |state: &mut State| {
            let data = block.encode(&state.checkpoints.space);
            vec![Piece { lba: zoneweave_zoned::Lba(0), sequence: block.coverage.sequence, data }]
        };
        let at = write(core, 1, fix).await?.pop()?;
        let location = core.state.borrow_mut().place_root(at)?;
        if chain.is_empty() {
            return Some((block, location));
        }
        next = Some(location);
    }
    None
}

/// Fixes at most `most` blocks and writes them like a user; returns their addresses.
pub(in crate::log) async fn write(
    core: &Rc<Core>,
    most: usize,
    fix: impl FnOnce(&mut State) -> Vec<Piece>,
) -> Option<Vec<Pba>> {
    // Addresses are reported for one batch at a time.
    let _turn = core.fixing.acquire().await;
    let _admitted = core.admission.acquire_many(most as u64).await;
    check_writable(core).await.ok()?;
    let written = {
        let mut state = core.state.borrow_mut();
        let pieces = fix(&mut state);
        assert!(pieces.len() <= most, "{} blocks with permits for {most}", pieces.len());
        if pieces.is_empty() {
            return Some(Vec::new());
        }
        let (ticket, written) = Ticket::new(pieces.len() as u64);
        assert!(
            state.checkpoints.placed.is_empty(),
            "{} blocks of another batch are in flight",
            state.checkpoints.placed.len()
        );
        let class = state.writes.user.class_beside(pieces.len() as u64, Lifetime::Long);
        state.checkpoints.placed = vec![None; pieces.len()];
        for (piece, Piece { lba, sequence, data }) in pieces.into_iter().enumerate() {
            let block = PendingBlock::Data(PendingData {
                lba,
                sequence,
                kind: ContentKind::Mapping,
                data_checksum: data_checksum(state.array.seed, lba, sequence, &data),
                data,
                origin: Origin::Checkpoint { piece },
                ticket: ticket.clone(),
            });
            state.writes.user.queue_mut(class).push_back(block);
        }
        written
    };
    core.changed.open();
    let written = written.await;
    let placed = std::mem::take(&mut core.state.borrow_mut().checkpoints.placed);
    written?.ok()?;
    placed.into_iter().collect()
}

/// Makes durable that no checkpoint is valid.
///
/// # Errors
/// If writes have stopped.
pub(in crate::log) async fn end(core: &Rc<Core>) -> Result<(), StopReason> {
    let pointer = core.state.borrow_mut().begin_void();
    core.superblock.commit(core, RecordBody::Checkpoint(pointer)).await?;
    core.state.borrow_mut().end_void();
    Ok(())
}

/// Voids checkpoints for the next start and stops the volume, if `is_news` confirms that an invalid
/// page was not known before.
pub(in crate::log) async fn give_up(core: &Rc<Core>, is_news: impl FnOnce(&mut State) -> bool) {
    if !is_news(&mut core.state.borrow_mut()) || core.closing.get() {
        return;
    }
    core.changed.open();
    // If that cannot be recorded, too few drives are left, and the state has the reason.
    let _recorded = end(core).await;
    let mut state = core.state.borrow_mut();
    if state.recovering.is_some() {
        state.stop_recovery();
    } else {
        state.array.stopped.get_or_insert(StopReason::UnreadableIndexPage);
    }
}
