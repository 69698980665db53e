//! Tests of the model as a whole.

#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod durability;
mod measured;
mod specs;
