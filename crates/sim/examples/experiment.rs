//! Carries out an experiment: `experiment NAME [DIR]` writes what it found into a directory, by default
//! into `experiments/NAME`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use zoneweave_sim::experiments::{EXPERIMENTS, Experiment};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let experiment = Experiment::by_name(&name).with_context(|| {
        let names: Vec<_> = EXPERIMENTS.iter().map(|one| one.name).collect();
        format!("there is no experiment `{name}`: choose one of {}", names.join(", "))
    })?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let directory = arguments.next().map_or_else(|| root.join(&name), PathBuf::from);
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let report = experiment.run()?;
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for file in &report.files {
        write(&file.name, &file.text)?;
    }
    write("README.md", &report.markdown())
}
