//! Samples as JSON lines and as a CSV file for each table.

use super::File;
use crate::characterize::{Results, Sample, Series, Table};

const HEADINGS: &[&str] = &[
    "drive",
    "action",
    "stack",
    "format_bytes",
    "request_bytes",
    "zones",
    "queue_depth",
    "occupancy_percent",
    "finished",
    "explicit",
    "beside",
    "beside_asked_mib_per_second",
    "beside_mib_per_second",
    "commands_per_request",
    "operations",
    "seconds",
    "iops",
    "mib_per_second",
    "mean_us",
    "deviation_us",
    "p50_us",
    "p95_us",
    "p99_us",
    "p999_us",
    "max_us",
];

/// Every sample, then every series, one a line.
pub(super) fn json_lines(results: &Results) -> String {
    let samples = results.samples.iter().map(serde_json::to_string);
    let series = results.series.iter().map(serde_json::to_string);
    let mut text = String::new();
    for line in samples.chain(series) {
        text.push_str(&line.expect("samples have no keys that JSON lacks"));
        text.push('\n');
    }
    text
}

/// A file for each table that has samples, and one for the series.
pub(super) fn csv_files(results: &Results) -> Vec<File> {
    let mut files = Vec::new();
    for table in Table::ALL {
        let rows: Vec<Vec<String>> =
            results.samples.iter().filter(|sample| sample.table == *table).map(row).collect();
        if !rows.is_empty() {
            let name = format!("{}.csv", table.name());
            files.push(File { name, text: csv(HEADINGS, &rows) });
        }
    }
    if !results.series.is_empty() {
        let headings = ["drive", "action", "read_depth", "second", "mib_per_second"];
        let rows: Vec<Vec<String>> = results.series.iter().flat_map(series_rows).collect();
        files.push(File { name: "series.csv".into(), text: csv(&headings, &rows) });
    }
    files
}

fn csv(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let wrote = writer
        .write_record(headings)
        .and_then(|()| rows.iter().try_for_each(|row| writer.write_record(row)));
    wrote.expect("memory takes every record, and all have the same length");
    let bytes = writer.into_inner().expect("memory takes what was buffered");
    String::from_utf8(bytes).expect("made of text")
}

fn row(sample: &Sample) -> Vec<String> {
    let figures = &sample.figures;
    let beside = sample.beside;
    let text = |word: Option<&str>| word.unwrap_or_default().to_owned();
    let flag = |flag: Option<bool>| text(flag.map(|set| if set { "yes" } else { "no" }));
    let mut row = vec![
        sample.drive.name().to_owned(),
        sample.action.name().to_owned(),
        sample.stack.name().to_owned(),
        sample.format_bytes.to_string(),
        sample.request_bytes.to_string(),
        sample.zones.to_string(),
        sample.queue_depth.to_string(),
        maybe(sample.occupancy_percent),
        flag(sample.finished),
        flag(sample.explicit),
        text(beside.map(|beside| beside.action.name())),
        maybe(beside.and_then(|beside| beside.asked_mib_per_second)),
        maybe(beside.and_then(|beside| beside.mib_per_second)),
        number(sample.commands_per_request),
        figures.operations.to_string(),
    ];
    row.extend(
        [
            figures.seconds,
            figures.iops,
            figures.mib_per_second,
            figures.mean_us,
            figures.deviation_us,
            figures.p50_us,
            figures.p95_us,
            figures.p99_us,
            figures.p999_us,
            figures.max_us,
        ]
        .map(number),
    );
    row
}

fn series_rows(series: &Series) -> impl Iterator<Item = Vec<String>> + '_ {
    series.mib_per_second.iter().enumerate().map(|(second, rate)| {
        vec![
            series.drive.name().to_owned(),
            series.action.name().to_owned(),
            series.read_depth.to_string(),
            second.to_string(),
            number(*rate),
        ]
    })
}

fn maybe(value: Option<f64>) -> String {
    value.map(number).unwrap_or_default()
}

/// Four digits after the decimal point, without trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
