//! Experiments of the ZapRAID paper (J. Li et al., "The Design and Implementation of a High-Performance
//! Log-Structured RAID System for ZNS SSDs"), side by side with what it publishes.

mod baselines;
pub(super) mod figures;
mod loads;
mod method;
