//! The drives under the volume, as far as the volume takes part: `crate::array` has the rest.
//!
//! 1. `create` writes the first superblock to every drive.
//! 2. `volume` lends the state of the volume to its array (`ArrayVolume`).
//! 3. `reset` resets zones, one drive after the other if that delays reads.
//! 4. `eviction` gives up what the volume was writing to an evicted member, and evicts one that has
//!    lost too many zones, or because of which every segment is aborted.
//! 5. `replace` puts a new drive into a slot; `refill` does so with spares, without an operator.
//! 6. `zone_budget` is the number of zones that writing needs.
//!
//! `error` has the errors of a replacement, and `fit` the sizes that a drive needs.
//!
//! Invariant: an evicted member leaves every open segment.

pub mod create;
pub(in crate::log) mod error;
pub(in crate::log) mod eviction;
pub mod fit;
pub(in crate::log) mod refill;
pub(in crate::log) mod replace;
pub(in crate::log) mod reset;
pub(in crate::log) mod volume;
pub(in crate::log) mod zone_budget;
