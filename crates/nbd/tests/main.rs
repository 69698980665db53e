//! Tests of the protocol through the public interface, in one binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod properties;
mod transcripts;
