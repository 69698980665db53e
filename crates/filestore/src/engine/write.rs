//! Appends: the buffer of a file, its writes in flight, and syncs.
//!
//! Bytes are copied into a buffer that has the form of blocks. When it is full, or at a sync, its
//! blocks are written. A task awaits each write, so that a caller that gives up leaves nothing
//! half done; the bytes are part of the file's extents once all before them are.
//!
//! A sync needs no record of the metadata log: the tags of blocks say which bytes of which file
//! they are, and a start finds them.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_runtime::Permit;
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, Command, Completion, OOB_BYTES, Payload, Status,
    ZoneAddress, ZoneId,
};

use super::core::{Core, Pending, State, Writer};
use super::place::Place;
use crate::error::StoreError;
use crate::format::{BlockLayout, Tag};
use crate::ids::{FileId, Incarnation};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::policy::Need;
use crate::state::{BlockRun, Phase};

/// Writes of a file that are in flight at once: enough to keep a drive busy, and a bound for
/// memory.
const IN_FLIGHT_MOST: usize = 4;

/// Attempts at a write, each in another zone. More failures in a row are the drive's, not a zone's.
const TRIES: u32 = 4;

/// The bytes of a file from `offset` on, which blocks are filled with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Writer {
    /// The end of the file, buffered bytes included.
    pub(crate) fn length(&self) -> u64 {
        self.submitted + self.filled as u64
    }

    /// Copies as many bytes as fit into the buffer; returns how many.
    fn fill(&mut self, data: &[u8], layout: BlockLayout, blocks: BlockCount) -> usize {
        let payload = layout.payload_bytes();
        let capacity = payload * blocks.index();
        let count = data.len().min(capacity - self.filled);
        let buffer = self.buffer.get_or_insert_with(|| AlignedBuffer::unfilled(blocks));
        let mut rest = &data[..count];
        while !rest.is_empty() {
            let (block, within) = (self.filled / payload, self.filled % payload);
            let (part, behind) = rest.split_at(rest.len().min(payload - within));
            let at = block * BLOCK_BYTES + within;
            buffer.as_mut()[at..at + part.len()].copy_from_slice(part);
            self.filled += part.len();
            rest = behind;
        }
        count
    }
}

impl Core {
    /// Waits for the turn of an operation on a file that is open for writing.
    pub(crate) async fn lock(&self, file: FileId) -> Result<Permit, StoreError> {
        let lock = self.writer(file, |writer| writer.lock.clone());
        let permit = lock.acquire().await;
        let state = self.state();
        state.check_running()?;
        match &state.writers[&file].failed {
            Some(error) => Err(StoreError::WriterFailed(Box::new(error.clone()))),
            None => Ok(permit),
        }
    }

    fn writer<R>(&self, file: FileId, read: impl FnOnce(&Writer) -> R) -> R {
        read(self.state().writers.get(&file).expect("the file is open for writing"))
    }

    /// Appends bytes; the caller has the file's turn.
    pub(crate) async fn append_locked(
        self: &Rc<Self>,
        file: FileId,
        mut data: &[u8],
    ) -> Result<(), StoreError> {
        while !data.is_empty() {
            let is_full = {
                let mut state = self.state_mut();
                let writer = state.writers.get_mut(&file).expect("the file is open for writing");
                let count = writer.fill(data, self.layout, self.limits.buffer);
                data = &data[count..];
                writer.filled == self.layout.payload_bytes() * self.limits.buffer.index()
            };
            if is_full {
                self.submit_buffer(file, false).await?;
            }
        }
        Ok(())
    }

    /// Writes the buffer of a file; the caller has its turn. With `is_sync`, the last write is
    /// durable by itself if that makes all of the file durable.
    pub(crate) async fn submit_buffer(
        self: &Rc<Self>,
        file: FileId,
        is_sync: bool,
    ) -> Result<(), StoreError> {
        loop {
            while self.writer(file, |writer| writer.pending.len()) >= IN_FLIGHT_MOST {
                self.writes_ended.wait().await;
                self.check_writer(file)?;
            }
            let has_room = self.state_mut().check_metadata(&self.limits);
            if let Err(error) = has_room {
                self.fail_writer(file, &error);
                return Err(error);
            }
            let (need, current, filled) = {
                let state = self.state();
                let node = state.namespace.file(file).expect("the file is open");
                let writer = &state.writers[&file];
                let need = Need { hints: node.hints, is_relocation: false };
                (need, state.current_zone(writer), writer.filled)
            };
            if filled == 0 {
                return Ok(());
            }
            let want = self.layout.blocks_of(filled as u64);
            let place = match self.place(need, current, want).await {
                Ok(place) => place,
                Err(error) => {
                    self.fail_writer(file, &error);
                    return Err(error);
                }
            };
            self.submit(file, place, want, is_sync);
        }
    }

    fn check_writer(&self, file: FileId) -> Result<(), StoreError> {
        let state = self.state();
        state.check_running()?;
        state.writers[&file].failed.clone().map_or(Ok(()), Err)
    }

    /// Submits the first blocks of a file's buffer.
    fn submit(self: &Rc<Self>, file: FileId, place: Place, want: BlockCount, is_sync: bool) {
        let (span, buffer) = {
            let mut state = self.state_mut();
            state.hold_zone(file, place.at.zone);
            let modified = (self.clock)();
            state.namespace.file_mut(file).expect("the file is open").modified = modified;
            state.counters.written += u64::from(place.blocks.0);
            state.zones.add_live(BlockRun { at: place.at, blocks: place.blocks });
            let writer = state.writers.get_mut(&file).expect("the file is open for writing");
            let all = writer.filled as u64;
            let bytes = all.min(self.layout.bytes_of(place.blocks));
            let offset = writer.submitted;
            let mut buffer = writer.buffer.take().expect("a buffer that is filled");
            // A large buffer is kept for later bytes instead of a small synced write.
            let (taken, rest) = (place.blocks.data_bytes(), want.data_bytes());
            if place.blocks < want || rest * 2 <= buffer.as_ref().len() {
                let mut first = AlignedBuffer::unfilled(place.blocks);
                first.as_mut().copy_from_slice(&buffer.as_ref()[..taken]);
                buffer.as_mut().copy_within(taken..rest, 0);
                writer.buffer = Some(buffer);
                buffer = first;
            }
            writer.filled -= usize::try_from(bytes).expect("bytes of a buffer");
            writer.submitted += bytes;
            (Span { file, offset, bytes }, buffer)
        };
        let (payload, data) = self.tagged(span, place, buffer);
        let durable_from = self.durable_from(span, place.at, is_sync && place.blocks == want);
        let fua = durable_from.is_some();
        let run = BlockRun { at: place.at, blocks: place.blocks };
        {
            let mut state = self.state_mut();
            state.dirty.insert(file);
            let bytes = span.bytes;
            let pending = Pending { bytes, data, run, is_done: false, durable_from };
            let writer = state.writers.get_mut(&file).expect("the file is open for writing");
            writer.pending.insert(span.offset, pending);
        }
        let write = self.device.submit(Command::Write { at: place.at, payload, fua });
        self.handle.spawn_alone("file write", self.clone().finish_write(span, place, write));
    }

    /// If a durable write makes all of a file durable, the first byte that is not yet: all bytes
    /// from there on must be in the zone of the write, in front of it.
    fn durable_from(&self, span: Span, at: ZoneAddress, is_sync: bool) -> Option<u64> {
        if !is_sync || !self.device.geometry().volatile_cache || mutant(Mutant::SyncNotFlushed) {
            return None;
        }
        let state = self.state();
        let node = state.namespace.file(span.file).expect("the file is open");
        let mut later = node.extents.iter().filter(|extent| extent.end() > node.durable);
        let mut pending = state.writers[&span.file].pending.values();
        let in_zone = later.all(|extent| extent.at.zone == at.zone)
            && pending.all(|pending| pending.run.at.zone == at.zone);
        in_zone.then_some(node.durable)
    }

    /// The buffer with its tags, ready to be written, and its blocks to be read meanwhile.
    pub(crate) fn tagged(
        &self,
        span: Span,
        place: Place,
        mut buffer: AlignedBuffer,
    ) -> (Payload, Bytes) {
        let state = self.state();
        let incarnation = state.zones.get(place.at.zone).incarnation;
        let node = state.namespace.file(span.file).expect("the file is open");
        let payload_bytes = self.layout.payload_bytes();
        let mut metadata = vec![0; if self.has_metadata() { place.blocks.oob_bytes() } else { 0 }];
        for block in 0..place.blocks.0 {
            let start = u64::from(block) * payload_bytes as u64;
            let bytes = (span.bytes - start).min(payload_bytes as u64);
            let bytes = u32::try_from(bytes).expect("bytes of a block");
            let (file, version) = (span.file, node.version);
            let offset = span.offset + start;
            let tag = Tag { file, version, offset, bytes, is_copy: false };
            let at = ZoneAddress { offset: place.at.offset.plus(BlockCount(block)), ..place.at };
            let from = BlockCount(block).data_bytes();
            let (payload, inline) =
                buffer.as_mut()[from..from + BLOCK_BYTES].split_at_mut(payload_bytes);
            payload[bytes as usize..].fill(0);
            let encoded = tag.encode(self.layout, self.seed, at, incarnation, payload);
            match self.layout {
                BlockLayout::Inline => inline.copy_from_slice(&encoded),
                BlockLayout::Separate => {
                    let from = block as usize * OOB_BYTES;
                    metadata[from..from + Tag::BYTES].copy_from_slice(&encoded);
                }
            }
        }
        let data = buffer.freeze();
        let data = data.slice(..place.blocks.data_bytes());
        (Payload::new(data.clone(), metadata.into()), data)
    }

    /// Awaits a write. If it fails, its zone takes no more blocks, and the blocks are written
    /// elsewhere.
    async fn finish_write(self: Rc<Self>, span: Span, mut place: Place, mut write: Completion) {
        for attempt in 1.. {
            let status = match write.await {
                Ok(_) => return self.end_write(span, place),
                Err(status) => status,
            };
            self.give_up(place);
            let retried = self.retry(span, place, status, attempt).await;
            let (next, again) = match retried {
                Ok(retried) => retried,
                Err(error) => {
                    let is_ours = self.state_mut().pending_at(span, place).is_some();
                    if is_ours {
                        self.fail_writer(span.file, &error);
                    }
                    // Its handle may be gone: nothing else would end it then.
                    self.end_if_closed(span.file);
                    return self.writes_ended.open();
                }
            };
            (place, write) = (next, again);
        }
    }

    /// A write is done: its bytes and those behind it that were done earlier are part of the file.
    fn end_write(self: &Rc<Self>, span: Span, place: Place) {
        let mut is_stray = false;
        let seals = {
            let mut state = self.state_mut();
            if let Some(pending) = state.pending_at(span, place) {
                pending.is_done = true;
            } else {
                // The writer failed meanwhile. There may be another one, at the same byte.
                state.zones.free(BlockRun { at: place.at, blocks: place.blocks });
                is_stray = true;
            }
            state.absorb(span.file, self.device.geometry().volatile_cache);
            state.end_flight(place.at)
        };
        if seals {
            self.start_sealing(place.at.zone);
        }
        self.end_if_closed(span.file);
        match is_stray {
            true => self.space_freed(),
            false => self.retry_reclaim(),
        }
        self.writes_ended.open();
    }

    /// After a failed write: the zone takes no more blocks.
    fn give_up(self: &Rc<Self>, place: Place) {
        mark(Mark::ZoneGivenUp);
        let seals = {
            let mut state = self.state_mut();
            state.zones.free(BlockRun { at: place.at, blocks: place.blocks });
            let zone = state.zones.get_mut(place.at.zone);
            zone.must_finish = true;
            if zone.phase == Phase::Open {
                zone.phase = Phase::Sealing;
            }
            state.end_flight(place.at)
        };
        if seals {
            self.start_sealing(place.at.zone);
        }
        self.space_changed.open();
    }

    /// Submits the blocks of a failed write in another zone.
    async fn retry(
        self: &Rc<Self>,
        span: Span,
        failed: Place,
        status: Status,
        attempt: u32,
    ) -> Result<(Place, Completion), StoreError> {
        if status.is_fatal() || attempt >= TRIES {
            return Err(StoreError::Device(status));
        }
        mark(Mark::WriteRetried);
        let hints = self.state().namespace.file(span.file).map(|file| file.hints);
        let need = Need { hints: hints.unwrap_or_default(), is_relocation: false };
        let place = self.place_whole(need, failed.blocks).await?;
        let data = self.state_mut().replace_pending(span, failed, place);
        let Some(data) = data else {
            self.leave(place);
            return Err(StoreError::Device(status));
        };
        let mut buffer = AlignedBuffer::unfilled(place.blocks);
        buffer.as_mut().copy_from_slice(&data);
        let (payload, _) = self.tagged(span, place, buffer);
        let write = self.device.submit(Command::Write { at: place.at, payload, fua: false });
        Ok((place, write))
    }

    /// Takes blocks in one zone. Zones with less room are passed over.
    async fn place_whole(
        self: &Rc<Self>,
        need: Need,
        blocks: BlockCount,
    ) -> Result<Place, StoreError> {
        loop {
            let place = self.place(need, None, blocks).await?;
            if place.blocks == blocks {
                return Ok(place);
            }
            self.leave(place);
        }
    }

    /// Leaves blocks that were just taken unwritten: their zone ends in front of them.
    fn leave(self: &Rc<Self>, place: Place) {
        let seals = {
            let mut state = self.state_mut();
            let zone = state.zones.get_mut(place.at.zone);
            zone.next = place.at.offset;
            zone.phase = Phase::Sealing;
            zone.must_finish = true;
            state.end_flight(place.at)
        };
        if seals {
            self.start_sealing(place.at.zone);
        }
    }

    /// No later byte of the file can be written. Blocks in flight are garbage.
    pub(super) fn fail_writer(self: &Rc<Self>, file: FileId, error: &StoreError) {
        let mut state = self.state_mut();
        let Some(writer) = state.writers.get_mut(&file) else { return };
        writer.failed.get_or_insert_with(|| error.clone());
        let pending = std::mem::take(&mut writer.pending);
        if let Some(node) = state.namespace.file_mut(file) {
            node.has_strays = true;
        }
        for (_, pending) in pending.into_iter().filter(|(_, pending)| pending.is_done) {
            state.zones.free(pending.run);
        }
        state.forget_if_clean(file);
        drop(state);
        self.space_freed();
    }

    /// Waits until no write of the file is in flight.
    pub(crate) async fn writes_of(&self, file: FileId) -> Result<(), StoreError> {
        loop {
            self.check_writer(file)?;
            if self.writer(file, |writer| writer.pending.is_empty()) {
                return Ok(());
            }
            self.writes_ended.wait().await;
        }
    }

    /// Makes all bytes of a file durable; the caller has its turn.
    pub(crate) async fn sync_locked(self: &Rc<Self>, file: FileId) -> Result<(), StoreError> {
        self.submit_buffer(file, true).await?;
        if mutant(Mutant::SyncNotAwaited) {
            return Ok(());
        }
        self.writes_of(file).await?;
        let is_durable = {
            let state = self.state();
            let node = state.namespace.file(file).expect("the file is open");
            node.durable == node.extents.length()
        };
        if is_durable && self.device.geometry().volatile_cache {
            mark(Mark::SyncByFua);
        }
        if !is_durable && !mutant(Mutant::SyncNotFlushed) {
            self.make_durable().await.map_err(StoreError::Device)?;
        }
        Ok(())
    }
}

impl State {
    /// The file appends to a zone from now on.
    fn hold_zone(&mut self, file: FileId, zone: ZoneId) {
        let held = (zone, self.zones.get(zone).incarnation);
        let writer = self.writers.get_mut(&file).expect("the file is open for writing");
        if writer.zone == Some(held) {
            return;
        }
        if let Some(before) = writer.zone.replace(held) {
            self.release_zone(before);
        }
        self.zones.get_mut(zone).writers += 1;
    }

    /// A file no longer appends to a zone, which may be in another use by now.
    pub(crate) fn release_zone(&mut self, (zone, incarnation): (ZoneId, Incarnation)) {
        let entry = self.zones.get_mut(zone);
        if entry.incarnation == incarnation {
            assert!(entry.writers > 0, "{zone} has no writers");
            entry.writers -= 1;
        }
    }

    /// The zone that a file appends to, if it is in the same use as then.
    fn current_zone(&self, writer: &Writer) -> Option<ZoneId> {
        let (zone, incarnation) = writer.zone?;
        (self.zones.get(zone).incarnation == incarnation).then_some(zone)
    }

    /// A write in flight, by its place: its writer may have failed and have a successor, which
    /// writes from the same byte on.
    fn pending_at(&mut self, span: Span, place: Place) -> Option<&mut Pending> {
        let pending = self.writers.get_mut(&span.file)?.pending.get_mut(&span.offset)?;
        (pending.run.at == place.at).then_some(pending)
    }

    /// Moves a write in flight to other blocks; returns its data. `None` if its writer has failed.
    fn replace_pending(&mut self, span: Span, failed: Place, place: Place) -> Option<Bytes> {
        let pending = self.pending_at(span, failed)?;
        pending.run.at = place.at;
        let data = pending.data.clone();
        // Durable writes behind it were to make its zone durable: it is in another one now.
        let writer = self.writers.get_mut(&span.file)?;
        writer.pending.values_mut().for_each(|pending| pending.durable_from = None);
        self.zones.add_live(BlockRun { at: place.at, blocks: place.blocks });
        Some(data)
    }

    /// A write of a zone has ended. Returns whether the zone is to be sealed now.
    pub(crate) fn end_flight(&mut self, at: ZoneAddress) -> bool {
        let zone = self.zones.get_mut(at.zone);
        assert!(zone.in_flight > 0, "{} has no writes", at.zone);
        zone.in_flight -= 1;
        zone.phase == Phase::Sealing && zone.in_flight == 0
    }

    /// Adds the bytes of writes that are done to the file, up to the first that is not.
    fn absorb(&mut self, id: FileId, is_volatile: bool) {
        let Some(writer) = self.writers.get_mut(&id) else { return };
        let mut added = 0;
        let node = self.namespace.file_mut(id).expect("the file is open");
        while let Some(next) = writer.pending.first_entry()
            && next.get().is_done
        {
            assert!(*next.key() == node.extents.length(), "bytes of {id} are missing");
            let pending = next.remove();
            node.extents.push(pending.bytes, pending.run);
            added += 1;
            let length = node.extents.length();
            let by_fua = pending.durable_from.is_some_and(|from| from <= node.durable);
            if by_fua || !is_volatile {
                node.durable = length;
            }
        }
        self.add_extents(added);
    }
}
