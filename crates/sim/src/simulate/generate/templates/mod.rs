//! Sequences in which one event leads to another.
//!
//! Lives that are drawn one by one hardly ever meet such sequences.
//!
//! - [`lives`]: a few lives in a row, put into an ordinary history.
//! - [`foreign`]: the same, with drives that do not belong to the array or that were left behind.
//! - [`histories`]: whole histories that repeat one sequence on an array made for it.
//!
//! Invariant: a template only draws lives. Faults outside the contract are skipped when the history
//! runs.

pub(super) mod foreign;
pub(super) mod histories;
pub(super) mod lives;
