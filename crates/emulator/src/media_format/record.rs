//! The record of a zone in a drive file: two copies, written in turn.
//!
//! | bytes | field |
//! |---|---|
//! | 0..16 | drive UUID, so that a record of another drive is no record |
//! | 16..24 | sequence number; even ones are in table 0, odd ones in table 1 |
//! | 24..32 | resets |
//! | 32..36 | zone |
//! | 36..40 | write pointer, blocks |
//! | 40..41 | zone state, NVMe value |
//! | 41..42 | zone attributes, NVMe bits |
//! | 42..60 | zeros |
//! | 60..64 | CRC-32C of bytes 0..60 |

use zoneweave_zoned::{ZoneAttributes, ZoneId, ZoneOffset, ZoneRecord, ZoneState};

/// Bytes of one copy.
pub const RECORD_BYTES: usize = 64;

const CHECKSUM_AT: usize = RECORD_BYTES - 4;

/// Sequence numbers and resets stay below, so that counting on never overflows: a file that has
/// more is hostile.
const NUMBER_LIMIT: u64 = 1 << 62;

/// A zone record as found in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// The number of updates before this one.
    pub sequence: u64,
    /// The record.
    pub record: ZoneRecord,
    /// Whether the other copy, which should be the update before, is missing or damaged: a later
    /// update may have been torn, or this zone's second copy has rotted. Never set for sequence
    /// number 0 beside an unused copy.
    pub alone: bool,
}

pub(super) fn encode(uuid: &[u8; 16], zone: ZoneId, stored: StoredRecord) -> [u8; RECORD_BYTES] {
    let StoredRecord { sequence, record, .. } = stored;
    let mut bytes = [0; RECORD_BYTES];
    bytes[..16].copy_from_slice(uuid);
    bytes[16..24].copy_from_slice(&sequence.to_le_bytes());
    bytes[24..32].copy_from_slice(&record.resets.to_le_bytes());
    bytes[32..36].copy_from_slice(&zone.0.to_le_bytes());
    bytes[36..40].copy_from_slice(&record.write_pointer.0.to_le_bytes());
    bytes[40] = record.state as u8;
    bytes[41] = record.attributes.bits();
    let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
    bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The newest intact copy of a zone's record.
pub(super) fn current(uuid: &[u8; 16], zone: ZoneId, copies: [&[u8]; 2]) -> Option<StoredRecord> {
    let unused = copies[1].iter().all(|byte| *byte == 0);
    let decoded = [0, 1].map(|table| decode(uuid, zone, table, copies[usize::from(table)]));
    let mut newest = decoded.into_iter().flatten().max_by_key(|stored| stored.sequence)?;
    let fresh = newest.sequence == 0 && unused;
    newest.alone = !fresh && decoded.iter().any(Option::is_none);
    Some(newest)
}

fn decode(uuid: &[u8; 16], zone: ZoneId, table: u8, bytes: &[u8]) -> Option<StoredRecord> {
    let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
    let stored = StoredRecord {
        sequence: long(bytes, 16),
        record: ZoneRecord {
            state: state(bytes[40])?,
            write_pointer: ZoneOffset(word(bytes, 36)),
            resets: long(bytes, 24),
            attributes: ZoneAttributes::from_bits(bytes[41])?,
        },
        alone: false,
    };
    // A record that would not encode to the same bytes was not written by this code for this place.
    let intact = encode(uuid, zone, stored) == *bytes;
    let counted = stored.sequence < NUMBER_LIMIT && stored.record.resets < NUMBER_LIMIT;
    (intact && counted && stored.sequence % 2 == u64::from(table)).then_some(stored)
}

fn word(bytes: &[u8; RECORD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8; RECORD_BYTES], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

fn state(value: u8) -> Option<ZoneState> {
    use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};
    let states = [Empty, ImplicitlyOpen, ExplicitlyOpen, Closed, ReadOnly, Full, Offline];
    states.into_iter().find(|state| *state as u8 == value)
}
