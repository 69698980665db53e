//! The report of `zoneweave bench`: the machine, the speed of its memory, and the measurements.

use std::fs;

use serde::Serialize;
use zoneweave_emulator::Preset;
use zoneweave_raid::log::format::{ArrayConfig, ArrayUuid, LogConfig, VolumeKind};
use zoneweave_raid::log::{Lanes, Memory, WritePolicy};
use zoneweave_raid::scheme::Scheme;
use zoneweave_raid::shards::Shard;
use zoneweave_zoned::BlockCount;

use super::counters::Counted;
use super::line::{Line, Ratios};
use super::median::Beside;
use super::memory::MemoryRates;
use super::rate;
use super::start::{self, Start};
use crate::commands::array::create::GROUP_ROWS;
use crate::format;
use crate::output::{Output, Tone};

#[derive(Serialize)]
pub(super) struct Report {
    pub(super) program: String,
    pub(super) machine: Machine,
    pub(super) drive_bytes: u64,
    pub(super) zone_bytes: u64,
    pub(super) seconds_per_measurement: f64,
    pub(super) runs: u32,
    pub(super) memory: MemoryRates,
    /// No-op operations, 64 per system call.
    pub(super) io_uring_no_ops_per_second: f64,
    pub(super) for_each_tib: ForEachTib,
    pub(super) results: Vec<Line>,
    pub(super) starts: Vec<Start>,
}

#[derive(Serialize)]
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) cores: usize,
    pub(super) kernel: String,
}

pub(super) fn machine() -> Machine {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Machine {
        processor: model.map_or("unknown", |(_, name)| name).to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
    }
}

pub(super) fn tell(report: &Report, output: &Output) {
    introduce(report, output);
    output.line("");
    if !report.results.is_empty() {
        tell_lines(report, output);
    }
    start::tell(&report.starts, output);
}

fn tell_lines(report: &Report, output: &Output) {
    let compared = report.results.iter().any(|line| line.against_baseline.is_some());
    let counted = report.results.iter().any(|line| line.for_each_4_kib.is_some());
    let beside = report.results.iter().any(|line| line.against_nbdkit.is_some());
    let rows = report.results.iter().map(|line| {
        let mut row = vec![
            line.array.clone(),
            line.workload.to_owned(),
            format::bytes(line.request_bytes),
            line.depth.to_string(),
            rate(line.bytes_per_second),
            format!("{:.0}", line.requests_per_second),
            microseconds(line.latency_p50_ns),
            microseconds(line.latency_p99_ns),
            format!("{:.2}", line.processor_ns_per_request / 1000.0),
            line.write_amplification.map(|times| format!("{times:.2}")).unwrap_or_default(),
            line.effectively_full.map(|part| format!("{:.0} %", part * 100.0)).unwrap_or_default(),
            format!("{:.0} %", line.of_cold_memcpy * 100.0),
        ];
        if counted {
            row.extend(told_counts(line.for_each_4_kib));
        }
        if beside {
            row.extend(told_beside(line.against_nbdkit));
        }
        if compared {
            row.extend(told(line.against_baseline));
        }
        row
    });
    let mut headings = vec![
        "ARRAY",
        "WORKLOAD",
        ">SIZE",
        ">DEPTH",
        ">RATE",
        ">REQUESTS/S",
        ">P50 us",
        ">P99 us",
        ">CPU us",
        ">AMPLIFICATION",
        ">FULL",
        ">OF MEMCPY",
    ];
    if counted {
        headings.extend([">CYCLES/4K", ">INSTRUCTIONS/4K"]);
    }
    if beside {
        headings.extend([">RATE x NBDKIT", ">P50 x NBDKIT"]);
    }
    if compared {
        headings.extend([">RATE x", ">OF MEMCPY x", ">CPU x", ">P50 x"]);
    }
    for (number, text) in format::table(&headings, &rows.collect::<Vec<_>>()).iter().enumerate() {
        let text = if number == 0 { output.paint(Tone::Faint, text) } else { text.clone() };
        output.line(text);
    }
}

/// The counters of a line.
fn told_counts(counted: Option<Counted>) -> [String; 2] {
    let tell = |count: Option<f64>| count.map(|count| format!("{count:.0}")).unwrap_or_default();
    [tell(counted.map(|counted| counted.cycles)), tell(counted.map(|counted| counted.instructions))]
}

/// Prints the machine and the configuration.
fn introduce(report: &Report, output: &Output) {
    let (machine, memory) = (&report.machine, &report.memory);
    output.line(format_args!(
        "{} on {} ({} cores), Linux {}",
        report.program, machine.processor, machine.cores, machine.kernel
    ));
    output.line(format_args!(
        "in-memory drives of {}, with data copied, zones of {}; written as by a server with their profile (`--write-mode auto --profile`)",
        format::bytes(report.drive_bytes),
        format::bytes(report.zone_bytes)
    ));
    output.line(format_args!(
        "median of {} runs of at most {} s, random requests; one thread for all, over NBD one for the server and one for the load",
        report.runs, report.seconds_per_measurement
    ));
    let copy = memory.cold_memcpy_bytes_per_second;
    output.line(format_args!(
        "memory, random 4 KiB blocks of {}: copy {}, XOR 3+1 {}, CRC-32C {}; io_uring {:.1} M no-ops/s",
        format::bytes(memory.region_bytes),
        rate(copy),
        rate(memory.xor_bytes_per_second),
        rate(memory.crc32c_bytes_per_second),
        report.io_uring_no_ops_per_second / 1e6
    ));
    let floor = |of: f64| format!("{:.0} % of copying", of / copy * 100.0);
    output.line(format_args!(
        "limit set by copies, checksums and parity: 4 KiB writes to 3+1 at {}, reads at {}",
        floor(memory.write_floor_bytes_per_second),
        floor(memory.read_floor_bytes_per_second)
    ));
    let tib = &report.for_each_tib;
    output.line(format_args!(
        "memory per TiB of a volume, by formula: index {}, tables {} (3+1, zones of {})",
        format::bytes(tib.index_bytes),
        format::bytes(tib.table_bytes),
        format::bytes(tib.zone_bytes)
    ));
}

/// Maximum memory per TiB of a volume, by the formula of the engine.
#[derive(Serialize)]
pub(super) struct ForEachTib {
    index_bytes: u64,
    /// Segments, summaries, stripes and checkpoints.
    table_bytes: u64,
    /// Zone size of the preset zn540-1tb, for which it is calculated.
    zone_bytes: u64,
}

/// For flash drives: the zones of the measured drives are small, which makes tables large.
pub(super) fn for_each_tib() -> ForEachTib {
    let geometry = Preset::by_name("zn540-1tb").expect("a preset").geometry().clone();
    let config = ArrayConfig {
        array: ArrayUuid([0; 16]),
        name: String::new(),
        scheme: Scheme::new(3, 1).expect("3+1 is a scheme"),
        zones: geometry.zones,
        zone_capacity: geometry.zone_capacity,
        write_unit: BlockCount(1),
        shard: Shard::WHOLE,
        volume: VolumeKind::Log(LogConfig {
            chunk_blocks: 1,
            group_rows: GROUP_ROWS,
            tabled: true,
            volume_blocks: (1 << 40) / 4096,
            entry_bytes: 4,
            writethrough: None,
        }),
    };
    let users = Lanes { count: 4, chunk_blocks: 2 };
    let policy = WritePolicy::adaptive(users, Lanes::default());
    let most = Memory::most(&config, &policy, None, 0, 0);
    ForEachTib {
        index_bytes: most.index_bytes,
        table_bytes: most.checkpoint_bytes
            + most.segment_bytes
            + most.list_bytes
            + most.stripe_table_bytes,
        zone_bytes: geometry.zone_capacity.data_bytes() as u64,
    }
}

/// Ratios of a line to nbdkit.
fn told_beside(beside: Option<Beside>) -> [String; 2] {
    let tell = |times: Option<f64>| times.map(|times| format!("{times:.2}")).unwrap_or_default();
    [tell(beside.map(|beside| beside.throughput)), tell(beside.map(|beside| beside.latency_p50))]
}

/// Ratios of a line to the earlier run.
fn told(ratios: Option<Ratios>) -> [String; 4] {
    let tell = |of: fn(&Ratios) -> f64| {
        ratios.as_ref().map(of).map(|times| format!("{times:.2}")).unwrap_or_default()
    };
    [
        tell(|ratios| ratios.throughput),
        tell(|ratios| ratios.of_cold_memcpy),
        tell(|ratios| ratios.processor_time),
        tell(|ratios| ratios.latency_p50),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "a latency for people")]
fn microseconds(nanoseconds: u64) -> String {
    format!("{:.1}", nanoseconds as f64 / 1000.0)
}
