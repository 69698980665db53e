//! Records of the metadata log: one block each, with as many entries as fit.

use thiserror::Error;
use zoneweave_journal::{Codec, Envelope, EnvelopeError, Record, Uuid};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, OOB_BYTES, Payload};

use super::VERSION;
use super::cursor::Cursor;
use super::entry::Entry;

const ENVELOPE: Envelope = Envelope::new(*b"ZNWFILE\0", VERSION);

/// The type of a block with entries.
const RECORD: u16 = 1;

/// Bytes of the body before the entries.
const HEAD_BYTES: usize = 24;

/// Bytes of entries that a record takes.
const ENTRY_BYTES: usize = BLOCK_BYTES - Envelope::BYTES - HEAD_BYTES;

/// Which part of the log a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Changes.
    Log,
    /// A part of a snapshot, not the last.
    Snapshot,
    /// The last record of a snapshot.
    SnapshotEnd {
        /// Records of the snapshot before this one.
        before: u32,
    },
}

/// A record of the metadata log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataRecord {
    /// The store.
    pub owner: Uuid,
    /// The number of the record. Each record has the number after the one before.
    pub sequence: u64,
    /// Which part it is.
    pub part: Part,
    /// The changes, in order.
    pub entries: Vec<Entry>,
}

/// Why a block is no record.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    /// Not an intact block of the format.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// An intact block with impossible contents.
    #[error("an entry is malformed")]
    Malformed,
}

impl Record for MetadataRecord {
    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn snapshot_records(&self) -> Option<u32> {
        match self.part {
            Part::SnapshotEnd { before } => Some(before),
            Part::Log | Part::Snapshot => None,
        }
    }
}

/// Decodes records for scans.
pub struct RecordCodec;

impl Codec for RecordCodec {
    type Record = MetadataRecord;
    type Error = RecordError;

    fn decode(&self, data: &[u8], _metadata: &[u8]) -> Result<MetadataRecord, RecordError> {
        MetadataRecord::decode(data)
    }
}

impl MetadataRecord {
    /// Decodes a block.
    ///
    /// # Errors
    /// The first violation found.
    pub fn decode(block: &[u8]) -> Result<Self, RecordError> {
        let (owner, body) = ENVELOPE.open(block, RECORD)?;
        Self::decode_body(owner, body).ok_or(RecordError::Malformed)
    }

    fn decode_body(owner: Uuid, body: &[u8]) -> Option<Self> {
        let mut from = Cursor::new(body);
        let sequence = from.u64()?;
        let (part, before) = (from.u32()?, from.u32()?);
        let count = from.u32()?;
        let _reserved = from.u32()?;
        let part = match part {
            0 => Part::Log,
            1 => Part::Snapshot,
            2 => Part::SnapshotEnd { before },
            _ => return None,
        };
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(Entry::decode(&mut from)?);
        }
        from.is_empty().then_some(Self { owner, sequence, part, entries })
    }

    /// The block of the record.
    ///
    /// # Panics
    /// If the entries do not fit.
    #[must_use]
    pub fn encode(&self) -> AlignedBuffer {
        let mut builder = RecordBuilder::default();
        for entry in &self.entries {
            assert!(builder.push(entry), "more entries than fit into a record");
        }
        builder.block(self.owner, self.sequence, self.part)
    }
}

/// Collects entries into a record.
#[derive(Clone, Debug, Default)]
pub struct RecordBuilder {
    bytes: Vec<u8>,
    count: u32,
}

impl RecordBuilder {
    /// Adds an entry, if it fits.
    #[must_use]
    pub fn push(&mut self, entry: &Entry) -> bool {
        let before = self.bytes.len();
        entry.encode(&mut self.bytes);
        if self.bytes.len() > ENTRY_BYTES {
            assert!(before > 0, "an entry of more bytes than a record has");
            self.bytes.truncate(before);
            return false;
        }
        self.count += 1;
        true
    }

    /// Whether it has no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Packs entries into records, in order.
    #[must_use]
    pub fn pack<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<Self> {
        let mut records = vec![Self::default()];
        for entry in entries {
            let last = records.last_mut().expect("never empty");
            if !last.push(entry) {
                let mut next = Self::default();
                assert!(next.push(entry), "an entry fits into an empty record");
                records.push(next);
            }
        }
        records
    }

    /// The block of the record.
    #[must_use]
    pub fn block(&self, owner: Uuid, sequence: u64, part: Part) -> AlignedBuffer {
        let mut block = AlignedBuffer::zeroed(BlockCount(1));
        let body = &mut block.as_mut()[Envelope::BYTES..];
        let (part, before) = match part {
            Part::Log => (0_u32, 0),
            Part::Snapshot => (1, 0),
            Part::SnapshotEnd { before } => (2, before),
        };
        body[..8].copy_from_slice(&sequence.to_le_bytes());
        body[8..12].copy_from_slice(&part.to_le_bytes());
        body[12..16].copy_from_slice(&before.to_le_bytes());
        body[16..20].copy_from_slice(&self.count.to_le_bytes());
        body[HEAD_BYTES..HEAD_BYTES + self.bytes.len()].copy_from_slice(&self.bytes);
        ENVELOPE.seal(block.as_mut(), RECORD, owner, HEAD_BYTES + self.bytes.len());
        block
    }

    /// The record as it is written to a drive, with empty metadata beside it if the drive has any.
    #[must_use]
    pub fn payload(&self, owner: Uuid, sequence: u64, part: Part, has_metadata: bool) -> Payload {
        let metadata = if has_metadata { vec![0; OOB_BYTES] } else { Vec::new() };
        Payload::new(self.block(owner, sequence, part).freeze(), metadata.into())
    }
}
