//! Experiments of the ZapRAID paper (Li et al., "The Design and Implementation of a High-Performance
//! Log-Structured RAID System for ZNS SSDs"), side by side with what it publishes.

pub(super) mod exp5;
mod host;
mod summary;
mod testbed;
