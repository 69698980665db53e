//! Rates: what a served array did between two statuses.

use std::time::Duration;

use serde::Serialize;
use zoneweave_zoned::BLOCK_BYTES;

use crate::format::bytes;
use crate::status::{ArrayStatus, Counters, MemberIo, MemberStatus};

/// The rates of an array, and of its drives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ArrayRates {
    pub array: String,
    pub uuid: String,
    pub requests_per_s: u64,
    /// Of users of a block volume.
    pub read_bytes_per_s: Option<u64>,
    pub written_bytes_per_s: Option<u64>,
    /// Bytes that reclaim moved.
    pub relocated_bytes_per_s: Option<u64>,
    pub drives: Vec<DriveRates>,
}

/// The rates of a drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DriveRates {
    pub slot: u8,
    pub drive: Option<String>,
    pub state: String,
    pub read_bytes_per_s: u64,
    pub written_bytes_per_s: u64,
    /// Read, write and checksum errors since the last look.
    pub errors: u64,
}

impl ArrayRates {
    /// The load of the users and of reclaim, in a line.
    pub(crate) fn load(&self) -> String {
        let rate = |name: &str, rate: Option<u64>| match rate {
            None => String::new(),
            Some(rate) => format!(" · {name} {}/s", bytes(rate)),
        };
        format!(
            "{} requests/s{}{}{}",
            self.requests_per_s,
            rate("read", self.read_bytes_per_s),
            rate("write", self.written_bytes_per_s),
            rate("reclaim", self.relocated_bytes_per_s),
        )
    }
}

/// The rates between two statuses of an array; `None` if they are of two servers.
pub(crate) fn array_rates(
    uuid: &str,
    before: &ArrayStatus,
    now: &ArrayStatus,
    span: Duration,
) -> Option<ArrayRates> {
    let (earlier, server) = (before.server.as_ref()?, now.server.as_ref()?);
    // Another server counts from zero.
    if server.uptime_ns < earlier.uptime_ns {
        return None;
    }
    let blocks = earlier.blocks.as_ref().zip(server.blocks.as_ref());
    let rate = |count: fn(&Counters) -> u64| {
        let (before, now) = blocks?;
        let blocks = per_second(count(&before.counters), count(&now.counters), span);
        Some(blocks * BLOCK_BYTES as u64)
    };
    let drives = now.members.iter().zip(&before.members);
    Some(ArrayRates {
        array: now.full_name(),
        uuid: uuid.to_owned(),
        requests_per_s: per_second(earlier.requests, server.requests, span),
        read_bytes_per_s: rate(|counters| counters.user_blocks_read),
        written_bytes_per_s: rate(|counters| counters.user_blocks_written),
        relocated_bytes_per_s: rate(|counters| counters.relocated_blocks),
        drives: drives.map(|(now, before)| drive_rates(before, now, span)).collect(),
    })
}

fn drive_rates(before: &MemberStatus, now: &MemberStatus, span: Duration) -> DriveRates {
    let errors = |io: &MemberIo| io.read_errors + io.write_errors + io.checksum_errors;
    // Another drive in the slot has counters of its own.
    let earlier = before.io.filter(|_| before.uuid == now.uuid).unwrap_or_default();
    let io = now.io.unwrap_or_default();
    DriveRates {
        slot: now.slot,
        drive: now.drive.clone(),
        state: now.state.to_string(),
        read_bytes_per_s: per_second(earlier.read_bytes, io.read_bytes, span),
        written_bytes_per_s: per_second(earlier.written_bytes, io.written_bytes, span),
        errors: errors(&io).saturating_sub(errors(&earlier)),
    }
}

/// The rate of a counter.
fn per_second(before: u64, now: u64, span: Duration) -> u64 {
    let nanoseconds = span.as_nanos().max(1);
    let rate = u128::from(now.saturating_sub(before)) * 1_000_000_000 / nanoseconds;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        assert_eq!(per_second(1000, 3000, Duration::from_secs(4)), 500);
        assert_eq!(per_second(3, 1, Duration::from_secs(1)), 0);
        assert_eq!(per_second(0, u64::MAX, Duration::ZERO), u64::MAX);
    }
}
