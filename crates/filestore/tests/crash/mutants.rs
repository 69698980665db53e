//! Each mutant dies, and each mark is reached.

#![cfg(feature = "instrumented")]

use zoneweave_filestore::instrument::marks::{self, Mark};
use zoneweave_filestore::instrument::mutants::{Mutant, select};

use super::rot::rotten_history;
use super::{history, number};

/// Seeds within which each mutant must die.
const SEEDS: u64 = 2000;

/// Rare mutants, with seeds that find them.
const STORED: &[(Mutant, u64)] = &[(Mutant::SealedUnrecorded, 5499)];

#[test]
fn every_mutant_dies() {
    let mut survivors = Vec::new();
    let only = std::env::var("FILESTORE_MUTANT").ok();
    // Thousands of expected panics are of no interest.
    let hook = std::panic::take_hook();
    if only.is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let chosen = |mutant: &&Mutant| only.as_deref().is_none_or(|name| mutant.name() == name);
    let mut table = Vec::new();
    for mutant in Mutant::ALL.iter().filter(chosen) {
        select(Some(*mutant));
        let stored = STORED.iter().find(|(rare, _)| rare == mutant).map(|(_, seed)| *seed);
        let first = number("FILESTORE_SEED").or(stored).unwrap_or(1);
        let mut seeds = first..first + SEEDS;
        let dies = |run: fn(u64), seed| std::panic::catch_unwind(|| run(seed)).is_err();
        let killer = seeds.find_map(|seed| {
            let rots = || dies(rotten_history, seed).then_some("of rot ");
            dies(|seed| assert!(history(seed).crashes > 0), seed)
                .then_some("")
                .or_else(rots)
                .map(|how| (seed, how))
        });
        // What a start gives up it reports, which is all that histories ask for.
        let of_damage = crate::damage::a_damaged_block_of_an_open_zone_is_an_error_of_its_bytes;
        let directed = std::panic::catch_unwind(of_damage);
        select(None);
        match (killer, directed) {
            (Some((seed, how)), _) => {
                table.push(format!("{} dies {how}at seed {seed}", mutant.name()));
            }
            (None, Err(_)) => table.push(format!("{} dies of a damaged block", mutant.name())),
            (None, Ok(())) => survivors.push(mutant.name()),
        }
    }
    std::panic::set_hook(hook);
    println!("{}", table.join("\n"));
    assert!(survivors.is_empty(), "these mutants live: {survivors:?}");
}

#[test]
fn every_mark_is_reached() {
    crate::basics::space_is_reclaimed_until_everything_is_live();
    crate::damage::a_zone_with_a_damaged_block_is_not_levelled_in_part();
    // Further ones: a zone with blocks of unfinished writes alone, which is relocated once they are
    // done; a snapshot that ends between a reset's begin and end.
    for seed in (1..400).chain([1_152, 12_291]) {
        history(seed);
        rotten_history(seed);
    }
    let missed: Vec<Mark> = marks::counts()
        .into_iter()
        .filter(|(_, count)| *count == 0)
        .map(|(mark, _)| mark)
        .collect();
    assert!(missed.is_empty(), "no history reaches {missed:?}");
}
