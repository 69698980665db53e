//! Every byte on media: the codecs of `docs/format.md`.
//!
//! | file | content |
//! |---|---|
//! | `layout` | bytes of a file in a block, and the place of its tag |
//! | `tag` | the tag that identifies and verifies a block of a file |
//! | `superblock` | UUID, label and geometry of a store |
//! | `entry` | one change of the metadata |
//! | `record` | a block of entries in a metadata zone |
//! | `cursor` | bounds-checked reading |
//!
//! Bytes from media are hostile: a decoder checks before it indexes, allocates no more than the
//! input justifies, and returns a typed error or `None`.

mod cursor;
mod entry;
pub mod fuzzing;
mod layout;
mod record;
mod superblock;
mod tag;

pub use entry::{EXTENTS_MOST, Entry, Kind, StoredExtent, StoredPhase, StoredZone};
pub use layout::BlockLayout;
pub use record::{MetadataRecord, Part, RecordBuilder, RecordCodec, RecordError};
pub use superblock::{LABEL_BYTES_MAX, Superblock};
pub use tag::{Tag, TagError};

/// The version of the format.
pub const VERSION: u16 = 1;
