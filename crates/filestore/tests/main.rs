//! Tests of the store as a whole, on emulated drives in virtual time.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

mod basics;
mod crash;
mod damage;
mod golden;
mod recording;
mod support;
