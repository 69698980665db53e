//! Rebuilds the columns of a replaced member, zone by zone, active zones first (RAIZN §4.2).
//!
//! Complete stripes are copied while users write. Then the zone is held, in the order of its
//! commands, for the rest: blocks of its partial stripe, and their parity in the log. From then on
//! writes include the column. A record of the zones that have it makes a rebuild go on after a
//! restart; a zone that was being copied is copied again.

use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_zoned::{BlockCount, Payload, Status, ZoneAddress, completion};

use crate::array::health::Members;
use crate::array::io::MemberIo;
use crate::array::repair::rebuild::{RebuildState, RebuildUnits, throttle};
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::raizn::core::Core;
use crate::raizn::format::body::ZonedBody;
use crate::raizn::layout::Layout;
use crate::raizn::read::Reader;
use crate::raizn::stripe::Block;
use crate::raizn::write::column::write_pointer;
use crate::raizn::zone::{Joining, Operation, Pending};
use crate::scheme::{Column, ColumnSet};

/// Blocks of a column that are copied at a time: 1 MiB.
const BATCH_BLOCKS: u32 = 256;

/// Batches of a small column: a reset waits for one.
const BATCHES_LEAST: u32 = 8;

/// Blocks of a column that are read at once, as far as they fill stripe units: 128 KiB, which is
/// the longest command of some drives. If such a read fails, its blocks are read one by one.
const PIECE_BLOCKS: u32 = 32;

impl RebuildUnits for Core {
    type Unit = u32;
    type Claim = u32;

    fn rebuild_state(&self) -> &RebuildState {
        &self.rebuild
    }

    fn is_closing(&self) -> bool {
        self.closing.get()
    }

    fn lacking(&self, column: Column) -> Vec<u32> {
        let state = self.state.borrow();
        let lacks = (0..).zip(&state.logical).filter(|(_, zone)| zone.absent.contains(column));
        lacks.map(|(zone, _)| zone).collect()
    }

    fn claim(&self, _column: Column, lacking: &[u32], beside: bool) -> Option<u32> {
        // A second full zone would take one active zone more than the drives are sure to have.
        if beside {
            return None;
        }
        let state = self.state.borrow();
        let zone_blocks = self.layout.zone_blocks();
        let is_active = |zone: &&u32| state.logical[**zone as usize].is_active(zone_blocks);
        lacking.iter().find(is_active).or(lacking.first()).copied()
    }

    fn rebuild_claimed(
        self: &Rc<Self>,
        column: Column,
        zone: u32,
    ) -> impl Future<Output = ()> + use<> {
        let core = self.clone();
        async move { core.rebuild_column(zone, column).await }
    }

    fn waits_for_ever(&self) -> Option<StopReason> {
        self.state.borrow().array.stopped
    }

    fn member_entered_service(self: &Rc<Self>) {}
}

impl Core {
    /// Copies the complete stripes of a column, and then holds the zone for the rest.
    async fn rebuild_column(self: &Rc<Self>, zone: u32, column: Column) {
        let device = self.state.borrow().array.members[column.index()].device.clone();
        let Some(device) = device else { return };
        let mut joining = Joining { column, device, is_emptied: false, copied: 0 };
        loop {
            // A reset of the zone waits for the copy. Emptying the column behind one would take
            // blocks that were written since.
            let _reader = Reader::begin(self, zone);
            let Some(end) = self.complete_rows(zone, &joining) else { break };
            if !joining.is_emptied {
                if !self.empty_column(zone, &joining).await {
                    return;
                }
                joining.is_emptied = true;
            }
            if joining.copied >= end {
                break;
            }
            let until = end.min(joining.copied + self.batch_blocks());
            if !self.copy_column(zone, &mut joining, until).await {
                return;
            }
        }
        let (answer, joined) = completion();
        self.admit(zone, Pending::Join(joining, answer));
        // Whether it has the column is in the state.
        let _joined = joined.await;
    }

    /// Empties a column that an interrupted rebuild may have begun. Returns whether it is empty.
    async fn empty_column(self: &Rc<Self>, zone: u32, joining: &Joining) -> bool {
        let (column, physical) = (joining.column, Layout::column_zone(zone));
        if write_pointer(&*joining.device, physical).await == Ok(0) {
            return true;
        }
        let reset = self.reset_zone(column, physical).await;
        if let Err(status) = reset
            && self.is_of_member(column, &joining.device)
        {
            self.fail_member(column, status);
        }
        reset.is_ok()
    }

    /// Column offset behind the last complete stripe; `None` if there is nothing to copy any more.
    fn complete_rows(&self, zone: u32, joining: &Joining) -> Option<u32> {
        let state = self.state.borrow();
        let logical = &state.logical[zone as usize];
        let is_reset = logical.resets_admitted > logical.resets_done;
        let goes_on = logical.absent.contains(joining.column) && !is_reset && !self.closing.get();
        goes_on.then(|| self.layout.row_start(self.layout.stripe_of(logical.completed)))
    }

    /// Copies blocks of a column up to an offset. Returns whether that succeeded.
    async fn copy_column(self: &Rc<Self>, zone: u32, joining: &mut Joining, until: u32) -> bool {
        let Joining { column, device, copied, .. } = joining.clone();
        assert!(copied < until, "a copy from {copied} to {until}");
        let generation = self.state.borrow().logical[zone as usize].record.generation;
        let Some(blocks) = self.rebuilt_blocks(zone, column, copied..until).await else {
            // Too much of a stripe is lost: users get errors for the same blocks.
            self.fail_member(column, Status::UnrecoveredRead);
            return false;
        };
        let is_same = {
            let state = self.state.borrow();
            let logical = &state.logical[zone as usize];
            logical.record.generation == generation && logical.absent.contains(column)
        };
        if !is_same || !self.is_of_member(column, &device) {
            return false;
        }
        assert!(blocks.len() == (until - copied) as usize, "{} blocks were rebuilt", blocks.len());
        let payload: Payload = self.column_payload(zone, column, copied, &blocks);
        let at = ZoneAddress::new(Layout::column_zone(zone), copied);
        let written = self.write_in_tries(column, &device, at, payload).await;
        joining.copied = until;
        throttle(self, column, &device, BlockCount(until - copied)).await;
        written
    }

    /// Blocks of a column that are copied at a time.
    fn batch_blocks(&self) -> u32 {
        self.in_units(BATCH_BLOCKS.min(self.layout.column_blocks() / BATCHES_LEAST))
    }

    /// As many blocks of a column as fill stripe units, at least one.
    fn in_units(&self, blocks: u32) -> u32 {
        let unit = self.layout.unit();
        (blocks / unit).max(1) * unit
    }

    /// The blocks that belong to places of a lost column; `None` if some of them cannot be
    /// reconstructed.
    async fn rebuilt_blocks(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        places: Range<u32>,
    ) -> Option<Vec<Block>> {
        let piece = self.in_units(PIECE_BLOCKS);
        let starts = places.clone().step_by(piece as usize);
        let pieces = starts
            .map(|start| self.reconstruct(zone, column, start..places.end.min(start + piece)));
        join_all(pieces).await.into_iter().flatten().collect()
    }

    /// Completes the column of a zone without commands in flight, and enters it.
    pub(crate) async fn join_column(
        self: &Rc<Self>,
        zone: u32,
        mut joining: Joining,
    ) -> Result<(), Status> {
        let (column, device) = (joining.column, joining.device.clone());
        let (completed, finished) = {
            let state = self.state.borrow();
            let logical = &state.logical[zone as usize];
            let lacks = logical.absent.contains(column) && joining.is_emptied;
            if !lacks || !self.is_of_member(column, &device) {
                return Err(Status::Aborted);
            }
            (logical.completed, logical.record.finished.is_some())
        };
        let end = self.column_end_of(zone, column, completed, finished);
        // Complete stripes are read from the drives, and the last one may be in memory.
        let complete = self.layout.row_start(self.layout.stripe_of(completed));
        assert!(complete <= end, "{column}: complete stripes end at {complete}, not {end}");
        for end in [complete, end] {
            while joining.copied < end {
                let until = end.min(joining.copied + self.batch_blocks());
                if !self.copy_column(zone, &mut joining, until).await {
                    return Err(Status::Aborted);
                }
            }
        }
        self.log_partial_parity(zone, column).await;
        if finished {
            self.finish_column(column, &device, Layout::column_zone(zone)).await;
        }
        self.flush_members().await.map_err(|_| Self::STOPPED)?;
        if !self.is_of_member(column, &device) {
            return Err(Status::Aborted);
        }
        {
            let mut state = self.state.borrow_mut();
            let logical = &mut state.logical[zone as usize];
            logical.record.junk.retain(|junk| junk.column != column);
            logical.columns[column.index()].next = end;
        }
        mark(Mark::ZonedColumnJoined);
        // With the junk of the drive before it, the column would lack blocks.
        self.record_zone(zone).await.map_err(|_| Self::STOPPED)?;
        {
            let mut state = self.state.borrow_mut();
            let of_column: ColumnSet = std::iter::once(column).collect();
            let logical = &mut state.logical[zone as usize];
            logical.absent = logical.absent.without(of_column);
        }
        self.record_rebuilt(column).await.map_err(|_| Self::STOPPED)
    }

    /// Logs the parity of a zone's partial stripe, if a column has parity there.
    async fn log_partial_parity(self: &Rc<Self>, zone: u32, column: Column) {
        let operation = {
            let mut state = self.state.borrow_mut();
            let Some(mut record) = self.partial_parity(&state, zone, column) else { return };
            let operation = Rc::new(Operation::new(zone, 0, false));
            record.operation = Some(operation.clone());
            state.logs[column.index()].enqueue(record, &operation);
            operation
        };
        self.start_log_writer(column);
        self.drive_writes(&operation).await;
    }

    /// Records the zones that have the column of a member that is being rebuilt.
    async fn record_rebuilt(self: &Rc<Self>, column: Column) -> Result<(), StopReason> {
        let count = self.state.borrow().rebuilt_of(column).len();
        for index in 0..count {
            let record = || {
                let mut records = self.state.borrow().rebuilt_of(column);
                records
                    .get_mut(index)
                    .map_or(ZonedBody::State, |record| std::mem::replace(record, ZonedBody::State))
            };
            self.superblock.commit_latest(self, record).await?;
        }
        Ok(())
    }

    /// Column offset behind a column's last block; of a finished zone, parity of its partial stripe
    /// is in place.
    pub(crate) fn column_end_of(
        &self,
        zone: u32,
        column: Column,
        completed: u32,
        finished: bool,
    ) -> u32 {
        let layout = &self.layout;
        let stripe = layout.stripe_of(completed);
        let rest = completed - layout.stripe_start(stripe);
        let is_parity = !layout.scheme().is_data(layout.role_of(zone, stripe, column));
        match finished && rest > 0 && is_parity {
            true => layout.row_start(stripe) + layout.parity_blocks(rest),
            false => layout.column_end(zone, column, completed),
        }
    }
}
