//! The order of the folders of `raid`: which may import which.

use crate::{ImportGraph, Repository};

/// The log-structured volume, from the ground up: a file imports from its own folder and from those
/// before it. A name is that of a file or of a folder under `crates/raid/src/log`.
///
/// Blocks enter at `admit`, but `write` takes them from its queue, so that `admit` comes first.
/// With this order 65 of 438 imports between folders ran against it when it was made.
const LOG_ORDER: &[&str] = &[
    "engine/geometry",
    "engine/address",
    "engine/footprint",
    "engine/class",
    "format",
    "engine/limits",
    "engine/counters",
    "members",
    "segment",
    "index",
    "read",
    "admit",
    "write",
    "reclaim",
    "repair",
    "recover",
    "engine",
    "volume",
];

/// The state that all decisions share is composed of the structures of all folders. No place in the
/// order fits both; that it makes no circle is another law.
const COMPOSITION: &[&str] = &["engine/core", "engine/state"];

/// Imports against the order: importer, imported, reason.
pub const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "index/checkpoint/read",
        "read/blocks",
        "a checkpoint is read as other blocks are: verified, and reconstructed if damaged",
    ),
    ("index/checkpoint/read", "read/retry", "a drive without an answer must not void a checkpoint"),
    ("index/pages", "read/retry", "a page of the index is read as other blocks are"),
    (
        "index/checkpoint/take",
        "admit/pending",
        "blocks of a checkpoint are written in the stripes of users, through their queue",
    ),
    (
        "segment/resolve",
        "read/reconstruct",
        "a chunk that no summary lists is identified by its reconstructed metadata",
    ),
    ("recover/mod", "volume", "a start returns the volume that it has opened"),
    ("repair/scrub", "recover/find/segments", "a scrub verifies headers as a start reads them"),
    (
        "repair/scrub",
        "recover/records",
        "a scrub verifies superblock records as a start reads them",
    ),
];

/// Imports of the log against the order of its folders. Files outside of all these folders may
/// import nothing and be imported by nothing.
#[must_use]
pub fn log_breaches(graph: &ImportGraph) -> Vec<String> {
    let mut breaches = Vec::new();
    for (from, to, names) in graph.edges() {
        let (Some(from), Some(to)) = (in_log(from), in_log(to)) else { continue };
        if is_in(from, COMPOSITION) || is_in(to, COMPOSITION) {
            continue;
        }
        let is_lawful = match (rank(from), rank(to)) {
            (Some(from), Some(to)) => from >= to,
            _ => false,
        };
        let is_excused =
            EXCEPTIONS.iter().any(|(importer, imported, _)| (*importer, *imported) == (from, to));
        if !is_lawful && !is_excused {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            breaches.push(format!("{from} -> {to} ({})", names.join(", ")));
        }
    }
    breaches
}

/// Exceptions that excuse no import any more.
#[must_use]
pub fn stale_exceptions(graph: &ImportGraph) -> Vec<String> {
    let has = |importer: &str, imported: &str| {
        graph
            .edges()
            .any(|(from, to, _)| in_log(from) == Some(importer) && in_log(to) == Some(imported))
    };
    let stale = EXCEPTIONS.iter().filter(|(importer, imported, _)| !has(importer, imported));
    stale.map(|(importer, imported, _)| format!("{importer} -> {imported}")).collect()
}

/// Path under the folder of the log, without the extension. Its `mod.rs` has no place in the order.
fn in_log(path: &str) -> Option<&str> {
    let path = path.strip_prefix("crates/raid/src/log/")?.trim_end_matches(".rs");
    (path != "mod").then_some(path)
}

fn is_in(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| contains(place, path))
}

fn contains(place: &str, path: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The position of the longest name in the order that a path is in.
fn rank(path: &str) -> Option<usize> {
    let places = LOG_ORDER.iter().enumerate().filter(|(_, place)| contains(place, path));
    places.max_by_key(|(_, place)| place.len()).map(|(rank, _)| rank)
}

/// Parts of `raid`, each with the parts that it may not import: an array does not know its volume,
/// and volumes do not know each other.
const APART: &[(&str, &[&str])] = &[
    ("array", &["log", "raizn"]),
    ("layout", &["array", "log", "raizn"]),
    ("scheme", &["array", "log", "raizn"]),
    ("log", &["raizn"]),
    ("raizn", &["log"]),
];

/// Imports of `raid` between parts that are apart.
#[must_use]
pub fn volume_breaches(graph: &ImportGraph) -> Vec<String> {
    let mut breaches = Vec::new();
    for (from, to, names) in graph.edges() {
        let part = |path: &str| {
            let path = path.trim_start_matches("crates/raid/src/").trim_end_matches(".rs");
            path.split('/').next().unwrap_or_default().to_owned()
        };
        let row = APART.iter().find(|(importer, _)| *importer == part(from));
        if row.is_some_and(|(_, banned)| banned.contains(&part(to).as_str())) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            breaches.push(format!("{from} -> {to} ({})", names.join(", ")));
        }
    }
    breaches
}

/// The imports of `raid`.
#[must_use]
pub fn raid_imports(repository: &Repository) -> ImportGraph {
    ImportGraph::read(repository, "crates/raid/src/lib.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_place_counts() {
        assert!(rank("engine/address") < rank("format/seal"));
        assert!(rank("engine/address_of") > rank("recover/mod"));
        assert_eq!(rank("flat"), None);
    }

    #[test]
    fn imports_upwards_are_breaches() {
        let repository = Repository::of(&[
            ("crates/raid/src/lib.rs", "mod log; mod array;"),
            ("crates/raid/src/array.rs", "use crate::log::write::W; pub struct A;"),
            ("crates/raid/src/log/mod.rs", "pub mod read; pub mod write; mod engine; mod flat;"),
            ("crates/raid/src/log/read.rs", "use super::write::W; use crate::array::A;"),
            ("crates/raid/src/log/write.rs", "use super::read::R; pub struct W;"),
            ("crates/raid/src/log/engine/mod.rs", "mod state;"),
            ("crates/raid/src/log/engine/state.rs", "use super::super::write::W;"),
            ("crates/raid/src/log/flat.rs", "use super::read::R;"),
        ]);
        let graph = raid_imports(&repository);
        assert_eq!(log_breaches(&graph), ["flat -> read (R)", "read -> write (W)"]);
        let found = volume_breaches(&graph);
        assert_eq!(found, ["crates/raid/src/array.rs -> crates/raid/src/log/write.rs (W)"]);
    }
}
