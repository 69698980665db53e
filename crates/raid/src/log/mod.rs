//! The log-structured block volume.

pub mod format;
pub mod geometry;
