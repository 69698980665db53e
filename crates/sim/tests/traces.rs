//! Histories that failed once are run for ever.
//!
//! Each file in `traces` is a scenario that was reduced when it failed; its `story` describes the
//! bug. `zoneweave simulate --scenario crates/sim/traces/NAME.json` replays one.

use std::fs;
use std::path::Path;

use zoneweave_sim::simulate::{Mix, Scenario, generate, is_possible, run, shrink};

fn traces() -> Vec<(String, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let scenario = Scenario::parse(&fs::read_to_string(path).unwrap());
        (name.clone(), scenario.unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    paths.iter().map(|path| read(path)).collect()
}

#[test]
fn stored_histories_pass_and_tell_their_story() {
    crate::report_marks::report_marks();
    let traces = traces();
    assert!(!traces.is_empty());
    let mut failures = Vec::new();
    for (name, scenario) in traces {
        assert!(scenario.story.len() > 40, "{name} has no story");
        assert!(is_possible(&scenario) && !scenario.lives.is_empty(), "{name} runs nothing");
        if let Err(failure) = run(&scenario) {
            failures.push(format!("{name} fails {failure}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_scenario_survives_its_file() {
    for seed in 0..50 {
        let scenario =
            generate(seed, Mix { swarm: seed % 2 == 1, layout: None, inline: false, zoned: false });
        assert_eq!(Scenario::parse(&scenario.text()).unwrap(), scenario);
    }
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    let text = generate(1, Mix::default()).text();
    for field in ["data", "zones", "zone_blocks", "chunk_blocks", "group_rows", "latency_us"] {
        for value in ["0", "2147483648"] {
            let at = text.find(&format!("\"{field}\": ")).unwrap() + field.len() + 4;
            let end = at + text[at..].find([',', '\n']).unwrap();
            let changed = format!("{}{value}{}", &text[..at], &text[end..]);
            let error = Scenario::parse(&changed).unwrap_err().to_string();
            assert!(error.contains(&format!("{field} is {value}")), "{error}");
        }
    }
}

/// A history must be reproducible, or a failure could not be analysed.
#[test]
fn a_history_is_the_same_each_time() {
    for seed in 0..10 {
        let scenario =
            generate(seed, Mix { swarm: true, layout: None, inline: false, zoned: false });
        assert_eq!(run(&scenario), run(&scenario), "seed {seed}");
    }
}

#[test]
fn fresh_histories_pass() {
    for (seed, swarm) in (0..60).flat_map(|seed| [(seed, false), (seed, true)]) {
        let result = run(&generate(seed, Mix { swarm, layout: None, inline: false, zoned: false }));
        let flag = if swarm { " --swarm" } else { "" };
        result.unwrap_or_else(|failure| {
            panic!("{failure}: zoneweave simulate --seed {seed} --runs 1{flag}")
        });
    }
}

/// An impossible scenario is not run, and a failing one is reduced.
#[test]
fn parts_of_a_scenario_are_scenarios() {
    let whole = generate(3, Mix::default());
    for count in 0..whole.lives.len() {
        let mut part = whole.clone();
        part.lives.truncate(count);
        run(&part).unwrap();
    }
    let mut impossible = whole;
    impossible.shape.zones = 5;
    let tally = run(&impossible).unwrap();
    assert_eq!(tally.recoveries, 0);
    let failure = zoneweave_sim::simulate::Failure {
        message: "made up".to_owned(),
        place: String::new(),
        life: 1,
    };
    let kept = shrink(impossible.clone(), failure, 10, |_, _| {});
    assert_eq!(kept.scenario, impossible, "nothing fails like that");
}
