//! Integration tests are one binary per crate, and no test file is left out of it.

use zoneweave_tidy::{Repository, TextFile};

use crate::assert_lawful;

/// Binaries besides `tests/main.rs`, with the reason why they need a process of their own.
const OWN_PROCESS: &[(&str, &str)] =
    &[("crates/raid/tests/memory.rs", "replaces the global allocator and measures one heap")];

/// Each binary links every crate again, and `cargo test` runs binaries one after the other.
#[test]
fn integration_tests_are_one_binary_per_crate() {
    let repository = Repository::read();
    let mut breaches = Vec::new();
    for manifest in repository.with_extension("toml") {
        let Some(folder) = crate_folder(manifest) else { continue };
        let tests = format!("{folder}/tests/");
        if !repository.files().iter().any(|file| file.path.starts_with(&tests)) {
            continue;
        }
        if !manifest.text.contains("\nautotests = false\n") {
            breaches.push(format!("{} lacks `autotests = false`", manifest.path));
        }
        for line in manifest.text.lines() {
            let Some(path) = line.strip_prefix("path = \"tests/") else { continue };
            let path = format!("{tests}{}", path.trim_end_matches('"'));
            let excused = OWN_PROCESS.iter().any(|(known, _)| *known == path);
            if path != format!("{tests}main.rs") && !excused {
                breaches.push(format!("{path} is a binary of its own"));
            }
        }
    }
    assert_lawful("make these modules of `tests/main.rs`, or list them in OWN_PROCESS:", &breaches);
}

/// The compiler says nothing about a file that no `mod` line names, and its tests never run.
#[test]
fn every_test_file_is_a_module() {
    let repository = Repository::read();
    let mut breaches = Vec::new();
    for manifest in repository.with_extension("toml") {
        let Some(folder) = crate_folder(manifest) else { continue };
        let tests = format!("{folder}/tests/");
        let sources: Vec<&TextFile> =
            repository.with_extension("rs").filter(|file| file.path.starts_with(&tests)).collect();
        for file in &sources {
            let path = &file.path[tests.len()..];
            let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
            let name = stem.rsplit('/').next().unwrap_or(stem);
            let is_module = sources.iter().any(|source| names_module(source, name, path));
            let is_binary = manifest.text.contains(&format!("path = \"tests/{path}\""));
            if !is_module && !is_binary {
                breaches.push(file.path.clone());
            }
        }
    }
    assert_lawful("no `mod` line names these test files, so they never run:", &breaches);
}

/// The folder of the crate that a manifest is of.
fn crate_folder(manifest: &TextFile) -> Option<&str> {
    manifest.path.strip_suffix("/Cargo.toml").filter(|folder| folder.starts_with("crates/"))
}

/// Whether a source has a `mod` line for a module, by its name or by its path.
fn names_module(source: &TextFile, name: &str, path: &str) -> bool {
    source.text.lines().map(str::trim).any(|line| {
        line == format!("mod {name};")
            || line.ends_with(&format!(" mod {name};"))
            || line == format!("#[path = \"{path}\"]")
    })
}
