//! A drive with block metadata, made of one without.
//!
//! Commands are translated in the call, so a drive gets the writes of a zone in the order of their
//! submission. One task per command waits for the answer.
//!
//! If the write pointer of a zone is inside a frame, the blocks behind it were not written,
//! although the frame's header may have metadata that verifies with the drive's contents there. The
//! ends of such zones are remembered from zone reports.
//!
//! A read begins at the header of its first frame. If the drive cannot read the whole range, each
//! block is read again with only its header, so one bad block costs one block.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use thiserror::Error;
use zoneweave_runtime::Handle;
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, Command, Completion, Geometry, OOB_BYTES, OobKind,
    Outcome, Payload, Reply, Responder, Status, ZoneAction, ZoneAddress, ZoneId, ZoneInfo,
    ZoneOffset, ZoneState, ZonedDevice, ZonedDeviceExt, completion, zero_blocks,
};

use super::frame::{Frame, FrameShape, Header};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};

/// A drive whose metadata is among its blocks.
pub struct InlineDrive {
    translated: Rc<Translated>,
    handle: Handle,
}

struct Translated {
    device: Rc<dyn ZonedDevice>,
    shape: FrameShape,
    geometry: Geometry,
    /// Ends of zones that end inside a frame.
    cut_off: RefCell<BTreeMap<ZoneId, ZoneOffset>>,
    /// Zones that were written or reset since the start. If a report finds one inside a frame, a
    /// write is in flight, or the report is older than the reset.
    ours: RefCell<BTreeSet<ZoneId>>,
}

/// Why a drive cannot store its metadata among its blocks.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InlineError {
    /// Its zones or transfers are too small.
    #[error(
        "zones of {zone} and transfers of {transfer} are too small for metadata among the blocks: \
         both must hold two frames of {frame}"
    )]
    TooSmall {
        /// Capacity of its zones.
        zone: BlockCount,
        /// Largest transfer of the drive.
        transfer: BlockCount,
        /// Blocks of a frame.
        frame: BlockCount,
    },
}

impl InlineDrive {
    /// Wraps a drive into one with metadata beside each block. Any metadata area of the drive
    /// itself is not used.
    ///
    /// # Errors
    /// If zones or transfers are too small for frames.
    pub fn new(
        handle: &Handle,
        device: Rc<dyn ZonedDevice>,
        shape: FrameShape,
    ) -> Result<Self, InlineError> {
        let raw = device.geometry();
        let (zone, transfer) = (raw.zone_capacity, raw.max_transfer);
        let frame = BlockCount(shape.blocks());
        // A read may begin and end inside frames.
        let whole = BlockCount((transfer.0 / frame.0).saturating_sub(1) * frame.0);
        if whole.0 == 0 || zone.0 < 2 * frame.0 {
            return Err(InlineError::TooSmall { zone, transfer, frame });
        }
        let geometry = Geometry {
            zone_capacity: shape.usable(zone),
            oob: OobKind::Separate,
            append_limit: BlockCount(0),
            max_transfer: shape.usable(whole),
            write_unit: shape.unit(),
            reads_across_zones: false,
            zrwa: None,
            ..raw.clone()
        };
        let (cut_off, ours) = (RefCell::default(), RefCell::default());
        let translated = Rc::new(Translated { device, shape, geometry, cut_off, ours });
        Ok(Self { translated, handle: handle.clone() })
    }

    /// Runs a command in a task of its own.
    fn answer(&self, outcome: impl Future<Output = Outcome> + 'static) -> Completion {
        let (responder, answer): (Responder, Completion) = completion();
        self.handle.spawn("inline", async move { responder.complete(outcome.await) });
        answer
    }
}

impl ZonedDevice for InlineDrive {
    fn geometry(&self) -> &Geometry {
        &self.translated.geometry
    }

    fn submit(&self, command: Command) -> Completion {
        let drive = &self.translated;
        match command {
            Command::Read { at, blocks } => match drive.checked(at, blocks) {
                Ok(()) => self.answer(drive.clone().read(at, blocks)),
                Err(status) => Completion::ready(Err(status)),
            },
            Command::Write { at, payload, fua } => match drive.framed(at, payload) {
                Ok((there, framed)) => {
                    let fua = fua && !mutant(Mutant::FrameFuaDropped);
                    drive.ours.borrow_mut().insert(at.zone);
                    let written = drive.device.write(there, framed, fua);
                    self.answer(async move {
                        match written.await? {
                            told if told == there => Ok(Reply::Written(at)),
                            _ => Err(Status::InternalError),
                        }
                    })
                }
                Err(status) => Completion::ready(Err(status)),
            },
            // A drive without metadata cannot append, as its headers depend on the place.
            Command::Append { .. } => Completion::ready(Err(Status::InvalidField)),
            Command::Report { first, count, options } => {
                let report = drive.device.report_by(first, count, options);
                let drive = drive.clone();
                self.answer(async move {
                    let mut report = report.await?;
                    for info in &mut report.zones {
                        *info = drive.seen(*info);
                    }
                    Ok(Reply::Zones(report))
                })
            }
            Command::Manage { action: ZoneAction::Reset, .. }
            | Command::ManageAll { action: ZoneAction::Reset } => {
                let zone = match command {
                    Command::Manage { zone, .. } => Some(zone),
                    _ => None,
                };
                // Before the reset completes, as reports in flight may show the older state.
                let zones = zone.map_or(0..drive.geometry.zones, |zone| zone.0..zone.0 + 1);
                drive.ours.borrow_mut().extend(zones.map(ZoneId));
                let (reset, drive) = (drive.device.submit(command), drive.clone());
                self.answer(async move {
                    let done = reset.await?;
                    let mut cut_off = drive.cut_off.borrow_mut();
                    cut_off.retain(|at, _| zone.is_some_and(|zone| zone != *at));
                    Ok(done)
                })
            }
            Command::Manage { .. }
            | Command::ManageAll { .. }
            | Command::SetExtension { .. }
            | Command::ChangedZones
            | Command::Flush => drive.device.submit(command),
        }
    }
}

impl Translated {
    /// Converts a zone of the drive to one of frames.
    fn seen(&self, info: ZoneInfo) -> ZoneInfo {
        let shape = self.shape;
        let capacity = shape.usable(info.capacity);
        let write_pointer = shape.written(info.write_pointer).min(ZoneOffset(capacity.0));
        let is_cut = !info.write_pointer.0.is_multiple_of(shape.blocks());
        let mut cut_off = self.cut_off.borrow_mut();
        let is_ours = self.ours.borrow().contains(&info.zone);
        if info.state.is_active() && is_cut && !is_ours {
            mark(Mark::FrameCutOff);
            cut_off.insert(info.zone, write_pointer);
        } else if matches!(info.state, ZoneState::Empty) {
            cut_off.remove(&info.zone);
        }
        ZoneInfo { capacity, write_pointer, ..info }
    }

    /// Whether a block is behind the end of a zone that ends inside a frame.
    fn is_cut_off(&self, frame: Frame, place: u32) -> bool {
        let block = frame.number * self.shape.unit().0 + place;
        let cut_off = self.cut_off.borrow();
        cut_off.get(&frame.zone).is_some_and(|end| block >= end.0)
    }

    /// Checks that blocks are within a zone and a transfer.
    fn checked(&self, at: ZoneAddress, blocks: BlockCount) -> Result<(), Status> {
        let geometry = &self.geometry;
        let end = at.offset.0.checked_add(blocks.0).ok_or(Status::LbaOutOfRange)?;
        if at.zone.0 >= geometry.zones {
            return Err(Status::LbaOutOfRange);
        }
        if blocks.0 == 0 || blocks > geometry.max_transfer {
            return Err(Status::InvalidField);
        }
        if end > geometry.zone_capacity.0 { Err(Status::ZoneBoundary) } else { Ok(()) }
    }

    /// Place and contents of a write, with the headers of its frames.
    fn framed(&self, at: ZoneAddress, payload: Payload) -> Result<(ZoneAddress, Payload), Status> {
        let blocks = payload.blocks();
        self.checked(at, blocks)?;
        let (first, within) = self.shape.frame_of(at.offset);
        if within != 0 {
            return Err(Status::ZoneInvalidWrite);
        }
        let unit = self.shape.unit();
        let Payload { data, oob } = payload;
        assert!(
            oob.is_empty() || oob.len() == blocks.oob_bytes(),
            "{} bytes of metadata for {blocks} at {at}",
            oob.len()
        );
        let mut cutter = Cutter { pieces: data.into_iter(), rest: Bytes::new() };
        let mut framed = Vec::new();
        let frames = blocks.0.div_ceil(unit.0);
        for number in first..first + frames {
            let done = (number - first) * unit.0;
            let here = BlockCount(unit.0.min(blocks.0 - done));
            let metadata = match oob.is_empty() {
                true => Bytes::from(vec![0; here.oob_bytes()]),
                false => oob.slice(done as usize * OOB_BYTES..(done + here.0) as usize * OOB_BYTES),
            };
            framed.push(self.shape.encode(Frame { zone: at.zone, number }, &metadata));
            cutter.cut(here, &mut framed);
            if here < unit && !mutant(Mutant::FrameNotFilled) {
                framed.push(zero_blocks(BlockCount(unit.0 - here.0)));
            }
        }
        if let Some(rest) = self.rest_of_zone(first + frames) {
            framed.push(zero_blocks(rest));
        }
        let there = ZoneAddress { zone: at.zone, offset: self.shape.start_of(first) };
        Ok((there, Payload { data: framed, oob: Bytes::new() }))
    }

    /// Blocks behind the last frame of a zone, written with it so that the zone becomes full.
    fn rest_of_zone(&self, frames: u32) -> Option<BlockCount> {
        let capacity = self.device.geometry().zone_capacity.0;
        let end = self.shape.start_of(frames).0;
        let is_last = frames * self.shape.unit().0 == self.geometry.zone_capacity.0;
        (is_last && end < capacity && !mutant(Mutant::RestOfZoneLeft))
            .then(|| BlockCount(capacity - end))
    }

    async fn read(self: Rc<Self>, at: ZoneAddress, blocks: BlockCount) -> Outcome {
        let (first, within) = self.shape.frame_of(at.offset);
        let (last, last_within) = self.shape.frame_of(at.offset.plus(BlockCount(blocks.0 - 1)));
        let start = self.shape.start_of(first);
        let length = BlockCount(self.shape.start_of(last).0 + last_within + 2 - start.0);
        match self.device.read(ZoneAddress { zone: at.zone, offset: start }, length).await {
            Ok(payload) => {
                let mut data = Vec::with_capacity(blocks.index());
                let mut oob = Vec::with_capacity(blocks.oob_bytes());
                for number in first..=last {
                    let header = (self.shape.start_of(number).0 - start.0) as usize;
                    let frame = Frame { zone: at.zone, number };
                    let metadata = self.metadata(frame, &payload.block(header))?;
                    let from = if number == first { within } else { 0 };
                    let end = if number == last { last_within + 1 } else { self.shape.unit().0 };
                    for place in from..end {
                        if self.is_cut_off(frame, place) {
                            data.push(zero_blocks(BlockCount(1)));
                            oob.extend_from_slice(&BLANK);
                            continue;
                        }
                        data.push(payload.block(header + 1 + place as usize));
                        oob.extend_from_slice(&metadata.block(place));
                    }
                }
                assert!(
                    data.len() == blocks.index() && oob.len() == blocks.oob_bytes(),
                    "{} of {blocks} are read at {at}",
                    data.len()
                );
                let few = 2 * blocks.0 < length.0;
                let data = if few { by_themselves(&data) } else { data };
                Ok(Reply::Read(Payload { data, oob: oob.into() }))
            }
            Err(status) if status.is_fatal() || blocks.0 > 1 => Err(status),
            Err(_) => self.read_alone(Frame { zone: at.zone, number: first }, within).await,
        }
    }

    /// Reads a block and its header, and nothing between them.
    async fn read_alone(&self, frame: Frame, within: u32) -> Outcome {
        mark(Mark::BlockReadWithHeaderAlone);
        if self.is_cut_off(frame, within) {
            return Err(Status::Deallocated);
        }
        let start = self.shape.start_of(frame.number);
        let one = |offset| {
            let at = ZoneAddress { zone: frame.zone, offset };
            self.device.read(at, BlockCount(1))
        };
        let header = one(start).await?;
        let metadata = self.metadata(frame, &header.block(0))?;
        let block = match one(start.plus(BlockCount(1 + within))).await {
            // The frame was begun: this block is lost, not blank.
            Err(Status::Deallocated) if !metadata.is_blank() => Err(Status::UnrecoveredRead),
            read => read,
        }?;
        Ok(Reply::Read(Payload { data: block.data, oob: metadata.block(within) }))
    }

    fn metadata(&self, frame: Frame, header: &Bytes) -> Result<Metadata, Status> {
        match self.shape.decode(frame, header) {
            Header::Blank => Ok(Metadata(None)),
            Header::Intact(oob) => Ok(Metadata(Some(oob))),
            Header::Damaged => {
                mark(Mark::FrameHeaderDamaged);
                Err(Status::UnrecoveredRead)
            }
        }
    }
}

/// Copies blocks: a slice would keep the whole buffer of the read in memory.
fn by_themselves(blocks: &[Bytes]) -> Vec<Bytes> {
    let copy = |block: &Bytes| {
        let mut own = AlignedBuffer::unfilled(BlockCount(1));
        own.as_mut().copy_from_slice(block);
        own.freeze()
    };
    blocks.iter().map(copy).collect()
}

/// Metadata of a block that was never written.
const BLANK: [u8; OOB_BYTES] = [0; OOB_BYTES];

/// Metadata of a frame's blocks; `None` for a frame that was never written.
struct Metadata(Option<Bytes>);

impl Metadata {
    fn is_blank(&self) -> bool {
        self.0.is_none()
    }

    fn block(&self, within: u32) -> Bytes {
        let at = within as usize * OOB_BYTES;
        match &self.0 {
            Some(oob) => oob.slice(at..at + OOB_BYTES),
            None => Bytes::from_static(&BLANK),
        }
    }
}

/// Takes blocks from the front of a scatter list.
struct Cutter<I> {
    pieces: I,
    rest: Bytes,
}

impl<I: Iterator<Item = Bytes>> Cutter<I> {
    /// Moves so many blocks, which must exist, to another list.
    fn cut(&mut self, blocks: BlockCount, to: &mut Vec<Bytes>) {
        let mut left = blocks.index() * BLOCK_BYTES;
        while left > 0 {
            if self.rest.is_empty() {
                self.rest = self.pieces.next().expect("as many blocks as were counted");
            }
            let piece = self.rest.split_to(left.min(self.rest.len()));
            left -= piece.len();
            to.push(piece);
        }
    }
}

#[cfg(test)]
mod tests;
