//! Experiments of the ZapRAID paper (J. Li et al., "The Design and Implementation of a
//! High-Performance Log-Structured RAID System for ZNS SSDs"), side by side with its published
//! values.
//!
//! A figure in `figures` describes configurations; each one runs a load of `loads` on an array of
//! [`crate::testbed`] or on one of the `baselines`. `method` has the text about the method that
//! their reports share.
//!
//! Invariant: a load is in the fingerprint of all points, a figure is not: a change of a figure's
//! points needs a new version in `experiments::catalog`.

pub(super) mod baselines;
pub(super) mod figures;
mod loads;
mod method;
