//! The header of a trace, and the headers of its frames.

use zoneweave_journal::Seed;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockCount, Geometry};

use crate::options::buffer_on;

/// The first bytes of a trace.
const MAGIC: [u8; 8] = *b"ZNWTRACE";

/// The version of the format.
pub const TRACE_VERSION: u16 = 1;

/// The most bytes of events in a frame.
pub(super) const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// What a trace was recorded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHeader {
    /// A random number: it seeds the checksums, so that a frame of another trace does not verify.
    pub id: [u8; 16],
    /// Whether reads were recorded.
    pub has_reads: bool,
    /// Zones of the drive.
    pub zones: u32,
    /// The capacity of each.
    pub zone_capacity: BlockCount,
    /// Blocks that a file collected before it wrote them.
    pub buffer: BlockCount,
}

/// Why bytes are no header of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHeader {
    Magic,
    Version(u16),
    Damaged,
}

impl TraceHeader {
    /// Its bytes in a trace.
    pub const BYTES: usize = 48;

    /// The header of a trace of a store on a drive, with the buffers that it has there.
    #[must_use]
    pub fn new(id: [u8; 16], has_reads: bool, geometry: &Geometry, buffer: BlockCount) -> Self {
        let (zones, zone_capacity) = (geometry.zones, geometry.zone_capacity);
        let buffer = buffer_on(geometry, buffer);
        Self { id, has_reads, zones, zone_capacity, buffer }
    }

    /// The first bytes of the trace.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&TRACE_VERSION.to_le_bytes());
        bytes[10] = u8::from(self.has_reads);
        bytes[12..28].copy_from_slice(&self.id);
        bytes[28..32].copy_from_slice(&self.zones.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.zone_capacity.0.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.buffer.0.to_le_bytes());
        let sum = self.seed().checksum(&[&bytes[..44]]);
        bytes[44..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, NoHeader> {
        if bytes[..8] != MAGIC {
            return Err(NoHeader::Magic);
        }
        let version = u16::from_le_bytes(part(bytes, 8));
        if version != TRACE_VERSION {
            return Err(NoHeader::Version(version));
        }
        let header = Self {
            id: part(bytes, 12),
            has_reads: bytes[10] == 1,
            zones: u32::from_le_bytes(part(bytes, 28)),
            zone_capacity: BlockCount(u32::from_le_bytes(part(bytes, 32))),
            buffer: BlockCount(u32::from_le_bytes(part(bytes, 36))),
        };
        // All other bytes are what it has in its one form.
        if header.encode() == *bytes { Ok(header) } else { Err(NoHeader::Damaged) }
    }

    /// The seed of all checksums.
    pub(super) fn seed(&self) -> Seed {
        Seed::of(self.id)
    }
}

/// What stands in front of the events of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) payload_bytes: usize,
    pub(super) events: u32,
    /// Events that are missing in front of its first one.
    pub(super) lost: u32,
    /// From 0.
    pub(super) sequence: u64,
    /// The time that its first event counts from.
    pub(super) begun: Nanos,
}

impl FrameHeader {
    pub(super) const BYTES: usize = 32;

    /// The bytes of the header in front of the payload.
    pub(super) fn encode(&self, seed: Seed, payload: &[u8]) -> [u8; Self::BYTES] {
        assert!((1..=PAYLOAD_BYTES_MAX).contains(&payload.len()), "{} bytes", payload.len());
        assert!(payload.len() == self.payload_bytes, "the header of another payload");
        let mut bytes = [0; Self::BYTES];
        let length = u32::try_from(self.payload_bytes).expect("64 KiB at most");
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.events.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.lost.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..].copy_from_slice(&self.begun.0.to_le_bytes());
        let sum = seed.checksum(&[&bytes[4..], payload]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header, if its values are possible; its checksum covers the payload, too.
    pub(super) fn decode(bytes: &[u8; Self::BYTES], expected_sequence: u64) -> Option<Self> {
        let header = Self {
            payload_bytes: u32::from_le_bytes(part(bytes, 4)) as usize,
            events: u32::from_le_bytes(part(bytes, 8)),
            lost: u32::from_le_bytes(part(bytes, 12)),
            sequence: u64::from_le_bytes(part(bytes, 16)),
            begun: Nanos(u64::from_le_bytes(part(bytes, 24))),
        };
        // An event has two bytes at least: its time and its kind.
        let is_possible = (1..=PAYLOAD_BYTES_MAX).contains(&header.payload_bytes)
            && header.events > 0
            && header.events as usize * 2 <= header.payload_bytes
            && header.sequence == expected_sequence;
        is_possible.then_some(header)
    }

    /// Whether a frame is as it was written.
    pub(super) fn verifies(bytes: &[u8; Self::BYTES], seed: Seed, payload: &[u8]) -> bool {
        let sum = u32::from_le_bytes(part(bytes, 0));
        sum == seed.checksum(&[&bytes[4..], payload])
    }
}

/// Bytes of a header from `at` on.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: TraceHeader = TraceHeader {
        id: [9; 16],
        has_reads: true,
        zones: 384,
        zone_capacity: BlockCount(512),
        buffer: BlockCount(256),
    };

    #[test]
    fn headers_lead_back_and_no_bit_of_them_may_flip() {
        let bytes = HEADER.encode();
        assert_eq!(TraceHeader::decode(&bytes), Ok(HEADER));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let refused = TraceHeader::decode(&flipped).unwrap_err();
            match bit / 8 {
                0..8 => assert_eq!(refused, NoHeader::Magic),
                8..10 => assert!(matches!(refused, NoHeader::Version(_))),
                _ => assert_eq!(refused, NoHeader::Damaged, "bit {bit}"),
            }
        }
    }

    #[test]
    fn a_frame_is_of_its_trace_and_of_its_place() {
        let payload = [0, 17, 0, 17];
        let begun = Nanos(5);
        let header = FrameHeader { payload_bytes: 4, events: 2, lost: 9, sequence: 3, begun };
        let bytes = header.encode(HEADER.seed(), &payload);
        assert_eq!(FrameHeader::decode(&bytes, 3), Some(header));
        assert_eq!(FrameHeader::decode(&bytes, 2), None);
        assert!(FrameHeader::verifies(&bytes, HEADER.seed(), &payload));
        assert!(!FrameHeader::verifies(&bytes, Seed::of([8; 16]), &payload));
        assert!(!FrameHeader::verifies(&bytes, HEADER.seed(), &[0, 17, 0, 16]));
    }
}
