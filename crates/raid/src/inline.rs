//! The inline layout: drives without metadata, with the metadata among the blocks.
//!
//! [`InlineDrive`] makes a drive that has 64 bytes beside each block out of one that has none. A
//! zone is a sequence of *frames* of a few blocks each: a block with the metadata of the others,
//! and the others. A frame is written by one write, header first, and as a whole: what a write
//! leaves of its last frame is filled up. So where a block and its metadata are follows from its
//! number, nothing is kept in memory, and a crash leaves nothing behind but what it leaves on any
//! drive.
//!
//! Above this there is one difference to other drives: writes start at multiples of
//! [`Geometry::write_unit`](zoneweave_zoned::Geometry), the blocks of a frame that are not its
//! header. What the log writes by itself (headers, index runs, superblock records) is placed by
//! that, and its chunks consist of whole units.
//!
//! Fault model: a header that does not verify takes its frame with it, so reading any block of it
//! is an error, as after a media error. Other drives have those blocks' stripes, with their
//! identities, so headers need not be there twice. Headers name their place, so one that came from
//! elsewhere does not verify; the metadata in them has its own checksums over the data, so a header
//! that belongs to an older frame does not make other data pass. Metadata of a torn write does not
//! verify with blocks that were not written.

mod drive;
mod frame;

pub use drive::{InlineDrive, InlineError};
pub use frame::FrameShape;
