//! Reads: from media, verified by tags, and from buffers of files that are being written.

use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, Payload, ZoneAddress, ZonedDevice, ZonedDeviceExt};

use super::core::{Core, Pin, State};
use crate::error::StoreError;
use crate::format::{BlockLayout, Tag};
use crate::ids::{FileId, Incarnation};
use crate::instrument::marks::{Mark, mark};
use crate::state::{Extent, Piece};

/// Attempts at a read: a drive may fail one now and then.
const TRIES: u32 = 3;

/// A part of a read, with its zone pinned.
struct Part {
    piece: Piece,
    incarnation: Incarnation,
    _pin: Pin,
}

/// What a read does next.
enum Plan {
    /// The tags of an extent have to be read first.
    Load(Extent, Incarnation, Pin),
    /// The parts on media, and the end of the read.
    Read(Vec<Part>, u64),
}

impl Core {
    /// Reads bytes of a file from `offset` on; returns how many, fewer only at the end of the file.
    pub(crate) async fn read(
        self: &Rc<Self>,
        file: FileId,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, StoreError> {
        loop {
            let plan = self.plan(file, offset, into);
            match plan {
                Plan::Load(extent, incarnation, _pin) => {
                    self.load_ends(file, &extent, incarnation).await?;
                }
                Plan::Read(parts, end) => {
                    let payloads = join_all(
                        parts
                            .iter()
                            .map(|part| self.read_verified(file, &part.piece, part.incarnation)),
                    );
                    for (part, payload) in parts.iter().zip(payloads.await) {
                        copy_piece(&part.piece, &payload?, offset, end, into);
                    }
                    return Ok(usize::try_from(end - offset).expect("at most the buffer"));
                }
            }
        }
    }

    /// Finds the bytes of a read, and copies those that are in memory.
    fn plan(self: &Rc<Self>, file: FileId, offset: u64, into: &mut [u8]) -> Plan {
        let mut state = self.state_mut();
        let length = state.length(file);
        let end = offset.saturating_add(into.len() as u64).min(length).max(offset);
        let node = state.namespace.file(file).expect("the file is open");
        let on_media = node.extents.length().min(end);
        if on_media <= offset {
            state.copy_unwritten(file, offset, end, into, self.layout);
            return Plan::Read(Vec::new(), end);
        }
        let pieces = match node.extents.pieces(offset, on_media) {
            Ok(pieces) => pieces,
            Err(extent) => {
                let extent = extent.clone();
                let incarnation = state.zones.get(extent.at.zone).incarnation;
                let pin = Pin::new(self, &mut state, extent.at.zone);
                return Plan::Load(extent, incarnation, pin);
            }
        };
        state.copy_unwritten(file, offset, end, into, self.layout);
        let pin = |piece: Piece| {
            let zone = piece.at.zone;
            let incarnation = state.zones.get(zone).incarnation;
            Part { piece, incarnation, _pin: Pin::new(self, &mut state, zone) }
        };
        Plan::Read(pieces.into_iter().map(pin).collect(), end)
    }

    /// Reads the blocks of a piece of a file, and checks that they are these.
    pub(crate) async fn read_verified(
        &self,
        file: FileId,
        piece: &Piece,
        incarnation: Incarnation,
    ) -> Result<Payload, StoreError> {
        assert!(piece.starts.len() > 1, "a read of no blocks");
        let blocks = BlockCount(u32::try_from(piece.starts.len() - 1).expect("blocks of a zone"));
        let mut tries = 1..TRIES;
        loop {
            let read = self.device.read_in_pieces(piece.at, blocks).await;
            let failed = match read {
                Ok(payload) => match self.verify(file, piece, incarnation, &payload) {
                    Ok(()) => return Ok(payload),
                    Err(error) => error,
                },
                Err(status) => {
                    let (at, offset) = (piece.at, piece.starts[0]);
                    StoreError::Unreadable { file, offset, at, status }
                }
            };
            tries.next().ok_or(failed)?;
        }
    }

    fn verify(
        &self,
        file: FileId,
        piece: &Piece,
        incarnation: Incarnation,
        payload: &Payload,
    ) -> Result<(), StoreError> {
        let spans = piece.starts.windows(2);
        for ((index, block), span) in (0..).zip(payload.iter_blocks()).zip(spans) {
            let at = address_of(piece.at, index);
            let metadata = payload.oob_of(index as usize);
            let opened = Tag::open(self.layout, self.seed, at, incarnation, &block, metadata);
            let is_this = opened.is_ok_and(|(tag, _)| {
                tag.file == file
                    && tag.offset == span[0]
                    && u64::from(tag.bytes) >= span[1] - span[0]
            });
            if !is_this {
                return Err(StoreError::Damaged { file, offset: span[0], at });
            }
        }
        Ok(())
    }
}

impl State {
    /// Bytes of a file, those in its buffer included.
    pub(crate) fn length(&self, file: FileId) -> u64 {
        match self.writers.get(&file) {
            Some(writer) if writer.failed.is_none() => writer.length(),
            _ => self.namespace.file(file).map_or(0, |node| node.extents.length()),
        }
    }

    /// Copies bytes that are not part of the file's extents yet.
    fn copy_unwritten(
        &self,
        file: FileId,
        offset: u64,
        end: u64,
        into: &mut [u8],
        layout: BlockLayout,
    ) {
        let Some(writer) = self.writers.get(&file) else { return };
        for (start, pending) in &writer.pending {
            let span = (*start, start + pending.bytes);
            if copy_blocks(&pending.data, span, (offset, end), into, layout) {
                mark(Mark::ReadInFlight);
            }
        }
        if let Some(buffer) = &writer.buffer {
            let span = (writer.submitted, writer.length());
            copy_blocks(buffer.as_ref(), span, (offset, end), into, layout);
        }
    }
}

/// Reads blocks, one by one if they cannot be read together; `None` for one that cannot be read.
pub(super) async fn read_each(
    device: &dyn ZonedDevice,
    first: ZoneAddress,
    count: u32,
) -> Vec<Option<Payload>> {
    let whole = device.read(first, BlockCount(count)).await;
    if let Ok(payload) = whole {
        assert!(payload.blocks() == BlockCount(count), "{} blocks of {count}", payload.blocks());
        let one = |index| Payload::new(payload.block(index), payload.block_oob(index));
        return (0..count as usize).map(|index| Some(one(index))).collect();
    }
    let mut blocks = Vec::new();
    for index in 0..count {
        let at = address_of(first, index);
        blocks.push(zoneweave_journal::read_stubbornly(device, at).await.ok());
    }
    blocks
}

pub(super) fn address_of(first: ZoneAddress, index: u32) -> ZoneAddress {
    ZoneAddress { offset: first.offset.plus(BlockCount(index)), ..first }
}

/// Copies the overlap of a read with bytes that are in full blocks of memory; returns whether there
/// is any.
fn copy_blocks(
    blocks: &[u8],
    span: (u64, u64),
    read: (u64, u64),
    into: &mut [u8],
    layout: BlockLayout,
) -> bool {
    let (from, to) = (span.0.max(read.0), span.1.min(read.1));
    let mut at = from;
    while at < to {
        let within = to_usize(at - span.0);
        let (block, skip) = (within / layout.payload_bytes(), within % layout.payload_bytes());
        let count = (layout.payload_bytes() - skip).min(to_usize(to - at));
        let source = block * BLOCK_BYTES + skip;
        let target = to_usize(at - read.0);
        into[target..target + count].copy_from_slice(&blocks[source..source + count]);
        at += count as u64;
    }
    from < to
}

/// Copies the overlap of a read with the blocks of a piece.
fn copy_piece(piece: &Piece, payload: &Payload, offset: u64, end: u64, into: &mut [u8]) {
    for (span, block) in piece.starts.windows(2).zip(payload.iter_blocks()) {
        let (from, to) = (span[0].max(offset), span[1].min(end));
        if from < to {
            let skip = to_usize(from - span[0]);
            let (target, count) = (to_usize(from - offset), to_usize(to - from));
            into[target..target + count].copy_from_slice(&block[skip..skip + count]);
        }
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).expect("usize is 64 bits")
}
