//! `zoneweave fs replay`: a trace of a file store on an emulated drive.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use zoneweave_emulator::{BlockMapping, EraseMode, Preset, WearSettings};
use zoneweave_sim::file_replay::{Erases, FileReplay, FileReplayed};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount};

use super::trace::{failed, open};
use crate::commands::serve::{parse_buffer, parse_policy};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::format::{bytes, parse_small_blocks, table};
use crate::output::{Output, Tone};

/// Most zones of an emulated drive: the trace is hostile, and each takes memory.
const ZONES_MOST: u32 = 1 << 16;

/// Largest zone: 64 GiB.
const ZONE_BLOCKS_MOST: u32 = 1 << 24;

/// Most erase blocks of all zones.
const ERASE_BLOCKS_MOST: u64 = 1 << 26;

/// The trace, and the drive to replay it on.
#[derive(Args)]
pub(crate) struct Replay {
    /// Trace of `fs serve --trace FILE`, or of RocksDB on a store with `?trace=FILE`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Allocation policy: lifetime, sequential, least-worn, dual-pool or wear-aware
    #[arg(long, value_name = "NAME", default_value = "lifetime", value_parser = parse_policy)]
    policy: String,
    /// Replay the trace N times; each time deletes the files that the one before left
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    times: u32,
    #[command(flatten)]
    drive: DriveOptions,
    #[command(flatten)]
    store: StoreOptions,
}

/// The emulated drive.
#[derive(Args)]
struct DriveOptions {
    /// Drive preset, from `zoneweave emu presets`
    #[arg(long, value_name = "P", default_value = "zn540-1tb")]
    preset: String,
    /// Zones of the drive [default: as many as the recorded one had]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(5..=i64::from(ZONES_MOST)))]
    zones: Option<u32>,
    /// Capacity of a zone [default: as the recorded drive had]
    #[arg(long, value_name = "SIZE", value_parser = parse_small_blocks)]
    zone_capacity: Option<u32>,
    /// Erase blocks of a zone [default: as the preset has, or 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    erase_blocks: Option<u32>,
    /// A reset erases the erase blocks that were written, not all of the zone (as in WA-Zone)
    #[arg(long)]
    partial_erase: bool,
    /// A zone begins where it ended before its last reset (as in WA-Zone)
    #[arg(long)]
    circular: bool,
    /// Seed of the drive's latencies
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The store on it.
#[derive(Args)]
struct StoreOptions {
    /// Bytes that a file collects before it writes them, e.g. 1M [default: as recorded]
    #[arg(long, value_name = "SIZE", value_parser = parse_buffer)]
    buffer: Option<BlockCount>,
    /// Data zones written at once [default: all that the drive allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    active_zones: Option<u32>,
    /// Finish a zone with less free space than this, in percent of its capacity
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=50))]
    finish: u8,
}

#[derive(Serialize)]
struct Document<'a> {
    trace: &'a Path,
    policy: &'a str,
    preset: &'a str,
    drive_zones: u32,
    zone_capacity_bytes: u64,
    zone_erase_blocks: u32,
    /// As far as the drive takes it in one write.
    buffer_bytes: u64,
    partial_erase: bool,
    circular: bool,
    times: u32,
    #[serde(flatten)]
    replayed: FileReplayed,
}

pub(super) fn run(request: &Replay, output: &Output) -> Result<Exit, CliError> {
    let replay = replay(request)?;
    let replayed = replay.run(|| open(&request.file));
    let replayed = replayed.map_err(|error| failed(&request.file, error))?;
    let geometry = replay.preset.geometry();
    let document = Document {
        trace: &request.file,
        policy: &request.policy,
        preset: &request.drive.preset,
        drive_zones: geometry.zones,
        zone_capacity_bytes: u64::from(geometry.zone_capacity.0) * BLOCK_BYTES as u64,
        zone_erase_blocks: replay.wear.erase_blocks,
        buffer_bytes: replay.buffer.min(geometry.max_transfer).data_bytes() as u64,
        partial_erase: replay.wear.reset == EraseMode::Partial,
        circular: replay.wear.mapping == BlockMapping::Circular,
        times: request.times,
        replayed,
    };
    output.result("fs-replay", &document, |output| tell(&document, output));
    Ok(Exit::Done)
}

fn replay(request: &Replay) -> Result<FileReplay, CliError> {
    let DriveOptions { preset: name, zones, zone_capacity, .. } = &request.drive;
    let unknown = |_| {
        usage("preset")(format!("there is no preset {name}; `zoneweave emu presets` lists them"))
    };
    Preset::by_name(name).map_err(unknown)?;
    let trace = open(&request.file);
    let trace = trace.map_err(|error| failed(&request.file, error.into()))?;
    let zones = zones.unwrap_or(trace.header().zones);
    if !(1..=ZONES_MOST).contains(&zones) {
        let problem = format!("the trace is of {zones} zones: choose 5 to {ZONES_MOST}");
        return Err(usage("zones")(problem));
    }
    let blocks = zone_capacity.unwrap_or(trace.header().zone_capacity.0);
    if !(1..=ZONE_BLOCKS_MOST).contains(&blocks) {
        let problem = format!("zones of {blocks} blocks of 4 KiB: choose up to 64GiB");
        return Err(usage("zone-capacity")(problem));
    }
    let preset = Preset::parse(&preset_text(request, zones, blocks));
    let preset = preset.map_err(|error| usage("zone-capacity")(error.to_string()))?;
    let mut wear = preset.wear().copied().unwrap_or_else(|| WearSettings::new(1));
    if u64::from(wear.erase_blocks) * u64::from(zones) > ERASE_BLOCKS_MOST {
        let problem = format!("choose fewer: all zones have at most {ERASE_BLOCKS_MOST}");
        return Err(usage("erase-blocks")(problem));
    }
    if request.drive.partial_erase {
        wear.reset = EraseMode::Partial;
    }
    if request.drive.circular {
        wear.mapping = BlockMapping::Circular;
    }
    let StoreOptions { buffer, active_zones, finish } = request.store;
    Ok(FileReplay {
        preset,
        wear,
        policy: request.policy.clone(),
        passes: request.times,
        buffer: buffer.unwrap_or(trace.header().buffer),
        active_zones,
        finish_percent: finish,
        seed: request.drive.seed,
    })
}

/// The preset with other zones, and other erase blocks if they were chosen.
fn preset_text(request: &Replay, zones: u32, blocks: u32) -> String {
    let DriveOptions { preset: name, erase_blocks, .. } = &request.drive;
    let kib = |blocks: u32| u64::from(blocks) * 4;
    let (size, capacity) = (kib(blocks.next_power_of_two()), kib(blocks));
    let wear = erase_blocks.map(|count| format!("[wear]\nerase_blocks = {count}\n"));
    format!(
        "extends = \"{name}\"\n[geometry]\nzones = {zones}\nzone_size_kib = {size}\n\
         zone_capacity_kib = {capacity}\n{}",
        wear.unwrap_or_default()
    )
}

fn tell(document: &Document<'_>, output: &Output) {
    let Document { policy, preset, drive_zones, times, replayed, .. } = document;
    output.line(format_args!(
        "policy {policy} on {preset}, {drive_zones} zones of {}; {times} times, {} events, {:.3} s of \
         virtual time",
        bytes(document.zone_capacity_bytes),
        replayed.events,
        replayed.seconds
    ));
    output.line(format_args!(
        "{} appended, {} written to the drive ({} relocated, {} metadata): write amplification \
         {:.3}, of relocation {:.3}",
        bytes(replayed.host_bytes),
        bytes(replayed.drive_bytes),
        bytes(replayed.relocated_bytes),
        bytes(replayed.metadata_bytes),
        replayed.write_amplification,
        replayed.relocation_amplification
    ));
    if !replayed.is_whole {
        let warning = "the trace ends before its store: these are figures of a part";
        output.line(output.paint(Tone::Warning, warning));
    }
    let row = |(name, erases): (&str, &Erases)| {
        vec![
            name.to_owned(),
            erases.count.to_string(),
            erases.total.to_string(),
            format!("{:.2}", erases.mean),
            erases.min.to_string(),
            erases.max.to_string(),
            format!("{:.2}", erases.deviation),
            format!("{:.1} %", erases.never_percent),
            format!("{:.1} %", erases.busiest_percent),
        ]
    };
    let rows = [
        ("zones of data", &replayed.zones),
        ("their erase blocks", &replayed.erase_blocks),
        ("zones of metadata", &replayed.metadata_zones),
    ]
    .map(row);
    let headings =
        ["", ">COUNT", ">ERASES", ">MEAN", ">LEAST", ">MOST", ">DEVIATION", ">NEVER", ">80 % IN"];
    for (number, text) in table(&headings, &rows).iter().enumerate() {
        output.line(if number == 0 { output.paint(Tone::Faint, text) } else { text.clone() });
    }
}
