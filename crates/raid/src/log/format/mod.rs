//! Every byte that the log-structured volume writes to media. `docs/format.md` is the same in
//! prose.
//!
//! | file | content |
//! |---|---|
//! | `oob` | the 64 bytes of metadata beside every block |
//! | `superblock` | payloads of superblock records; `array::format` has the records |
//! | `seal`, `dead`, `narrow_list` | in records: valid stripes, deaths, live narrow segments |
//! | `structured` | the payload of a structured block |
//! | `header`, `summary` | the first block of each zone, and the list of each span's blocks |
//! | `tombstone` | trimmed extents |
//! | `checkpoint` | the index on media |
//! | `fuzzing` | bodies of the fuzz targets |
//!
//! All integers are little-endian. Structured blocks are 4 KiB and begin with an [`Envelope`];
//! every block, structured or not, carries an [`Oob`] record. Checksums are CRC-32C seeded with the
//! array's UUID, so that blocks of another array never verify.
//!
//! Invariant: everything read from media is hostile, so decoders check magic, version, length,
//! checksum and every field's range before they return, and never index by an unchecked value from
//! media.

pub mod checkpoint;
mod dead;
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod narrow_list;
mod oob;
mod seal;
pub(in crate::log) mod structured;
mod summary;
mod superblock;
mod tombstone;

pub use crate::array::format::config::{ArrayConfig, LogConfig, VolumeKind};
pub use crate::array::format::envelope::{
    ArrayUuid, BlockType, Envelope, FORMAT_VERSION, FormatError,
};
pub use crate::array::format::numbers::{Epoch, Generation, Lineage, SegmentId, Sequence};
pub use crate::array::format::record::{MemberEntry, MemberState, MemberUuid};
pub use crate::log::engine::geometry::ENTRIES_PER_INDEX_BLOCK;
pub use dead::{Death, Remains};
pub use header::{SegmentHeader, StreamKind};
pub use narrow_list::NarrowListRecord;
pub use oob::{BlockIdentity, CODED_BYTES, ContentKind, Oob, Place, data_checksum};
pub use seal::{MAX_SEAL_ROWS, SealRecord};
pub use summary::{EntryKind, IndexBlock, IndexEntry};
pub use superblock::{RecordBody, SuperblockRecord};
pub use tombstone::{EXTENTS_PER_TOMBSTONE, TombstoneBlock, TrimExtent};
pub use zoneweave_journal::{Seed, Uuid};
