//! Prints figures that show how well the tree is kept, to compare before and after a rework.
//!
//! `cargo run -q -p zoneweave-tidy --example house`, with `-- PATH` for another checkout.

#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use std::path::PathBuf;

use zoneweave_tidy::Repository;
use zoneweave_tidy::house::figures;

fn main() {
    let root = std::env::args().nth(1).map_or_else(Repository::root_path, PathBuf::from);
    for (name, value) in figures(&Repository::read_at(&root)) {
        println!("| {name} | {value} |");
    }
}
