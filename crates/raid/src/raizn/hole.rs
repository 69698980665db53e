//! Blocks that a rebuild does not reconstruct at once, and *holes* for those that are lost.
//!
//! Each other drive is asked for its block of the place once more. If one gives no answer, or too
//! many have no column of the zone, the block is not judged. Otherwise it is lost: the new drive's
//! place gets a hole, and the lost blocks of users are listed. A later read, scrub or start takes
//! the hole for a damaged block.
//!
//! Invariant: a hole stands for a block that the drives in service said, or showed, to be lost. A
//! volume without checksums has none, as it could not tell one from data.

use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_zoned::Status;

use crate::array::format::config::Checksums;
use crate::array::repair::source::FailedSource;
use crate::raizn::core::Core;
use crate::raizn::scrub::lost::Answers;
use crate::raizn::stripe::Block;
use crate::scheme::{Column, ColumnSet, Role, StripeId};

/// Why blocks were not copied to a new drive.
pub(super) enum Halt {
    /// The new drive has failed, or the zone is not to be copied any more.
    Ended,
    /// Blocks are missing, and drives are not asked for them while users wait for the zone.
    Held,
    /// A drive does not return blocks, and no other one can stand in for it.
    Source(FailedSource),
}

/// By role: the block of each other drive, or how it failed the read; `None` for absent ones.
type Told = Vec<Option<Result<Block, Status>>>;

impl Core {
    /// Reconstructs a block of a column from what each other drive says of its own. `None` if it is
    /// lost, and listed so.
    pub(super) async fn rebuild_or_judge(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        at: u32,
    ) -> Result<Option<Block>, Halt> {
        let layout = &self.layout;
        let stripe = layout.stripe_at(at);
        let (role, within) = (layout.role_of(zone, stripe, column), at - layout.row_start(stripe));
        let absent = self.state.borrow().lost_columns(zone);
        assert!(absent.contains(column), "zone {zone} has {column}, which is rebuilt");
        if let Some(source) = self.absent_source(column, absent) {
            return Err(Halt::Source(source));
        }
        let told = self.ask_others(zone, stripe, within, absent).await;
        // What a stopped volume lacks may be back with its next start.
        if self.is_stopped() {
            return Err(Halt::Ended);
        }
        let chunks: Vec<Option<Block>> =
            told.iter().map(|told| told.as_ref()?.as_ref().ok().cloned()).collect();
        assert!(chunks[role.index()].is_none(), "a block is made from itself");
        let is_right = |block: &Block| self.is_right(zone, stripe, role, within, block);
        if let Some(block) = self.decode(&chunks, role).filter(is_right) {
            return Ok(Some(block));
        }
        let failed = (0..).map(Role::of).zip(&told).filter_map(|(role, told)| {
            let status = *told.as_ref()?.as_ref().err()?;
            Some(FailedSource { slot: layout.column_of(zone, stripe, role), status })
        });
        let (silent, damaged): (Vec<_>, Vec<_>) = failed.partition(|one| one.may_answer());
        if let Some(source) = silent.first() {
            return Err(Halt::Source(*source));
        }
        let columns: ColumnSet = damaged.iter().map(|one| one.slot).collect();
        self.list_lost_of(&Answers { zone, stripe, within, absent, damaged: columns, chunks });
        // Without checksums, any block that a drive returns counts as right.
        match damaged.first() {
            Some(source) if self.checksums == Checksums::None => Err(Halt::Source(*source)),
            _ => {
                assert!(self.checksums != Checksums::None, "a hole at {at} of {column}");
                Ok(None)
            }
        }
    }

    /// A drive without its column of a zone, if too many lack theirs: nothing else can be told of
    /// any block. One that is in service has a zone that cannot be relied on.
    fn absent_source(&self, column: Column, absent: ColumnSet) -> Option<FailedSource> {
        let state = self.state.borrow();
        if state.array.scheme().survives(absent) {
            return None;
        }
        let is_online = |slot: &Column| state.array.members[slot.index()].is_in_full_service();
        let others: Vec<_> = absent.iter().filter(|slot| *slot != column).collect();
        let slot = *others.iter().find(|slot| is_online(slot)).or(others.first())?;
        Some(FailedSource { slot, status: Status::ZoneReadOnly })
    }

    /// Reads the blocks of all units at a place of a stripe that counts, apart from absent columns.
    async fn ask_others(
        self: &Rc<Self>,
        zone: u32,
        stripe: StripeId,
        within: u32,
        absent: ColumnSet,
    ) -> Told {
        let layout = &self.layout;
        let (rest, is_finished) = {
            let logical = &self.state.borrow().logical[zone as usize];
            let rest = logical.completed.saturating_sub(layout.stripe_start(stripe));
            (rest, logical.record.finished.is_some())
        };
        let is_in_place = rest >= layout.stripe_blocks() || is_finished;
        assert!(is_in_place, "the data of a partial stripe is in memory");
        let at = layout.row_start(stripe) + within;
        let reads = (0..layout.scheme().columns()).map(Role::of).map(|role| async move {
            let column = layout.column_of(zone, stripe, role);
            let is_behind = layout.scheme().is_data(role) && layout.in_stripe(role, within) >= rest;
            match (is_behind, absent.contains(column)) {
                (true, _) => Some(Ok(Block::zeros())),
                (false, true) => None,
                (false, false) => self.fetch_told(zone, column, at, 1).await.pop(),
            }
        });
        join_all(reads).await
    }
}
