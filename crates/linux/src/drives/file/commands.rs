//! The tasks that carry out admitted commands: reads, writes, resets and other changes of zones.

use std::io;
use std::num::NonZeroU64;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join;
use rustix::fs::{Advice, fadvise};
use zoneweave_emulator::ZonePart;
use zoneweave_emulator::media_format::HEADER_BYTES;
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, OobKind, Payload, Reply, Status, ZoneAction,
    ZoneAddress, ZoneId, ZoneOffset, ZoneSet, zero_blocks,
};

use super::core::{Drive, Zone};
use super::error::DriveFailure;
use super::zone_queue::{Change, EntryId, Epoch, Kind, Queued, Ticket};
use crate::drives::media::ReadError;

impl Drive {
    pub(super) async fn read(
        self: Rc<Self>,
        at: ZoneAddress,
        blocks: BlockCount,
        written: BlockCount,
        after: Option<EntryId>,
    ) -> Result<Reply, Status> {
        if let Some(after) = after {
            let zone = self.zone(at.zone);
            while !zone.queue.borrow().is_past(after) && !self.is_dead() {
                zone.changed.wait().await;
            }
        }
        let error = match self.load(at, blocks, written).await {
            Ok(payload) => return Ok(Reply::Read(payload)),
            Err(_) if !self.examine() => return Err(Status::DeviceGone),
            Err(error) => error,
        };
        let again = async || self.load(at, blocks, written).await;
        let answers = async || self.examine() && self.load_header().await.is_ok();
        match self.repeats.judge(&self.handle, error, again, answers).await {
            Ok(payload) => Ok(Reply::Read(payload)),
            Err(_) if !self.examine() => Err(Status::DeviceGone),
            Err(ReadError::Damaged) => Err(Status::UnrecoveredRead),
            Err(ReadError::Unanswered(_)) => Err(Status::InternalError),
        }
    }

    /// Reads the header, which was readable at opening, from the disk below the file.
    async fn load_header(&self) -> io::Result<()> {
        let header = AlignedBuffer::zeroed(BlockCount::of_data_bytes(HEADER_BYTES));
        // The page cache would answer for a disk that is gone. A file system without advice may
        // still do so; the repetitions alone count then.
        let length = NonZeroU64::new(HEADER_BYTES as u64);
        let _ = fadvise(&self.file, 0, length, Advice::DontNeed);
        self.ring.read_exact_at(&self.file, header, HEADER_BYTES, 0).await.map(drop)
    }

    /// Reads parts of several zones, each after the entry that it depends on.
    pub(super) async fn read_across(
        self: Rc<Self>,
        parts: Vec<(ZonePart, Option<EntryId>)>,
    ) -> Result<Reply, Status> {
        let mut payloads = Vec::with_capacity(parts.len());
        for (part, after) in parts {
            let read = self.clone().read(part.at, part.blocks, part.written, after);
            if let Reply::Read(payload) = read.await? {
                payloads.push(payload);
            }
        }
        Ok(Reply::Read(Payload::joined(payloads)))
    }

    /// Blocks from the file, zeros from the write pointer on.
    async fn load(
        &self,
        at: ZoneAddress,
        blocks: BlockCount,
        written: BlockCount,
    ) -> io::Result<Payload> {
        let oob_bytes = match self.geometry.oob {
            OobKind::None => 0,
            _ => blocks.oob_bytes(),
        };
        let data = AlignedBuffer::zeroed(blocks);
        let oob_memory = BlockCount::of_data_bytes(oob_bytes.next_multiple_of(BLOCK_BYTES));
        let oob = AlignedBuffer::zeroed(oob_memory);
        assert!(written <= blocks, "only blocks of the read can be written");
        if written.0 == 0 {
            return Ok(Payload::new(data.freeze(), oob.freeze().slice(..oob_bytes)));
        }
        let data_from = self.layout.data_position(at);
        let data = self.ring.read_exact_at(&self.file, data, written.data_bytes(), data_from);
        let oob_from = self.layout.oob_position(at);
        let oob_length = if oob_from.is_some() { written.oob_bytes() } else { 0 };
        let oob = self.ring.read_exact_at(&self.file, oob, oob_length, oob_from.unwrap_or(0));
        let (data, oob) = join(data, oob).await;
        Ok(Payload::new(data?.freeze(), oob?.freeze().slice(..oob_bytes)))
    }

    pub(super) async fn write(
        self: Rc<Self>,
        at: ZoneAddress,
        payload: Payload,
        fua: bool,
        queued: Queued,
    ) -> Result<(), Status> {
        let zone = self.zone(at.zone);
        self.turn(zone, queued.epoch).await;
        let given_up = self.is_dead() || zone.queue.borrow().has_failed(queued.id);
        let stored = if given_up { Ok(()) } else { self.store(at, payload).await };
        match stored {
            Ok(()) => zone.queue.borrow_mut().finished(queued.id),
            Err(error) => self.write_failed(at.zone, queued.id, &error),
        }
        zone.changed.open();
        self.publish(at.zone);
        queued.answer.await.unwrap_or(Err(Status::Aborted))?;
        if fua { self.sync().await } else { Ok(()) }
    }

    /// Waits until everything of earlier epochs has left the file.
    async fn turn(&self, zone: &Zone, epoch: Epoch) {
        while !zone.queue.borrow().may_start(epoch) && !self.is_dead() {
            zone.changed.wait().await;
        }
    }

    async fn store(&self, at: ZoneAddress, payload: Payload) -> io::Result<()> {
        let blocks = payload.blocks();
        let end = at.offset.plus(blocks);
        assert!(
            end.0 <= self.geometry.zone_capacity.0,
            "the controller admits writes within a zone"
        );
        let data_at = self.layout.data_position(at);
        let data = self.ring.write_all_at(&self.file, payload.data, data_at);
        let Some(oob_at) = self.layout.oob_position(at) else { return data.await };
        let oob = if payload.oob.is_empty() { zero_oob(blocks) } else { payload.oob };
        let oob = self.ring.write_all_at(&self.file, vec![oob], oob_at);
        let (data, oob) = join(data, oob).await;
        data.and(oob)
    }

    /// Rolls back an admitted write: the write pointer returns to the end of the stored data. A
    /// zone with a media error becomes read-only; a file that may not grow is no such error.
    fn write_failed(&self, zone: ZoneId, id: EntryId, error: &io::Error) {
        if !self.examine() {
            return;
        }
        let full = matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT));
        if !full {
            // Commands fail with less than the system says.
            self.write_error.replace(Some(in_words(error)));
        }
        let full = full || error.raw_os_error() == Some(libc::EFBIG);
        let status = if full { Status::CapacityExceeded } else { Status::WriteFault };
        let rollback = self.zone(zone).queue.borrow_mut().failed(id, status);
        let Some(mut rollback) = rollback else { return };
        let mut controller = self.controller.borrow_mut();
        let zones = controller.zones_mut();
        let before = zones.record(zone);
        roll_back(zones, zone, rollback.record.write_pointer, !full);
        let record = zones.record(zone);
        if before.state.is_active() && !record.state.is_active() {
            rollback.tickets.push(self.tickets.draw());
        }
        let tickets = rollback.tickets;
        let change = Change { kind: Kind::State, record, after: Ticket::NONE, tickets };
        drop(self.zone(zone).queue.borrow_mut().push(change));
    }

    /// Stores the extension of a zone's descriptor, then publishes that the zone has one.
    pub(super) async fn extend(
        self: Rc<Self>,
        zone: ZoneId,
        extension: Bytes,
        queued: Queued,
    ) -> Result<Reply, Status> {
        self.turn(self.zone(zone), queued.epoch).await;
        let position = self.layout.descriptor_extension(zone).start;
        match self.ring.write_all_at(&self.file, vec![extension], position).await {
            // The extension must be durable before the record: with the record alone, a power
            // failure would leave an extension that nobody set. An error ends the drive, which
            // fails the command.
            Ok(()) => {
                let _ = self.sync().await;
            }
            Err(error) => self.die(DriveFailure::RecordLost(error)),
        }
        self.zone(zone).queue.borrow_mut().finished(queued.id);
        self.zone(zone).changed.open();
        self.change(zone, true, queued).await
    }

    /// Publishes a change of state; an irreversible one is durable on completion.
    pub(super) async fn change(
        self: Rc<Self>,
        zone: ZoneId,
        durable: bool,
        queued: Queued,
    ) -> Result<Reply, Status> {
        self.publish(zone);
        queued.answer.await.unwrap_or(Err(Status::Aborted))?;
        if durable {
            self.sync().await?;
        }
        Ok(Reply::Done)
    }

    pub(super) async fn reset(
        self: Rc<Self>,
        zone: ZoneId,
        queued: Queued,
    ) -> Result<Reply, Status> {
        self.turn(self.zone(zone), queued.epoch).await;
        self.zone(zone).queue.borrow_mut().finished(queued.id);
        self.publish(zone);
        let mut answer = queued.answer.await.unwrap_or(Err(Status::Aborted));
        if answer.is_ok() {
            self.store_wear(zone).await;
            // The record has to be durable before the blocks are freed: a file system that
            // remembered only the hole would show a zone full of zeros after a power failure.
            answer = self.sync().await;
        }
        if answer.is_ok() {
            // A file system that cannot free blocks keeps them until they are overwritten; they
            // lie above the write pointer, where nothing is read from the file.
            let _ = self.ring.punch_hole(&self.file, self.layout.zone(zone)).await;
        }
        self.zone(zone).queue.borrow_mut().finished(queued.id);
        self.zone(zone).changed.open();
        self.publish(zone);
        answer.map(|()| Reply::Done)
    }
}

/// An error of a write. The limit of a process is not what its words make one think of.
fn in_words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EFBIG) => format!(
            "{error}: the process may not write so far into a file (`ulimit -f`, LimitFSIZE= of a \
             unit)"
        ),
        _ => error.to_string(),
    }
}

/// Cuts a zone back to `to`; it is never written again if it is `worn`.
fn roll_back(zones: &mut ZoneSet, zone: ZoneId, to: ZoneOffset, worn: bool) {
    if zones.record(zone).state.is_open() {
        zones.manage(zone, ZoneAction::Close).expect("an open zone can be closed");
    }
    if worn {
        zones.set_read_only(zone);
    }
    if zones.truncate(zone, to).is_err() {
        // It was full, and another zone has taken its place among the active ones.
        zones.set_read_only(zone);
        zones.truncate(zone, to).expect("a read-only zone is not active");
    }
}

fn zero_oob(blocks: BlockCount) -> Bytes {
    let memory = blocks.oob_bytes().next_multiple_of(BLOCK_BYTES);
    zero_blocks(BlockCount::of_data_bytes(memory)).slice(..blocks.oob_bytes())
}
