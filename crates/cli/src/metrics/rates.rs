//! Rates: what a served array did between two statuses.

use std::time::Duration;

use serde::Serialize;
use zoneweave_zoned::BLOCK_BYTES;

use crate::format::bytes;
use crate::status::{ArrayStatus, Counters, LatencyStatus, MemberIo, MemberStatus};

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
    /// Of users' requests that succeeded.
    pub operations: Vec<OperationRates>,
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
    /// Of commands that succeeded.
    pub operations: Vec<OperationRates>,
}

/// The rate of an operation, and the times that half and 99 % of them did not exceed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct OperationRates {
    pub operation: String,
    pub per_s: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
}

impl OperationRates {
    /// Its percentiles in one unit, such as `83/240 us`.
    pub(crate) fn percentiles(&self) -> String {
        let (usual, rare) = (self.p50_ns / 1000, self.p99_ns / 1000);
        match rare {
            0..10_000 => format!("{usual}/{rare} us"),
            _ => format!("{}/{} ms", milliseconds(usual), milliseconds(rare)),
        }
    }
}

/// Microseconds as milliseconds; below ten with a digit.
fn milliseconds(microseconds: u64) -> String {
    match microseconds {
        0..10_000 => format!("{}.{}", microseconds / 1000, microseconds / 100 % 10),
        _ => (microseconds / 1000).to_string(),
    }
}

impl DriveRates {
    /// The percentiles of reads, in text.
    pub(crate) fn reads(&self) -> Option<String> {
        self.percentiles(&["read"])
    }

    /// The percentiles of the command that writes most often, in text.
    pub(crate) fn writes(&self) -> Option<String> {
        self.percentiles(&["write", "append"])
    }

    fn percentiles(&self, words: &[&str]) -> Option<String> {
        let of = self.operations.iter().filter(|one| words.contains(&one.operation.as_str()));
        of.max_by_key(|one| one.per_s).map(OperationRates::percentiles)
    }
}

impl ArrayRates {
    /// The percentiles of users' requests, in a line; `None` if there were none.
    pub(crate) fn latencies(&self) -> Option<String> {
        let told = |one: &OperationRates| {
            let name = one.operation.replace('_', " ");
            format!("{name} {}", one.percentiles())
        };
        let told: Vec<_> = self.operations.iter().map(told).collect();
        (!told.is_empty()).then(|| format!("p50/p99 {}", told.join(" · ")))
    }

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
        operations: operations(&earlier.latencies, &server.latencies, span),
        drives: drives.map(|(now, before)| drive_rates(before, now, span)).collect(),
    })
}

fn drive_rates(before: &MemberStatus, now: &MemberStatus, span: Duration) -> DriveRates {
    let errors = |io: &MemberIo| io.read_errors + io.write_errors + io.checksum_errors;
    // Another drive in the slot has counters of its own.
    let is_same = before.uuid == now.uuid;
    let earlier = before.io.filter(|_| is_same).unwrap_or_default();
    let known = if is_same { before.latencies.as_slice() } else { &[] };
    let io = now.io.unwrap_or_default();
    DriveRates {
        slot: now.slot,
        drive: now.drive.clone(),
        state: now.state.to_string(),
        read_bytes_per_s: per_second(earlier.read_bytes, io.read_bytes, span),
        written_bytes_per_s: per_second(earlier.written_bytes, io.written_bytes, span),
        errors: errors(&io).saturating_sub(errors(&earlier)),
        operations: operations(known, &now.latencies, span),
    }
}

fn operations(
    before: &[LatencyStatus],
    now: &[LatencyStatus],
    span: Duration,
) -> Vec<OperationRates> {
    let rates = |one: LatencyStatus| OperationRates {
        per_s: per_second(0, one.count, span),
        operation: one.operation,
        p50_ns: one.p50_ns,
        p99_ns: one.p99_ns,
    };
    now.iter().filter_map(|one| one.since(before)).map(rates).collect()
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

    #[test]
    fn percentiles_have_one_unit_and_few_digits() {
        let told = |p50_ns, p99_ns| {
            OperationRates { operation: String::new(), per_s: 1, p50_ns, p99_ns }.percentiles()
        };
        assert_eq!(told(8_192, 240_500), "8/240 us");
        assert_eq!(told(83_000, 12_345_678), "0.0/12 ms");
        assert_eq!(told(9_990_000, 8_589_934_592), "9.9/8589 ms");
    }
}
