//! Writes the columns of a zone, in order: one write at a time for each, with all blocks that were
//! queued meanwhile.

use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{
    BlockCount, Payload, ReportOptions, Status, ZoneAddress, ZoneId, ZoneInfo, ZonedDevice,
    ZonedDeviceExt,
};

use crate::array::health::Members;
use crate::array::io::{MemberIo, is_of_command};
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::Core;
use crate::raizn::layout::{ACTIVE_RESERVE, Layout};
use crate::raizn::zone::{ColumnWrite, Operation};
use crate::scheme::Column;

/// Writes to a column that go to its drive together; no drive if it is out of service.
type Batch = (Vec<ColumnWrite>, Option<Rc<dyn ZonedDevice>>);

/// Attempts at a write before its drive is evicted.
const WRITE_TRIES: u32 = 4;

/// Pause before a finish is tried again that the drive found fault with.
const REJECTED_PAUSE: Nanos = Nanos::from_millis(800);

impl Core {
    /// Writes whatever is queued for a column of a zone.
    pub(crate) async fn write_column(self: Rc<Self>, zone: u32, column: Column) {
        loop {
            let Some((batch, device)) = self.next_batch(zone, column) else {
                self.changed.open();
                return;
            };
            if let Some(device) = device {
                let at = ZoneAddress::new(Layout::column_zone(zone), batch[0].at);
                let data = batch.iter().flat_map(|write| write.data.iter().cloned()).collect();
                let oob = batch.iter().flat_map(|write| &write.oob).copied().collect();
                let payload = Payload { data, oob };
                if self.write_in_tries(column, &device, at, payload).await {
                    let mut state = self.state.borrow_mut();
                    let logical = &mut state.logical[zone as usize];
                    logical.unflushed = logical.unflushed.with(column);
                }
            }
            self.written(batch.into_iter().map(|write| write.operation));
        }
    }

    /// The next blocks of a column that can be written together, and the drive, if it is in
    /// service.
    fn next_batch(&self, zone: u32, column: Column) -> Option<Batch> {
        let mut state = self.state.borrow_mut();
        // Behind a reset that failed when writes stopped, a write would mix contents.
        let is_stopped = state.array.stopped.is_some();
        let lost = is_stopped || state.lost_columns(zone).contains(column);
        let device = state.array.members[column.index()].device.clone().filter(|_| !lost);
        let most = device.as_ref().map_or(u32::MAX, |device| device.geometry().max_transfer.0);
        let queue = &mut state.logical[zone as usize].columns[column.index()];
        let (mut batch, mut blocks) = (Vec::<ColumnWrite>::new(), 0);
        while let Some(write) = queue.queue.front() {
            let follows = batch.last().is_none_or(|last| last.at + last.blocks == write.at);
            if !(batch.is_empty() || follows && blocks + write.blocks <= most) {
                break;
            }
            blocks += write.blocks;
            batch.extend(queue.queue.pop_front());
        }
        if batch.is_empty() {
            queue.writing = false;
            return None;
        }
        assert!(blocks > 0, "{column}: a write of no blocks");
        Some((batch, device))
    }

    /// Counts drive writes of operations as done.
    pub(crate) fn written(self: &Rc<Self>, operations: impl Iterator<Item = Rc<Operation>>) {
        let mut ready = Vec::new();
        for operation in operations {
            let left = operation.waiting.get().checked_sub(1).expect("a write is done once");
            operation.waiting.set(left);
            if left == 0 {
                ready.push(operation.zone);
            }
        }
        if !ready.is_empty() {
            self.changed.open();
        }
        ready.dedup();
        for zone in ready {
            self.advance(zone);
        }
    }

    /// Writes blocks at the write pointer of a member's zone, in pieces of its transfer size.
    /// Failed writes are repeated for whatever the drive then reports as unwritten; if that does
    /// not help, the member is evicted. Returns whether everything was written.
    pub(crate) async fn write_in_tries(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        at: ZoneAddress,
        payload: Payload,
    ) -> bool {
        let end = at.offset.0 + payload.blocks().0;
        let mut next = at.offset.0;
        let mut tries = 0..WRITE_TRIES;
        while next < end {
            let length = device.geometry().max_transfer.0.min(end - next);
            let part = part_of(&payload, next - at.offset.0, length);
            let before = self.failures_before(column);
            let result = device.write(ZoneAddress::new(at.zone, next), part, false).await;
            self.record_chunk_write(column, device, before, result.map(|_| ()));
            let Err(status) = result else {
                next += length;
                continue;
            };
            if !self.is_of_member(column, device) {
                return false;
            }
            let pointer = write_pointer(&**device, at.zone).await;
            let goes_on = pointer.is_ok_and(|pointer| (next..=end).contains(&pointer));
            match pointer {
                Ok(pointer) if goes_on && tries.next().is_some() => next = pointer,
                _ => {
                    self.fail_member(column, status);
                    return false;
                }
            }
        }
        assert!(next == end, "{column}: blocks up to {next} of {end} were written");
        if Layout::is_column(at.zone) && end == self.layout.column_blocks() {
            self.end_column(column, device, at.zone).await;
        }
        true
    }

    /// Finishes a member's zone behind the last block of its column, if the zone has more: it would
    /// stay active, although the volume counts it as full. Blocks in the drive's cache are flushed
    /// first: a power failure takes them, but not the write pointer of a finished zone, which
    /// counts for what a column holds.
    async fn end_column(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        zone: ZoneId,
    ) {
        let has_more = device.geometry().zone_capacity.0 > self.layout.column_blocks();
        if has_more && !mutant(Mutant::ZonedColumnLeftActive) {
            mark(Mark::ZonedColumnEnded);
            self.finish_flushed(column, device, zone).await;
        }
    }

    /// Finishes a member's zone behind a flush of what the drive caches.
    async fn finish_flushed(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        zone: ZoneId,
    ) {
        if device.geometry().volatile_cache {
            let flushed = device.flush().await;
            let failed = flushed.is_err();
            self.record_flush(column, device, flushed);
            if failed {
                return;
            }
        }
        self.finish_column(column, device, zone).await;
    }

    /// Finishes a member's zone, so that it takes no active zone of the drive. A member that does
    /// not do so is evicted: with every such zone it has one less for the others, until it refuses
    /// writes and superblock records. Where the redundancy does not cover that, the zone stays
    /// active: its data can be read. So does the zone of a drive that finds fault with the command,
    /// while the volume can be written with the rest, or the other drives do as it does.
    pub(crate) async fn finish_column(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        zone: ZoneId,
    ) {
        assert!(Layout::is_column(zone), "{zone} holds no column");
        let mut finished = self.finish_zone(column, device, zone).await;
        if finished.is_err_and(is_of_command) && self.is_short_of_active(column, device) {
            // One rejection may be a fault of the moment, and the member is at stake.
            self.handle.sleep(REJECTED_PAUSE).await;
            finished = self.finish_zone(column, device, zone).await;
        }
        // A zone that is read-only or offline is not active.
        if let Err(status) = finished
            && !status.is_of_zone_state()
            && self.is_of_member(column, device)
            && (!is_of_command(status)
                || self.is_short_of_active(column, device) && self.stands_out(column))
        {
            mark(Mark::ZonedFinishRefused);
            if self.state.borrow().array.check_spared(column).is_err() {
                return;
            }
            self.fail_member(column, status);
        }
    }

    /// Whether the volume needs zones that a member leaves active.
    fn is_short_of_active(&self, column: Column, device: &Rc<dyn ZonedDevice>) -> bool {
        let state = self.state.borrow();
        // Open ones do not count: a controller closes them for others.
        let limit = device.geometry().max_active;
        let volume = state.zones.geometry();
        let (Some(limit), Some(most)) = (limit, volume.max_active) else { return false };
        let most = most.min(volume.zones);
        let left = state.array.members[column.index()].unfinished.len();
        let is_short = u64::from(most + ACTIVE_RESERVE) + left as u64 > u64::from(limit);
        mark_if(Mark::ZonedShortOfActive, || is_short);
        is_short
    }

    /// Whether a member leaves more zones active than any other: without one that does as the
    /// others do, the volume would be no better off. The columns of a zone end at different
    /// moments, so one zone more may be the next one of all.
    fn stands_out(&self, column: Column) -> bool {
        let state = self.state.borrow();
        let members = &state.array.members;
        let left = members[column.index()].unfinished.len();
        let others = members.iter().enumerate().filter(|(at, _)| *at != column.index());
        let mut in_service = others.filter(|(_, other)| other.device.is_some());
        in_service.all(|(_, other)| other.unfinished.len() + 1 < left)
    }

    /// Finishes the members' zones whose columns are complete and that are still active, before a
    /// start writes anything: it needs active zones itself. The last run ended, or its command
    /// failed, between the last block of a zone and the finish of its columns.
    pub(crate) async fn end_columns(self: &Rc<Self>) {
        let members = self.state.borrow().array.writable_members();
        let ends = members.iter().map(|(column, device)| async move {
            // A drive that does not report is noticed when the start reads its zones.
            let Ok(report) = device.report().await else { return };
            for info in report.iter().filter(|info| self.is_left_active(*column, info)) {
                self.finish_flushed(*column, device, info.zone).await;
            }
        });
        join_all(ends).await;
    }

    /// Whether a member's zone is active, although nothing will be written to its column.
    pub(crate) fn is_left_active(&self, column: Column, info: &ZoneInfo) -> bool {
        let state = self.state.borrow();
        let logical = Layout::zone_of(info.zone).and_then(|zone| state.logical.get(zone.index()));
        let Some(logical) = logical.filter(|_| info.state.is_active()) else { return false };
        let (zone, written) = (logical.record.zone, info.write_pointer.0);
        match logical.record.finished {
            _ if written == self.layout.column_blocks() => !mutant(Mutant::ZonedColumnLeftActive),
            Some(end)
                if written >= self.column_end_of(zone, column, end, true)
                    && !self.is_parity_relocated(logical, column, end) =>
            {
                mark(Mark::ZonedFinishRepeated);
                !mutant(Mutant::ZonedFinishNotRepeated)
            }
            _ => false,
        }
    }
}

/// Blocks of a payload.
fn part_of(payload: &Payload, first: u32, blocks: u32) -> Payload {
    if first == 0 && payload.blocks() == BlockCount(blocks) {
        return payload.clone();
    }
    let data = payload.iter_blocks().skip(first as usize).take(blocks as usize).collect();
    let bytes = BlockCount(first).oob_bytes()..BlockCount(first + blocks).oob_bytes();
    let oob = if payload.oob.is_empty() { payload.oob.clone() } else { payload.oob.slice(bytes) };
    Payload { data, oob }
}

/// The write pointer that a drive reports for a zone.
///
/// # Errors
/// The drive's status.
pub(crate) async fn write_pointer(device: &dyn ZonedDevice, zone: ZoneId) -> Result<u32, Status> {
    let report = device.report_by(zone, 1, ReportOptions::default()).await?;
    let info = report.zones.first().filter(|info| info.zone == zone);
    info.map(|info| info.write_pointer.0).ok_or(Status::InternalError)
}
