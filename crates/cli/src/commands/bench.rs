//! `zoneweave bench`: the engine on drives in memory, beside what memory itself does.
//!
//! The drives complete at once and are copied to and from, so that the figures are the engine's
//! own cost and that of moving the data. What they are to be compared with is measured in the same run: copying
//! cold memory, XOR and CRC-32C. With `--emulator` it is an emulated drive that is measured ([`emulator`]).

mod compare;
mod emulator;
mod memory;
mod volume;
mod workload;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::error::{CliError, Exit};
use crate::format;
use crate::output::{Output, Tone};
use compare::{Baseline, Ratios};
use memory::{MemoryRates, measure_memory};
use volume::{Bench as Drives, Measure, Requests, ZONE_BLOCKS};
use workload::{WORKLOADS, Workload};

/// Request sizes, in blocks.
const SIZES: [u32; 3] = [1, 4, 16];

/// Requests in flight.
const DEPTHS: [u32; 3] = [1, 32, 64];

/// Those of the measurements that are made at one depth only.
const DEPTH: u32 = 64;

#[derive(Args)]
pub(crate) struct Bench {
    /// How long each measurement takes, unless there is no room left to write to; repeated --runs times
    #[arg(long, value_name = "S", default_value_t = 0.5, value_parser = parse_seconds)]
    seconds: f64,
    /// How often everything is measured; the median is reported (default: 3, of the emulator 5)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: Option<u32>,
    /// Measure how many commands a second of this machine emulates on a drive with all its timing
    #[arg(long, conflicts_with = "seconds")]
    emulator: bool,
    /// The kind of drive that --emulator measures
    #[arg(long, value_name = "PRESET", default_value = "zn540-1tb", requires = "emulator")]
    preset: String,
    /// The commands of each run of --emulator
    #[arg(long, value_name = "N", default_value_t = 2_000_000, requires = "emulator",
          value_parser = clap::value_parser!(u32).range(4800..))]
    commands: u32,
    /// Measure those workloads only whose names contain this
    #[arg(long, value_name = "TEXT", conflicts_with = "emulator")]
    only: Option<String>,
    /// Requests of this size only
    #[arg(long, value_name = "SIZE", value_parser = format::parse_small_blocks, conflicts_with = "emulator")]
    size: Option<u32>,
    /// So many requests at a time only
    #[arg(long, value_name = "N", conflicts_with = "emulator")]
    depth: Option<u32>,
    /// The size of each of up to six drives in memory
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = format::parse_blocks,
          conflicts_with = "emulator")]
    drive: u64,
    /// The memory that cold copies run over
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = format::parse_blocks)]
    region: u64,
    /// Print ratios to an earlier run's --json document
    #[arg(long, value_name = "FILE", conflicts_with = "emulator")]
    compare: Option<PathBuf>,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    if (0.001..=3600.0).contains(&seconds) {
        return Ok(seconds);
    }
    Err(format!("{text:?} is not between 0.001 and 3600"))
}

#[derive(Serialize)]
struct Report {
    program: String,
    machine: Machine,
    drive_bytes: u64,
    zone_bytes: u64,
    seconds_per_measurement: f64,
    runs: u32,
    memory: MemoryRates,
    results: Vec<Line>,
}

#[derive(Serialize)]
struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
}

/// The median of the runs.
#[derive(Serialize)]
struct Line {
    array: String,
    workload: &'static str,
    request_bytes: u64,
    depth: u32,
    bytes_per_second: f64,
    requests_per_second: f64,
    latency_p50_ns: u64,
    latency_p99_ns: u64,
    volume_bytes: u64,
    /// Of writes: data blocks written for each that users write.
    write_amplification: Option<f64>,
    /// What a request takes of the processor, the load included.
    processor_ns_per_request: f64,
    /// Throughput against copying cold memory, both in a second of the processor.
    of_cold_memcpy: f64,
    /// Against the document that --compare named.
    #[serde(skip_serializing_if = "Option::is_none")]
    against_baseline: Option<Ratios>,
}

pub(crate) fn run(request: &Bench, output: &Output) -> Result<Exit, CliError> {
    if request.emulator {
        return emulator::run(request, output);
    }
    let runs = request.runs.unwrap_or(3);
    // Before minutes of measuring: it may not be there.
    let baseline = request.compare.as_deref().map(Baseline::load).transpose()?;
    output.note("measuring memory");
    let memory = measure_memory(request.region, runs);
    let chosen = |workload: &&Workload| {
        request.only.as_ref().is_none_or(|only| workload.label().contains(only.as_str()))
    };
    let requests = |requests: &Requests| {
        request.size.is_none_or(|size| size == requests.blocks)
            && request.depth.is_none_or(|depth| depth == requests.depth)
    };
    let workloads: Vec<_> = WORKLOADS.iter().filter(chosen).collect();
    let most = workloads.iter().map(|workload| workload.scheme().columns()).max();
    let Some(drives) = most else {
        let labels: Vec<_> = WORKLOADS.iter().map(Workload::label).collect();
        let problem = format!("none of the workloads is called so: {}", labels.join(", "));
        return Err(CliError::Usage { option: "only", problem });
    };
    output.note("making drives");
    let zones = u32::try_from(request.drive / u64::from(ZONE_BLOCKS)).unwrap_or(u32::MAX);
    let drives = Drives::new(drives, zones)?;
    let mut results = Vec::new();
    for workload in workloads {
        output.note(workload.label());
        for (requests, measure) in workload.measure(&drives, request.seconds, runs, requests)? {
            results.push(line(workload, requests, measure, &memory));
        }
    }
    if results.is_empty() {
        let problem = "none of the workloads has requests of that size and depth".to_owned();
        return Err(CliError::Usage { option: "depth", problem });
    }
    if let Some(baseline) = &baseline {
        baseline.compare(&mut results);
    }
    let report = Report {
        program: format!("zoneweave {}", env!("CARGO_PKG_VERSION")),
        machine: machine(),
        drive_bytes: u64::from(zones) * u64::from(ZONE_BLOCKS) * 4096,
        zone_bytes: u64::from(ZONE_BLOCKS) * 4096,
        seconds_per_measurement: request.seconds,
        runs,
        memory,
        results,
    };
    output.result("bench", &report, |output| tell(&report, output));
    Ok(Exit::Done)
}

/// The processor's time for this process so far. Others on the machine hardly change what something takes of it.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("a process has used no negative time")
}

fn line(workload: &Workload, requests: Requests, measure: Measure, memory: &MemoryRates) -> Line {
    let bytes_per_second = measure.blocks_per_second * 4096.0;
    let blocks_per_processor_second =
        1e9 / measure.processor_ns_per_request * f64::from(requests.blocks);
    Line {
        array: workload.scheme().to_string(),
        workload: workload.name,
        request_bytes: u64::from(requests.blocks) * 4096,
        depth: requests.depth,
        bytes_per_second,
        requests_per_second: measure.blocks_per_second / f64::from(requests.blocks),
        latency_p50_ns: measure.latency_p50_ns,
        latency_p99_ns: measure.latency_p99_ns,
        volume_bytes: measure.volume_blocks * 4096,
        write_amplification: measure.amplification,
        processor_ns_per_request: measure.processor_ns_per_request,
        of_cold_memcpy: blocks_per_processor_second * 4096.0 / memory.cold_memcpy_bytes_per_second,
        against_baseline: None,
    }
}

fn machine() -> Machine {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Machine {
        processor: model.map_or("unknown", |(_, name)| name).to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
    }
}

fn tell(report: &Report, output: &Output) {
    let (machine, memory) = (&report.machine, &report.memory);
    output.line(format_args!(
        "{} on {} ({} cores), Linux {}",
        report.program, machine.processor, machine.cores, machine.kernel
    ));
    output.line(format_args!(
        "drives of {} in memory, which is copied to and from, zones of {}; written as servers do (`--write-mode auto`)",
        format::bytes(report.drive_bytes),
        format::bytes(report.zone_bytes)
    ));
    output.line(format_args!(
        "median of {} runs of {} s at most, random requests, one thread",
        report.runs, report.seconds_per_measurement
    ));
    output.line(format_args!(
        "memory, random 4 KiB blocks of {}: copy {}, XOR 3+1 {}, CRC-32C {}",
        format::bytes(memory.region_bytes),
        rate(memory.cold_memcpy_bytes_per_second),
        rate(memory.xor_bytes_per_second),
        rate(memory.crc32c_bytes_per_second)
    ));
    output.line("");
    let compared = report.results.iter().any(|line| line.against_baseline.is_some());
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
            format!("{:.0} %", line.of_cold_memcpy * 100.0),
        ];
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
        ">OF MEMCPY",
    ];
    if compared {
        headings.extend([">RATE x", ">CPU x", ">P50 x"]);
    }
    for (number, text) in format::table(&headings, &rows.collect::<Vec<_>>()).iter().enumerate() {
        let text = if number == 0 { output.paint(Tone::Faint, text) } else { text.clone() };
        output.line(text);
    }
}

/// How a line compares to an earlier one.
fn told(ratios: Option<Ratios>) -> [String; 3] {
    let tell = |of: fn(&Ratios) -> f64| {
        ratios.as_ref().map(of).map(|times| format!("{times:.2}")).unwrap_or_default()
    };
    [
        tell(|ratios| ratios.throughput),
        tell(|ratios| ratios.processor_time),
        tell(|ratios| ratios.latency_p50),
    ]
}

fn rate(bytes_per_second: f64) -> String {
    format!("{:.2} GiB/s", bytes_per_second / f64::from(1 << 30))
}

#[expect(clippy::cast_precision_loss, reason = "a latency for people")]
fn microseconds(nanoseconds: u64) -> String {
    format!("{:.1}", nanoseconds as f64 / 1000.0)
}
