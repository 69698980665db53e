//! Garbage collection: segments are reclaimed by relocating their live blocks.
//!
//! 1. `space` measures the free space; `share` splits writes between users and relocation by it.
//! 2. `collector` runs the collection; `victim` picks the segment.
//! 3. `relocate` copies the live blocks, each keeping its sequence. `lifetime` estimates how long
//!    blocks live, and `classify` applies it to a write, so that long-lived blocks get segments of
//!    their own.
//! 4. `reset` frees a dead segment: durable record, readers drained, zones reset.
//! 5. `amplification` reports the write amplification, with its theoretical value.
//!
//! `state` holds the relocations in progress and the throttle.
//!
//! Invariant: relocate, flush, durable dead record, drain readers, reset all zones, reuse, in this
//! order.

pub(in crate::log) mod amplification;
pub(in crate::log) mod classify;
pub(in crate::log) mod collector;
pub(in crate::log) mod lifetime;
pub(in crate::log) mod relocate;
pub(in crate::log) mod reset;
pub(in crate::log) mod share;
pub(in crate::log) mod space;
pub(in crate::log) mod state;
pub(in crate::log) mod victim;
