//! `zoneweave iostat`: the load of all served arrays and of their drives, as rates.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::control::PATIENCE;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::{broken, bytes, parse_time, table};
use crate::metrics::rates::{ArrayRates, DriveRates, array_rates};
use crate::metrics::{Known, ask};
use crate::output::{Output, Tone};
use crate::status::{ArrayStatus, Health};

#[derive(Args)]
#[command(
    after_help = "p50/p99: half of the users' requests, or of the reads (R) and writes (W) of a\ndrive, \
                        took no longer than the first time; 99 % no longer than the second.\nBoth \
                        are of the time since the last report."
)]
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
    /// Arrays whose servers do not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<UnknownArray>,
}

/// An array whose server does not answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct UnknownArray {
    /// Its name, if its server gave it before.
    array: Option<String>,
    uuid: String,
}

/// Statuses of one moment, by the UUID of the array.
struct Look {
    at: Instant,
    statuses: BTreeMap<String, ArrayStatus>,
    /// UUIDs of arrays whose servers do not answer.
    silent: Vec<String>,
}

pub(crate) fn run(request: &Iostat, output: &Output) -> Result<Exit, CliError> {
    let (mut before, mut names) = (look(), BTreeMap::new());
    let mut exit = Exit::Done;
    for _ in 0..request.count.unwrap_or(u64::MAX) {
        thread::sleep(request.interval);
        let now = look();
        for (uuid, status) in before.statuses.iter().chain(&now.statuses) {
            names.insert(uuid.clone(), status.full_name());
        }
        let report = report(&before, &now, &names);
        output.result_line("iostat", &report, |output| print(&report, output));
        exit = if report.unknown.is_empty() { Exit::Done } else { Exit::Unreachable };
        if output.is_in_vain() {
            break;
        }
        before = now;
    }
    Ok(exit)
}

fn look() -> Look {
    let known = ask();
    let silent = known.iter().filter(|known| known.is_silent).map(|known| known.uuid.clone());
    let silent = silent.collect();
    let known = known.into_iter().filter_map(|Known { uuid, status, .. }| Some((uuid, status?)));
    Look { at: Instant::now(), statuses: known.collect(), silent }
}

/// The rates between two looks, of arrays that were served at both, by the same server. `names` are
/// those of arrays whose servers have answered.
fn report(before: &Look, now: &Look, names: &BTreeMap<String, String>) -> Report {
    let span = now.at.duration_since(before.at);
    let arrays = now.statuses.iter().filter_map(|(uuid, status)| {
        let earlier = before.statuses.get(uuid)?;
        array_rates(uuid, earlier, status, span)
    });
    let unknown = now.silent.iter();
    let unknown = unknown
        .map(|uuid| UnknownArray { array: names.get(uuid).cloned(), uuid: uuid.clone() })
        .collect();
    Report { arrays: arrays.collect(), unknown }
}

fn print(report: &Report, output: &Output) {
    if report.arrays.is_empty() && report.unknown.is_empty() {
        output.line("no array is served");
    }
    for UnknownArray { array, uuid } in &report.unknown {
        let name = output.paint(Tone::Strong, array.as_ref().unwrap_or(uuid));
        let unknown = output.paint(Tone::Warning, Health::Unknown.word());
        let seconds = PATIENCE.as_secs();
        output.line(format_args!("{name}  {unknown}: its server has not answered for {seconds} s"));
    }
    for array in &report.arrays {
        let name = output.paint(Tone::Strong, &array.array);
        output.line(format_args!("{name}  {}", array.load()));
        for line in array.latencies().iter().flat_map(|text| broken(&format!("  {text}"), 4)) {
            output.line(line);
        }
        let row = |drive: &DriveRates| {
            let told = |percentiles: Option<String>| percentiles.unwrap_or_else(|| "-".to_owned());
            vec![
                drive.slot.to_string(),
                drive.state.clone(),
                bytes(drive.read_bytes_per_s),
                bytes(drive.written_bytes_per_s),
                told(drive.reads()),
                told(drive.writes()),
                drive.errors.to_string(),
                drive.drive.clone().unwrap_or_default(),
            ]
        };
        let rows: Vec<_> = array.drives.iter().map(row).collect();
        let headings = [
            ">SLOT",
            "STATE",
            ">READ/s",
            ">WRITE/s",
            ">R p50/p99",
            ">W p50/p99",
            ">ERRORS",
            "DRIVE",
        ];
        for line in table(&headings, &rows) {
            output.line(format_args!("  {line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::MemberIo;
    use crate::status::examples::healthy;

    fn at(seconds: u64, changed: impl FnOnce(&mut ArrayStatus)) -> Look {
        let mut status = healthy();
        status.server.as_mut().unwrap().uptime_ns = seconds;
        changed(&mut status);
        let at = Instant::now() + Duration::from_secs(seconds);
        Look { at, statuses: BTreeMap::from([("aa".to_owned(), status)]), silent: Vec::new() }
    }

    /// A server that hung was just absent, beside others and alone.
    #[test]
    fn an_array_whose_server_hangs_is_unknown_and_keeps_its_name() {
        let hung = Look { silent: vec!["aa".to_owned()], ..at(12, |_| {}) };
        let hung = Look { statuses: BTreeMap::new(), ..hung };
        let name = |name: &str| BTreeMap::from([("aa".to_owned(), name.to_owned())]);
        let unknown = |names| report(&at(10, |_| {}), &hung, &names).unknown;
        let of = |array: Option<&str>| {
            let (array, uuid) = (array.map(str::to_owned), "aa".to_owned());
            vec![UnknownArray { array, uuid }]
        };
        assert_eq!(unknown(name("vol0")), of(Some("vol0")));
        assert_eq!(unknown(BTreeMap::new()), of(None));
        assert_eq!(report(&hung, &at(14, |_| {}), &name("vol0")).unknown, []);
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
        let rates = report(&before, &now, &BTreeMap::new());
        let read = rates.arrays[0].drives[1].read_bytes_per_s;
        assert!((1 << 18..=1 << 19).contains(&read), "{read}");
        assert_eq!(report(&now, &at(1, |_| {}), &BTreeMap::new()).arrays, []);
    }
}
