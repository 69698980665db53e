//! `zoneweave bench`: the engine on in-memory drives, compared with the speed of memory.
//!
//! The drives complete at once, and data is copied to and from them: the figures are the cost of
//! the engine and of moving data. The same run measures the references: copies of cold memory, XOR
//! and CRC-32C. More workloads run on file-backed drives and behind an NBD server ([`nbd`]).
//! `--emulator` measures an emulated drive instead ([`emulator`]).

mod compare;
mod counters;
mod emulator;
mod line;
mod median;
mod memory;
mod nbd;
mod report;
mod shards;
mod start;
mod volume;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::error::CliError;
use crate::exit::Exit;
use crate::format;
use crate::memory::refuse_too_large;
use crate::output::Output;
use compare::Baseline;
use line::{Line, line, nbd_line};
use memory::{MemoryRates, measure_memory, no_ops_per_second, region_blocks};
use report::{Report, for_each_tib, machine, tell};
use volume::{Bench as Drives, Requests, ZONE_BLOCKS};
use workload::{WORKLOADS, Workload};

/// Request sizes, in blocks.
const SIZES: [u32; 3] = [1, 4, 16];

/// Requests in flight.
const DEPTHS: [u32; 3] = [1, 32, 64];

/// Requests in flight of workloads with a single depth.
const DEPTH: u32 = 64;

/// Maximum number of zones of a file-backed drive: 128 MiB.
const FILE_ZONES_MOST: u32 = 64;

#[derive(Args)]
pub(crate) struct Bench {
    /// Seconds per measurement, repeated --runs times; ends early if free space runs out
    #[arg(long, value_name = "S", default_value_t = 0.5, value_parser = parse_seconds)]
    seconds: f64,
    /// Runs of each measurement; the median is reported [default: 3, or 5 with --emulator]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: Option<u32>,
    /// Benchmark the drive emulator instead: commands per second of CPU time
    #[arg(long, conflicts_with = "seconds")]
    emulator: bool,
    /// Drive preset for --emulator
    #[arg(long, value_name = "PRESET", default_value = "zn540-1tb", requires = "emulator")]
    preset: String,
    /// Commands per run of --emulator
    #[arg(long, value_name = "N", default_value_t = 2_000_000, requires = "emulator",
          value_parser = clap::value_parser!(u32).range(4800..))]
    commands: u32,
    /// Run only workloads whose name contains TEXT, starting at a word
    #[arg(long, value_name = "TEXT", conflicts_with = "emulator")]
    only: Option<String>,
    /// Run only requests of this size, e.g. 4KiB
    #[arg(long, value_name = "SIZE", value_parser = format::parse_small_blocks, conflicts_with = "emulator")]
    size: Option<u32>,
    /// Run only workloads with N requests in flight
    #[arg(long, value_name = "N", conflicts_with = "emulator")]
    depth: Option<u32>,
    /// Size of each of up to six in-memory drives
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = format::parse_blocks,
          conflicts_with = "emulator")]
    drive: u64,
    /// Mapped data of the volume in start benchmarks (takes about 60 MiB of memory per GiB)
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = format::parse_blocks,
          conflicts_with = "emulator")]
    mapped: u64,
    /// Memory region of the cold-copy measurements [default: 4GiB, or 1GiB if less than 5GiB is
    /// free]
    #[arg(long, value_name = "SIZE", value_parser = format::parse_blocks)]
    region: Option<u64>,
    /// Directory for file-backed drives, whose disk affects the results [default: the temporary
    /// directory]
    #[arg(long, value_name = "DIR", conflicts_with = "emulator")]
    folder: Option<PathBuf>,
    /// Print ratios to an earlier run, given as its --json document
    #[arg(long, value_name = "FILE", conflicts_with = "emulator")]
    compare: Option<PathBuf>,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    if (0.001..=3600.0).contains(&seconds) {
        return Ok(seconds);
    }
    Err(format!("{text:?} is not between 0.001 and 3600"))
}

pub(crate) fn run(request: &Bench, output: &Output) -> Result<Exit, CliError> {
    if request.emulator {
        return emulator::run(request, output);
    }
    let runs = request.runs.unwrap_or(3);
    // Before minutes of measuring: the file may be missing.
    let baseline = request.compare.as_deref().map(Baseline::load).transpose()?;
    let chosen = Chosen::new(request)?;
    output.note("measuring memory");
    let memory = measure_memory(request.region_blocks(output), runs);
    let no_ops = no_ops_per_second(runs)?;
    let zones = u32::try_from(request.drive / u64::from(ZONE_BLOCKS)).unwrap_or(u32::MAX);
    let mut results = chosen.measure_engine(request, zones, runs, &memory, output)?;
    results.extend(chosen.measure_shards(request, zones, runs, &memory, output)?);
    results.extend(chosen.measure_nbd(request, zones, runs, &memory, output)?);
    let starts = chosen.measure_starts(request, runs, output)?;
    if let Some(baseline) = &baseline
        && !baseline.compare(&mut results)
    {
        output.warning("nothing is compared: the earlier document has none of these workloads at this size and depth (starts are never compared)");
    }
    let report = Report {
        program: format!("zoneweave {}", env!("CARGO_PKG_VERSION")),
        machine: machine(),
        drive_bytes: u64::from(zones) * u64::from(ZONE_BLOCKS) * 4096,
        zone_bytes: u64::from(ZONE_BLOCKS) * 4096,
        seconds_per_measurement: request.seconds,
        runs,
        memory,
        io_uring_no_ops_per_second: no_ops,
        for_each_tib: for_each_tib(),
        results,
        starts,
    };
    output.result("bench", &report, |output| tell(&report, output));
    Ok(Exit::Done)
}

/// The chosen workloads.
struct Chosen {
    engine: Vec<&'static Workload>,
    shards: Vec<&'static shards::Workload>,
    nbd: Vec<&'static nbd::Workload>,
    starts: Vec<String>,
}

impl Chosen {
    fn new(request: &Bench) -> Result<Self, CliError> {
        let named = |label: &str| {
            request.only.as_ref().is_none_or(|only| contains_words(label, only.as_str()))
        };
        let engine: Vec<_> = WORKLOADS.iter().filter(|kind| named(&kind.label())).collect();
        let shards: Vec<_> = shards::WORKLOADS.iter().filter(|kind| named(&kind.label())).collect();
        let nbd: Vec<_> = nbd::WORKLOADS.iter().filter(|kind| named(&kind.label())).collect();
        // A start has no requests.
        let any_requests = request.size.is_none() && request.depth.is_none();
        let starts: Vec<_> = start::labels().filter(|label| any_requests && named(label)).collect();
        let chosen = Self { engine, shards, nbd, starts };
        if !chosen.is_empty() {
            return chosen.with_requests(request);
        }
        let labels = WORKLOADS.iter().map(Workload::label);
        let labels = labels.chain(shards::WORKLOADS.iter().map(shards::Workload::label));
        let labels = labels.chain(nbd::WORKLOADS.iter().map(nbd::Workload::label));
        let labels: Vec<_> = labels.chain(start::labels()).collect();
        let problem =
            format!("no workload has a name with this text; choose from {}", labels.join(", "));
        Err(CliError::Usage { option: "only", problem })
    }

    /// Keeps the workloads with requests of the chosen size and depth.
    fn with_requests(mut self, request: &Bench) -> Result<Self, CliError> {
        let wants = |requests: Requests| request.wants(&requests);
        self.engine.retain(|workload| workload.requests().any(wants));
        self.shards.retain(|workload| workload.requests().any(wants));
        self.nbd.retain(|workload| workload.requests().any(wants));
        if self.is_empty() {
            let problem = "no workload has requests of that size and depth".to_owned();
            return Err(CliError::Usage { option: "depth", problem });
        }
        Ok(self)
    }

    fn measure_engine(
        &self,
        request: &Bench,
        zones: u32,
        runs: u32,
        memory: &MemoryRates,
        output: &Output,
    ) -> Result<Vec<Line>, CliError> {
        let mut results = Vec::new();
        for in_files in [false, true] {
            let here = || self.engine.iter().filter(|workload| workload.in_files() == in_files);
            let Some(drives) = here().map(|workload| workload.scheme().columns()).max() else {
                continue;
            };
            let folder = in_files.then(|| request.folder()).transpose()?;
            output.note("making drives");
            let drives = match &folder {
                None => {
                    refuse_too_large(drives, request.drive.saturating_mul(4096))?;
                    Drives::new(drives, zones)?
                }
                Some(folder) => {
                    Drives::in_files(folder.path(), drives, zones.min(FILE_ZONES_MOST))?
                }
            };
            for workload in here() {
                output.note(workload.label());
                let of = |requests: &Requests| request.wants(requests);
                for (requests, measure) in workload.measure(&drives, request.seconds, runs, of)? {
                    let names = (workload.scheme().to_string(), workload.name);
                    results.push(line(names, requests, measure, memory));
                }
            }
        }
        Ok(results)
    }

    fn is_empty(&self) -> bool {
        self.engine.is_empty()
            && self.shards.is_empty()
            && self.nbd.is_empty()
            && self.starts.is_empty()
    }

    fn measure_shards(
        &self,
        request: &Bench,
        zones: u32,
        runs: u32,
        memory: &MemoryRates,
        output: &Output,
    ) -> Result<Vec<Line>, CliError> {
        let drive_bytes = request.drive.saturating_mul(4096);
        let settings = shards::Settings { zones, drive_bytes, seconds: request.seconds, runs };
        let mut results = Vec::new();
        for workload in &self.shards {
            output.note(workload.label());
            let rows = workload.measure(&settings, |requests| request.wants(requests))?;
            results
                .extend(rows.into_iter().map(|row| {
                    line((row.array, workload.name), row.requests, row.measure, memory)
                }));
        }
        Ok(results)
    }

    fn measure_nbd(
        &self,
        request: &Bench,
        zones: u32,
        runs: u32,
        memory: &MemoryRates,
        output: &Output,
    ) -> Result<Vec<Line>, CliError> {
        let settings = nbd::Settings { zones, seconds: request.seconds, runs };
        let mut results = Vec::new();
        for workload in &self.nbd {
            output.note(workload.label());
            let rows = workload.measure(&settings, |requests| request.wants(requests), output)?;
            results.extend(rows.into_iter().map(|row| nbd_line(row, memory)));
        }
        Ok(results)
    }

    fn measure_starts(
        &self,
        request: &Bench,
        runs: u32,
        output: &Output,
    ) -> Result<Vec<start::Start>, CliError> {
        if self.starts.is_empty() {
            return Ok(Vec::new());
        }
        let named = |label: &str| self.starts.iter().any(|start| start == label);
        start::measure(request.mapped, runs, named, output)
    }
}

impl Bench {
    fn region_blocks(&self, output: &Output) -> u64 {
        let (most, enough) = region_blocks();
        if self.region.is_none() && !enough {
            let small = format::bytes(most * 4096);
            output.warning(format_args!(
                "less than 5 GiB of memory is free: copying is measured over {small}, where it is faster than over 4 GiB"
            ));
        }
        self.region.unwrap_or(most)
    }

    /// A new directory for file-backed drives.
    fn folder(&self) -> Result<TempDir, CliError> {
        let parent = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        let made = tempfile::tempdir_in(&parent);
        made.map_err(|error| CliError::File {
            path: parent,
            action: "create a directory in",
            error,
        })
    }

    fn wants(&self, requests: &Requests) -> bool {
        self.size.is_none_or(|size| size == requests.blocks)
            && self.depth.is_none_or(|depth| depth == requests.depth)
    }
}

/// Whether a label contains a text that starts with one of its words: `write` is not in
/// `overwrite`.
fn contains_words(label: &str, text: &str) -> bool {
    label.match_indices(text).any(|(at, _)| at == 0 || label[..at].ends_with(' '))
}

/// CPU time of this process so far; other programs on the machine hardly affect it.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("a process has used no negative time")
}

fn rate(bytes_per_second: f64) -> String {
    format!("{:.2} GiB/s", bytes_per_second / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_chosen_by_words() {
        assert!(contains_words("write raid5 3+1", "write raid5"));
        assert!(contains_words("degraded read raid5 3+1", "read"));
        assert!(contains_words("write raid6 4+2", "raid6"));
        assert!(!contains_words("overwrite raid5 3+1", "write raid5 3+1"));
        assert!(!contains_words("NBD-write raid5 3+1", "write"));
    }
}
