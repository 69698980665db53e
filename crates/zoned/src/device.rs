//! The device seam: one command in, one completion out.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use zoneweave_runtime::{Receiver, Sender, oneshot};

use crate::{
    BlockCount, ChangedZones, Command, Geometry, Outcome, Payload, Reply, ReportOptions, Status,
    Timed, ZoneAction, ZoneAddress, ZoneId, ZoneInfo, ZoneReport,
};

/// A zoned drive.
///
/// Commands to one zone may be in flight together; a drive applies writes in the order of
/// submission and appends in an order of its own. Dropping a [`Completion`] abandons the answer,
/// not the command.
pub trait ZonedDevice {
    /// The geometry of the drive.
    fn geometry(&self) -> &Geometry;

    /// Starts a command.
    fn submit(&self, command: Command) -> Completion;

    /// Announces the address of a read that may follow. A drive in memory can prefetch it; others
    /// ignore it. It has no other effect.
    fn hint_read(&self, _at: ZoneAddress) {}
}

/// The answer to a command, once it comes.
#[must_use]
pub struct Completion {
    answer: Receiver<Outcome>,
    /// To be told when it succeeds.
    timed: Option<Timed>,
}

/// The device's side of a [`Completion`]. Dropping it answers [`Status::Aborted`].
pub struct Responder(Sender<Outcome>);

/// A connected pair.
pub fn completion() -> (Responder, Completion) {
    let (sender, receiver) = oneshot();
    (Responder(sender), Completion { answer: receiver, timed: None })
}

impl Responder {
    /// Completes the command.
    pub fn complete(self, outcome: Outcome) {
        self.0.send(outcome);
    }
}

impl Completion {
    /// A command that is complete already.
    pub fn ready(outcome: Outcome) -> Self {
        Self { answer: Receiver::ready(outcome), timed: None }
    }

    /// The same, with its time counted once the answer is taken.
    pub fn timed(self, timed: Timed) -> Self {
        assert!(self.timed.is_none(), "a command is timed once");
        Self { timed: Some(timed), ..self }
    }

    /// Waits for the payload of a read of `blocks` blocks.
    ///
    /// # Errors
    /// The drive's status; [`Status::InternalError`] for a reply of another kind.
    pub async fn payload(self, blocks: BlockCount) -> Result<Payload, Status> {
        self.await?.payload(blocks)
    }
}

impl Future for Completion {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|outcome| {
            let outcome = outcome.unwrap_or(Err(Status::Aborted));
            if let (Some(timed), Ok(_)) = (self.timed.take(), &outcome) {
                timed.succeeded();
            }
            outcome
        })
    }
}

/// Commands by name, with the reply each one has.
///
/// A drive that answers with the wrong kind of reply has a bug; [`Status::InternalError`] says so
/// without taking the engine down.
pub trait ZonedDeviceExt: ZonedDevice {
    /// Reads `blocks` blocks with their metadata.
    fn read(
        &self,
        at: ZoneAddress,
        blocks: BlockCount,
    ) -> impl Future<Output = Result<Payload, Status>> + use<Self> {
        self.submit(Command::Read { at, blocks }).payload(blocks)
    }

    /// Reads any number of blocks with their metadata, in pieces of the drive's transfer size, all
    /// submitted at once.
    ///
    /// # Errors
    /// The first failing piece's status, once all are complete.
    fn read_in_pieces(
        &self,
        at: ZoneAddress,
        blocks: BlockCount,
    ) -> impl Future<Output = Result<Payload, Status>> + use<Self> {
        let most = self.geometry().max_transfer.0;
        assert!(most > 0, "a drive that transfers nothing");
        let starts = (0..blocks.0.max(1)).step_by(most as usize);
        let pieces = starts.map(|start| {
            let length = BlockCount(most.min(blocks.0 - start));
            self.read(ZoneAddress::new(at.zone, at.offset.0 + start), length)
        });
        joined(pieces.collect(), blocks)
    }

    /// Writes at the write pointer.
    fn write(
        &self,
        at: ZoneAddress,
        payload: Payload,
        fua: bool,
    ) -> impl Future<Output = Result<ZoneAddress, Status>> + use<Self> {
        written(self.submit(Command::Write { at, payload, fua }))
    }

    /// Appends to a zone.
    fn append(
        &self,
        zone: ZoneId,
        payload: Payload,
        fua: bool,
    ) -> impl Future<Output = Result<ZoneAddress, Status>> + use<Self> {
        written(self.submit(Command::Append { zone, payload, fua }))
    }

    /// Changes the state of a zone.
    fn manage(
        &self,
        zone: ZoneId,
        action: ZoneAction,
    ) -> impl Future<Output = Result<(), Status>> + use<Self> {
        done(self.submit(Command::Manage { zone, action }))
    }

    /// Changes the state of every zone that the action is for.
    fn manage_all(
        &self,
        action: ZoneAction,
    ) -> impl Future<Output = Result<(), Status>> + use<Self> {
        done(self.submit(Command::ManageAll { action }))
    }

    /// Sets the extension of an empty zone's descriptor.
    fn set_extension(
        &self,
        zone: ZoneId,
        extension: Bytes,
    ) -> impl Future<Output = Result<(), Status>> + use<Self> {
        done(self.submit(Command::SetExtension { zone, extension }))
    }

    /// Makes everything completed so far durable.
    fn flush(&self) -> impl Future<Output = Result<(), Status>> + use<Self> {
        done(self.submit(Command::Flush))
    }

    /// Reports every zone.
    fn report(&self) -> impl Future<Output = Result<Vec<ZoneInfo>, Status>> + use<Self> {
        let zones = self.geometry().zones;
        let report = self.report_by(ZoneId(0), zones, ReportOptions::default());
        async move {
            let report = report.await?.zones;
            if report.len() == zones as usize { Ok(report) } else { Err(Status::InternalError) }
        }
    }

    /// Reports at most `count` zones from `first` on.
    fn report_by(
        &self,
        first: ZoneId,
        count: u32,
        options: ReportOptions,
    ) -> impl Future<Output = Result<ZoneReport, Status>> + use<Self> {
        let completion = self.submit(Command::Report { first, count, options });
        async move {
            match completion.await? {
                Reply::Zones(report) if report.zones.len() <= count as usize => Ok(report),
                _ => Err(Status::InternalError),
            }
        }
    }

    /// The zones that changed without a command since the last call.
    fn changed_zones(&self) -> impl Future<Output = Result<ChangedZones, Status>> + use<Self> {
        let completion = self.submit(Command::ChangedZones);
        async move {
            match completion.await? {
                Reply::Changed(changed) => Ok(changed),
                _ => Err(Status::InternalError),
            }
        }
    }
}

impl<D: ZonedDevice + ?Sized> ZonedDeviceExt for D {}

async fn joined(
    pieces: Vec<impl Future<Output = Result<Payload, Status>>>,
    blocks: BlockCount,
) -> Result<Payload, Status> {
    let mut outcomes = Vec::with_capacity(pieces.len());
    for piece in pieces {
        outcomes.push(piece.await);
    }
    if outcomes.len() == 1 {
        return outcomes.pop().expect("one piece");
    }
    let pieces: Vec<Payload> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let whole = Payload::joined(pieces);
    // Each piece has the length that was requested, or its read failed.
    assert!(whole.blocks() == blocks, "{} in pieces of {blocks}", whole.blocks());
    Ok(whole)
}

async fn written(completion: Completion) -> Result<ZoneAddress, Status> {
    match completion.await? {
        Reply::Written(at) => Ok(at),
        _ => Err(Status::InternalError),
    }
}

async fn done(completion: Completion) -> Result<(), Status> {
    match completion.await? {
        Reply::Done => Ok(()),
        _ => Err(Status::InternalError),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use zoneweave_runtime::{Executor, Nanos, VirtualTime};

    use super::*;
    use crate::{Latencies, Operation};

    #[test]
    fn a_command_is_counted_when_it_is_answered_and_only_if_it_succeeded() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let latencies = Rc::new(Latencies::new(&handle));
        let timed = || Timed::new(&latencies, Operation::Flush, handle.now());
        executor.run(async {
            let (responder, answer) = completion();
            let answer = answer.timed(timed());
            handle.sleep(Nanos::from_micros(70)).await;
            responder.complete(Ok(Reply::Done));
            assert_eq!(latencies.counted(), []);
            assert_eq!(answer.await, Ok(Reply::Done));
            let (responder, answer) = completion();
            let answer = answer.timed(timed());
            responder.complete(Err(Status::InternalError));
            assert_eq!(answer.await, Err(Status::InternalError));
        });
        let [(Operation::Flush, times)] = latencies.counted()[..] else { panic!("flushes alone") };
        assert_eq!((times.count(), times.sum()), (1, Nanos::from_micros(70)));
    }
}
