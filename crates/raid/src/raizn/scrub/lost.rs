//! Lost blocks: those of users that can be neither read nor rebuilt, because of what the drives
//! say of them. They are on record (`array/repair/faults`) until an operator clears them, or their
//! zone is reset.
//!
//! A stripe is judged place by place, of which each unit has one block. Every drive is asked once
//! more: one that gives no answer may have the block that is needed. So what is lost follows from
//! answers alone.

use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::Lba;

use crate::array::error::NotRecorded;
use crate::array::format::faults::Faults;
use crate::array::format::numbers::Generation;
use crate::array::format::record::MemberState;
use crate::array::repair::faults::{self, RecordsFaults};
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::raizn::core::{Core, State};
use crate::raizn::doubtful::Doubtful;
use crate::raizn::read::Reader;
use crate::raizn::scrub::Again;
use crate::raizn::stripe::Block;
use crate::scheme::{Column, ColumnSet, Role, StripeId};

/// Blocks that are looked at again after an order to clear the faults, and the time for that: such
/// an order has an answer soon, also on failing media.
const LISTED_AGAIN_MOST: usize = 4096;
const LISTED_AGAIN_FOR: Nanos = Nanos::from_secs(10);

/// A place of a stripe, as the drives have answered.
pub(crate) struct Answers {
    pub(crate) zone: u32,
    pub(crate) stripe: StripeId,
    /// The block of the units.
    pub(crate) within: u32,
    /// Members without a drive, or not rebuilt.
    pub(crate) absent: ColumnSet,
    /// Members with damage there.
    pub(crate) damaged: ColumnSet,
    /// By role: the blocks that are there, or zeros behind the end of the zone.
    pub(crate) chunks: Vec<Option<Block>>,
}

impl Core {
    /// Has a block that a user's read did not get listed, if it is lost.
    pub(crate) fn judge_later(self: &Rc<Self>, reader: &Reader, column: Column, at: u32) {
        let Reader { zone, resets, .. } = *reader;
        // A member that is missing before the first change may have it, and may be back at the next
        // start.
        if self.is_unpublished() || self.is_known(zone, column, at) {
            return;
        }
        let place = Doubtful { zone, column, at, resets };
        let begins = self.state.borrow_mut().doubtful.add(place);
        if begins {
            self.handle.spawn_alone("lost blocks", self.clone().judge_doubtful());
        }
    }

    async fn judge_doubtful(self: Rc<Self>) {
        while let Some(Doubtful { zone, column, at, .. }) = self.next_doubtful() {
            // A reset waits for one place at most.
            let _reader = Reader::begin(&self, zone);
            let _is_lost = self.list_if_lost(zone, column, at).await;
        }
        // The end of the volume waits for that.
        self.changed.open();
    }

    /// The next place to be judged: none of a volume that ends, nor of a zone that is being reset.
    fn next_doubtful(&self) -> Option<Doubtful> {
        let ends = self.closing.get() || self.is_stopped();
        let state = &mut *self.state.borrow_mut();
        let logical = &state.logical;
        let resets = |place: &Doubtful| logical[place.zone as usize].resets_admitted;
        state.doubtful.next(|place| !ends && resets(place) == place.resets)
    }

    /// Lists a block that was neither read nor rebuilt, if it is lost, and those that are lost with
    /// it. Returns whether it is.
    pub(crate) async fn list_if_lost(self: &Rc<Self>, zone: u32, column: Column, at: u32) -> bool {
        if self.is_known(zone, column, at) {
            return true;
        }
        let generation = self.generation_of(zone);
        let Some(answers) = self.ask_all(zone, at).await else { return false };
        if self.generation_of(zone) != generation || self.is_stopped() {
            return false;
        }
        let lost = self.list_lost_of(&answers);
        match self.address(zone, column, at) {
            Some(lba) => lost.contains(&lba),
            // Parity of a place without lost blocks can be computed.
            None => !lost.is_empty(),
        }
    }

    fn generation_of(&self, zone: u32) -> Generation {
        self.state.borrow().logical[zone as usize].record.generation
    }

    /// The address of a block of users, as hosts have it; `None` for parity.
    fn address(&self, zone: u32, column: Column, at: u32) -> Option<Lba> {
        let layout = &self.layout;
        let stripe = layout.stripe_at(at);
        let role = layout.role_of(zone, stripe, column);
        let within = at - layout.row_start(stripe);
        layout.scheme().is_data(role).then(|| self.address_of(zone, stripe, role, within))
    }

    fn address_of(&self, zone: u32, stripe: StripeId, role: Role, within: u32) -> Lba {
        let layout = &self.layout;
        let block = layout.stripe_start(stripe) + layout.in_stripe(role, within);
        Lba(layout.first_of(zone) + u64::from(block))
    }

    fn is_known(&self, zone: u32, column: Column, at: u32) -> bool {
        let address = self.address(zone, column, at);
        address.is_some_and(|lba| self.state.borrow().array.lost.is_known(lba))
    }

    /// Forgets the known faults, once that is durable, and lists again what is still lost of them.
    ///
    /// # Errors
    /// If too few members are left, one of them does not take the record, or the volume is closing.
    /// Nothing is forgotten.
    pub(crate) async fn clear_faults(self: &Rc<Self>) -> Result<(), NotRecorded> {
        let forgotten = {
            // A close waits for this, and then lists what was not looked at.
            let _before_a_close = self.clearing.acquire().await;
            if self.closing.get() {
                return Err(NotRecorded::Stopped(StopReason::ShuttingDown));
            }
            // A reset may forget some of them while that is being recorded.
            let taken = |faults: &Faults| self.state.borrow_mut().unlisted.lose_all_of(faults);
            match faults::clear(self, taken).await {
                Ok(forgotten) => forgotten,
                Err((listed, error)) => {
                    self.forget_unlisted(&listed);
                    return Err(error);
                }
            }
        };
        self.list_again(forgotten).await;
        Ok(())
    }

    /// Lists those of the forgotten blocks that are still lost: the order brings no data back.
    async fn list_again(self: &Rc<Self>, forgotten: Faults) {
        let until = self.handle.now() + LISTED_AGAIN_FOR;
        let mut rest = forgotten;
        for _ in 0..LISTED_AGAIN_MOST {
            let Some(lba) = rest.lost_blocks().next() else { return };
            // A volume that closes lists the rest without reading it.
            if self.closing.get() {
                return;
            }
            if self.handle.now() >= until || !self.list_if_still_lost(lba).await {
                break;
            }
            rest.forget(lba.0..lba.0 + 1);
            self.state.borrow_mut().unlisted.forget(lba.0..lba.0 + 1);
        }
        // It may have begun to close while a block waited for a reset.
        if !self.closing.get() {
            self.forget_unlisted(&rest);
        }
    }

    /// A close need not list these blocks. Another order may look at blocks of its own.
    fn forget_unlisted(&self, faults: &Faults) {
        let unlisted = &mut self.state.borrow_mut().unlisted;
        for range in &faults.lost {
            unlisted.forget(range.lba.0..range.end());
        }
    }

    /// Lists a block if it is still lost. Returns `false` if the volume has stopped.
    async fn list_if_still_lost(self: &Rc<Self>, lba: Lba) -> bool {
        let size = u64::from(self.layout.zone_size());
        let number = |number: u64| u32::try_from(number).expect("a zone, or a block of it");
        let (zone, block) = (number(lba.0 / size), number(lba.0 % size));
        let reader = Reader::begin(self, zone);
        if self.resets_before_ended(&reader).await.is_err() {
            return false;
        }
        // Of joined ranges, some blocks may not be lost, nor written.
        if block < self.state.borrow().logical[zone as usize].completed {
            let place = self.layout.place(zone, block);
            let _is_lost = self.list_if_lost(zone, place.column, place.at).await;
        }
        true
    }

    /// Lists the blocks again that an order has not looked at: the volume closes.
    pub(crate) fn list_unread(&self) {
        let state = &mut *self.state.borrow_mut();
        let unlisted = std::mem::take(&mut state.unlisted);
        mark_if(Mark::ClearCutShort, || !unlisted.lost.is_empty());
        state.array.lost.lose_all_of(&unlisted);
    }

    /// Reads all blocks of a place; `None` if a drive gives no answer, or is being rebuilt and may
    /// have the block soon, or if the place has no parity in its place yet: then its data is in
    /// memory.
    async fn ask_all(self: &Rc<Self>, zone: u32, at: u32) -> Option<Answers> {
        let layout = &self.layout;
        let stripe = layout.stripe_at(at);
        let (completed, is_finished, absent) = {
            let state = self.state.borrow();
            let logical = &state.logical[zone as usize];
            let is_finished = logical.record.finished.is_some() && !logical.blocked;
            (logical.completed, is_finished, settled_columns(&state, zone)?)
        };
        let rest = completed.saturating_sub(layout.stripe_start(stripe));
        if rest < layout.stripe_blocks() && !is_finished {
            return None;
        }
        let within = at - layout.row_start(stripe);
        let roles = || (0..layout.scheme().columns()).map(Role::of);
        let column_of = |role| layout.column_of(zone, stripe, role);
        let reads = roles().map(|role| async move {
            let is_behind = layout.scheme().is_data(role) && layout.in_stripe(role, within) >= rest;
            match (is_behind, absent.contains(column_of(role))) {
                (true, _) => Some(Again::Sound(Block::zeros())),
                (false, true) => None,
                (false, false) => Some(self.read_again(zone, column_of(role), at).await),
            }
        });
        let answers = join_all(reads).await;
        let (mut damaged, mut chunks) = (ColumnSet::default(), Vec::new());
        for (role, answer) in roles().zip(answers) {
            chunks.push(match answer {
                Some(Again::Sound(block)) => Some(block),
                Some(Again::Damaged | Again::Offline) => {
                    damaged = damaged.with(column_of(role));
                    None
                }
                Some(Again::Unread) => return None,
                None => None,
            });
        }
        if settled_columns(&self.state.borrow(), zone) != Some(absent) {
            return None;
        }
        Some(Answers { zone, stripe, within, absent, damaged, chunks })
    }

    /// Lists the blocks of users at a place that are lost, and returns them.
    pub(crate) fn list_lost_of(&self, answers: &Answers) -> Vec<Lba> {
        let lost = self.lost_of(answers);
        self.list_lost(&lost, answers.damaged);
        lost
    }

    /// The blocks of users at a place that the drives do not have, and that cannot be rebuilt.
    fn lost_of(&self, answers: &Answers) -> Vec<Lba> {
        let Answers { zone, stripe, within, absent, chunks, .. } = answers;
        let (layout, scheme) = (&self.layout, self.layout.scheme());
        // Blocks that a stopped volume lacks may be back with its next start.
        if !scheme.survives(*absent) {
            return Vec::new();
        }
        let is_lost = |role: &Role| {
            let is_right = |block: &Block| self.is_right(*zone, *stripe, *role, *within, block);
            let is_missing = chunks[role.index()].is_none();
            is_missing && self.decode(chunks, *role).filter(is_right).is_none()
        };
        let data = (0..scheme.data()).map(Role::of).filter(is_lost);
        let lost: Vec<_> =
            data.map(|role| self.address_of(*zone, *stripe, role, *within)).collect();
        assert!(lost.len() <= scheme.data(), "{} blocks of {}", lost.len(), layout.scheme());
        lost
    }

    /// Lists blocks that are lost, and counts the damage of their members once.
    fn list_lost(&self, lost: &[Lba], damaged: ColumnSet) {
        let is_new = {
            let mut state = self.state.borrow_mut();
            let listed = lost.iter().filter(|lba| state.array.lost.lose(**lba)).count();
            let is_new = listed < lost.len();
            for column in damaged.iter().filter(|_| is_new) {
                state.array.members[column.index()].errors.unrepairable += 1;
            }
            is_new
        };
        if is_new {
            mark(Mark::ZonedLostListed);
            self.schedule_fault_record();
        }
    }
}

/// The members without their column of a zone; `None` if one of them is about to have it: not if
/// its rebuild left the zone out.
fn settled_columns(state: &State, zone: u32) -> Option<ColumnSet> {
    let lost = state.lost_columns(zone);
    let member = |column: Column| &state.array.members[column.index()];
    let is_rebuilt = |column| {
        member(column).device.is_some() && member(column).entry.state == MemberState::Rebuilding
    };
    let is_left_out = state.logical[zone as usize].left_out;
    (is_left_out || lost.iter().all(|column| !is_rebuilt(column))).then_some(lost)
}
