//! Tests of the command: the real binary, in one test binary.

#![expect(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod cases;
mod characterize;
mod common;
mod fs;
mod jobs;
mod looking;
mod making;
mod nvme_tcp;
mod rest;
mod returning;
mod service;
mod serving;
mod soaking;
mod starting;
mod starts;
mod verbs;
mod zoned;
mod zoned_serving;
