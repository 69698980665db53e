//! Rows of measurements, from the CSV files in `experiments/zn540/measured`.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use thiserror::Error;

macro_rules! embedded {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../experiments/zn540/measured/", $name)))
    };
}

/// One measured quantity of one workload.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The group of the report that the row belongs to.
    pub group: String,
    /// The workload.
    pub operation: String,
    /// Size of a request; none for zone management.
    pub request_kib: Option<u32>,
    /// Zones in use.
    pub zones: u32,
    /// Requests in flight for each zone.
    pub queue_depth: u32,
    /// Blocks written before a reset or finish, or MiB/s of a concurrent writer.
    pub parameter: Option<u32>,
    /// The measured quantity.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// The value.
    pub measured: f64,
    /// The source of the measurement.
    pub source: String,
}

/// Measurements that cannot be read.
#[derive(Debug, Error)]
pub enum MeasuredError {
    /// The directory.
    #[error("cannot list the measurements in {path}: {error}")]
    Directory {
        /// The directory.
        path: String,
        /// The error of the file system.
        error: std::io::Error,
    },
    /// A file or one of its rows.
    #[error("cannot read the measurements in {path}: {error}")]
    File {
        /// The file.
        path: String,
        /// The parser's error.
        error: csv::Error,
    },
}

/// The files in `experiments/zn540/measured`, in alphabetical order.
const EMBEDDED: &[(&str, &str)] = &[
    embedded!("append.csv"),
    embedded!("finish.csv"),
    embedded!("format-512.csv"),
    embedded!("management.csv"),
    embedded!("mq-deadline.csv"),
    embedded!("read-under-write.csv"),
    embedded!("read.csv"),
    embedded!("reset.csv"),
    embedded!("saturated.csv"),
    embedded!("write.csv"),
    embedded!("zapraid.csv"),
];

/// The rows that come with the program.
///
/// # Panics
/// Never: tests read them.
#[must_use]
pub fn embedded_rows() -> Vec<Row> {
    let read = |(name, text): &(&str, &str)| -> Vec<Row> {
        let rows = csv::Reader::from_reader(text.as_bytes()).deserialize().collect();
        let rows: Result<_, csv::Error> = rows;
        rows.unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    EMBEDDED.iter().flat_map(read).collect()
}

/// All rows of the CSV files in a directory, files in alphabetical order.
///
/// # Errors
/// If the directory or a file cannot be read.
pub fn rows(directory: &Path) -> Result<Vec<Row>, MeasuredError> {
    let listing = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut files: Vec<_> = listing
        .map_err(|error| MeasuredError::Directory { path: directory.display().to_string(), error })?
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
        .collect();
    files.sort();
    let mut rows = Vec::new();
    for path in files {
        let read = csv::Reader::from_path(&path)
            .and_then(|mut reader| reader.deserialize().collect::<Result<Vec<Row>, _>>());
        rows.extend(
            read.map_err(|error| MeasuredError::File { path: path.display().to_string(), error })?,
        );
    }
    Ok(rows)
}
