//! Writes `experiments/zn540/residuals.csv` and `.md` anew: the timing model against measurements.

use std::path::Path;

use anyhow::Context;
use zoneweave_sim::calibrate::{markdown, residuals, rows, table};

fn main() -> anyhow::Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/zn540");
    let rows = rows(&directory.join("measured"))?;
    let residuals = residuals(&rows);
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("residuals.csv", table(&residuals)?)?;
    write("residuals.md", markdown(&residuals))
}
