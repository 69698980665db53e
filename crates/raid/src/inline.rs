//! The inline layout: drives without a metadata area, with the metadata among the blocks.
//!
//! [`InlineDrive`] wraps a drive without metadata into one with 64 bytes beside each block. A zone
//! becomes a sequence of *frames* of a few blocks: a header block with the metadata of the others,
//! then the others. A frame is written by one write, header first, and always whole: a write that
//! ends inside a frame fills it up. The position of a block and of its metadata therefore follows
//! from the block's number, nothing is kept in memory, and a crash leaves the same traces as on any
//! drive.
//!
//! One difference is visible above: writes start at multiples of
//! [`Geometry::write_unit`](zoneweave_zoned::Geometry), the number of blocks in a frame without its
//! header. The log aligns its own structures (headers, summaries, superblock records) to it, and
//! its chunks consist of whole units.
//!
//! Fault model: a header that does not verify makes every block of its frame unreadable, like a
//! media error. Other drives hold those blocks' stripes, with their identities, so a second copy of
//! headers is not needed. A header names its place, so a misdirected one does not verify. The
//! metadata in it has its own checksums over the data, so the header of an older frame does not
//! validate other data, and the metadata of a torn write does not verify with blocks that were not
//! written.

mod drive;
mod frame;

pub use drive::{InlineDrive, InlineError};
pub use frame::FrameShape;
