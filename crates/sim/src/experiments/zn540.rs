//! The timing of the zn540 presets against measurements of the drives, row by row.

use super::report::File;
use super::{ExperimentError, Finding, Report};
use crate::calibrate::{Group, embedded_rows, groups, markdown, residuals, table};

/// Bounds of a group: root of the mean square, and the largest single error, in percent.
const BARS: &[(&str, f64, f64)] = &[
    ("read IOPS", 3.0, 8.0),
    ("write IOPS", 3.0, 8.0),
    ("append IOPS", 3.0, 8.0),
    ("512 B format IOPS", 3.0, 8.0),
    ("512 B format latency p50, QD1", 5.0, 5.0),
    ("ZapRAID Fig. 2", 3.0, 8.0),
    ("mq-deadline IOPS", 3.0, 8.0),
    ("reset", 4.0, 12.0),
    ("finish", 4.0, 8.0),
    ("latency p50, QD1", 5.0, 5.0),
    ("opening and closing", 5.0, 5.0),
    ("reads under saturating writes", 3.0, 8.0),
    ("read under rate-limited writes, IOPS, QD1", 3.0, 8.0),
];

const METHOD: &str = "\
Each measured row is repeated on the model: the same requests, zones and queue depths, with the \
measuring host's time between a completion and the next submission. Unbounded rows are also in \
[residuals.md](residuals.md), and every row in [residuals.csv](residuals.csv). \
[measured/ATTRIBUTION.md](measured/ATTRIBUTION.md) names the sources. The parameters were fitted \
to these rows, so this shows how much such a model can reproduce, not how well it predicts.";

/// Runs every row.
pub(super) fn run() -> Result<Report, ExperimentError> {
    let residuals = residuals(&embedded_rows());
    let groups = groups(&residuals);
    let file = |name: &str, text| File { name: name.to_owned(), text };
    Ok(Report {
        title: "The zn540 presets against measurements of the drives".to_owned(),
        method: METHOD.to_owned(),
        findings: BARS.iter().map(|bar| finding(bar, &groups)).collect(),
        files: vec![
            file("residuals.csv", table(&residuals)?),
            file("residuals.md", markdown(&residuals)),
        ],
        comparisons: Vec::new(),
    })
}

fn finding((name, rms, worst): &(&str, f64, f64), groups: &[Group]) -> Finding {
    let group = groups.iter().find(|group| group.name == *name);
    let holds =
        group.is_some_and(|group| group.rms_percent <= *rms && group.worst_percent.abs() <= *worst);
    let ours = group.map_or("nothing".to_owned(), |group| {
        format!("rms error {:.1} %, largest {:+.1} %", group.rms_percent, group.worst_percent)
    });
    Finding {
        what: (*name).to_owned(),
        paper: group.map_or(String::new(), |group| format!("{} rows", group.count)),
        ours,
        rule: format!("rms error at most {rms} %, each at most {worst} %"),
        holds,
    }
}
