//! Write policies: `lanes` defines the segments that a start keeps open and how it writes to them;
//! `auto` chooses a policy from the drives' limits and measured profile.
//!
//! A policy belongs to a start, not to the array: segment headers record their own shape, so
//! segments written under different policies live side by side.

pub(in crate::log) mod auto;
pub(in crate::log) mod lanes;
