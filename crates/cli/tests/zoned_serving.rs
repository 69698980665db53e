//! Serving an array with a zoned volume: requests to its server, failures of drives and servers.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{Ended, MEMBERS, Place, pattern};

/// Six drives, the first four with a zoned volume `z`.
fn with_volume() -> Place {
    let place = Place::new();
    place.run("emu create d --drives 6 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create z {MEMBERS} --kind zoned")).exits(0);
    place
}

/// Writes data to a zone.
fn write(place: &Place, drives: &str, zone: u32, data: &[u8]) {
    let mut command = place.command(&format!("zoned write {drives} --zone {zone}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(data).unwrap();
    assert!(child.wait().unwrap().success());
}

/// The contents of a zone.
fn read(place: &Place, drives: &str, zone: u32) -> Vec<u8> {
    let output = place.command(&format!("zoned read {drives} --zone {zone}")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Asks for the status until it is so; each question takes some milliseconds.
fn wait_until(place: &Place, is_so: impl Fn(&Value) -> bool) {
    let status = || place.run("--json array status d/drive0").exits(0).document("array-status");
    assert!((0..5000).any(|_| is_so(&status())), "it does not come to that: {:#}", status());
}

#[test]
fn a_drive_is_failed_replaced_and_rebuilt_by_the_server() {
    let place = with_volume();
    let data = pattern(5, 2 << 20);
    write(&place, MEMBERS, 3, &data);
    let server = place.serve_zoned(MEMBERS);
    assert!(server.announced.contains("zoneweave zoned report d/drive0"), "{}", server.announced);
    place.run("array status d/drive2 --check").exits(0).says("HEALTHY").says("1 closed");
    place.run("array list d").exits(0).says("served");
    let replace = "array replace d/drive0 --slot 1 --with";
    place.run(&format!("{replace} d/drive4")).exits(4).complains("slot 1 is online");
    place.run(&format!("{replace} gone")).exits(3).complains("gone does not exist");
    place.run("array replace d/drive0 --slot 9 --with gone").exits(3).complains("slots 0 to 3");
    place.run("array fail d/drive0 --slot 1").exits(0).says("DEGRADED");
    place.run("array fail d/drive0 --slot 2").exits(4).complains("lose data");
    place.run("array status d/drive0 --check").exits(11).says("--slot 1");
    place.run(&format!("{replace} d/drive3 --yes-destroy")).exits(4).complains("in service");
    place.run(&format!("{replace} d/drive1")).exits(4).complains("--yes-destroy");
    place.run(&format!("{replace} d/drive4")).exits(0).says("HEALTHY");
    let status = place.run("--json array status d/drive4").exits(0).document("array-status");
    assert_eq!(status["server"]["zoned"]["zones"]["closed"], 1);
    assert_eq!(status["server"].get("segments_total"), None);
    place.run("array scrub d/drive4").exits(0).says("no damage");
    place.run("array fail d/drive0 --slot 0").exits(0);
    // It had said that there was no damage.
    let scrub = place.run("array scrub d/drive4").exits(7);
    scrub.says("no damage in what was read").says("INCOMPLETE: slot 0 not read");
    let jobs = place.run("array jobs d/drive4").exits(0);
    jobs.says("incomplete").says("slot 0 not read").says("no damage");
    assert!(server.stop().contains("all acknowledged writes are on the drives"));
    // Of the four drives now, the array can do without the first.
    assert!(read(&place, "d/drive4 d/drive2 d/drive3", 3) == data);
}

#[test]
fn a_server_that_is_killed_leaves_a_volume_that_starts_again() {
    let place = with_volume();
    let data = pattern(6, 1 << 20);
    write(&place, MEMBERS, 0, &data);
    let server = place.serve_zoned(MEMBERS);
    place.run("array fail d/drive0 --slot 3").exits(0);
    server.kill();
    place.run("array status d/drive0 d/drive1 d/drive2").exits(0).says("DEGRADED");
    let server = place.serve_zoned("d/drive0 d/drive1 d/drive2");
    place.run("array replace d/drive1 --slot 3 --with d/drive5").exits(0).says("HEALTHY");
    server.stop();
    assert!(read(&place, "d/drive0 d/drive1 d/drive2 d/drive5", 0) == data);
}

/// A start without a drive took it out of service, although nothing was written.
#[test]
fn a_start_without_a_drive_costs_it_nothing_before_the_first_write() {
    let place = with_volume();
    let data = pattern(7, 1 << 20);
    write(&place, MEMBERS, 0, &data);
    let media = || {
        let hash = |drive: u32| {
            let mut hasher = DefaultHasher::new();
            fs::read(place.path(&format!("d/drive{drive}"))).unwrap().hash(&mut hasher);
            hasher.finish()
        };
        (0..4).map(hash).collect::<Vec<_>>()
    };
    let before = media();
    let left = "d/drive0 d/drive1 d/drive2";
    let server = place.serve_zoned(left);
    let status = place.run("array status d/drive0 --check").exits(11);
    status.says("DEGRADED").says("missing").says("restart the server with it");
    assert!(read(&place, "d/drive0", 0) == data);
    place.run("zoned report d/drive0").exits(0);
    server.stop();
    assert!(media() == before, "a server without writes wrote");
    place.run(&format!("array status {MEMBERS}")).exits(0).says("HEALTHY");
    let server = place.serve_zoned(left);
    write(&place, "d/drive0", 1, &data);
    place.run("array status d/drive0 --check").exits(11).says("DEGRADED").says("--slot 3");
    server.stop();
    place.run(&format!("array status {MEMBERS} --check")).exits(11).says("DEGRADED");
    assert!(read(&place, MEMBERS, 0) == data);
}

/// A scrub of a zoned volume took no orders, and several waited for each other.
#[test]
fn a_scrub_of_a_served_volume_takes_orders() {
    let place = with_volume();
    for zone in 0..4 {
        write(&place, MEMBERS, zone, &pattern(zone.into(), 6 << 20));
    }
    let server = place.serve_zoned(&format!("{MEMBERS} --rebuild-limit 1MiB"));
    place.run("array scrub d/drive0 --stop").exits(3).complains("no scrub runs");
    let mut replace = place
        .command("array replace d/drive0 --slot 2 --with d/drive4 --yes-destroy")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let phase = |kind: &str| {
        let jobs = place.run("--json array jobs d/drive0").exits(0).document("array-jobs");
        let jobs = jobs["jobs"].as_array().unwrap().clone();
        let job = jobs.into_iter().find(|job| job["kind"] == kind);
        job.map_or(String::new(), |job| job["phase"].as_str().unwrap().to_owned())
    };
    while phase("rebuild") != "running" {}
    let mut scrub = place.command("array scrub d/drive0");
    let scrub = scrub.stdout(Stdio::piped()).spawn().unwrap();
    while phase("scrub") != "queued" {}
    place.run("array scrub d/drive0").exits(4).complains("a scrub is queued already");
    place.run("array scrub d/drive0 --pause").exits(0);
    assert_eq!(phase("scrub"), "paused");
    place.run("array scrub d/drive0 --resume").exits(0);
    place.run("array scrub d/drive0 --stop").exits(0);
    let ended = scrub.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(7), "{}", String::from_utf8_lossy(&ended.stdout));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("stopped before its end"));
    assert_eq!(phase("scrub"), "incomplete");
    replace.kill().unwrap();
    replace.wait().unwrap();
    server.stop();
}

/// Texts promised that a start puts a drive back, and named a status code as the reason.
#[test]
fn a_drive_that_was_away_is_replaced_by_itself() {
    let place = with_volume();
    write(&place, MEMBERS, 1, &pattern(1, 6 << 20));
    let server = place.serve_zoned(MEMBERS);
    place.run("array fail d/drive0 --slot 2").exits(0).says("by the administrator");
    for verb in ["offline d/drive0 --slot 1", "online d/drive0 --slot 2 --with d/drive2"] {
        place.run(&format!("array {verb}")).exits(4).complains("cannot be put back");
    }
    server.stop();
    let status = place.run(&format!("array status {MEMBERS}")).exits(0);
    status.says("drives of a zoned volume cannot be put back");
    let server = place.serve_zoned(MEMBERS);
    let replace = "array replace d/drive0 --slot 2 --with d/drive2";
    place.run(&format!("{replace} --yes-destroy")).exits(0).says("HEALTHY");
    place.run(&format!("{replace} --yes-destroy")).exits(4).complains("in service");
    let third = "--slot 2 --with d/drive4";
    place.run(&format!("array replace d/drive0 {third} --yes-destroy")).exits(0).says("HEALTHY");
    server.stop();
    let status = place.run("array status d/drive0 d/drive1 d/drive3 d/drive4 d/drive2").exits(0);
    status.says("which has another drive now");
    assert!(read(&place, "d/drive0 d/drive1 d/drive3 d/drive4", 1) == pattern(1, 6 << 20));
}

/// A rebuild that a killed server had begun goes on in the next one.
#[test]
fn an_interrupted_rebuild_goes_on_in_the_next_server() {
    let place = with_volume();
    for zone in 0..4 {
        write(&place, MEMBERS, zone, &pattern(zone.into(), 6 << 20));
    }
    let server = place.serve_zoned(&format!("{MEMBERS} --rebuild-limit 1MiB"));
    place.run("array fail d/drive0 --slot 2").exits(0);
    let mut replace = place
        .command("array replace d/drive0 --slot 2 --with d/drive4")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(&place, |status| status["members"][2]["state"] == "rebuilding");
    place.run("array status d/drive0 --check").exits(10).says("REBUILDING").says("zones");
    let second = place.run("array replace d/drive0 --slot 2 --with d/drive4").exits(4);
    second.complains("in service");
    server.kill();
    replace.wait().unwrap();
    let server = place.serve_zoned("d/drive0 d/drive1 d/drive3 d/drive4");
    wait_until(&place, |status| status["members"][2]["state"] == "online");
    let log = server.stop();
    assert!(log.contains("the interrupted rebuild is complete"), "{log}");
    assert!(!log.contains("the rebuild has stopped"), "{log}");
    for zone in 0..4 {
        let data = pattern(zone.into(), 6 << 20);
        assert!(read(&place, "d/drive0 d/drive1 d/drive3 d/drive4", zone) == data);
    }
}

/// A second replacement waited for the first one unseen: its slot still asked for a drive.
#[test]
fn a_replacement_that_waits_for_another_is_shown() {
    let place = Place::new();
    place.run("emu create d --drives 7 --zones 24 --zone-capacity 4MiB").exits(0);
    let five = "d/drive0 d/drive1 d/drive2 d/drive3 d/drive4";
    place.run(&format!("array create z {five} --kind zoned --level raid6")).exits(0);
    // The rebuild of a slot takes most of half a minute.
    for zone in 0..8 {
        write(&place, five, zone, &pattern(zone.into(), 9 << 20));
    }
    let server = place.serve_zoned(&format!("{five} --rebuild-limit 1MiB"));
    let replace = |slot: usize, drive: &str| {
        place.run(&format!("array fail d/drive0 --slot {slot}")).exits(0);
        let words = format!("array replace d/drive0 --slot {slot} --with {drive}");
        place.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let first = replace(1, "d/drive5");
    wait_until(&place, |status| status["members"][1]["state"] == "rebuilding");
    let second = replace(2, "d/drive6");
    wait_until(&place, |status| status["server"]["waiting"][0]["slot"] == 2);
    let waits = place.run("array status d/drive0 --check").exits(11);
    waits.says("action none: slot 1 being rebuilt").says("waits to replace slot 2");
    place.run("array jobs d/drive0").exits(0).says("slot 2").says("queued");
    let twice = "array replace d/drive0 --slot 2 --with d/drive6";
    place.run(twice).exits(4).complains("in service");
    for mut client in [first, second] {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    let log = server.stop();
    let is_told = |line: &str| line.contains("slot 2") && line.contains("to be replaced by");
    assert!(log.lines().any(is_told), "{log}");
}

/// Nothing told what the zone had taken before the server ended.
#[test]
fn a_write_whose_server_ends_says_how_much_was_written() {
    let place = with_volume();
    let server = place.serve_zoned(MEMBERS);
    let mut write = place.command("zoned write d/drive0 --zone 1");
    write.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut writing = write.spawn().unwrap();
    let mut input = writing.stdin.take().unwrap();
    let data = pattern(3, 3 << 20);
    let (first, rest) = data.split_at(2 << 20);
    input.write_all(first).unwrap();
    let zone = || {
        let report = place.run("--json zoned report d/drive0 --from 1 --count 1").exits(0);
        report.document("zoned-report")["zones"][0].clone()
    };
    let is_taken = || zone()["written_bytes"] == first.len();
    assert!((0..2000).any(|_| is_taken()), "{}", zone());
    server.kill();
    input.write_all(rest).unwrap();
    drop(input);
    let told = format!("the first {} bytes of the input were written", first.len());
    Ended::of(writing).exits(5).complains(&told);
}

/// Nothing is written before everything is there that serving needs.
#[test]
fn a_volume_that_cannot_be_served_as_asked_is_not_started() {
    let place = with_volume();
    let contents = || -> Vec<_> {
        let drive = |slot| fs::read(place.path(&format!("d/drive{slot}"))).unwrap();
        (0..4).map(drive).collect()
    };
    let before = contents();
    let three = "d/drive0 d/drive1 d/drive2";
    let refused = [
        (format!("nbd {three} --socket unix:s.sock"), 4, "NBD has no zones"),
        (format!("vhost-user {three} --socket unix:s.sock"), 4, "vhost-user has no zones"),
        (format!("nvme-tcp {three} --listen 127.0.0.1:0 --no-hedging"), 2, "is for block volumes"),
        (format!("fuse {three} --mountpoint file"), 4, "FUSE has no zones"),
        (format!("ublk {three} --spare d/drive4"), 2, "--spare"),
        (format!("ublk {three} --index-memory 1GiB"), 2, "leave it out"),
        ("zoned d/drive0".to_owned(), 1, "bring the missing drives back"),
        ("zoned d/drive0 d/drive1 d/drive2 d/gone".to_owned(), 3, "--without d/gone"),
        ("zoned d/drive4".to_owned(), 3, "zoned volume"),
    ];
    for (serve, code, complaint) in refused {
        let run = place.run(&format!("serve {serve}"));
        assert!(run.stderr.contains(complaint), "{serve}: {run:#?}");
        assert_eq!(run.code, code, "{serve}: {run:#?}");
    }
    if !fs::exists("/dev/ublk-control").unwrap() {
        place.run(&format!("serve ublk {three}")).complains("ublk");
    }
    assert!(contents() == before, "a drive was written");
    let server = place.serve_zoned(MEMBERS);
    place.run(&format!("serve zoned {MEMBERS}")).complains("in use");
    server.stop();
    place.run(&format!("array status --check {MEMBERS}")).exits(0);
}

#[test]
fn commands_to_zones_go_to_the_server() {
    let place = with_volume();
    let run = |words: &str| place.run(words);
    run(&format!("zoned open {MEMBERS} --zone 1")).exits(5).complains("serve zoned");
    let server = place.serve_zoned(MEMBERS);
    let any = "d/drive2";
    // More than a command carries.
    let data = pattern(7, 3 << 20);
    write(&place, any, 2, &data);
    assert!(read(&place, any, 2) == data);
    let state = |zone: u32| {
        let report = run(&format!("--json zoned report {any} --from {zone} --count 1")).exits(0);
        let report = report.document("zoned-report");
        report["zones"][0]["state"].as_str().unwrap().to_owned()
    };
    run(&format!("zoned open {any} --zone 1 --zone 4")).exits(0).says("zone 4 opened");
    assert_eq!((state(1), state(2), state(3)), ("open".into(), "open".into(), "empty".into()));
    run(&format!("zoned close {any} --zone 2")).exits(0).says("zone 2 closed");
    assert_eq!(state(2), "closed");
    let mut append = place.command(&format!("--json zoned append {any} --zone 2"));
    let mut child = append.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&data[..8192]).unwrap();
    let appended = child.wait_with_output().unwrap().stdout;
    let appended: Value = serde_json::from_slice(&appended).unwrap();
    assert_eq!(appended["appends"][0]["offset_bytes"], 3 << 20);
    run(&format!("zoned finish {any} --zone 2")).exits(0);
    assert_eq!(state(2), "full");
    run(&format!("zoned open {any} --zone 2")).exits(1).complains("Zone");
    run(&format!("zoned reset {any} --zone 2")).exits(0);
    assert_eq!(state(2), "empty");
    run(&format!("zoned reset {any} --zone 99")).exits(1).complains("ends before");
    write(&place, any, 0, &data);
    server.kill();
    assert!(read(&place, MEMBERS, 0) == data);
}
