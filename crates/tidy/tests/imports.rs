//! The allowed imports between crates. The directions are law because crates without `linux` below
//! them are deterministic, and crates above traits only can be simulated.

use std::collections::BTreeSet;

use zoneweave_tidy::{DependencyKind, Workspace};

use crate::assert_lawful;

/// Everything of ours; for crates on top.
const ALL: &[&str] = &[
    "runtime",
    "zoned",
    "journal",
    "emulator",
    "erasure",
    "raid",
    "filestore",
    "check",
    "nbd",
    "nvmf",
    "plan",
    "linux",
    "store",
    "sim",
];

/// Crates of ours that the product code of each may import.
const IMPORTS: &[(&str, &[&str])] = &[
    ("runtime", &[]),
    ("erasure", &[]),
    ("nbd", &[]),
    ("nvmf", &[]),
    ("zoned", &["runtime"]),
    ("emulator", &["runtime", "zoned"]),
    ("journal", &["runtime", "zoned"]),
    ("filestore", &["runtime", "zoned", "journal"]),
    ("raid", &["runtime", "zoned", "erasure", "journal"]),
    // The checker shares no code with the engine whose work it checks.
    ("check", &["runtime", "zoned"]),
    ("plan", &["runtime", "zoned", "raid"]),
    ("linux", &["runtime", "zoned", "emulator", "nbd", "nvmf"]),
    (
        "sim",
        &[
            "runtime",
            "zoned",
            "journal",
            "emulator",
            "erasure",
            "raid",
            "filestore",
            "check",
            "nbd",
        ],
    ),
    ("store", &["runtime", "zoned", "raid", "filestore", "linux"]),
    ("capi", ALL),
    // The command, in `crates/cli`.
    ("zoneweave", ALL),
    ("tidy", &[]),
    ("fuzz-driver", &["nbd", "nvmf", "raid", "filestore", "sim"]),
];

/// Further imports of tests. Free, but on record: a new line here is a decision.
const TEST_IMPORTS: &[(&str, &[&str])] = &[
    ("journal", &["emulator"]),
    ("filestore", &["emulator", "check"]),
    ("raid", &["emulator", "check"]),
    ("check", &["emulator", "erasure", "raid"]),
    ("plan", &["emulator"]),
    ("linux", &["raid", "check", "erasure"]),
];

fn row(table: &[(&str, &'static [&'static str])], name: &str) -> Option<&'static [&'static str]> {
    table.iter().find(|(row, _)| *row == name).map(|(_, allowed)| *allowed)
}

#[test]
fn crates_import_downwards_only() {
    let mut breaches = Vec::new();
    for package in Workspace::read().members() {
        let name = package.name.trim_start_matches("zoneweave-");
        let Some(allowed) = row(IMPORTS, name) else {
            breaches.push(format!("{name} is not in the table of imports; add it with its law"));
            continue;
        };
        let for_tests = row(TEST_IMPORTS, name).unwrap_or_default();
        for dependency in package.dependencies.iter().filter(|dependency| dependency.is_ours) {
            let target = dependency.name.trim_start_matches("zoneweave-");
            let is_test = dependency.kind == DependencyKind::Development;
            let is_allowed = allowed.contains(&target) || (is_test && for_tests.contains(&target));
            if !is_allowed {
                breaches.push(format!("{name} imports {target} ({:?})", dependency.kind));
            }
        }
    }
    assert_lawful("crates import each other against the law:", &breaches);
}

/// Tables that outlive their crates would let a mistake through.
#[test]
fn recorded_test_imports_are_of_crates_in_the_table() {
    let known: BTreeSet<&str> = IMPORTS.iter().map(|(name, _)| *name).collect();
    for (name, targets) in TEST_IMPORTS {
        assert!(known.contains(name), "{name} is no crate");
        assert!(targets.iter().all(|target| known.contains(target)), "{name} tests unknown crates");
    }
}
