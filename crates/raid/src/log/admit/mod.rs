//! Admission of users' requests, in the order in which a request meets the files:
//!
//! 1. `requests` checks the range, bounds the bytes in flight, and gives each request a sequence.
//!    It refuses writes while the volume is stopped or closing.
//! 2. `inflight` orders overlapping requests by that sequence.
//! 3. `pending` holds the admitted blocks until a stripe takes them, and answers the request's
//!    ticket.
//!
//! Invariant: every admitted block has exactly one sequence, and a request is answered once, after
//! the last of its blocks is durable for the promised mode.

pub(in crate::log) mod inflight;
pub(in crate::log) mod pending;
pub(in crate::log) mod requests;
