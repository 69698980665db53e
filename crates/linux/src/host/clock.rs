//! The wall clock, for times that people read.

use std::time::{Duration, SystemTime};

/// Seconds since 1970; 0 before.
#[must_use]
pub fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}
