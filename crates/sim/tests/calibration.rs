//! The timing model stays as close to the measured drives as published.

use std::path::Path;

use zoneweave_sim::calibrate::{embedded_rows, rows};
use zoneweave_sim::experiments::{Experiment, Settings};

#[test]
fn the_model_reproduces_the_measurements() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/zn540");
    let rows = rows(&directory.join("measured")).unwrap();
    assert!(rows.len() >= 350, "rows went missing: {}", rows.len());
    assert!(rows == embedded_rows(), "every file of {} is embedded", directory.display());
    let report = Experiment::by_name("zn540").unwrap().run(&Settings::default()).unwrap();
    assert!(report.findings.len() >= 13, "bars went missing");
    for finding in &report.findings {
        assert!(finding.holds, "{finding:?}");
    }
    // Also a test of determinism: the files may come from any build on any machine.
    let published = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let how =
        "run `zoneweave experiment run zn540` in the root of the sources, commit what it writes";
    assert!(published("README.md") == report.markdown(), "{how}");
    for file in &report.files {
        assert!(published(&file.name) == file.text, "{how}");
    }
}
