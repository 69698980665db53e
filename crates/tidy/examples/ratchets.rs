//! Prints the table of ratchets as the tree is now, for `crates/tidy/ratchets.txt`.
//!
//! `cargo run -q -p zoneweave-tidy --example ratchets`, with `-- LAW PART` to list the breaches.

#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use zoneweave_tidy::{Count, Repository};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut counts = Count::all(&Repository::read());
    counts.retain(|count| count.found > 0);
    let Some(law) = arguments.first() else {
        return counts.iter().for_each(|count| println!("{}", count.line()));
    };
    let is_wanted = |count: &&Count| {
        count.law == law && arguments.get(1).is_none_or(|part| *part == count.part)
    };
    for count in counts.iter().filter(is_wanted) {
        println!("{}", count.line());
        count.details.iter().for_each(|detail| println!("  {detail}"));
    }
}
