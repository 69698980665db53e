//! Experiments: figures of papers, measured again on emulated drives.
//!
//! Each one builds its drives, puts a load on them in virtual time, and returns a [`Report`]: files
//! to keep, and findings, each decided by a rule that is written down beside it. Nothing is read or
//! written here; what is returned depends on nothing but the program.

mod chart;
mod report;
mod zapraid;
mod zn540;
mod zns_vs_block;

use thiserror::Error;
use zoneweave_emulator::{ConventionalError, PresetError};
use zoneweave_zoned::GeometryError;

pub use report::{File, Finding, Report};

use crate::workload::WorkloadError;

/// An experiment that can be asked for by name.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in a line.
    pub summary: &'static str,
    run: fn(&Settings) -> Result<Report, ExperimentError>,
}

/// How much of an experiment is carried out, where it can be done in part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Part of the published amount of data.
    pub scale: f64,
    /// Runs with different seeds.
    pub runs: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { scale: 1.0 / 16.0, runs: 5 }
    }
}

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "zn540",
        summary: "the timing of the zn540 presets against measurements of the drives, row by row",
        run: |_| zn540::run(),
    },
    Experiment {
        name: "zapraid-exp5",
        summary: "random writes to one open segment, by Zone Write, Zone Append and ZapRAID",
        run: zapraid::exp5::run,
    },
    Experiment {
        name: "zns-vs-block",
        summary: "a zoned drive beside conventional drives of the same dies, with 7 % and 28 % spare",
        run: |_| zns_vs_block::run(),
    },
];

/// Why an experiment could not be carried out.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// A drive failed, or could not do what was asked.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A conventional drive cannot be made.
    #[error(transparent)]
    Conventional(#[from] ConventionalError),
    /// A zoned drive cannot be made.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// A zoned drive cannot be made.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] csv::Error),
}

impl Experiment {
    /// The experiment of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|one| one.name == name)
    }

    /// Carries it out.
    ///
    /// # Errors
    /// If a drive cannot be made, or fails.
    pub fn run(&self, settings: &Settings) -> Result<Report, ExperimentError> {
        (self.run)(settings)
    }
}
