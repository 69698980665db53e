//! A fingerprint of the sources that decide an experiment's measurements, in
//! `ZONEWEAVE_FINGERPRINT`. That of the RAIZN paper's experiments, `ZONEWEAVE_FINGERPRINT_RAIZN`,
//! includes the code that only these share.
//!
//! The hash covers the sources of the engine, of the emulated drives, and of the code that
//! experiments share. Files of single experiments have version numbers instead, so that rewording
//! one does not make the measurements of all others stale. The same holds for the traces that one
//! of them replays. Comments and tests are left out.
//!
//! The hash is FNV-1a with 64 bits, enough to tell the versions of one program apart.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files and folders, relative to the crate's folder.
const DECIDING: [&str; 11] = [
    "../runtime/src",
    "../zoned/src",
    "../emulator/src",
    "../emulator/presets",
    "../erasure/src",
    "../raid/src",
    "src/workload",
    "src/characterize/profile.rs",
    "src/replay/generate.rs",
    "src/testbed",
    "src/experiments/zapraid",
];

/// More of them for the experiments of the RAIZN paper.
const DECIDING_RAIZN: [&str; 5] = [
    "src/experiments/raizn/array.rs",
    "src/experiments/raizn/loads.rs",
    "src/experiments/raizn/md",
    "src/experiments/raizn/overwrite/timeline.rs",
    "src/experiments/target.rs",
];

/// Prefixes of files in the folder of the ZapRAID paper that have a version number, or that only
/// judge measurements.
const VERSIONED: [&str; 3] = ["exp", "fig2", "adaptive"];

fn main() -> io::Result<()> {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    add_all(&DECIDING, &mut hash)?;
    println!("cargo::rustc-env=ZONEWEAVE_FINGERPRINT={hash:016x}");
    add_all(&DECIDING_RAIZN, &mut hash)?;
    println!("cargo::rustc-env=ZONEWEAVE_FINGERPRINT_RAIZN={hash:016x}");
    Ok(())
}

fn add_all(parts: &[&str], hash: &mut u64) -> io::Result<()> {
    for part in parts {
        println!("cargo::rerun-if-changed={part}");
        add(Path::new(part), hash)?;
    }
    Ok(())
}

/// Hashes a file, or a folder in the order of names.
fn add(path: &Path, hash: &mut u64) -> io::Result<()> {
    if !decides(path) {
        return Ok(());
    }
    if path.is_dir() {
        let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
        let mut entries: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
        entries.sort();
        return entries.iter().try_for_each(|entry| add(entry, hash));
    }
    mix(path.to_string_lossy().as_bytes(), hash);
    let text = fs::read_to_string(path)?;
    let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..tests].lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("//")) {
        mix(line.as_bytes(), hash);
    }
    Ok(())
}

fn decides(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let of_experiment = path.starts_with("src/experiments")
        && VERSIONED.iter().any(|prefix| name.starts_with(prefix));
    !of_experiment && name != "tests.rs" && name != "tests"
}

/// Hashes some bytes and an end mark.
fn mix(bytes: &[u8], hash: &mut u64) {
    for byte in bytes.iter().chain(b"\n") {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
}
