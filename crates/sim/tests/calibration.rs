//! The timing model stays as close to the measured drives as it is published to be.

use std::path::Path;

use zoneweave_sim::calibrate::{groups, markdown, residuals, rows, table};

/// Group, and the largest root of mean squares and single error in percent.
const BARS: &[(&str, f64, f64)] = &[
    ("read IOPS", 3.0, 8.0),
    ("write IOPS", 3.0, 8.0),
    ("append IOPS", 3.0, 8.0),
    ("ZapRAID Fig. 2", 3.0, 8.0),
    ("mq-deadline IOPS", 3.0, 8.0),
    ("reset", 4.0, 12.0),
    ("finish", 4.0, 8.0),
    ("latency p50, QD1", 5.0, 5.0),
    ("opening and closing", 5.0, 5.0),
    ("reads under saturating writes", 3.0, 8.0),
    ("read under rate-limited writes, IOPS, QD1", 3.0, 8.0),
];

#[test]
fn the_model_reproduces_the_measurements() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/zn540");
    let rows = rows(&directory.join("measured")).unwrap();
    assert!(rows.len() >= 350, "rows went missing: {}", rows.len());
    let residuals = residuals(&rows);
    let groups = groups(&residuals);
    for (name, rms, worst) in BARS {
        let group = groups.iter().find(|group| group.name == *name).expect(name);
        assert!(group.rms_percent <= *rms, "{group:?}");
        assert!(group.worst_percent.abs() <= *worst, "{group:?}");
    }
    // Also a test of determinism: the files may come from any build on any machine.
    let published = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let how =
        "run `cargo run --release -p zoneweave-sim --example zn540` and commit what it writes";
    assert!(published("residuals.csv") == table(&residuals).unwrap(), "{how}");
    assert!(published("residuals.md") == markdown(&residuals), "{how}");
}
