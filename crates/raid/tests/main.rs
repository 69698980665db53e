//! Tests of the engine through its public interface, in one binary.
//!
//! Each binary links the whole engine and the emulator again, and `cargo test` runs binaries one
//! after the other. `memory` is a binary of its own because it replaces the global allocator.

#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod active_zones;
mod beside;
mod branches;
mod checkpoints;
mod choosing;
mod collecting;
mod crash;
mod deaths;
mod golden;
mod golden_array;
#[path = "golden/image.rs"]
mod golden_image;
mod hedging;
mod inline;
mod lost_parts;
mod members;
mod narrow;
mod offload;
mod paging;
mod policies;
mod rebuilding;
mod regressions;
mod schemes;
mod spares;
mod support;
mod suspicion;
mod together;
