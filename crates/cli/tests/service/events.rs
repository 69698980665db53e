//! Events of servers: `zoneweave events`, the server's log, and the program of `--on-event`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{MEMBERS, Place};

/// A program that appends the word, the level and the slot of each event to `told`.
fn with_program(place: &Place) {
    let program = place.path("program");
    let text = "#!/bin/sh\necho $ZONEWEAVE_EVENT $ZONEWEAVE_LEVEL $ZONEWEAVE_SLOT >> told\n";
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

fn events(document: &Value) -> Vec<String> {
    let events = document["events"].as_array().unwrap();
    events.iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_happens_to_an_array_is_told_three_ways() {
    let place = Place::with_array();
    with_program(&place);
    let server = place.serve(&format!("{MEMBERS} --on-event ./program"));
    place.run("array fail d/drive0 --slot 2").exits(0);
    place.run("array replace d/drive0 --slot 2 --with d/drive4 --yes-destroy").exits(0);
    place.run("array scrub d/drive0").exits(0);
    let listed = place.run("events d/drive0 --json").exits(0).document("events");
    let expected = [
        "started",
        "member",
        "health",
        "job-began",
        "member",
        "health",
        "job-ended",
        "job-began",
        "job-ended",
    ];
    let mut listed_events = events(&listed);
    // The look of each second may come in between, and see the rebuild.
    listed_events.dedup();
    for event in expected {
        assert!(listed_events.iter().any(|listed| listed == event), "{event} is not in {listed}");
    }
    let failed =
        listed["events"].as_array().unwrap().iter().find(|event| event["event"] == "member");
    let failed = failed.unwrap();
    assert_eq!((&failed["state"], &failed["place"]["slot"]), (&"failed".into(), &2.into()));
    assert_eq!((&failed["array"], &failed["level"]), (&"vol0".into(), &"error".into()));
    let text = place.run("events d/drive0 --level error").exits(0);
    assert!(text.stdout.contains("vol0: slot 2 (d/drive2) is now failed"), "{text:?}");
    assert!(!text.stdout.contains("in service at"), "{text:?}");
    let log = server.stop();
    let of_level = |event: &&Value| event["level"] != "info";
    for event in listed["events"].as_array().unwrap().iter().filter(of_level) {
        let text = event["text"].as_str().unwrap();
        assert!(log.contains(text), "{text:?} is not in {log}");
    }
    let told = fs::read_to_string(place.path("told")).unwrap();
    for line in ["member error 2", "health error", "job-ended notice 2", "health notice"] {
        assert!(told.contains(line), "{line:?} is not in {told}");
    }
    assert!(!told.contains("started"), "{told}");
    place.run("events d/drive0").exits(5).complains("not being served");
}

#[test]
fn events_are_followed_from_one_server_to_the_next() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let mut follower = place
        .command("events d/drive0 --follow --json")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut wait_for = |word: &str| {
        let found =
            lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let found = found.into_iter().find(|event| event["event"] == word);
        found.expect("it is told before the follower ends")
    };
    assert_eq!(wait_for("started")["number"], 1);
    place.run("array fail d/drive0 --slot 1").exits(0);
    assert_eq!(wait_for("health")["to"], "degraded");
    server.kill();
    let _server = place.serve(MEMBERS);
    // The next one counts from 1 again, and begins with what it found.
    assert_eq!(wait_for("health")["number"], 1);
    assert_eq!(wait_for("started")["number"], 2);
    // A follower that nobody reads ends.
    drop(lines);
    place.run("array scrub d/drive0");
    assert!(follower.wait().unwrap().success());
}

#[test]
fn a_zoned_volume_and_shards_have_events() {
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create vol0 {MEMBERS} --kind zoned")).exits(0);
    let server = place.serve_zoned(MEMBERS);
    place.run("array fail d/drive0 --slot 1").exits(0);
    let listed = place.run("events d/drive0 --json").exits(0).document("events");
    assert_eq!(events(&listed), ["started", "member", "health"]);
    server.stop();
    std::fs::write(place.path("text"), "no program").unwrap();
    for program in ["./gone", "./text", "./d", "no-such-program"] {
        let refused = place.run(&format!("serve zoned d/drive0 --on-event {program}"));
        refused.exits(1).complains("--on-event");
    }
}
