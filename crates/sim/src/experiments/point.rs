//! Points of experiments: one configuration with one seed, which runs independently.
//!
//! The result of a point is a [`Row`], stored as a line of JSON. So points can run in any order, on
//! any thread, and on different days. Numbers are rounded to a thousandth, so that a row survives
//! being written and read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ExperimentError;

/// How much of an experiment to run, if it can be scaled.
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

/// The identity of a point, across versions of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// The experiment.
    pub experiment: String,
    /// Version of the experiment when the point was run.
    pub version: u32,
    /// Fingerprint of the deciding sources when the point was run.
    #[serde(default)]
    pub fingerprint: String,
    /// Part of the published amount of data.
    pub scale: f64,
    /// The configuration.
    pub point: String,
    /// The seed.
    pub seed: u64,
}

/// Fingerprint of the deciding sources: the engine, the drives, and the code that experiments
/// share.
const FINGERPRINT: &str = env!("ZONEWEAVE_FINGERPRINT");

/// The same with the code that the experiments of the RAIZN paper share.
const FINGERPRINT_RAIZN: &str = env!("ZONEWEAVE_FINGERPRINT_RAIZN");

/// Fingerprint of the sources that decide the points of an experiment.
pub(super) fn fingerprint_of(experiment: &str) -> &'static str {
    if experiment.starts_with("raizn/") { FINGERPRINT_RAIZN } else { FINGERPRINT }
}

impl Key {
    /// Whether it is the same point, measured by another version of the program.
    #[must_use]
    pub fn is_outdated_by(&self, newer: &Self) -> bool {
        let as_newer =
            Self { version: newer.version, fingerprint: newer.fingerprint.clone(), ..self.clone() };
        self != newer && as_newer == *newer
    }
}

impl fmt::Display for Key {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}, seed {}", self.experiment, self.point, self.seed)
    }
}

/// Measured values by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Values(BTreeMap<String, f64>);

impl Values {
    /// Stores a value, rounded to a thousandth.
    pub(super) fn put(&mut self, name: &str, value: f64) {
        assert!(value.is_finite(), "{name} is no number");
        self.0.insert(name.to_owned(), (value * 1000.0).round() / 1000.0);
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// A value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// The result of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The point.
    #[serde(flatten)]
    pub key: Key,
    /// The measured values.
    pub values: Values,
}

/// Work that measures something, at a scale and with a seed.
pub(super) type Work = Arc<dyn Fn(f64, u64) -> Result<Values, ExperimentError> + Send + Sync>;

/// A point to run.
#[derive(Clone)]
pub struct Point {
    key: Key,
    work: Work,
}

impl Point {
    pub(super) fn new(key: Key, work: Work) -> Self {
        Self { key, work }
    }

    /// Which one it is.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Runs it.
    ///
    /// # Errors
    /// If a drive cannot be made, or fails.
    pub fn run(&self) -> Result<Row, ExperimentError> {
        let values = (self.work)(self.key.scale, self.key.seed)?;
        Ok(Row { key: self.key.clone(), values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let mut values = Values::default();
        for (number, value) in [1.0 / 3.0, 3_012.123_456, 0.000_4, 1e9 / 7.0].iter().enumerate() {
            values.put(&format!("value {number}"), *value);
        }
        let key = Key {
            experiment: "group/one".to_owned(),
            version: 3,
            fingerprint: FINGERPRINT.to_owned(),
            scale: 0.0625,
            point: "4 KiB, written".to_owned(),
            seed: 5,
        };
        let row = Row { key, values };
        let line = serde_json::to_string(&row).unwrap();
        let back: Row = serde_json::from_str(&line).unwrap();
        assert_eq!(back, row);
        assert_eq!(serde_json::to_string(&back).unwrap(), line);
        assert_eq!(back.values.get("value 0"), Some(0.333));
        let before_fingerprints = line.replace(&format!(",\"fingerprint\":\"{FINGERPRINT}\""), "");
        assert_ne!(before_fingerprints, line);
        let older: Row = serde_json::from_str(&before_fingerprints).unwrap();
        assert!(older.key.is_outdated_by(&back.key) && !back.key.is_outdated_by(&row.key));
        let other = Key { seed: 6, ..older.key };
        assert!(!other.is_outdated_by(&back.key));
    }
}
