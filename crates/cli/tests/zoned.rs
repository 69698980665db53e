//! Arrays with a zoned volume: created, listed, and used by commands to their zones.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::common::{Ended, Place, rot};

const DRIVES: &str = "d/drive0 d/drive1 d/drive2 d/drive3";

/// Four drives with a zoned volume `z`.
fn with_volume(options: &str) -> Place {
    let place = Place::new();
    place
        .run(&format!("emu create d --drives 5 --zones 16 --zone-capacity 4MiB {options}"))
        .exits(0);
    place.run(&format!("array create z {DRIVES} --kind zoned")).exits(0);
    place
}

/// Runs a command with these bytes as its input.
fn fed(place: &Place, words: &str, input: &[u8]) -> Ended {
    let mut command = place.command(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Ended {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The contents of a zone.
fn contents(place: &Place, range: &str) -> Vec<u8> {
    let output = place.command(&format!("zoned read {DRIVES} {range}")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Blocks that differ from each other.
fn blocks(count: usize, seed: u8) -> Vec<u8> {
    let byte = |at: usize| ((at / 4096 * 31 + at % 4096 * 7) % 251).to_le_bytes()[0] ^ seed;
    (0..count * 4096).map(byte).collect()
}

fn report(place: &Place, options: &str) -> Vec<serde_json::Value> {
    let report = place.run(&format!("--json zoned report {DRIVES} {options}")).exits(0);
    report.document("zoned-report")["zones"].as_array().unwrap().clone()
}

/// Each command starts the volume, which writes. Those with a zone that does not exist did as well.
#[test]
fn a_command_to_a_zone_that_does_not_exist_writes_nothing() {
    let place = with_volume("");
    fed(&place, &format!("zoned write {DRIVES} --zone 2"), &blocks(3, 1)).exits(0);
    let media = || -> Vec<_> {
        DRIVES.split(' ').map(|drive| fs::read(place.path(drive)).unwrap()).collect()
    };
    let before = media();
    for words in [
        "finish --zone 2 --zone 99",
        "reset --zone 99",
        "read --zone 99",
        "write --zone 99",
        "append --zone 99",
        "report --from 99",
    ] {
        let (verb, rest) = words.split_once(' ').unwrap();
        fed(&place, &format!("zoned {verb} {DRIVES} {rest}"), &blocks(1, 2)).exits(1);
        assert!(media() == before, "{words}");
    }
}

#[test]
fn data_written_to_zones_is_read_back_in_later_commands() {
    let place = with_volume("");
    let (first, second) = (blocks(300, 1), blocks(7, 2));
    let write = format!("zoned write {DRIVES} --zone 2");
    fed(&place, &write, &first).exits(0).says("1.17 MiB written at 0 B");
    fed(&place, &format!("{write} --at 0"), &second).exits(2).complains("write pointer");
    let append = format!("--json zoned append {DRIVES} --zone 2");
    let appended = fed(&place, &append, &second).exits(0).document("zoned-append");
    assert_eq!(appended["appends"][0]["offset_bytes"], 300 * 4096);
    assert!(contents(&place, "--zone 2") == [first.clone(), second.clone()].concat());
    assert!(contents(&place, "--zone 2 --at 1200KiB --length 28KiB") == second);
    let zone = &report(&place, "--from 2 --count 1")[0];
    assert_eq!((&zone["state"], &zone["written_bytes"]), (&"closed".into(), &(307 * 4096).into()));
    fed(&place, &write, b"half a block").exits(1).complains("4096 bytes");
}

/// A client that does not know what was appended could append it twice.
#[test]
fn appends_before_a_failure_are_listed() {
    let place = with_volume("");
    let cut = [&blocks(300, 5)[..], b"half a block"].concat();
    let append = format!("zoned append {DRIVES} --zone 1");
    let failed = fed(&place, &append, &cut).exits(1);
    failed.says("bytes at byte 0").complains("4096 bytes").complains("the listed appends");
    let document = fed(&place, &format!("--json {append}"), &cut).exits(1).document("error");
    let appends = document["appends"].as_array().unwrap();
    let length = |place: &serde_json::Value| place["bytes"].as_u64().unwrap();
    let written: u64 = appends.iter().map(length).sum();
    assert_eq!(report(&place, "--from 1 --count 1")[0]["written_bytes"], 2 * written);
}

#[test]
fn zones_are_reset_and_finished() {
    let place = with_volume("");
    for zone in [0, 1] {
        fed(&place, &format!("zoned write {DRIVES} --zone {zone}"), &blocks(20, zone)).exits(0);
    }
    place.run(&format!("zoned finish {DRIVES} --zone 0")).exits(0).says("zone 0 finished");
    fed(&place, &format!("zoned append {DRIVES} --zone 0"), &blocks(1, 9))
        .exits(1)
        .complains("reset it to write it again");
    place.run(&format!("zoned reset {DRIVES} --zone 1")).exits(0);
    let states = |place: &Place| -> Vec<String> {
        let zones = report(place, "--count 2");
        zones.iter().map(|zone| zone["state"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(states(&place), ["full", "empty"]);
    assert_eq!(report(&place, "--state full").len(), 1);
    place.run(&format!("zoned reset {DRIVES} --all")).exits(0);
    assert_eq!(states(&place), ["empty", "empty"]);
    place
        .run(&format!("zoned reset {DRIVES} --zone 0 --zone 99"))
        .exits(1)
        .complains("ends before");
}

/// "Zone Is Full: reset it to write it again" was said of a zone that had just taken the data.
#[test]
fn a_zone_that_becomes_full_says_how_much_it_has_taken() {
    let place = with_volume("");
    let write = format!("zoned write {DRIVES} --zone 1");
    let full = fed(&place, &write, &blocks(3600, 1)).exits(1);
    let full = full.complains("would erase what was written");
    let taken = report(&place, "--from 1 --count 1")[0]["written_bytes"].as_u64().unwrap();
    full.complains(&format!("the first {taken} bytes of the input were written"));
    let taken = usize::try_from(taken).unwrap();
    assert!(taken > 0 && contents(&place, "--zone 1") == blocks(3600, 1)[..taken]);
}

#[test]
fn a_command_is_refused_rather_than_a_missing_drive_dropped() {
    let place = with_volume("");
    let data = blocks(100, 3);
    fed(&place, &format!("zoned write {DRIVES} --zone 0"), &data).exits(0);
    fs::rename(place.path("d/drive1"), place.path("d/away")).unwrap();
    place
        .run("zoned read d/drive0 d/drive2 d/drive3 --zone 0")
        .exits(4)
        .complains("slot 1 of array z is missing");
    fs::rename(place.path("d/away"), place.path("d/drive1")).unwrap();
    assert!(contents(&place, "--zone 0") == data);
}

#[test]
fn a_drive_is_replaced_and_another_one_may_fail_then() {
    let place = with_volume("");
    let data = blocks(500, 4);
    fed(&place, &format!("zoned write {DRIVES} --zone 3"), &data).exits(0);
    fs::remove_file(place.path("d/drive1")).unwrap();
    let left = "d/drive0 d/drive2 d/drive3";
    place.run(&format!("array replace {left} --slot 7 --with d/drive4")).exits(3);
    place
        .run(&format!("array replace {left} --slot 1 --with d/drive0"))
        .exits(4)
        .complains("in service");
    place.run(&format!("array status --check {left}")).exits(11).says("slot 1");
    place.run(&format!("array replace {left} --slot 1 --with d/drive4")).exits(0).says("HEALTHY");
    let members = "d/drive0 d/drive4 d/drive2 d/drive3";
    place.run(&format!("array fail {members} --slot 0")).exits(0).says("DEGRADED");
    place.run(&format!("array fail {members} --slot 2")).exits(4);
    let read = "zoned read d/drive4 d/drive2 d/drive3 --zone 3";
    assert!(place.command(read).output().unwrap().stdout == data);
    place
        .run(&format!("array replace {members} --slot 0 --with d/drive0"))
        .exits(4)
        .complains("--yes-destroy");
    place
        .run(&format!("array replace {members} --slot 0 --with d/drive0 --yes-destroy"))
        .exits(0)
        .says("HEALTHY");
}

#[test]
fn status_and_list_know_the_kind_of_volume() {
    let place = with_volume("");
    place.run(&format!("array status {DRIVES}")).exits(0).says("zoned volume, 9 zones of 12 MiB");
    place.run(&format!("array status --check {DRIVES}")).exits(0);
    place.run("array status --check d/drive0 d/drive1 d/drive2").exits(11).says("slot 3");
    place.run("array list d").exits(0).says("raid5 3+1, zoned");
    place.run("inspect d/drive2").exits(0).says("zoned volume: z, slot 2");
    place
        .run(&format!("serve nbd {DRIVES} --socket unix:s.sock"))
        .exits(4)
        .complains("zoned volume");
    place.run(&format!("array scrub {DRIVES}")).exits(0).says("no damage");
    place
        .run(&format!("array create w {DRIVES} --size max"))
        .exits(4)
        .complains("a member of array z");
    place.run("zoned report d/drive4").exits(3).complains("--kind zoned");
}

#[test]
fn drives_without_metadata_carry_a_zoned_volume() {
    let place = with_volume("--without-metadata");
    let data = blocks(64, 5);
    fed(&place, &format!("zoned write {DRIVES} --zone 4"), &data).exits(0);
    assert!(contents(&place, "--zone 4") == data);
    place.run("array list d").exits(0).says("raid5 3+1, zoned");
    place.run(&format!("array status --check {DRIVES}")).exits(0);
    place
        .run(&format!("array create w {DRIVES} --size max"))
        .exits(4)
        .complains("a member of array z");
    place.run(&format!("array create w {DRIVES} --kind zoned --yes-destroy")).exits(0);
}

#[test]
fn options_of_the_other_kind_of_volume_are_refused() {
    let place = Place::with_drives();
    let create = |options: &str| place.run(&format!("array create z {DRIVES} {options}"));
    create("--kind zoned --size max").exits(2).complains("--size");
    create("--kind zoned --chunk 16KiB").exits(2).complains("--unit");
    create("--kind zoned --unit 256KiB").exits(2).complains("stripe units");
    create("--kind zoned --level raid0").exits(2).complains("parity");
    create("--kind zoned").exits(2).complains("too small for the parity log");
    create("--size max --unit 64KiB").exits(2).complains("--kind zoned");
    create("").exits(2).complains("--size");
    place.run(&format!("array list {DRIVES}")).exits(0).says("blank");
}

/// A restart forgot that blocks were lost.
#[test]
fn lost_blocks_are_on_record_until_they_are_cleared() {
    let place = with_volume("");
    // Whole stripes.
    fed(&place, &format!("zoned write {DRIVES} --zone 1"), &blocks(288, 3)).exits(0);
    rot(&place.path("d/drive0"));
    rot(&place.path("d/drive1"));
    place.run(&format!("array scrub {DRIVES}")).exits(6).says("lost");
    let status = format!("array status {DRIVES}");
    let damaged = place.run(&format!("{status} --check")).exits(13).says("DAMAGED");
    damaged.says("reset the zone").says("zoneweave array clear").says("(offsets in bytes)");
    let lost = || {
        let document = place.run(&format!("--json {status}")).exits(0).document("array-status");
        document["lost"]["ranges"].as_array().unwrap().clone()
    };
    let offset = lost()[0]["offset_bytes"].as_u64().unwrap();
    assert!((16 << 20..32 << 20).contains(&offset), "{offset} is in the second zone");
    let read = place.run(&format!("zoned read {DRIVES} --zone 1")).exits(6);
    read.complains(&format!("byte {offset} of the volume, can be neither read nor rebuilt"));
    let history = place.run(&format!("array jobs {DRIVES} --history")).exits(0);
    history.says("complete · began ").says(" lost");
    place.run(&format!("zoned reset {DRIVES} --zone 1")).exits(0);
    assert!(lost().is_empty(), "a reset takes them off the list");
    place.run(&format!("array clear {DRIVES}")).exits(0).says("HEALTHY");
    place.run(&format!("{status} --check")).exits(0);
}

#[test]
fn a_scrub_verifies_zones() {
    let place = with_volume("");
    fed(&place, &format!("zoned write {DRIVES} --zone 0"), &blocks(300, 3)).exits(0);
    let scrub = format!("array scrub {DRIVES}");
    place.run(&scrub).exits(0).says("in 1 zones").says("no damage");
    let document = place.run(&format!("--json {scrub}")).exits(0).document("array-scrub");
    assert_eq!((&document["zones"], &document["damaged"]), (&1.into(), &0.into()));
    let check = format!("array check {DRIVES}");
    place.run(&check).exits(0).says("300 blocks can be read").says("clean");
    place.run("array check d/drive0 d/drive2 d/drive3").exits(0).says("degraded");
    place.run("array check d/drive0").exits(3).complains("needs 3 drives");
}
