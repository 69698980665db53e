//! Read latencies of the members, and which drives are slow.
//!
//! 1. `hedge` has the estimates, and the budgets of reads around slow drives.
//! 2. `in_flight` counts reads and resets in flight, and measures them.
//! 3. `slow` finds slow drives by the latencies of all.

pub(crate) mod hedge;
pub(crate) mod in_flight;
mod slow;
