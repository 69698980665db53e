//! The laws of this repository. Each test reports every breach at once, with the remedy.

mod binaries;
mod circles;
mod commits;
mod dependencies;
mod imports;
mod layers;
mod links;
mod mentions;
mod prose;
mod sources;
mod states;

use zoneweave_tidy::{Count, Ratchets, Repository};

/// Fails with one line per breach.
#[track_caller]
fn assert_lawful(law: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{law}\n  {}", breaches.join("\n  "));
}

/// Fails where there are more breaches than the table of ratchets allows.
#[track_caller]
fn assert_ratchets(law: &str, counts: &[Count]) {
    let ratchets = Ratchets::read(&Repository::read());
    let breaches: Vec<String> = counts.iter().filter_map(|count| ratchets.breach(count)).collect();
    assert_lawful(law, &breaches);
}
