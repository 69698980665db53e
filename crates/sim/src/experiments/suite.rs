//! Experiments made of points: configurations with the paper's values, and rules.

use std::sync::Arc;

use super::point::{Key, Point, Row, Values, Work, fingerprint_of};
use super::report::Comparison;
use super::summary::Summary;
use super::{ExperimentError, Finding, Report, Settings};

/// A measured quantity: its name in rows, and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
}

/// One configuration.
pub(super) struct Configuration {
    pub(super) name: String,
    pub(super) work: Work,
    /// The paper's values, by metric.
    pub(super) paper: Vec<(Metric, f64)>,
}

impl Configuration {
    pub(super) fn new(
        name: String,
        work: impl Fn(f64, u64) -> Result<Values, ExperimentError> + Send + Sync + 'static,
    ) -> Self {
        Self { name, work: Arc::new(work), paper: Vec::new() }
    }

    /// Adds the paper's value of a metric, if it gives one.
    pub(super) fn published(mut self, metric: Metric, value: Option<f64>) -> Self {
        self.paper.extend(value.map(|value| (metric, value)));
        self
    }
}

/// An experiment made of points.
pub(super) struct Suite {
    pub(super) title: &'static str,
    pub(super) method: String,
    /// Metrics that are compared for every configuration that has them.
    pub(super) metrics: &'static [Metric],
    pub(super) configurations: Vec<Configuration>,
    /// Decides the findings and draws the charts.
    pub(super) judge: fn(&Results<'_>, &mut Report),
}

impl Suite {
    /// Every configuration with every seed.
    pub(super) fn points(&self, name: &str, version: u32, settings: &Settings) -> Vec<Point> {
        let point = |configuration: &Configuration, seed| {
            let key = Key {
                experiment: name.to_owned(),
                version,
                fingerprint: fingerprint_of(name).to_owned(),
                scale: settings.scale,
                point: configuration.name.clone(),
                seed,
            };
            Point::new(key, configuration.work.clone())
        };
        let seeds = |configuration| (1..=settings.runs).map(move |seed| point(configuration, seed));
        self.configurations.iter().flat_map(seeds).collect()
    }

    /// The report of the rows of all points.
    pub(super) fn report(&self, rows: &[Row]) -> Report {
        let results = Results { rows };
        let mut report = Report {
            title: self.title.to_owned(),
            method: self.method.clone(),
            ..Report::default()
        };
        for configuration in &self.configurations {
            for metric in self.metrics {
                let Some(here) = results.get(&configuration.name, *metric) else { continue };
                let mut published = configuration.paper.iter();
                let paper = published.find(|(of, _)| of == metric).map(|(_, value)| *value);
                report.comparisons.push(Comparison {
                    point: configuration.name.clone(),
                    metric: metric.name,
                    unit: metric.unit,
                    paper,
                    here,
                });
            }
        }
        report.compare();
        (self.judge)(&results, &mut report);
        report
    }
}

/// The rows of all points.
pub(super) struct Results<'a> {
    rows: &'a [Row],
}

impl Results<'_> {
    /// A metric of a configuration over all its seeds, if they have it.
    pub(super) fn get(&self, point: &str, metric: Metric) -> Option<Summary> {
        self.value(point, metric.name)
    }

    /// A value of a configuration over all its seeds, if they have it.
    pub(super) fn value(&self, point: &str, name: &str) -> Option<Summary> {
        let rows = self.rows.iter().filter(|row| row.key.point == point);
        let values: Vec<f64> = rows.filter_map(|row| row.values.get(name)).collect();
        (!values.is_empty()).then(|| Summary::of(&values, |value| *value))
    }

    /// The mean of a metric of a configuration.
    ///
    /// # Panics
    /// If no point has it.
    pub(super) fn mean(&self, point: &str, metric: Metric) -> f64 {
        let found = self.get(point, metric);
        found.unwrap_or_else(|| panic!("{point:?} has no {}", metric.name)).mean
    }
}

/// A finding that holds if a number is within a tolerance of the published one.
pub(super) fn within(what: String, ours: f64, paper: f64, tolerance: f64) -> Finding {
    Finding {
        what,
        paper: format!("{paper:.2}"),
        ours: format!("{ours:.2}"),
        rule: format!("within {:.0} %", tolerance * 100.0),
        holds: (ours / paper - 1.0).abs() <= tolerance,
    }
}

/// A finding that holds if a condition does.
pub(super) fn shape(what: &str, paper: &str, ours: String, rule: &str, holds: bool) -> Finding {
    let (what, paper, rule) = (what.to_owned(), paper.to_owned(), rule.to_owned());
    Finding { what, paper, ours, rule, holds }
}
