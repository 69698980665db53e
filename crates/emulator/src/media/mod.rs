//! Blocks in RAM: per zone the written ones, from block 0 up to the write pointer.
//!
//! A block that repeats eight bytes is stored as these; an experiment on terabytes of such blocks
//! takes the memory of their metadata and little more (72.3 bytes a block, measured). Other blocks
//! share the memory of the buffer that their command carried, or are copied where the buffer holds
//! patterns too, so that it need not be kept for them. Zones are stored in [pages](Page) that are
//! made when they are written, freed by a reset, and shared between forks of a drive until one
//! changes them.

mod page;
pub(crate) mod pattern;
mod store;

pub(crate) use store::{Media, damaged};
