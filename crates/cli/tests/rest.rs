//! Verbs that need no drives, and options of all verbs.

use crate::common::Place;

#[test]
fn the_demonstration_finds_no_difference_and_repeats_itself() {
    let place = Place::new();
    let demo = place.run("demo --seed 7 --json").exits(0);
    let steps = demo.document("demo");
    assert_eq!(steps["steps"].as_array().unwrap().len(), 7);
    assert_eq!(demo.stdout, place.run("demo --seed 7 --json").exits(0).stdout);
}

#[test]
fn a_benchmark_reports_configuration_memory_and_results() {
    let place = Place::new();
    let quick = "bench --seconds 0.002 --runs 1 --region 16MiB --drive 128MiB --json -q";
    let bench = place.run(&format!("{quick} --only read")).exits(0);
    let bench = bench.document("bench");
    let results = bench["results"].as_array().unwrap();
    assert_eq!(results.len(), 12, "reads of three sizes at three depths, and without a drive");
    assert!(results.iter().all(|line| line["bytes_per_second"].as_f64().unwrap() > 0.0));
    let bench = place.run(&format!("{quick} --only raid6")).exits(0);
    let amplified = bench.document("bench")["results"][0]["write_amplification"].as_f64().unwrap();
    assert!((1.0..3.0).contains(&amplified), "{amplified}");
    place.run("bench --only nothing").exits(2).complains("raid5 3+1");
    let degraded = place.run(&format!("{quick} --only degraded")).exits(0);
    let bench = degraded.document("bench");
    assert!(bench["memory"]["cold_memcpy_bytes_per_second"].as_f64().unwrap() > 0.0);
    assert!(bench["machine"]["kernel"].as_str().unwrap().contains('.'));
    std::fs::write(place.path("baseline.json"), &degraded.stdout).unwrap();
    let again = place.run(&format!("{quick} --only degraded --size 4KiB --compare baseline.json"));
    let again = again.exits(0);
    let ratios = &again.document("bench")["results"][0]["against_baseline"];
    assert!(ratios["of_cold_memcpy"].as_f64().unwrap() > 0.0);
    let other = place.run(&format!("{quick} --only raid6 --compare baseline.json")).exits(0);
    other.complains("nothing is compared");
    place.run(&format!("{quick} --depth 100000")).exits(2).complains("of that size and depth");
    place.run("bench --compare gone.json").exits(2).complains("gone.json cannot be read");
    place.run("bench --seconds never").exits(2).complains("not a number");
}

#[test]
fn the_doctor_finds_what_the_tests_themselves_need() {
    let place = Place::new();
    let doctor = place.run("doctor --json").exits(0);
    let doctor = doctor.document("doctor");
    assert_eq!(doctor["can_serve"], true);
    assert_eq!(doctor["abilities"][0]["name"], "io_uring");
    assert_eq!(doctor["abilities"][0]["state"], "ready");
    place.run("doctor").exits(0).says("io_uring").says("quickstart");
}

#[test]
fn help_pages_and_completions_name_every_verb() {
    let place = Place::new();
    let help = place.run("--help").exits(0);
    let verbs = [
        "emu",
        "array",
        "serve",
        "zones",
        "inspect",
        "bench",
        "characterize",
        "doctor",
        "replay",
        "soak",
        "demo",
        "quickstart",
    ];
    for verb in verbs {
        assert!(help.stdout.contains(verb), "{verb}");
    }
    place.run("man").exits(0).says("zoneweave").says("Exit codes");
    place.run("man --directory pages").exits(0);
    assert!(place.path("pages/zoneweave-array-replace.1").exists());
    for shell in ["bash", "zsh", "fish"] {
        place.run(&format!("completions {shell}")).exits(0).says("quickstart");
    }
    place.run("--version").exits(0).says("zoneweave ");
}

#[test]
fn colours_are_used_when_asked_for_only() {
    let place = Place::with_array();
    let status = "array status d/drive0 d/drive1 d/drive2 d/drive3";
    assert!(!place.run(status).stdout.contains('\x1b'));
    place.run(&format!("{status} --color always")).says("\x1b[32mHEALTHY");
    assert!(!place.run(&format!("{status} --color always --json")).stdout.contains('\x1b'));
}

#[test]
fn errors_are_documents_too() {
    let place = Place::new();
    let error = place.run("array status gone --json").exits(3);
    let error = error.document("error");
    assert_eq!(error["exit_code"], 3);
    assert!(error["error"].as_str().unwrap().contains("does not exist"));
    let error = place.run("array status --json --nothing").exits(2);
    let error = error.document("error");
    assert_eq!(error["exit_code"], 2);
    assert!(error["error"].as_str().unwrap().contains("--nothing"));
    assert!(place.run("array status --nothing").exits(2).stdout.is_empty());
}

#[test]
fn a_trace_is_replayed_and_a_broken_one_refused() {
    let place = Place::new();
    let line = |number: u64| format!("7,W,{},8192,{}\n", number * 1_000_000, 5_000 + number * 100);
    let trace: String = (0..500).map(line).collect();
    std::fs::write(place.path("trace.csv"), &trace).unwrap();
    let replay =
        "replay trace.csv --format alibaba --size 128MiB --reserve 100 --zone-capacity 4MiB";
    let ended = place.run(&format!("{replay} --json")).exits(0);
    let document = ended.document("replay");
    assert_eq!(document["writes"]["operations"], 500);
    let seconds = document["all"]["seconds"].as_f64().unwrap();
    assert!((0.049..0.051).contains(&seconds), "{seconds}");
    place.run(&format!("{replay} --queue-depth 4 --limit 30")).exits(0).says("30");
    let made_up = "replay --generate 300 --size 128MiB --reserve 100 --zone-capacity 4MiB --write-mode adaptive";
    place.run(made_up).exits(0).says("300");
    std::fs::write(place.path("broken.csv"), format!("{trace}7,W,0,8192")).unwrap();
    let broken = place
        .run("replay broken.csv --format alibaba --size 128MiB --reserve 100 --zone-capacity 4MiB");
    broken.exits(1).complains("line 501 has 4 fields, not 5");
    place.run("replay trace.csv").exits(2);
    place.run("replay gone.csv --format msr").exits(3);
    place.run("replay --generate 1 --small-percent 90").exits(2).complains("more than 100");
    place.run("replay --generate 1 --zone-capacity 1GiB").exits(2).complains("too few");
}

#[test]
fn points_that_there_are_not_are_not_measured_in_silence() {
    let place = Place::new();
    let none = place.run("experiment run zapraid/exp5 --only nothing").exits(2);
    none.complains("no point has \"nothing\" in its name").complains("4 KiB zone-write, ");
    let whole = place.run("experiment run zn540 --only nothing").exits(2);
    whole.complains("zn540 is measured as a whole");
    assert!(!place.path("experiments").exists(), "nothing is left behind");
}

/// It was no document, and exit code 1.
#[test]
fn experiments_are_listed_for_programs() {
    let listed = Place::new().run("--json experiment list").exits(0).document("experiments");
    let listed = listed["experiments"].as_array().unwrap().clone();
    assert!(listed.iter().any(|one| one["name"] == "zapraid/exp5"), "{listed:?}");
}

/// The document of a zoned volume had `kind` twice.
#[test]
fn a_created_zoned_volume_is_described_for_programs() {
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 24 --zone-capacity 1MiB").exits(0);
    let create = "--json array create z d/drive0 d/drive1 d/drive2 d/drive3 --kind zoned \
                  --unit 16KiB";
    let created = place.run(create).exits(0).document("array-create");
    assert_eq!(created["volume_kind"], "zoned");
}
