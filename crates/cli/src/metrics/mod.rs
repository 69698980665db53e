//! Metrics of the arrays that servers of this machine have, in the form of OpenMetrics 1.0.
//!
//! Another process than the servers asks them for their status, one thread for each, and writes
//! what it got: no scrape touches the path of I/O, and a server that hangs has `zoneweave_up 0`.

mod families;
pub(crate) mod http;
pub(crate) mod rates;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::Histogram;

use crate::control::{Answer, ask_all, sockets};
use crate::error::CliError;
use crate::status::ArrayStatus;

/// What is known of an array.
#[derive(Debug)]
pub(crate) struct Known {
    /// UUID of the array, by which its socket is named.
    pub(crate) uuid: String,
    /// Whether its server answers.
    pub(crate) is_up: bool,
    /// Whether it has a server that does not answer; without this, `is_up` is that of a server that
    /// has died.
    pub(crate) is_silent: bool,
    /// `None` if its server does not answer, or in the form of another release.
    pub(crate) status: Option<ArrayStatus>,
}

/// Asks all servers of this user, for 3 s at most.
pub(crate) fn ask() -> Vec<Known> {
    let sockets: BTreeSet<PathBuf> = sockets().into_iter().collect();
    let known = ask_all(sockets, true).into_iter().map(|(socket, answer)| {
        let is_silent = matches!(answer, Answer::Silent | Answer::Serves(_, None));
        let (is_up, status) = match answer {
            // A server that ends in order removes its socket: this one has died, or is silent.
            Answer::Nobody | Answer::Silent | Answer::Serves(_, None) => (false, None),
            Answer::Serves(_, Some(status)) => (true, serde_json::from_value(status).ok()),
        };
        Known { uuid: uuid_of(&socket), is_up, is_silent, status }
    });
    known.collect()
}

fn uuid_of(socket: &Path) -> String {
    socket.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The metrics as text.
///
/// # Errors
/// Only if memory is short.
pub(crate) fn text(known: &[Known]) -> Result<String, CliError> {
    let mut registry = Registry::with_prefix("zoneweave");
    registry.register_collector(Box::new(Snapshot(families::of(known))));
    let mut text = String::new();
    let failed = |error| CliError::System {
        action: "write the metrics",
        error: std::io::Error::other(error),
    };
    encode(&mut text, &registry).map_err(failed)?;
    Ok(text)
}

/// A metric with all its samples.
#[derive(Debug)]
struct Family {
    /// Without the prefix, and without `_total`.
    name: &'static str,
    help: &'static str,
    kind: Kind,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Never falls while a server runs.
    Counter,
    Gauge,
    /// Times, in seconds.
    Histogram,
}

#[derive(Debug)]
struct Sample {
    labels: Labels,
    value: Value,
}

type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Count(u64),
    Ratio(f64),
    Times(Box<Histogram>),
}

/// Families of one moment.
#[derive(Debug)]
struct Snapshot(Vec<Family>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in self.0.iter().filter(|family| !family.samples.is_empty()) {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            family.encode(metric)?;
        }
        Ok(())
    }
}

impl EncodeMetric for Family {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        for Sample { labels, value } in &self.samples {
            let mut sample = encoder.encode_family(labels)?;
            match (self.kind, value) {
                (Kind::Counter, Value::Count(count)) => {
                    sample.encode_counter::<Labels, _, u64>(count, None)?;
                }
                (Kind::Histogram, Value::Times(times)) => {
                    let sum = times.sum().as_secs_f64();
                    sample.encode_histogram::<Labels>(sum, times.count(), &buckets(times), None)?;
                }
                (Kind::Gauge, Value::Count(count)) => sample.encode_gauge(count)?,
                (Kind::Gauge, Value::Ratio(ratio)) => sample.encode_gauge(ratio)?,
                (kind, value) => unreachable!("{value:?} is no value of a {kind:?}"),
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        match self.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        }
    }
}

/// The upper bound of each bucket in seconds, with the times counted in it.
fn buckets(times: &Histogram) -> Vec<(f64, u64)> {
    let bound = |bucket| Histogram::bound(bucket).map_or(f64::INFINITY, Nanos::as_secs_f64);
    (0..).map(bound).zip(times.buckets().iter().copied()).collect()
}

#[cfg(test)]
mod tests;
