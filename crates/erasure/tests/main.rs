//! Tests of the codes through their public interface, in one binary.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code")]

mod oracle;
