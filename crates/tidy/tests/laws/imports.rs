//! Which crate may import which. What does not depend on `linux` is deterministic, and what depends on
//! traits only can be simulated: that is why the directions are law.

use std::collections::BTreeSet;

use zoneweave_tidy::{DependencyKind, Repository, Workspace};

use crate::assert_lawful;

/// Everything of ours; for crates on top.
const ALL: &[&str] = &[
    "runtime",
    "zoned",
    "emulator",
    "erasure",
    "raid",
    "filestore",
    "check",
    "nbd",
    "linux",
    "sim",
];

/// What each crate of ours may import of ours, in the product.
const IMPORTS: &[(&str, &[&str])] = &[
    ("runtime", &[]),
    ("erasure", &[]),
    ("nbd", &[]),
    ("zoned", &["runtime"]),
    ("emulator", &["runtime", "zoned"]),
    ("filestore", &["runtime", "zoned"]),
    ("raid", &["runtime", "zoned", "erasure"]),
    // The checker shares no code with the engine whose work it checks.
    ("check", &["runtime", "zoned"]),
    ("linux", &["runtime", "zoned", "emulator", "nbd"]),
    ("sim", &["runtime", "zoned", "emulator", "erasure", "raid", "filestore", "check", "nbd"]),
    ("capi", ALL),
    // The command, in `crates/cli`.
    ("zoneweave", ALL),
    ("tidy", &[]),
];

/// What tests import besides. Free, but on record: a new line here is a decision.
const TEST_IMPORTS: &[(&str, &[&str])] = &[
    ("raid", &["emulator", "check"]),
    ("check", &["emulator", "erasure", "raid"]),
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

/// The two volumes share `layout` and know nothing of each other.
#[test]
fn volumes_do_not_import_each_other() {
    let mut breaches = Vec::new();
    for file in Repository::read().with_extension("rs") {
        let Some(path) = file.path.strip_prefix("crates/raid/src/") else { continue };
        let banned: &[&str] = if path.starts_with("raizn") {
            &["crate::log", "super::log"]
        } else if path.starts_with("log") {
            &["crate::raizn", "super::raizn"]
        } else if path.starts_with("layout") {
            &["crate::raizn", "super::raizn", "crate::log", "super::log"]
        } else {
            continue;
        };
        for (number, line) in file.numbered_lines() {
            for word in banned.iter().filter(|word| line.contains(**word)) {
                breaches.push(format!("{}:{number} names {word}", file.path));
            }
        }
    }
    assert_lawful("volumes of `raid` must not import each other:", &breaches);
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
