//! Habits of source files that the compiler does not check.

use zoneweave_tidy::{Count, Repository, TextFile};

use crate::{assert_lawful, assert_ratchets};

/// A file longer than this is rarely one idea.
const LINES_MAX: usize = 600;

/// Longer files that are one idea all the same, with the reason.
const LONG_FILES: &[(&str, &str)] = &[("crates/raid/src/instrument/marks.rs", "one list of names")];

/// Where `unsafe` may stand: `linux` talks to the kernel, the C ABI to C, and the parity kernels
/// call code compiled for a processor feature that was just detected. The fuzz driver counts
/// allocations.
const UNSAFE_PATHS: &[&str] = &[
    "crates/linux/src/",
    "crates/capi/src/",
    "crates/erasure/src/kernels",
    "crates/zoned/src/nontemporal.rs",
    "crates/zoned/src/prefetch.rs",
    "fuzz/driver/src/memory.rs",
];

/// In pieces, so that this file does not breach its own law.
const KEYWORD: &str = concat!("unsa", "fe");

#[test]
fn files_open_with_what_they_are_for() {
    let repository = Repository::read();
    let mut breaches = Vec::new();
    for file in repository.with_extension("rs") {
        if !file.text.starts_with("//!") {
            breaches.push(format!("{} does not open with `//!`", file.path));
        }
    }
    for file in repository.files().iter().filter(|file| file.text.starts_with("#!")) {
        let second = file.text.lines().nth(1).unwrap_or_default();
        if !second.starts_with("# ") && !second.starts_with("\"\"\"") {
            breaches
                .push(format!("{} does not say what it is for after its first line", file.path));
        }
    }
    assert_lawful("every file opens with its purpose:", &breaches);
}

#[test]
fn files_stay_short() {
    let mut breaches = Vec::new();
    for file in Repository::read().with_extension("rs") {
        let lines = file.text.lines().count();
        let excused = LONG_FILES.iter().any(|(path, _)| *path == file.path);
        if lines > LINES_MAX && !excused {
            breaches.push(format!("{} has {lines} lines", file.path));
        }
        if lines <= LINES_MAX && excused {
            breaches.push(format!("{} is short again: strike it off the list", file.path));
        }
    }
    assert_lawful("split these files, or list them with a reason in LONG_FILES:", &breaches);
}

#[test]
fn folders_stay_small() {
    let counts = Count::folders(&Repository::read());
    assert_ratchets("folders with more than 16 files of source:", &counts);
}

#[test]
fn unsafe_code_stays_where_it_is_allowed() {
    let mut breaches = Vec::new();
    for file in Repository::read().with_extension("rs") {
        if UNSAFE_PATHS.iter().any(|path| file.path.starts_with(path)) {
            continue;
        }
        for (number, line) in code_lines(file) {
            let lifts_ban = line.contains(concat!("(unsa", "fe_code")) && !line.contains("forbid(");
            if lifts_ban || line.split(|c: char| !is_word(c)).any(|word| word == KEYWORD) {
                breaches.push(format!("{}:{number}", file.path));
            }
        }
    }
    assert_lawful("such code belongs into `linux` or the parity kernels:", &breaches);
}

#[test]
fn crates_take_the_lints_of_the_workspace() {
    let repository = Repository::read();
    let manifests = repository
        .with_extension("toml")
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"));
    let breaches: Vec<String> = manifests
        .filter(|file| !file.text.contains("[lints]\nworkspace = true"))
        .map(|file| file.path.clone())
        .collect();
    assert_lawful("these manifests lack `[lints] workspace = true`:", &breaches);
}

/// Work that is not done is not merged; a test that is skipped says why.
#[test]
fn nothing_is_left_open() {
    // In pieces, so that this file does not breach its own law.
    let marks = [
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
        concat!("X", "XX"),
        concat!("#[ig", "nore]"),
    ];
    let mut breaches = Vec::new();
    for file in Repository::read().files() {
        if !["rs", "py", "sh"].iter().any(|extension| file.has_extension(extension)) {
            continue;
        }
        for (number, line) in file.numbered_lines() {
            for mark in marks.iter().filter(|mark| line.contains(**mark)) {
                breaches.push(format!("{}:{number} has {mark}", file.path));
            }
        }
    }
    assert_lawful("finish these, or give the reason:", &breaches);
}

fn code_lines(file: &TextFile) -> impl Iterator<Item = (usize, &str)> {
    let code = |line: &'_ str| line.find("//").unwrap_or(line.len());
    file.numbered_lines().map(move |(number, line)| (number, &line[..code(line)]))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
