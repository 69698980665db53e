//! A conventional drive: the dies of the zoned one behind a page-mapping translation layer.
//!
//! Blocks are written wherever the drive likes and mapped; superblocks with the fewest valid blocks
//! are collected (greedy) when few are free. Collecting uses the same dies as reads and writes, so
//! that both suffer from it. Writes of different [streams](StreamId) go to different superblocks.
//!
//! Fault model: the write buffer is protected by capacitors, so every acknowledged write survives a
//! power failure; commands that have not taken effect at that moment never do. A trim and a write
//! of zeros both take the places of blocks away. Everything takes its time, in virtual or real
//! time.

mod contents;
mod core;
mod counters;
mod drive;
mod ftl;
mod layout;
mod parameters;

pub use counters::ConventionalCounters;
pub use drive::{ConventionalDevice, ConventionalDrive, StreamId};
pub use parameters::{
    CollectConfig, ConventionalConfig, ConventionalError, ManageTimes, ReadTimes, WriteTimes,
};
