//! `zoneweave characterize`: measures the characteristics of a drive by published methods.
//!
//! File-backed and real drives are measured in real time through the ring, with nothing modelled.
//! Presets are measured in virtual time, with the host software of the calibration data. Measured
//! zones are overwritten: a drive that holds data needs `--yes-destroy` or `--destroy`.

mod tell;

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use serde::Serialize;
use zoneweave_emulator::{ConventionalConfig, ConventionalDrive, Preset, RamDrive};
use zoneweave_linux::AnyDrive;
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_sim::characterize::report::Report;
use zoneweave_sim::characterize::{Plan, Progress, Results, Stacks, Subject, run as measure};
use zoneweave_zoned::{BlockCount, ZoneId, ZonedDevice};

use crate::drives::consent::{Consent, Destroyed, holdings, not_empty};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::format::{self};
use crate::output::Output;
use crate::session::{Access, Session};

#[derive(Args)]
pub(crate) struct Characterize {
    /// Drive to measure, in real time
    #[arg(value_name = "DRIVE", conflicts_with = "preset", required_unless_present = "preset")]
    drive: Option<PathBuf>,
    /// Preset to measure instead, in memory and virtual time
    #[arg(long, value_name = "P")]
    preset: Option<String>,
    /// Use fewer zones than the preset's drive has [default: all]
    #[arg(long, value_name = "Z", requires = "preset")]
    zones: Option<u32>,
    /// Use a smaller zone capacity than the preset's, e.g. 8MiB [default: the preset's]
    #[arg(long, value_name = "SIZE", requires = "preset", value_parser = format::parse_small_blocks)]
    zone_capacity: Option<u32>,
    /// Measure fewer points, each for a shorter time
    #[arg(long)]
    quick: bool,
    /// Directory to write the report to: a page, tables and charts [default: none]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite a drive that holds data; except file systems and real drives (see --destroy)
    #[arg(long)]
    yes_destroy: bool,
    /// Overwrite this drive, whatever it holds
    #[arg(long, value_name = "DRIVE")]
    destroy: Vec<PathBuf>,
    /// Print what the drive holds that would be overwritten; measure nothing
    #[arg(long, requires = "drive")]
    dry_run: bool,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a Report,
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct DryRun {
    destroys: Vec<Destroyed>,
    dry_run: bool,
}

pub(crate) fn run(request: &Characterize, output: &Output) -> Result<Exit, CliError> {
    if let Some(path) = request.drive.as_deref().filter(|_| request.dry_run) {
        return dry_run(path, output);
    }
    // Before minutes of measuring: the report may not be writable.
    if let Some(directory) = &request.out {
        fs::create_dir_all(directory).map_err(failed(directory, "create the directory"))?;
    }
    let report = match (&request.preset, &request.drive) {
        (Some(name), _) => preset(name, request, output)?,
        (None, Some(path)) => drive(path, request, output)?,
        (None, None) => unreachable!("one of them is required"),
    };
    let files = match &request.out {
        Some(directory) => write(&report, directory)?,
        None => Vec::new(),
    };
    let document = Document { report: &report, files };
    output.result("characterize", &document, |output| tell::tell(&document, output));
    Ok(Exit::Done)
}

/// Measures a drive in memory, in virtual time.
fn preset(name: &str, request: &Characterize, output: &Output) -> Result<Report, CliError> {
    let refused = |error: &dyn std::fmt::Display| usage("preset")(error.to_string());
    let mut preset = Preset::by_name(name).map_err(|error| refused(&error))?;
    let geometry = preset.geometry();
    let zones = request.zones.unwrap_or(geometry.zones);
    let capacity = request.zone_capacity.map_or(geometry.zone_capacity, BlockCount);
    if (zones, capacity) != (geometry.zones, geometry.zone_capacity) {
        preset = preset.with_zones(zones, capacity).map_err(|error| refused(&error))?;
    }
    let drive = RamDrive::new(preset.geometry().clone(), preset.timing(request.seed))
        .map_err(|error| refused(&error))?;
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let plan = if request.quick { Plan::quick() } else { Plan::full() };
    let mut subject = subject(name.to_owned(), drive.attach(&handle), Stacks::MODELLED);
    if let Some(other) = other_format(name) {
        let other = Preset::by_name(other)
            .and_then(|other| other.with_zones(zones, capacity))
            .map_err(|error| refused(&error))?;
        let drive = RamDrive::new(other.geometry().clone(), other.timing(request.seed))
            .map_err(|error| refused(&error))?;
        subject.formats = vec![(512, drive.attach(&handle))];
    }
    if let Some(config) = twin(name, request) {
        let twin = ConventionalDrive::new(config).map_err(|error| refused(&error))?;
        subject.conventional = Some(Rc::new(twin.attach(&handle)));
    }
    let results = work(&executor, &handle, &subject, &Plan { seed: request.seed, ..plan }, output)?;
    let mut command = format!("zoneweave characterize --preset {name}");
    if zones != preset.geometry().zones || request.zones.is_some() {
        command.push_str(&format!(" --zones {zones}"));
    }
    if request.zone_capacity.is_some() {
        command.push_str(&format!(" --zone-capacity {}KiB", capacity.0 * 4));
    }
    let clock = "virtual: the figures are the model's, the same on every machine";
    Ok(report(request, subject.name, &command, clock, preset.summary(), results))
}

/// The preset of the same drive formatted with 512-byte blocks, if it was measured.
fn other_format(name: &str) -> Option<&'static str> {
    matches!(name, "zn540-1tb" | "zn540-1tb-volatile").then_some("zn540-1tb-512")
}

/// The conventional drive of the same hardware, if one was measured. Its superblocks are smaller
/// than real ones, so that a minute overwrites it once: 30 GB, or 5 GB for a quick run.
fn twin(name: &str, request: &Characterize) -> Option<ConventionalConfig> {
    let rows = if request.quick { 2 } else { 12 };
    name.starts_with("zn540-1tb").then(|| ConventionalConfig {
        seed: request.seed,
        ..ConventionalConfig::sn640_960gb().with_superblock_rows(rows)
    })
}

/// Shows what a measurement would overwrite.
fn dry_run(path: &Path, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let named = session.open(path, Access::Exclusive)?;
    let holds = session.executor.run(holdings(&named))?;
    let destroys = holds.iter().map(|holds| Destroyed::new(&named, holds)).collect();
    let found = DryRun { destroys, dry_run: true };
    output.result("characterize", &found, |output| Destroyed::tell(&found.destroys, output));
    Ok(Exit::Done)
}

/// Measures a drive in a file, or a real one, in real time.
fn drive(path: &Path, request: &Characterize, output: &Output) -> Result<Report, CliError> {
    let session = Session::new()?;
    let named = session.open(path, Access::Exclusive)?;
    let consent = Consent { all: request.yes_destroy, named: &request.destroy };
    if let Some(holds) = session.executor.run(holdings(&named))?
        && !consent.covers(&named, &holds)
    {
        return Err(not_empty(&named, &holds));
    }
    let plan = if request.quick { Plan::quick() } else { Plan::real_time() };
    let what = match named.drive.any() {
        AnyDrive::File(_) => {
            "a drive in a file: the figures are those of this machine and its file system"
                .to_owned()
        }
        AnyDrive::Nvme(drive) => format!("{}, by NVMe passthrough", drive.name()),
        AnyDrive::Block(drive) => {
            let model = Some(drive.model()).filter(|model| !model.is_empty());
            format!("{}, as a block device of the kernel", model.unwrap_or("a disk without a name"))
        }
    };
    let subject = subject(named.label, named.drive, Stacks::REAL);
    let plan = Plan { seed: request.seed, ..plan };
    let results = work(&session.executor, &session.handle, &subject, &plan, output)?;
    Ok(report(request, subject.name, "zoneweave characterize DRIVE", "real", &what, results))
}

fn subject(name: String, zoned: Rc<dyn ZonedDevice>, stacks: Stacks) -> Subject {
    let zones = (0..zoned.geometry().zones).map(ZoneId).collect();
    Subject { name, zoned, zones, formats: Vec::new(), conventional: None, stacks }
}

fn work(
    executor: &Executor,
    handle: &Handle,
    subject: &Subject,
    plan: &Plan,
    output: &Output,
) -> Result<Results, CliError> {
    let mut progress = |progress: Progress| {
        let Progress { table, done, total } = progress;
        output.note(format_args!("{} of {total}: {}", done + 1, table.title()));
    };
    Ok(executor.run(measure(handle, subject, plan, &mut progress))?)
}

fn report(
    request: &Characterize,
    subject: String,
    command: &str,
    clock: &str,
    what: &str,
    results: Results,
) -> Report {
    let quick = if request.quick { " --quick" } else { "" };
    let seed = if request.seed == 1 { String::new() } else { format!(" --seed {}", request.seed) };
    let conditions = [
        ("drive", what.to_owned()),
        ("command", format!("{command}{quick}{seed} --out DIR")),
        ("program", format!("zoneweave {}", env!("CARGO_PKG_VERSION"))),
        ("clock", clock.to_owned()),
    ];
    let conditions = conditions.map(|(name, value)| (name.to_owned(), value));
    Report::new(subject, conditions.into(), results)
}

fn write(report: &Report, directory: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut written = Vec::new();
    for file in report.files() {
        let path = directory.join(&file.name);
        fs::write(&path, file.text).map_err(failed(&path, "write the report"))?;
        written.push(path);
    }
    Ok(written)
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> CliError + use<> {
    let path = path.to_owned();
    move |error| CliError::File { path, action, error }
}
