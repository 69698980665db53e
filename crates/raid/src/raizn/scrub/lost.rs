//! Lost blocks: those of users that can be neither read nor rebuilt, because of what the drives
//! say of them. They are on record (`array/repair/faults`) until an operator clears them, or their
//! zone is reset.
//!
//! A stripe is judged place by place, of which each unit has one block. Every drive is asked once
//! more: one that gives no answer may have the block that is needed. So what is lost follows from
//! answers alone.

use std::rc::Rc;

use zoneweave_zoned::{BlockCount, Lba, zero_blocks};

use crate::array::format::numbers::Generation;
use crate::array::repair::faults::RecordsFaults;
use crate::instrument::marks::{Mark, mark};
use crate::raizn::core::Core;
use crate::raizn::scrub::Again;
use crate::raizn::stripe::Block;
use crate::scheme::{Column, ColumnSet, Role, StripeId};

/// A place of a stripe, as the drives have answered.
struct Answers {
    zone: u32,
    stripe: StripeId,
    /// The block of the units.
    within: u32,
    /// Members without a drive, or not rebuilt.
    absent: ColumnSet,
    /// Members with damage there.
    damaged: ColumnSet,
    /// By role: the blocks that are there, or zeros behind the end of the zone.
    chunks: Vec<Option<Block>>,
}

impl Core {
    /// Lists a block that was neither read nor rebuilt, if it is lost, and those that are lost with
    /// it. Returns whether it is.
    pub(crate) async fn list_if_lost(self: &Rc<Self>, zone: u32, column: Column, at: u32) -> bool {
        if self.is_listed(zone, column, at) {
            return true;
        }
        let generation = self.generation_of(zone);
        let Some(answers) = self.ask_all(zone, at).await else { return false };
        if self.generation_of(zone) != generation || self.is_stopped() {
            return false;
        }
        let lost = self.lost_of(&answers);
        self.list_lost(&lost, answers.damaged);
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

    fn is_listed(&self, zone: u32, column: Column, at: u32) -> bool {
        let address = self.address(zone, column, at);
        address.is_some_and(|lba| self.state.borrow().array.lost.is_listed(lba))
    }

    /// Reads all blocks of a place; `None` if a drive gives no answer, or if the place has no
    /// parity in its place yet: then its data is in memory.
    async fn ask_all(self: &Rc<Self>, zone: u32, at: u32) -> Option<Answers> {
        let layout = &self.layout;
        let stripe = layout.stripe_at(at);
        let (completed, is_finished, absent) = {
            let state = self.state.borrow();
            let logical = &state.logical[zone as usize];
            let is_finished = logical.record.finished.is_some() && !logical.blocked;
            (logical.completed, is_finished, state.lost_columns(zone))
        };
        let rest = completed.saturating_sub(layout.stripe_start(stripe));
        if rest < layout.stripe_blocks() && !is_finished {
            return None;
        }
        let within = at - layout.row_start(stripe);
        let roles = (0..layout.scheme().columns()).map(Role::of);
        let (mut damaged, mut chunks) = (ColumnSet::default(), Vec::new());
        for role in roles {
            let column = layout.column_of(zone, stripe, role);
            let is_behind = layout.scheme().is_data(role) && layout.in_stripe(role, within) >= rest;
            chunks.push(match is_behind {
                true => Some(Block { data: zero_blocks(BlockCount(1)), sum: 0 }),
                false if absent.contains(column) => None,
                false => match self.read_again(zone, column, at).await {
                    Again::Sound(block) => Some(block),
                    Again::Damaged | Again::Offline => {
                        damaged = damaged.with(column);
                        None
                    }
                    Again::Unread => return None,
                },
            });
        }
        Some(Answers { zone, stripe, within, absent, damaged, chunks })
    }

    /// The blocks of users at a place that the drives do not have, and that cannot be rebuilt.
    fn lost_of(&self, answers: &Answers) -> Vec<Lba> {
        let Answers { zone, stripe, within, absent, chunks, .. } = answers;
        let (layout, scheme) = (&self.layout, self.layout.scheme());
        // What a stopped volume lacks may be back with its next start.
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
