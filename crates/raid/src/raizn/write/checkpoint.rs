//! Frees the previous zone of a parity log (RAIZN §4.3).
//!
//! 1. Every write with a record in that zone completes.
//! 2. The parity of each partial stripe, as of the blocks that completed, and the relocated blocks
//!    go to the present zone. Parity that counts blocks still being written would be useless after
//!    a crash that loses these.
//! 3. All members are flushed, and then the previous zone is reset. Parity that replaces older
//!    records counts blocks of all members: while these may be lost in a cache, only the older
//!    records can reconstruct the blocks before them.
//!
//! A zone whose reset is under way has nothing in the checkpoint. A crash before its record is
//! durable brings its blocks back, so the previous zone is kept until then.

use std::rc::Rc;

use zoneweave_zoned::ZonedDevice;

use crate::array::format::numbers::Generation;
use crate::array::health::Members;
use crate::array::io::MemberIo;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::{Core, State};
use crate::raizn::format::log_record::LogKind;
use crate::raizn::layout::UNIT_BLOCKS_MOST;
use crate::raizn::parity_log::{LogWrite, ParityLog};
use crate::raizn::stripe::Block;
use crate::scheme::Column;

impl Core {
    /// Writes the checkpoint that frees the previous zone of a member's log.
    pub(crate) async fn checkpoint_log(
        self: Rc<Self>,
        column: Column,
        device: Rc<dyn ZonedDevice>,
    ) {
        let submitted: Vec<_> = {
            let state = self.state.borrow();
            state.logical.iter().map(|zone| (zone.resets_done, zone.submitted)).collect()
        };
        while !self.has_completed(&submitted) && !mutant(Mutant::ZonedCheckpointNotAwaited) {
            mark(Mark::ZonedCheckpointAwaits);
            if !self.is_of_member(column, &device) || self.is_stopped() {
                return;
            }
            self.changed.wait().await;
        }
        let unrecorded = {
            let mut state = self.state.borrow_mut();
            let records = self.checkpoint_records(&state, column);
            state.logs[column.index()].checkpoint.extend(records);
            unrecorded_resets(&state)
        };
        self.changed.open();
        self.start_log_writer(column);
        loop {
            if !self.is_of_member(column, &device) || self.is_stopped() {
                return;
            }
            let log_is_written = {
                let state = self.state.borrow();
                let log = &state.logs[column.index()];
                log.checkpoint.is_empty() && !log.is_writing_checkpoint()
            };
            if log_is_written {
                break;
            }
            self.changed.wait().await;
        }
        if !mutant(Mutant::ZonedCheckpointNotFlushed) {
            self.flush_caches().await;
        }
        while !self.are_recorded(&unrecorded) && !mutant(Mutant::ZonedCheckpointForgetsReset) {
            mark(Mark::ZonedCheckpointAwaitsReset);
            if !self.is_of_member(column, &device) || self.is_stopped() {
                return;
            }
            self.changed.wait().await;
        }
        self.membership_settled().await;
        let previous = self.state.borrow().logs[column.index()].previous;
        let Some((previous, _)) = previous.filter(|_| self.is_of_member(column, &device)) else {
            return;
        };
        let reset = self.reset_zone(column, ParityLog::zone(previous)).await;
        // The log of another drive, which came into the slot meanwhile, has a zone of its own to
        // free.
        if self.is_of_member(column, &device) {
            match reset {
                Ok(_) => self.state.borrow_mut().logs[column.index()].previous = None,
                Err(_) => self.fail_member(column, zoneweave_zoned::Status::WriteFault),
            }
        }
        self.changed.open();
        self.start_log_writer(column);
    }

    /// Whether everything that was submitted to each zone has completed, or the zone was reset.
    fn has_completed(&self, submitted: &[(u64, u32)]) -> bool {
        let state = self.state.borrow();
        state.logical.iter().zip(submitted).all(|(zone, (resets, submitted))| {
            zone.resets_done > *resets || zone.completed >= *submitted
        })
    }

    /// Whether these generations of zones are durable.
    fn are_recorded(&self, generations: &[(usize, Generation)]) -> bool {
        let state = self.state.borrow();
        generations.iter().all(|(zone, generation)| state.logical[*zone].recorded >= *generation)
    }

    pub(crate) fn start_log_writer(self: &Rc<Self>, column: Column) {
        let starts = {
            let mut state = self.state.borrow_mut();
            let log = &mut state.logs[column.index()];
            let starts = log.needs_writer();
            log.writing |= starts;
            starts
        };
        if starts {
            self.handle.spawn_alone("parity log writer", self.clone().write_log(column));
        }
    }

    /// Everything of a member's log that counts.
    pub(crate) fn checkpoint_records(&self, state: &State, column: Column) -> Vec<LogWrite> {
        let mut records = Vec::new();
        for zone in 0..self.layout.zones() {
            records.extend(self.partial_parity(state, zone, column));
            if !mutant(Mutant::ZonedRelocatedLeftOut) {
                records.extend(self.relocated_blocks(state, zone, column));
            }
        }
        records
    }

    /// The parity of a zone's partial stripe, as of its completed blocks, if a member has some.
    pub(crate) fn partial_parity(
        &self,
        state: &State,
        zone: u32,
        column: Column,
    ) -> Option<LogWrite> {
        let layout = &self.layout;
        let logical = &state.logical[zone as usize];
        let stripe = layout.stripe_of(logical.completed);
        let rest = logical.completed - layout.stripe_start(stripe);
        let role = layout.role_of(zone, stripe, column);
        if rest == 0 || layout.scheme().is_data(role) {
            return None;
        }
        let buffer = logical.stripe(stripe)?;
        assert!(
            buffer.filled() >= rest,
            "{} of {rest} completed blocks of stripe {stripe} are in memory",
            buffer.filled()
        );
        let within = 0..layout.parity_blocks(rest);
        let parity = layout.parity_number(role);
        let blocks =
            buffer.parity(layout, &self.code, rest, within).swap_remove(usize::from(parity));
        let blocks: Vec<Block> = blocks.into_blocks().collect();
        let kind = LogKind::Parity { parity, end: logical.completed, within: 0 };
        Some(self.log_write(state, zone, kind, &blocks, None))
    }

    /// The relocated blocks of a zone on a member, without those of writes in flight.
    fn relocated_blocks(&self, state: &State, zone: u32, column: Column) -> Vec<LogWrite> {
        let logical = &state.logical[zone as usize];
        let end = match logical.record.finished {
            Some(_) => logical.columns[column.index()].next,
            None => self.layout.column_end(zone, column, logical.completed),
        };
        let relocated = &logical.columns[column.index()].relocated;
        let mut records = Vec::new();
        let mut run: Vec<Block> = Vec::new();
        let mut start = 0;
        for (at, block) in relocated.range(..end) {
            mark(Mark::ZonedRelocatedRepeated);
            let length = u32::try_from(run.len()).expect("at most a unit");
            let follows = start + length == *at && length < UNIT_BLOCKS_MOST;
            if !run.is_empty() && !follows {
                let kind = LogKind::Relocated { at: start };
                records.push(self.log_write(state, zone, kind, &run, None));
                run.clear();
            }
            if run.is_empty() {
                start = *at;
            }
            run.push(block.clone());
        }
        if !run.is_empty() {
            let kind = LogKind::Relocated { at: start };
            records.push(self.log_write(state, zone, kind, &run, None));
        }
        records
    }
}

/// The zones whose reset is not durable, with the generations that it begins.
fn unrecorded_resets(state: &State) -> Vec<(usize, Generation)> {
    let zones = state.logical.iter().enumerate();
    let mut all = state.logical.iter();
    let is_behind = all.all(|zone| zone.recorded <= zone.record.generation);
    assert!(is_behind, "a zone is on record with a later generation");
    let unrecorded = zones.filter(|(_, zone)| zone.recorded < zone.record.generation);
    unrecorded.map(|(index, zone)| (index, zone.record.generation)).collect()
}
