//! One request of a guest: its descriptors parsed, and run on the device (VIRTIO 1.2, section
//! 5.2.6).

use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, BlockError, ByteDevice};

use super::config::{RANGE_SECTORS_MAX, RANGES_MAX, SECTOR_BYTES, SEGMENTS_MAX};
use super::shared::PIECE_BYTES;

const STATUS_OK: u8 = 0;
const STATUS_IO_ERROR: u8 = 1;
const STATUS_UNSUPPORTED: u8 = 2;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;

/// Bytes of the serial number.
const ID_BYTES: usize = 20;
/// A range of zeros may be given up on the drives.
const MAY_UNMAP: u32 = 1;

#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Header {
    kind: U32,
    reserved: U32,
    sector: U64,
}

/// A range to discard or zero.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Range {
    sector: U64,
    sectors: U32,
    flags: U32,
}

/// Descriptors of a request: a header, data and a status.
const PIECES_MAX: usize = SEGMENTS_MAX as usize + 2;

const HEADER_BYTES: u64 = size_of::<Header>() as u64;
const RANGE_BYTES: u64 = size_of::<Range>() as u64;

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Failed,
    Unsupported,
}

impl From<BlockError> for Refusal {
    /// Virtio has a single status for errors.
    fn from(_: BlockError) -> Self {
        Self::Failed
    }
}

impl From<vm_memory::GuestMemoryError> for Refusal {
    fn from(_: vm_memory::GuestMemoryError) -> Self {
        Self::Failed
    }
}

/// Memory of the guest in several pieces, one behind the other.
#[derive(Debug, Default)]
struct Pieces {
    list: Vec<(GuestAddress, u32)>,
    bytes: u64,
}

impl Pieces {
    fn push(&mut self, at: GuestAddress, bytes: u32) {
        if bytes > 0 {
            self.list.push((at, bytes));
            self.bytes += u64::from(bytes);
        }
    }

    /// The parts that make up some bytes from `start` on.
    fn parts(&self, start: u64, bytes: u64) -> impl Iterator<Item = (GuestAddress, usize)> {
        let (mut skip, mut left) = (start, bytes);
        self.list.iter().filter_map(move |(at, length)| {
            let length = u64::from(*length);
            let inside = skip.min(length);
            skip -= inside;
            let take = (length - inside).min(left);
            left -= take;
            let take = usize::try_from(take).expect("a descriptor has 32 bits");
            // Addresses that overflow are found when they are used.
            (take > 0).then(|| (GuestAddress(at.0.wrapping_add(inside)), take))
        })
    }

    /// Copies from the guest.
    fn read(&self, memory: &GuestMemoryMmap, start: u64, into: &mut [u8]) -> Result<(), Refusal> {
        let mut rest = into;
        for (at, bytes) in self.parts(start, rest.len() as u64) {
            let (now, later) = rest.split_at_mut(bytes);
            memory.read_slice(now, at)?;
            rest = later;
        }
        if rest.is_empty() { Ok(()) } else { Err(Refusal::Failed) }
    }

    /// Copies to the guest.
    fn write(&self, memory: &GuestMemoryMmap, start: u64, from: &[u8]) -> Result<(), Refusal> {
        let mut rest = from;
        for (at, bytes) in self.parts(start, rest.len() as u64) {
            let (now, later) = rest.split_at(bytes);
            memory.write_slice(now, at)?;
            rest = later;
        }
        if rest.is_empty() { Ok(()) } else { Err(Refusal::Failed) }
    }
}

/// A request as its descriptors have it.
#[derive(Debug)]
pub(super) struct Request {
    /// A header, and the data of a write.
    given: Pieces,
    /// The memory for the data of a read.
    wanted: Pieces,
    status: GuestAddress,
}

impl Request {
    /// Follows the descriptors; `None` without a place for a status, or with more descriptors than
    /// a guest may use: indirect tables have up to 65,535. The library ends chains that loop, leave
    /// the memory or are too long, and the rest counts as a short request.
    pub(super) fn of_chain(
        chain: impl Iterator<Item = virtio_queue::desc::split::Descriptor>,
    ) -> Option<Self> {
        let (mut given, mut wanted) = (Pieces::default(), Pieces::default());
        for (number, descriptor) in chain.enumerate() {
            if number >= PIECES_MAX {
                return None;
            }
            if descriptor.is_write_only() {
                wanted.push(descriptor.addr(), descriptor.len());
            } else if wanted.list.is_empty() {
                given.push(descriptor.addr(), descriptor.len());
            } else {
                return None;
            }
        }
        let (at, bytes) = wanted.list.last_mut()?;
        *bytes -= 1;
        let status = GuestAddress(at.0.checked_add(u64::from(*bytes))?);
        wanted.bytes -= 1;
        Some(Self { given, wanted, status })
    }

    /// Bytes of data, in both directions.
    pub(super) fn data_bytes(&self) -> u64 {
        self.given.bytes + self.wanted.bytes
    }

    /// Carries the request out, durably if `fua`, and writes its status; returns whether it failed,
    /// and how many bytes the guest got.
    pub(super) async fn serve(
        &self,
        device: &ByteDevice,
        serial: &str,
        memory: &GuestMemoryMmap,
        fua: bool,
    ) -> (bool, u32) {
        let (status, read) = match self.carry_out(device, serial, memory, fua).await {
            Ok(read) => (STATUS_OK, read),
            Err(Refusal::Failed) => (STATUS_IO_ERROR, 0),
            Err(Refusal::Unsupported) => (STATUS_UNSUPPORTED, 0),
        };
        let told = memory.write_obj(status, self.status).is_ok();
        let written = if told { read.saturating_add(1) } else { 0 };
        (status != STATUS_OK || !told, u32::try_from(written).unwrap_or(u32::MAX))
    }

    /// Returns how many bytes were read.
    async fn carry_out(
        &self,
        device: &ByteDevice,
        serial: &str,
        memory: &GuestMemoryMmap,
        fua: bool,
    ) -> Result<u64, Refusal> {
        let mut header = Header::new_zeroed();
        self.given.read(memory, 0, header.as_mut_bytes())?;
        let sector = header.sector.get();
        match header.kind.get() {
            READ => self.read(device, sector, memory).await,
            WRITE => self.write(device, sector, memory, fua).await,
            FLUSH => device.flush().await.map(|()| 0).map_err(Refusal::from),
            GET_ID => {
                let mut id = [0; ID_BYTES];
                for (place, byte) in id.iter_mut().zip(serial.bytes()) {
                    *place = byte;
                }
                let bytes = self.wanted.bytes.min(ID_BYTES as u64);
                let told = usize::try_from(bytes).expect("twenty");
                self.wanted.write(memory, 0, &id[..told])?;
                Ok(bytes)
            }
            kind @ (DISCARD | WRITE_ZEROES) => {
                self.ranges(device, kind == DISCARD, memory, fua).await.map(|()| 0)
            }
            _ => Err(Refusal::Unsupported),
        }
    }

    async fn read(
        &self,
        device: &ByteDevice,
        sector: u64,
        memory: &GuestMemoryMmap,
    ) -> Result<u64, Refusal> {
        let bytes = self.wanted.bytes;
        let offset = range(device, sector, bytes)?;
        for (at, length) in steps(bytes) {
            let mut place = at;
            for piece in device.read(offset + at, length).await? {
                self.wanted.write(memory, place, &piece)?;
                place += piece.len() as u64;
            }
        }
        Ok(bytes)
    }

    async fn write(
        &self,
        device: &ByteDevice,
        sector: u64,
        memory: &GuestMemoryMmap,
        fua: bool,
    ) -> Result<u64, Refusal> {
        assert!(self.given.bytes >= HEADER_BYTES, "the header was read");
        let bytes = self.given.bytes - HEADER_BYTES;
        let offset = range(device, sector, bytes)?;
        for (at, length) in steps(bytes) {
            let length = usize::try_from(length).expect("a piece");
            let blocks = u32::try_from(length.div_ceil(BLOCK_BYTES)).expect("a piece");
            let mut buffer = AlignedBuffer::unfilled(BlockCount(blocks));
            self.given.read(memory, HEADER_BYTES + at, &mut buffer.as_mut()[..length])?;
            device.write(offset + at, vec![buffer.freeze().slice(..length)], fua).await?;
        }
        Ok(0)
    }

    /// Discards ranges or makes them zero.
    async fn ranges(
        &self,
        device: &ByteDevice,
        discard: bool,
        memory: &GuestMemoryMmap,
        fua: bool,
    ) -> Result<(), Refusal> {
        assert!(self.given.bytes >= HEADER_BYTES, "the header was read");
        let bytes = self.given.bytes - HEADER_BYTES;
        let count = bytes / RANGE_BYTES;
        if !bytes.is_multiple_of(RANGE_BYTES) || count > u64::from(RANGES_MAX) {
            return Err(Refusal::Failed);
        }
        for number in 0..count {
            let mut asked = Range::new_zeroed();
            let at = HEADER_BYTES + number * RANGE_BYTES;
            self.given.read(memory, at, asked.as_mut_bytes())?;
            let known = if discard { 0 } else { MAY_UNMAP };
            if asked.flags.get() & !known != 0 {
                return Err(Refusal::Unsupported);
            }
            let sectors = asked.sectors.get();
            if sectors > RANGE_SECTORS_MAX {
                return Err(Refusal::Failed);
            }
            let length = u64::from(sectors) * SECTOR_BYTES;
            let offset = range(device, asked.sector.get(), length)?;
            match discard {
                true => device.trim(offset, length, fua).await?,
                false => device.write_zeroes(offset, length, fua).await?,
            }
        }
        Ok(())
    }
}

/// Where a range starts, if it is whole sectors of the device.
fn range(device: &ByteDevice, sector: u64, bytes: u64) -> Result<u64, Refusal> {
    let offset = sector.checked_mul(SECTOR_BYTES).ok_or(Refusal::Failed)?;
    let end = offset.checked_add(bytes).filter(|end| *end <= device.size_bytes());
    match end {
        Some(_) if bytes.is_multiple_of(SECTOR_BYTES) => Ok(offset),
        _ => Err(Refusal::Failed),
    }
}

/// Pieces that are not too large: where, and how long.
fn steps(bytes: u64) -> impl Iterator<Item = (u64, u32)> {
    (0..bytes).step_by(PIECE_BYTES as usize).map(move |at| {
        let length = (bytes - at).min(u64::from(PIECE_BYTES));
        (at, u32::try_from(length).expect("at most a piece"))
    })
}
