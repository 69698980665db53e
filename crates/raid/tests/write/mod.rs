//! The write path: choice of a policy, segments side by side, coalescing, narrow segments.

mod beside;
mod choosing;
mod coalescing;
mod latencies;
mod narrow;
mod policies;
