//! The list of experiments.

use super::error::ExperimentError;
use super::point::{Point, Row, Settings};
use super::report::Report;
use super::suite::Suite;
use super::{away, raizn, zapraid, zn540, zns_vs_block};

/// An experiment, selected by name.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Incremented when rows change their meaning.
    version: u32,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Runs as a whole.
    Whole(fn() -> Result<Report, ExperimentError>),
    /// Consists of points.
    Points(fn() -> Suite),
}

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "zn540",
        summary: "timing of the zn540 presets, compared with measurements of the drives",
        version: 1,
        kind: Kind::Whole(zn540::run),
    },
    Experiment {
        name: "zapraid/fig2",
        summary: "Zone Write and Zone Append to one drive, by number of zones",
        version: 1,
        kind: Kind::Points(zapraid::figures::fig2::suite),
    },
    Experiment {
        name: "zapraid/exp4",
        summary: "synthetic requests of cloud volumes",
        version: 1,
        kind: Kind::Points(zapraid::figures::exp4::suite),
    },
    Experiment {
        name: "zapraid/exp5",
        summary: "random writes to one open segment, by Zone Write, Zone Append and ZapRAID",
        version: 1,
        kind: Kind::Points(zapraid::figures::exp5::suite),
    },
    Experiment {
        name: "zapraid/exp6",
        summary: "normal and degraded reads, one at a time",
        version: 2,
        kind: Kind::Points(zapraid::figures::exp6::suite),
    },
    Experiment {
        name: "zapraid/exp7",
        summary: "size of stripe groups: writes and degraded reads",
        version: 2,
        kind: Kind::Points(zapraid::figures::exp7::suite),
    },
    Experiment {
        name: "zapraid/exp8",
        summary: "RAID-0, RAID-01, RAID-4, RAID-5 and RAID-6 on four drives",
        version: 1,
        kind: Kind::Points(zapraid::figures::exp8::suite),
    },
    Experiment {
        name: "zapraid/exp9",
        summary: "time of a start after a crash, from summaries and from checkpoints",
        version: 1,
        kind: Kind::Points(zapraid::figures::exp9::suite),
    },
    Experiment {
        name: "zapraid/exp10",
        summary: "queue depths, on two kinds of zoned drives and a conventional RAID-5",
        version: 1,
        kind: Kind::Points(zapraid::figures::exp10::suite),
    },
    Experiment {
        name: "zapraid/exp11",
        summary: "random writes to several open segments, compared with RAIZN-SPDK",
        version: 1,
        kind: Kind::Points(zapraid::figures::exp11::suite),
    },
    Experiment {
        name: "zapraid/exp12",
        summary: "garbage collection with 20 to 100 % reserved space",
        version: 2,
        kind: Kind::Points(zapraid::figures::exp12::suite),
    },
    Experiment {
        name: "zapraid/exp13",
        summary: "an index limited to less memory than it needs",
        version: 1,
        kind: Kind::Points(zapraid::figures::exp13::suite),
    },
    Experiment {
        name: "zapraid/gc",
        summary: "cost of garbage collection in steady state, compared with theory, and its evenness",
        version: 1,
        kind: Kind::Points(zapraid::figures::gc::suite),
    },
    Experiment {
        name: "raizn/fig7",
        summary: "stripe units of md over conventional drives",
        version: 1,
        kind: Kind::Points(raizn::units::of_md),
    },
    Experiment {
        name: "raizn/fig8",
        summary: "stripe units of the zoned volume",
        version: 1,
        kind: Kind::Points(raizn::units::of_raizn),
    },
    Experiment {
        name: "raizn/fig9",
        summary: "the zoned volume and md by the size of requests",
        version: 1,
        kind: Kind::Points(raizn::sizes::whole),
    },
    Experiment {
        name: "raizn/fig10",
        summary: "the whole array is written and overwritten: garbage collection of drives",
        version: 1,
        kind: Kind::Points(raizn::overwrite::suite),
    },
    Experiment {
        name: "raizn/fig11",
        summary: "reads with a drive missing",
        version: 1,
        kind: Kind::Points(raizn::sizes::degraded),
    },
    Experiment {
        name: "raizn/fig12",
        summary: "time to repair a drive, by the data on it",
        version: 1,
        kind: Kind::Points(raizn::repair::suite),
    },
    Experiment {
        name: "raizn/table1",
        summary: "space and memory of the metadata of the zoned volume",
        version: 1,
        kind: Kind::Points(raizn::metadata::suite),
    },
    Experiment {
        name: "zns-vs-block",
        summary: "a zoned drive compared with conventional drives of the same dies, 7 % and 28 % spare",
        version: 1,
        kind: Kind::Whole(zns_vs_block::run),
    },
    Experiment {
        name: "away",
        summary: "time to full redundancy after a drive was away under load, beside a whole rebuild",
        version: 1,
        kind: Kind::Points(away::suite),
    },
];

/// The experiments of a name: one, a group, or `all`.
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

    /// The paper it belongs to, if several of its figures are reproduced.
    #[must_use]
    pub fn group(&self) -> Option<&'static str> {
        self.name.split_once('/').map(|(group, _)| group)
    }

    /// The points to run before the report; empty for experiments without points.
    #[must_use]
    pub fn points(&self, settings: &Settings) -> Vec<Point> {
        match self.kind {
            Kind::Whole(_) => Vec::new(),
            Kind::Points(suite) => suite().points(self.name, self.version, settings),
        }
    }

    /// The report of the rows of all points, in order.
    ///
    /// # Errors
    ///
    /// If a drive cannot be made, or fails.
    ///
    /// # Panics
    ///
    /// If rows are missing.
    pub fn report(&self, rows: &[Row]) -> Result<Report, ExperimentError> {
        match self.kind {
            Kind::Whole(run) => run(),
            Kind::Points(suite) => Ok(suite().report(rows)),
        }
    }

    /// Runs all points one after the other.
    ///
    /// # Errors
    ///
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
