//! Loads on a volume, from address to run.
//!
//! `zipf` draws places, `random_writes` and `overwrites` send requests, `reads` sends normal and
//! degraded reads, and `writes` is the run of random writes that most experiments share.

pub(super) mod overwrites;
pub(super) mod random_writes;
pub(super) mod reads;
pub(super) mod writes;
pub(super) mod zipf;
