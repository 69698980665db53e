//! What operators are told: the log of a server, advice, where data is lost, and stops by a hangup.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::{Case, Kind};
use crate::common::{MEMBERS, Place, pattern, rot};

/// Quick replacements, and scrubs, left no line in the log.
#[test]
fn the_log_of_a_server_has_every_event() {
    for kind in [Kind::Shards, Kind::Zoned] {
        let case = Case::new(kind);
        let run = |words: &str| case.place.run(words);
        let server = case.serve(MEMBERS);
        run("array replace d/drive0 --slot 1 --with n/drive0 --yes-destroy").exits(0);
        run("array scrub d/drive0").exits(0);
        run("array replace d/drive0 --slot 1 --with gone --yes-destroy").exits(3);
        if kind == Kind::Shards {
            run("array spare add d/drive0 n/drive1").exits(0);
            run("array spare remove d/drive0 n/drive1").exits(0);
        }
        run("array fail d/drive0 --slot 2").exits(0).says("DEGRADED");
        let events = run("events d/drive0 --json").exits(0).document("events");
        let log = server.stop();
        let name = if kind == Kind::Shards { "vol0 shard 1 of 2" } else { "vol0" };
        let mut expected = vec![
            ("slot 1 (d/drive1)", ": to be replaced by "),
            ("slot 1 (", "n/drive0): the replacement is rebuilt"),
            ("scrub: begins", ""),
            ("scrub: ended: ", "no damage"),
            ("slot 2 (d/drive2) is now failed: ", "taken out of service by the administrator"),
            ("the array is now DEGRADED", "slot 2"),
        ];
        if kind == Kind::Shards {
            expected.extend([("", "n/drive1 is a spare now"), ("", "n/drive1 is no spare")]);
        }
        for (begins, holds) in expected {
            let begins = format!(" {name}: {begins}");
            let is_it = |line: &str| line.contains(&begins) && line.contains(holds);
            assert!(log.lines().any(is_it), "{begins:?} .. {holds:?} is not in {log}");
        }
        let events = events["events"].as_array().unwrap();
        for event in events.iter().filter(|event| event["level"] != "info") {
            let text = event["text"].as_str().unwrap();
            assert!(log.contains(text), "{text:?} is not in {log}");
        }
    }
}

/// Asserts that there is advice, that it has this command, and that it can be pasted anywhere.
#[track_caller]
fn is_pastable(status: &Value, command: &str) {
    let action = status["action"].as_str().unwrap_or_else(|| panic!("{status}"));
    assert!(action.contains(command), "{command:?} is not in {action}");
    for word in action.split_whitespace().filter(|word| word.contains("/drive")) {
        assert!(word.trim_start_matches('(').starts_with('/'), "{word} in {action}");
    }
}

/// Advice of other states than a failed slot had relative paths.
#[test]
fn advice_of_every_state_has_absolute_paths() {
    let place = Place::with_array();
    let of = |drives: &str| {
        place.run(&format!("--json array status {drives}")).exits(0).document("array-status")
    };
    let server = place.serve("d/drive0 d/drive1 d/drive2");
    is_pastable(&of("d/drive1"), "zoneweave array online /");
    server.stop();
    let server = place.serve(MEMBERS);
    place.run("array offline d/drive0 --slot 1").exits(0);
    is_pastable(&of("d/drive0"), "zoneweave array online /");
    place.run("array online d/drive0 --slot 1").exits(0).says("HEALTHY");
    place.run("array fail d/drive0 --slot 2").exits(0);
    is_pastable(&of("d/drive0"), "zoneweave array replace /");
    fs::remove_file(place.path("d/drive3")).unwrap();
    let failed = (0..2000).map(|_| of("d/drive0")).find(|status| status["health"] == "failed");
    let failed = failed.expect("two of four drives are lost");
    is_pastable(&failed, "bring back the drives of slot 2 (/");
    server.kill();
    is_pastable(&of("d/drive0 d/drive1 d/drive2"), "");
}

/// Blocks that a status lists as lost, by their offsets.
fn listed(status: &Value) -> BTreeSet<u64> {
    let ranges = status["lost"]["ranges"].as_array().into_iter().flatten();
    let blocks = ranges.flat_map(|range| {
        let of = |key: &str| range[key].as_u64().unwrap_or_else(|| panic!("{range}"));
        let start = of("offset_bytes");
        (start..start + of("size_bytes")).step_by(4096)
    });
    blocks.collect()
}

/// The offsets were those of the shard, at which users found their data in order.
#[test]
fn lost_blocks_of_a_shard_are_listed_where_reads_fail() {
    let place = Place::with_drives();
    let create = format!("array create vol0 {MEMBERS} --shards 2 --level raid0 --size max");
    place.run(&create).exits(0);
    let server = place.serve(MEMBERS);
    let mut client = server.client();
    // A unit of each shard.
    client.write(0, &pattern(5, 512 << 10));
    client.flush();
    rot(&place.path("d/drive2"));
    let offsets = (0..512 << 10).step_by(4096);
    let fails = offsets.filter(|offset| client.try_read(*offset, 4096) == 5);
    let fails: BTreeSet<u64> = fails.collect();
    assert!(!fails.is_empty(), "no block is lost");
    drop(client);
    place.run("array scrub d/drive2 d/drive3").exits(6);
    for drives in ["d/drive0", MEMBERS] {
        let check = place.run(&format!("--json array status {drives} --check")).exits(13);
        let status = check.document("array-status");
        assert_eq!(status["health"], "damaged");
        assert_eq!(listed(&status["shards"][1]), fails);
        assert!(listed(&status["shards"][0]).is_empty(), "{status}");
    }
    server.stop();
    let check = place.run(&format!("--json array status {MEMBERS} --check")).exits(13);
    assert_eq!(listed(&check.document("array-status")["shards"][1]), fails);
}

/// A closed terminal ended a server as a crash does.
#[test]
fn a_hangup_stops_servers_of_every_kind_in_order() {
    let hangup = |place: &Place, words: &str| {
        let server = place.starting(place.hearing(words)).until("ready");
        server.signal(Signal::HUP);
        server.ends();
        let left: Vec<_> = fs::read_dir(place.path("run")).unwrap().collect();
        assert!(left.is_empty(), "{words} left {left:?}");
    };
    let shards = Case::new(Kind::Shards);
    hangup(&shards.place, &shards.serves(MEMBERS));
    let zoned = Case::new(Kind::Zoned);
    hangup(&zoned.place, &zoned.serves(MEMBERS));
    let store = MEMBERS.replace(' ', ",");
    zoned.place.run(&format!("fs mkfs {store}")).exits(0);
    hangup(&zoned.place, &format!("fs serve {store}"));
    let place = Place::with_array();
    let table = "[volume.vol0]\nsearch = [\"d\"]\nnbd = { socket = \"unix:s.sock\" }\n";
    fs::write(place.path("z.toml"), table).unwrap();
    hangup(&place, "serve named vol0 --config z.toml");
    hangup(&place, "quickstart data --zones 12 --zone-capacity 256KiB");
}
