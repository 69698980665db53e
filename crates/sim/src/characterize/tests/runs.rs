//! The whole programme on small drives in virtual time.

use std::rc::Rc;

use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_runtime::{Executor, Nanos, VirtualTime};
use zoneweave_zoned::{BlockCount, ZoneId, ZoneState};

use crate::characterize::report::Report;
use crate::characterize::{
    Action, CharacterizeError, Plan, Results, Stacks, Subject, Table, Verdict, run,
};
use crate::workload::Length;

/// Shorter than quick: every part runs once.
fn plan() -> Plan {
    let length = Length {
        warm_up: Nanos::from_millis(1),
        duration: Nanos::from_millis(5),
        operations: 1_000,
    };
    let saturation = Length {
        warm_up: Nanos::from_millis(5),
        duration: Nanos::from_secs(2),
        operations: 20_000,
    };
    Plan { length, saturation, repeats: 2, opens: 2, ..Plan::quick() }
}

fn characterize(preset: &str, zones: u32) -> (Result<Results, CharacterizeError>, RamDrive) {
    let preset = Preset::by_name(preset).unwrap().with_zones(zones, BlockCount(4096)).unwrap();
    let drive = RamDrive::new(preset.geometry().clone(), preset.timing(1)).unwrap();
    let other = RamDrive::new(preset.geometry().clone(), preset.timing(2)).unwrap();
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let subject = Subject {
        name: "test".into(),
        zoned: drive.attach(&executor.handle()),
        zones: (0..zones).map(ZoneId).collect(),
        formats: vec![(512, other.attach(&executor.handle()))],
        conventional: None,
        stacks: Stacks::MODELLED,
    };
    let plan = plan();
    let results = executor.run(run(&executor.handle(), &subject, &plan, &mut |_| {}));
    (results, drive)
}

#[test]
fn every_table_is_measured_and_the_drive_left_empty() {
    let (results, drive) = characterize("zn540-1tb", 40);
    let results = results.unwrap();
    for table in Table::ALL {
        let samples = || results.samples.iter().filter(|sample| sample.table == *table);
        assert!(samples().count() > 0, "{}", table.name());
        assert!(samples().all(|sample| sample.figures.operations > 0), "{}", table.name());
    }
    assert!((0..40).all(|zone| drive.zone(ZoneId(zone)).state == ZoneState::Empty));
    let write = results.of(Table::RequestSize, Action::Write).next().unwrap();
    assert!((write.figures.mean_us - 11.36).abs() < 0.5, "{}", write.figures.mean_us);
}

#[test]
fn the_same_run_makes_the_same_report() {
    let report = || {
        let (results, _) = characterize("zn540-1tb", 40);
        Report::new("drive".into(), vec![("plan".into(), "test".into())], results.unwrap()).files()
    };
    let (first, second) = (report(), report());
    assert_eq!(first, second);
    let page = &first.iter().find(|file| file.name == "index.html").unwrap().text;
    assert!(page.contains("13. I/O disturbs resets") && page.contains("<svg"));
    assert!(!page.contains("src=") && !page.contains("href="), "the page needs nothing else");
    assert!(first.iter().any(|file| file.name == "reset.csv"));
    let lines = &first.iter().find(|file| file.name == "samples.jsonl").unwrap().text;
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[test]
fn a_drive_without_latencies_shows_none_of_what_comes_from_them() {
    let (results, _) = characterize("instant", 40);
    let report = Report::new("instant".into(), Vec::new(), results.unwrap());
    let verdict = |number: usize| report.observations[number - 1].verdict;
    // The host's submission time is the only latency.
    assert_eq!(verdict(11), Verdict::CannotBeMeasured);
    for number in [1, 4, 10] {
        assert_eq!(verdict(number), Verdict::DoesNotHold, "observation {number}");
    }
}

#[test]
fn a_drive_of_too_few_zones_is_refused() {
    let (results, _) = characterize("instant", 7);
    assert_eq!(results, Err(CharacterizeError::TooFewZones { have: 7, need: 8 }));
}
