//! Moves damaged blocks of columns to the parity log, while users are served.
//!
//! 1. A record with the block is queued for the member's log. From then on, checkpoints repeat it.
//! 2. The record is written and flushed.
//! 3. The zone's record names the place as *junk*, durably. From then on, reads and starts take
//!    the block from the log.
//!
//! A start takes a zone to end before a place with junk whose block is neither in the log nor can
//! be reconstructed. So the place is named only once the block is durable. A zone that is complete
//! is *finished* in the same record: then no start looks for its end, and the loss of a block in
//! the log is not that of all blocks behind it.

use std::rc::Rc;

use zoneweave_zoned::ZonedDevice;

use crate::array::health::Members;
use crate::array::repair::scrub::ScrubUnits;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::{Core, State};
use crate::raizn::format::log_record::LogKind;
use crate::raizn::format::zone_record::Junk;
use crate::raizn::parity_log::relocated_most;
use crate::raizn::recover::excess::{JUNK_RANGES_MOST, relocations};
use crate::raizn::recover::repair::merged;
use crate::raizn::stripe::Block;
use crate::raizn::zone::Operation;
use crate::scheme::{Column, ColumnSet};

/// The outcome of moving a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relocated {
    Moved,
    /// The member's log or the zone's record has no room.
    NoRoom,
    /// The member failed meanwhile.
    MemberLost,
}

impl Core {
    /// Moves a block whose place is damaged. The caller holds off resets of the zone.
    ///
    /// # Errors
    /// If the volume stops, or is closed.
    pub(crate) async fn relocate_damaged(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        at: u32,
        block: Block,
    ) -> Result<Relocated, StopReason> {
        let device = self.state.borrow().array.members[column.index()].device.clone();
        let Some(device) = device else { return Ok(Relocated::MemberLost) };
        let operation = match self.queue_relocation(zone, column, at, block, &device).await? {
            Ok(operation) => operation,
            Err(why) => return Ok(why),
        };
        self.start_log_writer(column);
        self.logged(column, &operation).await;
        self.membership_settled().await;
        let is_complete = self.is_durably_complete(zone).await?;
        if !self.is_of_member(column, &device) {
            return Ok(Relocated::MemberLost);
        }
        {
            let mut state = self.state.borrow_mut();
            let logical = &mut state.logical[zone as usize];
            if is_complete && logical.record.finished.is_none() {
                mark(Mark::ZonedFinishedWithJunk);
                logical.record.finished = Some(self.layout.zone_blocks());
            }
            let junk = &mut logical.record.junk;
            let (mut own, mut others): (Vec<_>, Vec<_>) =
                junk.iter().copied().partition(|junk| junk.column == column);
            own.push(Junk { column, start: at, end: at + 1 });
            others.extend(merged(own));
            others.sort_unstable();
            *junk = others;
        }
        if !mutant(Mutant::ZonedRelocationNotRecorded) {
            self.record_zone(zone).await?;
        }
        Ok(Relocated::Moved)
    }

    /// Whether a zone is complete, and durable so: only then may it be finished on record.
    async fn is_durably_complete(self: &Rc<Self>, zone: u32) -> Result<bool, StopReason> {
        let (is_complete, is_finished) = {
            let logical = &self.state.borrow().logical[zone as usize];
            (logical.completed == self.layout.zone_blocks(), logical.record.finished.is_some())
        };
        if is_complete && !is_finished {
            self.flush_members().await?;
        }
        Ok(is_complete)
    }

    /// Waits until a member's log has the records of an operation, durably.
    async fn logged(self: &Rc<Self>, column: Column, operation: &Operation) {
        self.drive_writes(operation).await;
        // Writes may have waited for the space.
        self.pump_starved();
        let of_column: ColumnSet = std::iter::once(column).collect();
        self.flush_columns(of_column).await;
    }

    /// Queues the record of a block once the log has room; an outcome if it never will, or if the
    /// member is lost.
    async fn queue_relocation(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        at: u32,
        block: Block,
        device: &Rc<dyn ZonedDevice>,
    ) -> Result<Result<Rc<Operation>, Relocated>, StopReason> {
        loop {
            self.check_scrub()?;
            if !self.is_of_member(column, device) {
                return Ok(Err(Relocated::MemberLost));
            }
            {
                let mut state = self.state.borrow_mut();
                if !may_relocate(&state, zone, column) {
                    return Ok(Err(Relocated::NoRoom));
                }
                let log = &state.logs[column.index()];
                // A header and the block.
                if log.has_room(2, self.checkpoint_blocks_most(&state, column)) {
                    return Ok(Ok(self.enqueue(&mut state, zone, column, at, block)));
                }
            }
            self.changed.wait().await;
        }
    }

    fn enqueue(
        &self,
        state: &mut State,
        zone: u32,
        column: Column,
        at: u32,
        block: Block,
    ) -> Rc<Operation> {
        let column_blocks = self.layout.column_blocks();
        assert!(at < column_blocks, "block {at} of a column of {column_blocks} moves");
        let operation = Rc::new(Operation::new(zone, 0, false));
        let blocks = [block];
        let kind = LogKind::Relocated { at };
        let record = self.log_write(state, zone, kind, &blocks, Some(operation.clone()));
        let [block] = blocks;
        let places = &mut state.logical[zone as usize].columns[column.index()].relocated;
        let is_new = places.insert(at, block).is_none();
        assert!(record.blocks == 2, "a relocated block takes {} of the log", record.blocks);
        let log = &mut state.logs[column.index()];
        log.relocated += u32::from(is_new);
        log.enqueue(record, &operation);
        operation
    }
}

/// Whether the zone's record and the member's log have room for another relocated block. Half of
/// the log's room is left to crashes: a start finishes zones of users whose junk has none.
fn may_relocate(state: &State, zone: u32, column: Column) -> bool {
    let ranges = state.logical[zone as usize].record.junk.len();
    let most = relocated_most(state.array.config.zone_capacity.0) / 2;
    ranges < JUNK_RANGES_MOST && relocations(&state.logical, column) < most
}
