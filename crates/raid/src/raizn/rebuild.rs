//! Rebuilds the columns of a replaced member, zone by zone, active zones first (RAIZN §4.2).
//!
//! Complete stripes are copied while users write, batch by batch. A batch is read from the other
//! columns while the one before is written: memory holds two of them at most, and what the other
//! columns have of one. Then the zone is held, in the order of its commands, for the rest: blocks
//! of its partial stripe, and their parity in the log. From then on writes include the column. A
//! record of the zones that have it makes a rebuild go on after a restart; a zone that was being
//! copied is copied again.
//!
//! A block that is lost, by what the other drives say, becomes a *hole* (`hole`). A zone does not
//! get its column while a drive gives no answer about blocks that no other can stand in for.

use std::ops::Range;
use std::rc::Rc;

use futures_util::future::{join, join_all};
use zoneweave_zoned::{BlockCount, Payload, Status, ZoneAddress, completion};

use crate::array::format::numbers::Generation;
use crate::array::health::Members;
use crate::array::io::MemberIo;
use crate::array::repair::ask_again::wait_for_answer;
use crate::array::repair::rebuild::{RebuildState, RebuildUnits, throttle, throttle_while};
use crate::array::repair::source::{FailedSource, LeftOut};
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::raizn::core::Core;
use crate::raizn::format::body::ZonedBody;
use crate::raizn::hole::Halt;
use crate::raizn::layout::Layout;
use crate::raizn::read::Reader;
use crate::raizn::stripe::Block;
use crate::raizn::write::column::write_pointer;
use crate::raizn::zone::{Joining, Operation, Pending, Rest};
use crate::scheme::{Column, ColumnSet};

/// Blocks of a column that are copied at a time: 1 MiB.
const BATCH_BLOCKS: u32 = 256;

/// Batches of a small column: a reset waits for one.
const BATCHES_LEAST: u32 = 8;

/// Blocks of a column that are read at once, as far as they fill stripe units: 128 KiB, which is
/// the longest command of some drives. If such a read fails, its blocks are read one by one.
const PIECE_BLOCKS: u32 = 32;

/// A column that is being copied.
struct Copying {
    joining: Joining,
    /// The batch behind the last one that was copied, if it was read while that was written.
    ahead: Option<Batch>,
    /// Whether a drive was awaited since.
    has_waited: bool,
    /// Whether users wait for the zone, and the rest can be copied without.
    is_held: bool,
}

/// Blocks of a column, reconstructed from the others.
struct Batch {
    places: Range<u32>,
    /// That of the zone when they were read.
    generation: Generation,
    /// `None` for holes.
    blocks: Vec<Option<Block>>,
}

/// The outcome of copying a batch while users write.
enum Copied {
    Batch(BlockCount),
    /// The rest is copied with the zone held.
    All,
}

impl Batch {
    /// Whether some of its blocks were not reconstructed.
    fn lacks_blocks(&self) -> bool {
        self.blocks.iter().any(Option::is_none)
    }
}

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
    ) -> impl Future<Output = Option<LeftOut<u32>>> + use<> {
        let core = self.clone();
        async move {
            let source = core.rebuild_column(zone, column).await?;
            Some(LeftOut { unit: zone, source })
        }
    }

    fn waits_for_ever(&self) -> Option<StopReason> {
        self.state.borrow().array.stopped
    }

    fn member_entered_service(self: &Rc<Self>) {}
}

impl Core {
    /// Copies a column. Returns the drive because of which the zone is left out, if one did not
    /// return what no other has.
    async fn rebuild_column(self: &Rc<Self>, zone: u32, column: Column) -> Option<FailedSource> {
        let device = self.state.borrow().array.members[column.index()].device.clone()?;
        // The last zone may have had blocks copied while users waited for it, and no pause.
        throttle(self, column, &device, BlockCount(0)).await;
        let rest = Rc::default();
        let joining = Joining { column, device, is_emptied: false, copied: 0, rest };
        let mut copying = Copying { joining, ahead: None, has_waited: false, is_held: false };
        loop {
            let source = match self.copy_column(zone, &mut copying).await {
                Ok(()) => return None,
                Err(Halt::Ended | Halt::Held) => return None,
                Err(Halt::Source(source)) => source,
            };
            let device = &copying.joining.device;
            if !source.may_answer() || !wait_for_answer(self, column, device).await {
                self.leave_out(zone, &copying.joining).await;
                return Some(source);
            }
            copying.has_waited = true;
        }
    }

    /// Copies the complete stripes of a column, and then holds the zone for the rest.
    async fn copy_column(self: &Rc<Self>, zone: u32, copying: &mut Copying) -> Result<(), Halt> {
        loop {
            // Nothing is in flight behind a batch: a reset does not wait for the limit.
            while let Copied::Batch(blocks) = self.copy_next(zone, copying).await? {
                if std::mem::take(&mut copying.has_waited) {
                    self.rebuild.silence.end();
                }
                throttle(self, copying.joining.column, &copying.joining.device, blocks).await;
            }
            mark_if(Mark::ZonedBatchDropped, || copying.ahead.is_some());
            copying.ahead = None;
            let (answer, joined) = completion();
            copying.joining.rest.set(None);
            self.admit(zone, Pending::Join(copying.joining.clone(), answer));
            // Whether it has the column is in the state.
            let _joined = joined.await;
            let Some(rest) = copying.joining.rest.take() else {
                if std::mem::take(&mut copying.has_waited) {
                    self.rebuild.silence.end();
                }
                return Ok(());
            };
            copying.joining.copied = rest.copied;
            if let Some(source) = rest.source {
                return Err(Halt::Source(source));
            }
        }
    }

    /// Leaves a zone without its column: what was copied would keep an active zone of the drive.
    async fn leave_out(self: &Rc<Self>, zone: u32, joining: &Joining) {
        let _reader = Reader::begin(self, zone);
        if self.complete_rows(zone, joining).is_some()
            && self.is_of_member(joining.column, &joining.device)
        {
            self.empty_column(zone, joining).await;
            self.state.borrow_mut().logical[zone as usize].left_out = true;
        }
    }

    /// Copies the next batch of complete stripes.
    async fn copy_next(self: &Rc<Self>, zone: u32, copying: &mut Copying) -> Result<Copied, Halt> {
        // A reset of the zone waits for the batch. Emptying the column behind one would take
        // blocks that were written since.
        let _reader = Reader::begin(self, zone);
        let Some(end) = self.complete_rows(zone, &copying.joining) else {
            return Ok(Copied::All);
        };
        if !copying.joining.is_emptied {
            self.state.borrow_mut().logical[zone as usize].left_out = false;
            if !self.empty_column(zone, &copying.joining).await {
                return Err(Halt::Ended);
            }
            copying.joining.is_emptied = true;
        }
        let before = copying.joining.copied;
        if before >= end {
            return Ok(Copied::All);
        }
        self.copy_batch(zone, copying, end).await?;
        Ok(Copied::Batch(BlockCount(copying.joining.copied - before)))
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

    /// Writes the next batch of a column, and reads the one behind it meanwhile, up to an offset.
    /// A batch that could not be read ahead is read again in its turn.
    async fn copy_batch(
        self: &Rc<Self>,
        zone: u32,
        copying: &mut Copying,
        end: u32,
    ) -> Result<(), Halt> {
        let Joining { column, copied, .. } = copying.joining;
        assert!(copied < end, "a copy from {copied} to {end}");
        mark_if(Mark::ZonedBatchAhead, || copying.ahead.is_some());
        let mut batch = match copying.ahead.take() {
            Some(batch) => batch,
            None => self.reconstruct_batch(zone, column, copied, end).await,
        };
        if copying.is_held && batch.lacks_blocks() {
            return Err(Halt::Held);
        }
        self.judge_missing(zone, &copying.joining, &mut batch).await?;
        if !self.still_belongs(zone, &copying.joining, &batch) {
            return Err(Halt::Ended);
        }
        let until = batch.places.end;
        assert!(batch.places.start == copied && until <= end, "{:?} at {copied}", batch.places);
        let next = async {
            match until < end {
                true => Some(self.reconstruct_batch(zone, column, until, end).await),
                false => None,
            }
        };
        let (written, ahead) = join(self.write_batch(zone, &copying.joining, batch), next).await;
        mark_if(Mark::ZonedAheadFailed, || ahead.as_ref().is_some_and(Batch::lacks_blocks));
        copying.ahead = ahead;
        if !written {
            return Err(Halt::Ended);
        }
        copying.joining.copied = until;
        Ok(())
    }

    /// Reads a batch of a column from the other ones, up to an offset, as far as its blocks can be
    /// reconstructed.
    async fn reconstruct_batch(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        start: u32,
        end: u32,
    ) -> Batch {
        let generation = self.state.borrow().logical[zone as usize].record.generation;
        let places = start..end.min(start + self.batch_blocks());
        let blocks = self.rebuilt_blocks(zone, column, places.clone()).await;
        assert!(blocks.len() == places.len(), "{} blocks for {places:?}", blocks.len());
        Batch { places, generation, blocks }
    }

    /// Reads blocks of a batch again that were not reconstructed. Those that are lost stay holes.
    /// On failing media each block may take seconds, so a reset or a close is looked for before it.
    async fn judge_missing(
        self: &Rc<Self>,
        zone: u32,
        joining: &Joining,
        batch: &mut Batch,
    ) -> Result<(), Halt> {
        for (at, block) in batch.places.clone().zip(&mut batch.blocks) {
            if block.is_none() {
                let goes_on = self.complete_rows(zone, joining).is_some()
                    && self.is_of_member(joining.column, &joining.device);
                if !goes_on {
                    return Err(Halt::Ended);
                }
                *block = self.rebuild_or_judge(zone, joining.column, at).await?;
            }
        }
        Ok(())
    }

    /// Whether a batch that was read still is a part of the column.
    fn still_belongs(&self, zone: u32, joining: &Joining, batch: &Batch) -> bool {
        let is_same = {
            let logical = &self.state.borrow().logical[zone as usize];
            let is_same = logical.record.generation == batch.generation;
            is_same && logical.absent.contains(joining.column)
        };
        is_same && self.is_of_member(joining.column, &joining.device)
    }

    async fn write_batch(self: &Rc<Self>, zone: u32, joining: &Joining, batch: Batch) -> bool {
        let Joining { column, device, .. } = joining;
        let Batch { places, blocks, .. } = batch;
        let payload: Payload = self.column_payload(zone, *column, places.start, &blocks);
        let at = ZoneAddress::new(Layout::column_zone(zone), places.start);
        self.write_in_tries(*column, device, at, payload).await
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

    /// The blocks that belong to places of a lost column; `None` for those that were not
    /// reconstructed.
    async fn rebuilt_blocks(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        places: Range<u32>,
    ) -> Vec<Option<Block>> {
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
        joining: Joining,
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
        let rest = joining.rest.clone();
        let mut copying = Copying { joining, ahead: None, has_waited: false, is_held: false };
        for end in [complete, end] {
            copying.is_held = end == complete;
            while copying.joining.copied < end {
                let before = copying.joining.copied;
                if let Err(halt) = self.copy_batch(zone, &mut copying, end).await {
                    // Users wait for the zone: drives are asked again once it goes on.
                    let source = match halt {
                        Halt::Ended => return Err(Status::Aborted),
                        Halt::Held => None,
                        Halt::Source(source) => Some(source),
                    };
                    rest.set(Some(Rest { copied: before, source }));
                    return Err(Status::Aborted);
                }
                // Users wait for the zone. Batches that are copied beside them wait for these.
                let blocks = BlockCount(copying.joining.copied - before);
                throttle_while(self, blocks, || false).await;
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
