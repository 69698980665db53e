//! The byte layout of a drive in a file: a codec, without I/O.
//!
//! One sparse file holds one drive. All integers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 0 .. 4096 | header, written once |
//! | 4096 .. +T | zone records with even sequence numbers, 64 bytes a zone |
//! | .. +T | zone records with odd sequence numbers |
//! | .. +4096 | version 2: unreadable blocks |
//! | .. +W | version 2, where erases are counted: the wear of each zone |
//! | .. +E | the extensions of the zones' descriptors, if the drive has them |
//! | then, per zone | capacity x 4096 bytes of data, then capacity x 64 bytes of metadata |
//!
//! T, W, E and each metadata area are rounded up to 4096 bytes, so that data blocks are aligned. A
//! contiguous write is one run of data and one of metadata; a reset punches one hole.
//!
//! Fault model: any part of the file may be hostile, cut off or torn. A record is updated by one
//! write of the copy that is not the current one, so that a torn update leaves the former record;
//! the copies are in different 4 KiB sectors. A descriptor extension is written before the record
//! that says that the zone has one, and never while it has one. Nothing is allocated by a number
//! read from the file before it was checked.

mod defects;
mod error;
mod extended;
mod extension;
mod header;
mod layout;
mod limits;
mod preset_name;
mod record;
mod wear_record;

pub use defects::{DEFECTS_MAX, Defect};
pub use error::FormatError;
pub use extension::Extension;
pub use header::{HEADER_BYTES, MAGIC};
pub use layout::DriveLayout;
pub use limits::{ERASE_BLOCKS_MAX, EXTENSIONS_BYTES_MAX, FORMAT_VERSION, ZONES_MAX};
pub use preset_name::PresetName;
pub use record::{RECORD_BYTES, StoredRecord};
