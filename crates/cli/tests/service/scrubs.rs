//! Scrubs by a schedule: after the scrubs on record, and never twice.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::common::{MEMBERS, Place, Server};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

fn serve(place: &Place, drives: &str, schedule: &str) -> Server {
    let mut command =
        place.command(&format!("serve nbd {drives} --socket unix:s.sock --without any"));
    command.args(["--scrub", schedule]);
    place.starting(command).until("nbdinfo '")
}

/// The time of the week three hours ago, at which the first scrub of an array is still due.
fn three_hours_ago() -> String {
    let then = now() - 3 * HOUR;
    // 1970 began on a Thursday.
    let day = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"][(then / DAY % 7) as usize];
    format!("{day} {:02}:{:02}", then % DAY / HOUR, then % HOUR / 60)
}

/// The scrubs on record, the newest first.
fn history(place: &Place) -> Vec<Value> {
    let shown = place.run("--json array jobs d/drive0 --history").exits(0);
    shown.document("array-history")["scrubs"].as_array().unwrap().clone()
}

/// When the next scrub begins.
fn next(place: &Place) -> u64 {
    let shown = place.run("--json array status d/drive0").exits(0).document("array-status");
    shown["server"]["next_scrub_s"].as_u64().unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn an_array_is_scrubbed_when_it_is_due_and_not_again_after_a_restart() {
    let place = Place::with_array();
    let schedule = three_hours_ago();
    is_scrubbed_once(&place, || serve(&place, MEMBERS, &schedule));
}

#[test]
fn a_zoned_volume_is_scrubbed_when_it_is_due_and_not_again_after_a_restart() {
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create z {MEMBERS} --kind zoned")).exits(0);
    let schedule = three_hours_ago();
    is_scrubbed_once(&place, || {
        let mut command = place.command(&format!("serve zoned {MEMBERS}"));
        command.args(["--scrub", &schedule]);
        place.starting(command).until("ready")
    });
    let server = place.serve_zoned(MEMBERS);
    place.run("array clear d/drive0").exits(0).says("HEALTHY");
    assert!(server.stop().contains("cleared"));
    place.run(&format!("array jobs {MEMBERS} --history")).exits(0).says("complete · began ");
}

fn is_scrubbed_once(place: &Place, serve: impl Fn() -> Server) {
    let server = serve();
    let done = |scrubs: &[Value]| scrubs.iter().any(|scrub| scrub["result"] == "complete");
    while !done(&history(place)) {}
    let begun = history(place)[0]["begun_s"].as_u64().unwrap();
    let due = next(place);
    let hours_ago = begun + 7 * DAY - due;
    assert!((2 * HOUR..=3 * HOUR + 120).contains(&hours_ago), "{begun} {due}");
    place.run("array status d/drive0").exits(0).says("scrub complete").says("next scrub 2");
    server.stop();
    let server = serve();
    assert_eq!(next(place), due);
    assert_eq!(history(place).len(), 1);
    server.stop();
}

/// A scrub makes the decisions of a start durable, and with them the eviction of members that may
/// only be late.
#[test]
fn a_scrub_that_is_due_waits_for_missing_members() {
    let place = Place::with_array();
    let server = serve(&place, "d/drive0 d/drive1 d/drive2", &three_hours_ago());
    assert!(next(&place) <= now(), "it is due");
    // The first look at the schedule is over.
    place.run("--json events d/drive0").exits(0);
    assert!(history(&place).is_empty());
    server.stop();
    place.run(&format!("array status {MEMBERS} --check")).exits(0);
}

#[test]
fn schedules_are_keys_of_the_configuration() {
    let place = Place::with_array();
    let configure = |schedule: &str| {
        let table =
            format!("[volume.vol0]\nsearch = [\"d\"]\nublk = true\nscrub = \"{schedule}\"\n");
        fs::write(place.path("z.toml"), table).unwrap();
        place.run("config check --config z.toml")
    };
    configure("30d").exits(0);
    configure("sun 02:00").exits(0);
    configure("sun 25:00").exits(2).complains("sun 25:00");
    configure("10s").exits(2).complains("an hour at least");
}
