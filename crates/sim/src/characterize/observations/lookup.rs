//! Finding samples.

use crate::characterize::{Action, Results, Sample, Stack, Subsystem, Table};
use crate::workload::Figures;

/// Conditions on a sample.
#[derive(Clone, Copy)]
pub(in crate::characterize) struct Lookup<'a> {
    results: &'a Results,
    table: Table,
    action: Action,
    drive: Subsystem,
    stack: Option<Stack>,
    request_kib: Option<u64>,
    zones: Option<u32>,
    depth: Option<u32>,
}

impl<'a> Lookup<'a> {
    pub(in crate::characterize) fn new(results: &'a Results, table: Table, action: Action) -> Self {
        Self {
            results,
            table,
            action,
            drive: Subsystem::Zoned,
            stack: None,
            request_kib: None,
            zones: None,
            depth: None,
        }
    }

    pub(in crate::characterize) fn conventional(self) -> Self {
        Self { drive: Subsystem::Conventional, ..self }
    }

    pub(in crate::characterize) fn stack(self, stack: Stack) -> Self {
        Self { stack: Some(stack), ..self }
    }

    pub(in crate::characterize) fn kib(self, kib: u64) -> Self {
        Self { request_kib: Some(kib), ..self }
    }

    pub(in crate::characterize) fn zones(self, zones: u32) -> Self {
        Self { zones: Some(zones), ..self }
    }

    pub(in crate::characterize) fn depth(self, depth: u32) -> Self {
        Self { depth: Some(depth), ..self }
    }

    /// Samples that meet the conditions, except empty ones.
    pub(in crate::characterize) fn all(self) -> impl Iterator<Item = &'a Sample> {
        self.results.of(self.table, self.action).filter(move |sample| {
            sample.figures.operations > 0
                && sample.drive == self.drive
                && self.stack.is_none_or(|stack| sample.stack == stack)
                && self.request_kib.is_none_or(|kib| sample.request_bytes == kib * 1024)
                && self.zones.is_none_or(|zones| sample.zones == zones)
                && self.depth.is_none_or(|depth| sample.queue_depth == depth)
        })
    }

    /// The first one without concurrent operations.
    pub(in crate::characterize) fn alone(self) -> Option<&'a Figures> {
        self.all().find(|sample| sample.beside.is_none()).map(|sample| &sample.figures)
    }

    /// The first one during another action.
    pub(in crate::characterize) fn beside(self, action: Action) -> Option<&'a Sample> {
        self.all().find(|sample| sample.beside.is_some_and(|beside| beside.action == action))
    }

    /// The mean latency of the first one, with or without concurrent operations.
    pub(in crate::characterize) fn alone_or_beside(self) -> Option<f64> {
        self.all().next().map(|sample| sample.figures.mean_us)
    }

    /// The largest value of a figure.
    pub(in crate::characterize) fn most(self, of: impl Fn(&Figures) -> f64) -> Option<f64> {
        self.all().map(|sample| of(&sample.figures)).max_by(f64::total_cmp)
    }
}

/// A quotient, if it is defined.
pub(in crate::characterize) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0 && part.is_finite() && whole.is_finite()).then(|| part / whole)
}

/// Mean latency.
pub(in crate::characterize) fn mean(figures: &Figures) -> f64 {
    figures.mean_us
}

/// Requests a second.
pub(in crate::characterize) fn iops(figures: &Figures) -> f64 {
    figures.iops
}

/// MiB a second.
pub(in crate::characterize) fn rate(figures: &Figures) -> f64 {
    figures.mib_per_second
}

/// Thousands of requests a second, for people.
pub(super) fn kiops(iops: f64) -> String {
    format!("{:.1} KIOPS", iops / 1e3)
}

/// Microseconds or milliseconds, for people.
pub(in crate::characterize) fn time(micros: f64) -> String {
    if micros < 1000.0 { format!("{micros:.2} µs") } else { format!("{:.2} ms", micros / 1e3) }
}
