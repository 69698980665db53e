//! Experiments: figures of papers, measured again on emulated drives.
//!
//! Each one builds its drives, puts a load on them in virtual time, and returns a [`Report`]: files
//! to keep, and findings, each decided by a rule that is written down beside it. Nothing is read or
//! written here; what is returned depends on nothing but the program.
//!
//! Most experiments are many [points](Point), each of which can be run on its own, on whatever thread;
//! [`Experiment::report`] makes the report of their rows. Experiments of one paper are a group: the
//! part of their names before the slash.

mod chart;
mod html;
mod point;
mod report;
mod suite;
mod summary;
mod zapraid;
mod zn540;
mod zns_vs_block;

use thiserror::Error;
use zoneweave_emulator::{ConventionalError, PresetError};
use zoneweave_raid::log::{CreateError, OpenError};
use zoneweave_zoned::GeometryError;

pub use html::page;
pub use point::{Key, Point, Row, Values};
pub use report::{Comparison, File, Finding, Report};
pub use summary::Summary;
pub(crate) use zapraid::testbed::Testbed;

use crate::workload::WorkloadError;
use suite::Suite;

/// An experiment that can be asked for by name.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in a line.
    pub summary: &'static str,
    /// Grows when rows of before mean something else.
    version: u32,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Done in one go.
    Whole(fn() -> Result<Report, ExperimentError>),
    /// Made of points.
    Points(fn() -> Suite),
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
        version: 1,
        kind: Kind::Whole(zn540::run),
    },
    Experiment {
        name: "zapraid/fig2",
        summary: "Zone Write and Zone Append to one drive, against the number of zones",
        version: 1,
        kind: Kind::Points(zapraid::fig2::suite),
    },
    Experiment {
        name: "zapraid/exp4",
        summary: "requests made up like those of a cloud's volumes",
        version: 1,
        kind: Kind::Points(zapraid::exp4::suite),
    },
    Experiment {
        name: "zapraid/exp5",
        summary: "random writes to one open segment, by Zone Write, Zone Append and ZapRAID",
        version: 1,
        kind: Kind::Points(zapraid::exp5::suite),
    },
    Experiment {
        name: "zapraid/exp6",
        summary: "normal reads and degraded ones, one at a time",
        version: 2,
        kind: Kind::Points(zapraid::exp6::suite),
    },
    Experiment {
        name: "zapraid/exp7",
        summary: "what the size of stripe groups does for writes and degraded reads",
        version: 2,
        kind: Kind::Points(zapraid::exp7::suite),
    },
    Experiment {
        name: "zapraid/exp8",
        summary: "RAID-0, RAID-01, RAID-4, RAID-5 and RAID-6 on four drives",
        version: 1,
        kind: Kind::Points(zapraid::exp8::suite),
    },
    Experiment {
        name: "zapraid/exp9",
        summary: "how long a start takes after a crash, by lists and by checkpoints",
        version: 1,
        kind: Kind::Points(zapraid::exp9::suite),
    },
    Experiment {
        name: "zapraid/exp10",
        summary: "queue depths, on two kinds of zoned drives and a conventional RAID-5",
        version: 1,
        kind: Kind::Points(zapraid::exp10::suite),
    },
    Experiment {
        name: "zapraid/exp11",
        summary: "random writes to several open segments, and against RAIZN-SPDK",
        version: 1,
        kind: Kind::Points(zapraid::exp11::suite),
    },
    Experiment {
        name: "zapraid/exp12",
        summary: "collecting, with 20 to 100 % of the space in reserve",
        version: 2,
        kind: Kind::Points(zapraid::exp12::suite),
    },
    Experiment {
        name: "zapraid/exp13",
        summary: "an index that takes less memory than it needs",
        version: 1,
        kind: Kind::Points(zapraid::exp13::suite),
    },
    Experiment {
        name: "zapraid/gc",
        summary: "what collecting costs in steady state, beside theory, and how evenly it goes on",
        version: 1,
        kind: Kind::Points(zapraid::gc::suite),
    },
    Experiment {
        name: "zns-vs-block",
        summary: "a zoned drive beside conventional drives of the same dies, with 7 % and 28 % spare",
        version: 1,
        kind: Kind::Whole(zns_vs_block::run),
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
    /// An array cannot be made of such drives.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// An array does not start with such a write policy.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] csv::Error),
}

/// The experiments of a name: one, those of a group, or `all`.
#[must_use]
pub fn named(name: &str) -> Vec<&'static Experiment> {
    let wanted = |one: &&Experiment| name == "all" || one.name == name || one.group() == Some(name);
    EXPERIMENTS.iter().filter(wanted).collect()
}

impl Experiment {
    /// The experiment of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|one| one.name == name)
    }

    /// The paper it is from, if several of it are done again.
    #[must_use]
    pub fn group(&self) -> Option<&'static str> {
        self.name.split_once('/').map(|(group, _)| group)
    }

    /// What there is to run before the report; none where that does all itself.
    #[must_use]
    pub fn points(&self, settings: &Settings) -> Vec<Point> {
        match self.kind {
            Kind::Whole(_) => Vec::new(),
            Kind::Points(suite) => suite().points(self.name, self.version, settings),
        }
    }

    /// What the rows of its points, in their order, say.
    ///
    /// # Errors
    /// If a drive cannot be made, or fails.
    ///
    /// # Panics
    /// If rows are missing.
    pub fn report(&self, rows: &[Row]) -> Result<Report, ExperimentError> {
        match self.kind {
            Kind::Whole(run) => run(),
            Kind::Points(suite) => Ok(suite().report(rows)),
        }
    }

    /// Carries it out, point after point.
    ///
    /// # Errors
    /// If a drive cannot be made, or fails.
    pub fn run(&self, settings: &Settings) -> Result<Report, ExperimentError> {
        let rows: Result<Vec<_>, _> = self.points(settings).iter().map(Point::run).collect();
        self.report(&rows?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_their_names() {
        assert_eq!(named("all").len(), EXPERIMENTS.len());
        assert!(named("zapraid").iter().all(|one| one.name.starts_with("zapraid/")));
        assert!(!named("zapraid").is_empty() && named("zap").is_empty());
        assert_eq!(named("zn540").len(), 1);
    }

    #[test]
    fn points_of_an_experiment_differ() {
        let settings = Settings { scale: 0.01, runs: 2 };
        for experiment in EXPERIMENTS {
            let points = experiment.points(&settings);
            let keys: Vec<_> = points.iter().map(|point| point.key().to_string()).collect();
            let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
            assert_eq!(distinct.len(), keys.len(), "{}", experiment.name);
        }
    }
}
