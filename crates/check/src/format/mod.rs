//! docs/format.md as a parser and as formulas. Nothing here does I/O.
//!
//! - [`fields`] reads integers and computes checksums; [`limits`] has the largest numbers.
//! - [`shape`] computes the layout of a segment, [`parity`] the erasure code.
//! - [`blocks`] parses structured blocks and out-of-band metadata.
//! - [`record`], [`config`], [`narrow_list`], [`faults`] and [`scrubs`] parse superblock records.
//!
//! Every parser returns `None` unless all checks of the format pass.

pub(crate) mod blocks;
pub(crate) mod config;
pub(crate) mod faults;
pub(crate) mod fields;
mod limits;
pub(crate) mod narrow_list;
pub(crate) mod parity;
pub(crate) mod record;
pub(crate) mod scrubs;
pub(crate) mod shape;
pub(crate) mod zoned;
