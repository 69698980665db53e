//! `zoneweave iostat`: the load of all served arrays and of their drives, as rates.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use zoneweave_zoned::BLOCK_BYTES;

use crate::error::CliError;
use crate::exit::Exit;
use crate::format::{bytes, parse_time, table};
use crate::metrics::{Known, ask};
use crate::output::{Output, Tone};
use crate::status::{ArrayStatus, Counters, MemberIo, MemberStatus};

#[derive(Args)]
pub(crate) struct Iostat {
    /// Time between reports
    #[arg(value_name = "INTERVAL", value_parser = parse_time, default_value = "1s")]
    interval: Duration,
    /// Number of reports [default: until interrupted]
    #[arg(value_name = "COUNT")]
    count: Option<u64>,
}

/// The rates of an array, and of its drives. With `--json` one document per line.
#[derive(Debug, PartialEq, Serialize)]
struct Report {
    arrays: Vec<ArrayRates>,
}

#[derive(Debug, PartialEq, Serialize)]
struct ArrayRates {
    array: String,
    uuid: String,
    requests_per_s: u64,
    /// Of users of a block volume.
    read_bytes_per_s: Option<u64>,
    written_bytes_per_s: Option<u64>,
    /// Bytes that reclaim moved.
    relocated_bytes_per_s: Option<u64>,
    drives: Vec<DriveRates>,
}

#[derive(Debug, PartialEq, Serialize)]
struct DriveRates {
    slot: u8,
    drive: Option<String>,
    state: String,
    read_bytes_per_s: u64,
    written_bytes_per_s: u64,
    /// Read, write and checksum errors since the last look.
    errors: u64,
}

/// Statuses of one moment, by the UUID of the array.
struct Look {
    at: Instant,
    statuses: BTreeMap<String, ArrayStatus>,
}

pub(crate) fn run(request: &Iostat, output: &Output) -> Result<Exit, CliError> {
    let mut before = look();
    for _ in 0..request.count.unwrap_or(u64::MAX) {
        thread::sleep(request.interval);
        let now = look();
        let report = report(&before, &now);
        output.result_line("iostat", &report, |output| print(&report, output));
        if output.is_in_vain() {
            break;
        }
        before = now;
    }
    Ok(Exit::Done)
}

fn look() -> Look {
    let known = ask().into_iter().filter_map(|Known { uuid, status, .. }| Some((uuid, status?)));
    Look { at: Instant::now(), statuses: known.collect() }
}

/// The rates between two looks, of arrays that were served at both, by the same server.
fn report(before: &Look, now: &Look) -> Report {
    let span = now.at.duration_since(before.at);
    let arrays = now.statuses.iter().filter_map(|(uuid, status)| {
        let earlier = before.statuses.get(uuid)?;
        array_rates(uuid, earlier, status, span)
    });
    Report { arrays: arrays.collect() }
}

fn array_rates(
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

fn print(report: &Report, output: &Output) {
    if report.arrays.is_empty() {
        output.line("no array is served");
    }
    for array in &report.arrays {
        let rate = |name: &str, rate: Option<u64>| match rate {
            None => String::new(),
            Some(rate) => format!(" · {name} {}/s", bytes(rate)),
        };
        output.line(format_args!(
            "{}  {} requests/s{}{}{}",
            output.paint(Tone::Strong, &array.array),
            array.requests_per_s,
            rate("read", array.read_bytes_per_s),
            rate("write", array.written_bytes_per_s),
            rate("reclaim", array.relocated_bytes_per_s),
        ));
        let row = |drive: &DriveRates| {
            vec![
                drive.slot.to_string(),
                drive.state.clone(),
                bytes(drive.read_bytes_per_s),
                bytes(drive.written_bytes_per_s),
                drive.errors.to_string(),
                drive.drive.clone().unwrap_or_default(),
            ]
        };
        let rows: Vec<_> = array.drives.iter().map(row).collect();
        let headings = [">SLOT", "STATE", ">READ/s", ">WRITE/s", ">ERRORS", "DRIVE"];
        for line in table(&headings, &rows) {
            output.line(format_args!("  {line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::examples::healthy;

    fn at(seconds: u64, changed: impl FnOnce(&mut ArrayStatus)) -> Look {
        let mut status = healthy();
        status.server.as_mut().unwrap().uptime_ns = seconds;
        changed(&mut status);
        let at = Instant::now() + Duration::from_secs(seconds);
        Look { at, statuses: BTreeMap::from([("aa".to_owned(), status)]) }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        assert_eq!(per_second(1000, 3000, Duration::from_secs(4)), 500);
        assert_eq!(per_second(3, 1, Duration::from_secs(1)), 0);
        assert_eq!(per_second(0, u64::MAX, Duration::ZERO), u64::MAX);
    }

    /// A drive that has just replaced another one has read less than that; a server that has been
    /// started again has counted less.
    #[test]
    fn other_drives_and_other_servers_count_anew() {
        let io = |read_bytes| Some(MemberIo { read_bytes, ..MemberIo::default() });
        let before = at(10, |status| status.members[1].io = io(1 << 40));
        let now = at(12, |status| {
            status.members[1].uuid = "new".to_owned();
            status.members[1].io = io(1 << 20);
        });
        let rates = report(&before, &now);
        let read = rates.arrays[0].drives[1].read_bytes_per_s;
        assert!((1 << 18..=1 << 19).contains(&read), "{read}");
        assert_eq!(report(&now, &at(1, |_| {})).arrays, []);
    }
}
