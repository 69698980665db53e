//! Tests of the engine through its public interface, in one binary.
//!
//! Each binary links the whole engine and the emulator again, and `cargo test` runs binaries one
//! after the other. `memory` is a binary of its own because it replaces the global allocator.

#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod drives;
mod golden;
mod golden_array;
#[path = "golden/image.rs"]
mod golden_image;
mod golden_zoned;
mod index;
mod raizn;
mod recovery;
mod segments;
mod support;
mod write;
