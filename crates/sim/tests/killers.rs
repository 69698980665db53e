//! Each planted bug is found by a stored history.
//!
//! `killers` holds one scenario for each mutant, with its name: the engine passes it, and fails it
//! with the mutant planted. So every rule of the engine is tested, whatever seeds are drawn. A
//! history depends on the engine's steps: after a change of the engine it may miss its mutant, and
//! must be renewed (docs/simulation.md).

use std::fs;
use std::path::PathBuf;

use zoneweave_raid::instrument::marks::INSTRUMENTED;
use zoneweave_raid::instrument::mutants::{Mutant, select};
use zoneweave_sim::simulate::{Failure, Scenario, record_panics, run};

fn killers() -> Vec<(Mutant, Scenario)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("killers");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy();
        let mutant = Mutant::named(&name).unwrap_or_else(|| panic!("no mutant is called {name}"));
        let scenario = Scenario::parse(&fs::read_to_string(path).unwrap());
        (mutant, scenario.unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    paths.iter().map(read).collect()
}

fn run_with(mutant: Option<Mutant>, scenario: &Scenario) -> Result<(), Failure> {
    select(mutant);
    let result = run(scenario);
    select(None);
    result.map(drop)
}

#[test]
fn every_mutant_has_a_history() {
    let stored: Vec<_> = killers().into_iter().map(|(mutant, _)| mutant).collect();
    for mutant in Mutant::ALL {
        assert!(stored.contains(mutant), "{} has no history", mutant.name());
    }
}

#[test]
fn stored_histories_find_their_mutants() {
    if !INSTRUMENTED {
        return;
    }
    record_panics();
    let mut wrong = Vec::new();
    for (mutant, scenario) in killers() {
        let name = mutant.name();
        if let Err(failure) = run_with(None, &scenario) {
            wrong.push(format!("{name}: fails without it {failure}"));
        } else if run_with(Some(mutant), &scenario).is_ok() {
            wrong.push(format!("{name} is not found"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}: renew with `zoneweave simulate killers --renew`");
}
