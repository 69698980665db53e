//! How many dies and channels there are, and how long they take.

use crate::{Picos, Spread};

/// How many dies there are, how they are connected, and how long they take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashConfig {
    /// Dies in all.
    pub dies: u32,
    /// Channels in all; die *d* is on channel *d* modulo this.
    pub channels: u32,
    /// Time to sense a page, by kind of page (lower, middle, upper of three-bit cells).
    pub sense: Vec<Spread>,
    /// Time to transfer one block of 4 KiB over a channel.
    pub transfer: Picos,
    /// Time to program.
    pub program: Spread,
    /// Time to erase.
    pub erase: Spread,
    /// From the arrival of a read until the operation under way is suspended for it.
    pub suspend: Spread,
    /// Added to an operation each time it is resumed.
    pub resume: Picos,
    /// How often one operation can be suspended.
    pub suspends: u32,
}
