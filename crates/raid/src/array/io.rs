//! I/O of members: reads, resets and their accounting.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use futures_util::FutureExt;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{
    BlockCount, Command, Completion, Payload, ReportOptions, Status, ZoneAction, ZoneAddress,
    ZoneId, ZoneInfo, ZoneState, ZonedDevice, ZonedDeviceExt, is_zero,
};

use crate::array::health::Members;
use crate::array::latency::in_flight::{ReadUnderWay, ResetUnderWay};
use crate::array::volume::ArrayVolume;
use crate::instrument::marks::{Mark, mark};
use crate::scheme::Column;

/// I/O of members. Outcomes are recorded for the member.
pub(crate) trait MemberIo: Members {
    /// Reads blocks of a member and records the outcome.
    ///
    /// # Errors
    /// The drive's status; [`Status::DeviceGone`] if there is no drive.
    async fn read_zone(
        self: &Rc<Self>,
        column: Column,
        at: ZoneAddress,
        blocks: BlockCount,
    ) -> Result<Payload, Status> {
        assert!(blocks.0 > 0, "a read of no blocks at {at} of {column}");
        let device = self.device(column).ok_or(Status::DeviceGone)?;
        let read = pin!(device.read_in_pieces(at, blocks));
        self.answered(column, &device, blocks, read).await
    }

    /// Submits a read to a member's drive, if one command is enough, and returns the payload if it
    /// completes on submit.
    ///
    /// # Errors
    /// The pending read otherwise.
    fn submit_read(
        self: &Rc<Self>,
        column: Column,
        at: ZoneAddress,
        blocks: BlockCount,
    ) -> Result<Payload, PendingRead> {
        assert!(blocks.0 > 0, "a read of no blocks at {at} of {column}");
        let pending = |begun| PendingRead { column, at, blocks, begun };
        let device = self.device(column);
        let device = device.filter(|device| blocks <= device.geometry().max_transfer);
        let device = device.ok_or(pending(None))?;
        let mut completion = device.submit(Command::Read { at, blocks });
        let outcome = (&mut completion).now_or_never();
        match outcome.map(|outcome| outcome.and_then(|reply| reply.payload(blocks))) {
            Some(Ok(payload)) => {
                self.record_answer(column, true);
                Ok(payload)
            }
            Some(Err(status)) => Err(pending(Some((device, Completion::ready(Err(status)))))),
            None => Err(pending(Some((device, completion)))),
        }
    }

    /// Hints the drive of a member at the next read.
    fn hint_read(&self, column: Column, at: ZoneAddress) {
        if let Some(device) = self.device(column) {
            device.hint_read(at);
        }
    }

    /// Completes a pending read, as [`Self::read_zone`] does.
    ///
    /// # Errors
    /// The drive's status; [`Status::DeviceGone`] if there is no drive.
    async fn finish_read(self: &Rc<Self>, pending: PendingRead) -> Result<Payload, Status> {
        let PendingRead { column, at, blocks, begun } = pending;
        let Some((device, completion)) = begun else {
            return self.read_zone(column, at, blocks).await;
        };
        let read = pin!(completion.payload(blocks));
        self.answered(column, &device, blocks, read).await
    }

    /// Waits for a read, and records the outcome.
    async fn answered(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        blocks: BlockCount,
        mut read: Pin<&mut impl Future<Output = Result<Payload, Status>>>,
    ) -> Result<Payload, Status> {
        // A read that completes on submit needs no latency estimate.
        let at_once = poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await;
        let was_at_once = at_once.is_ready();
        let result = match at_once {
            Poll::Ready(result) => result,
            Poll::Pending => {
                let under_way = ReadUnderWay::begin(self, column, blocks);
                let result = read.await;
                if let (Some(read), Ok(_)) = (under_way, &result) {
                    read.answered();
                }
                result
            }
        };
        match &result {
            Ok(_) => self.record_answer(column, was_at_once),
            Err(status) => self.record_read_failure(column, device, *status),
        }
        result
    }

    fn record_answer(&self, column: Column, at_once: bool) {
        let member = &mut self.array_mut().members[column.index()];
        member.seen = self.handle().recent();
        member.answers_at_once = at_once;
    }

    /// Resets a zone, checks that it is empty, and records the outcome. A failed reset is retried:
    /// a second reset does no harm, and a zone left as it is would be missing until the next start.
    ///
    /// # Errors
    /// The drive's status; [`Status::InternalError`] if it reports a reset that did not happen.
    async fn reset_zone(self: &Rc<Self>, column: Column, zone: ZoneId) -> Result<(), Status> {
        let device = self.device(column).ok_or(Status::DeviceGone)?;
        self.reset(column, &device, zone).await
    }

    async fn reset(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        zone: ZoneId,
    ) -> Result<(), Status> {
        let _reset = ResetUnderWay::begin(&**self, column);
        let before = self.failures_before(column);
        let mut result = reset_and_look(&**device, zone).await;
        for _ in 1..RESET_TRIES {
            match result {
                Err(status) if !(status.is_fatal() || status.is_of_zone_state()) => {
                    result = reset_and_look(&**device, zone).await;
                }
                _ => break,
            }
        }
        if result.is_ok() {
            self.record_finished(column, device, zone);
        }
        self.record_write(column, device, before, result);
        result
    }

    /// Finishes a zone of a member's drive, and records the outcome. A failed finish is retried
    /// after a while: a second one does no harm, and the zone would stay active.
    ///
    /// # Errors
    /// The drive's status.
    async fn finish_zone(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        zone: ZoneId,
    ) -> Result<(), Status> {
        let before = self.failures_before(column);
        let mut result = device.manage(zone, ZoneAction::Finish).await;
        for pause in FINISH_PAUSES {
            let may_pass = |status: Status| {
                !(status.is_fatal() || status.is_of_zone_state() || is_of_command(status))
            };
            if !result.is_err_and(may_pass) {
                break;
            }
            mark(Mark::FinishRetried);
            self.handle().sleep(pause).await;
            result = device.manage(zone, ZoneAction::Finish).await;
        }
        match result {
            Err(status) if is_of_command(status) => self.record_unfinished(column, device, zone),
            _ => {
                if !result.is_err_and(|status| !status.is_of_zone_state()) {
                    self.record_finished(column, device, zone);
                }
                self.record_write(column, device, before, result);
            }
        }
        result
    }

    /// Counts a zone that stays active, as its drive finds fault with the command to finish it:
    /// once, as one error of the member.
    fn record_unfinished(&self, column: Column, device: &Rc<dyn ZonedDevice>, zone: ZoneId) {
        if !self.is_of_member(column, device) {
            return;
        }
        let is_new = {
            let member = &mut self.array_mut().members[column.index()];
            let is_new = member.unfinished.insert(zone);
            member.errors.write += u64::from(is_new);
            is_new
        };
        if is_new {
            mark(Mark::ZoneLeftActive);
            self.errors_counted();
        }
    }

    /// A zone that is full, empty or of no use takes no active zone any more.
    fn record_finished(&self, column: Column, device: &Rc<dyn ZonedDevice>, zone: ZoneId) {
        if self.is_of_member(column, device) {
            self.array_mut().members[column.index()].unfinished.remove(&zone);
        }
    }
}

impl<V: ArrayVolume> MemberIo for V {}

/// Attempts at resetting a zone.
const RESET_TRIES: u32 = 3;

/// Pauses before a finish is tried again. A controller that is being reset, for which the kernel
/// ends commands, may take as long.
const FINISH_PAUSES: [Nanos; 2] = [Nanos::from_millis(50), Nanos::from_millis(800)];

/// A read of a member that did not complete on submit.
pub(crate) struct PendingRead {
    column: Column,
    at: ZoneAddress,
    blocks: BlockCount,
    /// The drive and the submitted command; `None` if the drive is missing, or one command cannot
    /// read as much, and the read has yet to be issued.
    begun: Option<(Rc<dyn ZonedDevice>, Completion)>,
}

/// Resets a zone and reads it. The contents of a zone that was not reset would come back once the
/// death of its segment is no longer recorded.
async fn reset_and_look(device: &dyn ZonedDevice, zone: ZoneId) -> Result<(), Status> {
    device.manage(zone, ZoneAction::Reset).await?;
    let report = device.report_by(zone, 1, ReportOptions::default()).await?;
    let empty = |info: &ZoneInfo| info.zone == zone && info.state == ZoneState::Empty;
    if report.zones.iter().any(empty) {
        return Ok(());
    }
    mark(Mark::ResetNotDone);
    Err(Status::InternalError)
}

/// Whether a block was never written: it reads as zeros without metadata, or the drive reports so.
pub(crate) fn is_blank(read: &Result<Payload, Status>) -> bool {
    match read {
        Ok(block) => is_zero(&block.block(0)) && is_zero(block.oob_of(0)),
        Err(status) => *status == Status::Deallocated,
    }
}

/// Whether the status of a failed read concerns the block, not the drive or its path.
pub(crate) fn is_answer(status: Status) -> bool {
    use Status::{Deallocated, LbaOutOfRange, UnrecoveredRead, ZoneBoundary, ZoneOffline};
    matches!(status, UnrecoveredRead | Deallocated | ZoneOffline | LbaOutOfRange | ZoneBoundary)
}

/// Whether a drive finds fault with a command, or has no resources for it: nothing is said about
/// the drive or the zone.
pub(crate) fn is_of_command(status: Status) -> bool {
    use Status::{InvalidField, InvalidZoneOperation, TooManyActive, TooManyOpen};
    matches!(status, InvalidField | InvalidZoneOperation | TooManyActive | TooManyOpen)
}
