//! The journal on emulated drives: power cuts, failing commands, hostile bytes.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

mod cuts;
mod failures;
mod hostile;
mod support;
