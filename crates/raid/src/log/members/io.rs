//! I/O of members: reads, resets and their accounting.

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;

use crate::log::read::guards::{ReadUnderWay, ResetUnderWay};
use crate::scheme::Column;
use bytes::Bytes;
use futures_util::FutureExt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use zoneweave_zoned::{
    BlockCount, Command, Completion, Payload, ReportOptions, Status, ZoneAction, ZoneAddress,
    ZoneId, ZoneInfo, ZoneState, ZonedDevice, ZonedDeviceExt, is_zero,
};

impl Core {
    /// Reads blocks of a member and notes how it went.
    ///
    /// # Errors
    /// The drive's status; [`Status::DeviceGone`] if there is no drive.
    pub(in crate::log) async fn read_zone(
        self: &Rc<Self>,
        column: Column,
        at: ZoneAddress,
        blocks: BlockCount,
    ) -> Result<Payload, Status> {
        let device = self.device(column).ok_or(Status::DeviceGone)?;
        let read = pin!(read_split(&*device, at, blocks));
        self.answered(column, &device, blocks, read).await
    }

    /// Asks the drive of a member for blocks, if one command reads them all. Nobody waits for what
    /// it has at once.
    ///
    /// # Errors
    /// What there is to wait for otherwise.
    pub(in crate::log) fn ask(
        self: &Rc<Self>,
        column: Column,
        at: ZoneAddress,
        blocks: BlockCount,
    ) -> Result<Payload, Asked> {
        let asked = |begun| Asked { column, at, blocks, begun };
        let device = self.device(column);
        let device = device.filter(|device| blocks <= device.geometry().max_transfer);
        let device = device.ok_or(asked(None))?;
        let mut completion = device.submit(Command::Read { at, blocks });
        let outcome = (&mut completion).now_or_never();
        match outcome.map(|outcome| outcome.and_then(|reply| reply.payload(blocks))) {
            Some(Ok(payload)) => {
                self.note_answer(column, true);
                Ok(payload)
            }
            Some(Err(status)) => Err(asked(Some((device, Completion::ready(Err(status)))))),
            None => Err(asked(Some((device, completion)))),
        }
    }

    /// Tells the drive of a member where it is asked to read next.
    pub(in crate::log) fn expect_read(&self, column: Column, at: ZoneAddress) {
        if let Some(device) = self.device(column) {
            device.expect_read(at);
        }
    }

    /// Waits for what a drive was asked for, as [`Self::read_zone`] does.
    ///
    /// # Errors
    /// The drive's status; [`Status::DeviceGone`] if there is no drive.
    pub(in crate::log) async fn wait_for(self: &Rc<Self>, asked: Asked) -> Result<Payload, Status> {
        let Asked { column, at, blocks, begun } = asked;
        let Some((device, completion)) = begun else {
            return self.read_zone(column, at, blocks).await;
        };
        let read = pin!(completion.payload(blocks));
        self.answered(column, &device, blocks, read).await
    }

    /// Waits for a read, and notes how it went.
    async fn answered(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        blocks: BlockCount,
        mut read: Pin<&mut impl Future<Output = Result<Payload, Status>>>,
    ) -> Result<Payload, Status> {
        // What is there at once is not worth any estimate of how long it takes.
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
            Ok(_) => self.note_answer(column, was_at_once),
            Err(status) => self.note_read_failure(column, device, *status),
        }
        result
    }

    fn note_answer(&self, column: Column, at_once: bool) {
        let member = &mut self.state.borrow_mut().members[column.index()];
        member.seen = self.handle.recent();
        member.answers_at_once = at_once;
    }

    /// Resets a zone, sees whether it is empty then, and notes how it went. A reset that fails is
    /// tried again: doing it twice does no harm, and a zone that stays as it is would be missing
    /// until the next start.
    ///
    /// # Errors
    /// The drive's status; [`Status::InternalError`] if it says that the reset is done, and it is
    /// not.
    pub(in crate::log) async fn reset_zone(
        self: &Rc<Self>,
        column: Column,
        zone: ZoneId,
    ) -> Result<(), Status> {
        let device = self.device(column).ok_or(Status::DeviceGone)?;
        self.reset(column, &device, zone).await
    }

    /// Resets a zone like [`Core::reset_zone`], one drive after the other where that holds up
    /// reads.
    ///
    /// # Errors
    /// Likewise.
    pub(in crate::log) async fn reset_in_turn(
        self: &Rc<Self>,
        column: Column,
        zone: ZoneId,
    ) -> Result<(), Status> {
        let device = self.device(column).ok_or(Status::DeviceGone)?;
        let in_turn = self.state.borrow().feels_resets();
        let _turn = if in_turn {
            mark(Mark::ResetInTurn);
            Some(self.resetting.acquire().await)
        } else {
            None
        };
        // Whoever has taken the drive's place meanwhile may have put something into that zone.
        if !self.is_of_member(column, &device) {
            return Err(Status::DeviceGone);
        }
        self.reset(column, &device, zone).await
    }

    async fn reset(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        zone: ZoneId,
    ) -> Result<(), Status> {
        let _reset = ResetUnderWay::begin(self, column);
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
        self.note_write(column, device, before, result);
        result
    }
}

/// How often a zone's reset is tried.
pub(in crate::log) const RESET_TRIES: u32 = 3;

/// Blocks of a member that were asked for and are not there, or are to be asked for by whoever
/// waits for them.
pub(in crate::log) struct Asked {
    column: Column,
    at: ZoneAddress,
    blocks: BlockCount,
    /// The drive, and what it was asked; `None` if it is not there, or one command does not read as
    /// much.
    begun: Option<(Rc<dyn ZonedDevice>, Completion)>,
}

/// What a zone holds that was not reset would come back once it is on record no more that it is
/// dead.
pub(in crate::log) async fn reset_and_look(
    device: &dyn ZonedDevice,
    zone: ZoneId,
) -> Result<(), Status> {
    device.manage(zone, ZoneAction::Reset).await?;
    let report = device.report_by(zone, 1, ReportOptions::default()).await?;
    let empty = |info: &ZoneInfo| info.zone == zone && info.state == ZoneState::Empty;
    if report.zones.iter().any(empty) {
        return Ok(());
    }
    mark(Mark::ResetNotDone);
    Err(Status::InternalError)
}

/// Whether a block was never written: it reads as zeros, with nothing beside it, or the drive says
/// so.
pub(in crate::log) fn is_blank(read: &Result<Payload, Status>) -> bool {
    match read {
        Ok(block) => is_zero(&block.block(0)) && is_zero(block.oob_of(0)),
        Err(status) => *status == Status::Deallocated,
    }
}

/// Reads in pieces that the drive takes.
///
/// # Errors
/// The first failing piece's status.
pub(in crate::log) async fn read_split(
    device: &dyn ZonedDevice,
    at: ZoneAddress,
    blocks: BlockCount,
) -> Result<Payload, Status> {
    let most = device.geometry().max_transfer.0;
    if blocks.0 <= most {
        return device.read(at, blocks).await;
    }
    let starts = (0..blocks.0).step_by(most as usize);
    let pieces = starts.map(|start| {
        let length = BlockCount(most.min(blocks.0 - start));
        device.read(ZoneAddress::new(at.zone, at.offset.0 + start), length)
    });
    let mut whole = Payload::default();
    let mut oob = Vec::with_capacity(blocks.oob_bytes());
    for piece in futures_util::future::join_all(pieces).await {
        let piece = piece?;
        whole.data.extend(piece.data);
        oob.extend_from_slice(&piece.oob);
    }
    whole.oob = Bytes::from(oob);
    Ok(whole)
}
