//! `zoneweave zoned report`.

use clap::{Args, ValueEnum};
use serde::Serialize;
use zoneweave_zoned::{
    BLOCK_BYTES, ReportOptions, ZoneFilter, ZoneId, ZoneInfo, ZonedDevice, ZonedDeviceExt,
};

use super::{Target, known};
use crate::commands::zones::StateWord;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::{bytes, table};
use crate::output::Output;

/// The zones to list.
#[derive(Args)]
pub(crate) struct Report {
    #[command(flatten)]
    volume: Target,
    /// First zone
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u32,
    /// Most zones [default: all]
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Only zones in this state
    #[arg(long, value_enum)]
    state: Option<State>,
}

/// A state to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    Empty,
    Closed,
    Full,
    ReadOnly,
    Offline,
}

#[derive(Serialize)]
struct Zones {
    zones: Vec<Zone>,
}

/// A zone. Addresses are those of a zoned disk, where zones begin at multiples of their size.
#[derive(Serialize)]
struct Zone {
    zone: u32,
    state: StateWord,
    start_bytes: u64,
    written_bytes: u64,
    capacity_bytes: u64,
    resets: u64,
}

pub(super) fn run(request: &Report, output: &Output) -> Result<Exit, CliError> {
    let zones =
        request.volume.run(&[request.from], output, async |volume| list(volume, request).await)?;
    output.result("zoned-report", &zones, |output| {
        let row = |zone: &Zone| {
            vec![
                zone.zone.to_string(),
                zone.state.to_string(),
                bytes(zone.start_bytes),
                bytes(zone.written_bytes),
                bytes(zone.capacity_bytes),
                zone.resets.to_string(),
            ]
        };
        let rows: Vec<_> = zones.zones.iter().map(row).collect();
        let headings = [">ZONE", "STATE", ">START", ">WRITTEN", ">CAPACITY", ">RESETS"];
        table(&headings, &rows).iter().for_each(|line| output.line(line));
    });
    Ok(Exit::Done)
}

async fn list(volume: &dyn ZonedDevice, request: &Report) -> Result<Zones, CliError> {
    let first = known(volume, request.from)?;
    let filter = match request.state {
        None => ZoneFilter::All,
        Some(State::Empty) => ZoneFilter::Empty,
        Some(State::Closed) => ZoneFilter::Closed,
        Some(State::Full) => ZoneFilter::Full,
        Some(State::ReadOnly) => ZoneFilter::ReadOnly,
        Some(State::Offline) => ZoneFilter::Offline,
    };
    let options = ReportOptions { filter, ..ReportOptions::default() };
    let count = request.count.unwrap_or(volume.geometry().zones);
    let report = volume.report_by(first, count, options).await;
    let report = report.map_err(|status| CliError::Zone { zone: first, status })?;
    Ok(Zones { zones: report.zones.iter().map(|info| described(volume, info)).collect() })
}

fn described(volume: &dyn ZonedDevice, info: &ZoneInfo) -> Zone {
    let ZoneId(zone) = info.zone;
    let zone_bytes = volume.geometry().zone_size.data_bytes() as u64;
    Zone {
        zone,
        state: info.state.into(),
        start_bytes: u64::from(zone) * zone_bytes,
        written_bytes: u64::from(info.write_pointer.0) * BLOCK_BYTES as u64,
        capacity_bytes: info.capacity.data_bytes() as u64,
        resets: info.resets,
    }
}
