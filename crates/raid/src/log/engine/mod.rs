//! The engine's core, on which every other folder of the volume builds.
//!
//! | file | content |
//! |---|---|
//! | `address` | physical block addresses, segment slots, pages of the index |
//! | `geometry` | the shape of a segment's zones, and the dense numbering of its blocks |
//! | `class` | classes of blocks, by request size and expected lifetime |
//! | `limits` | reserves and sizes, derived from the array's shape |
//! | `memory`, `footprint` | memory of a running volume, now and at most |
//! | `state` | the state behind the one borrow, composed of parts of the other folders |
//! | `core` | the state, the drives, the clock and the gates that tasks wait at |
//! | `counters`, `status` | counters, progress, and the status report |
//! | `stop` | why a volume takes no writes |
//! | `redundancy` | segments that lack redundancy until they are relocated |
//! | `not_listed` | blocks taken off the list of lost ones, and not read yet |
//! | `measuring` | structures of the hot path, exposed to benches |
//!
//! `geometry` and `limits` are arithmetic without state. `state` decides and does no I/O; `core`
//! submits I/O and records the outcome in the state.
//!
//! Invariants: nothing in `state` does I/O or waits, and no borrow of it crosses an await. Assigned
//! sequences stay below the ceiling on media.

pub(in crate::log) mod address;
pub(in crate::log) mod class;
pub(in crate::log) mod core;
pub(in crate::log) mod counters;
pub(in crate::log) mod footprint;
pub mod geometry;
pub mod limits;
pub mod measuring;
pub(in crate::log) mod memory;
pub(in crate::log) mod not_listed;
mod redundancy;
pub(in crate::log) mod state;
pub(in crate::log) mod status;
