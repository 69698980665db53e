//! Experiments of the RAIZN paper (T. Kim et al., "RAIZN: Redundant Array of Independent Zoned
//! Namespaces", ASPLOS 2023), side by side with its published values and statements.
//!
//! - `array` makes arrays of zoned drives with a zoned volume, `md` models Linux md over
//!   conventional drives.
//! - `loads` has the workloads of Fig. 7 to 9 and 11 on both; `units` (Fig. 7 and 8) and `sizes`
//!   (Fig. 9 and 11) vary them.
//! - `overwrite` is Fig. 10, `repair` Fig. 12, `metadata` Table 1.
//! - `method` has the text about the method that their reports share.
//!
//! Invariant: `array`, `md`, `loads` and `overwrite/timeline` are in the fingerprint of these
//! points, the other files are not: a change of their points needs a new version in
//! `experiments::catalog`.

mod array;
mod loads;
mod md;
pub(super) mod metadata;
mod method;
pub(super) mod overwrite;
pub(super) mod repair;
pub(super) mod sizes;
pub(super) mod units;
