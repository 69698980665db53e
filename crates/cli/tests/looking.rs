//! Commands that look at drives without a server: status, list, inspect, check and zones.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::common::{MEMBERS, Place, pattern};
use rustix::process::Signal;

/// An array with some data, stopped.
fn with_data() -> Place {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let mut client = server.client();
    client.write(0, &pattern(1, 1 << 20));
    client.flush();
    drop(client);
    server.stop();
    place
}

#[test]
fn status_without_a_server_changes_nothing() {
    let place = with_data();
    let before = fs::read(place.path("d/drive0")).unwrap();
    let status = place.run(&format!("--json array status {MEMBERS} --check")).exits(0);
    let status = status.document("array-status");
    assert_eq!(status["server"], serde_json::Value::Null);
    assert_eq!(status["members"][3]["drive"], "d/drive3");
    let status = place.run("array status d/drive0 --check").exits(14).says("vol0  UNKNOWN");
    status.says("only 1 of its 4 drives was named: slots 1, 2, 3 missing").says("name all");
    assert_eq!(fs::read(place.path("d/drive0")).unwrap(), before);
}

#[test]
fn the_order_of_drives_does_not_matter() {
    let place = with_data();
    let status =
        place.run("--json array status d/drive3 d/drive1 d/drive0 d/drive2 --check").exits(0);
    assert_eq!(status.document("array-status")["members"][0]["drive"], "d/drive0");
}

#[test]
fn missing_drives_are_named_and_counted() {
    let place = with_data();
    let status = place.run("array status d/drive0 d/drive1 d/drive2 --check").exits(11);
    status.says("slot 3 missing").says("replace");
    let status = place.run("array status d/drive0 d/drive1 d/drive2 gone --check").exits(11);
    status.says("gone does not exist");
    let status = place.run("array status d/drive0 d/drive1 --check").exits(14);
    let status = status.says("only 2 of its 4 drives were named: slots 2, 3 missing");
    let status = status.says("has 2 of 4 drives and needs 3");
    assert!(!status.stdout.contains("FAILED"), "who names two of four has not lost the others");
    let status = place.run("array status d/drive0 d/drive1 gone lost --check").exits(12);
    status.says("FAILED").says("has 2 of 4 drives and needs 3");
    place.run("array status gone").exits(3).complains("does not exist");
}

#[test]
fn blank_foreign_and_broken_drives_each_have_their_message() {
    let place = with_data();
    place.run("array create other d/drive4 d/drive5 --size max").exits(0);
    let cut = OpenOptions::new().write(true).open(place.path("d/drive3")).unwrap();
    cut.set_len(100_000).unwrap();
    fs::write(place.path("text"), "x".repeat(10_000)).unwrap();
    place.run("emu create e --drives 1 --zones 16 --zone-capacity 256KiB").exits(0);
    let line = "array status d/drive0 d/drive1 d/drive2 d/drive3 d/drive4 e/drive0 text --check";
    let status = place.run(line).exits(11);
    let status = status.says("d/drive4  foreign: belongs to another array");
    let status = status.says("e/drive0  blank: holds nothing").says("truncated");
    status.says("text  unopened: text: the file is not a drive (it has no magic number)");
    let list = place.run("--json array list d e text").exits(0).document("array-list");
    let kinds: Vec<_> =
        list["drives"].as_array().unwrap().iter().map(|drive| drive["kind"].clone()).collect();
    let expected =
        ["member", "member", "member", "no-drive", "member", "member", "blank", "no-drive"];
    assert_eq!(kinds, expected);
}

#[test]
fn status_tells_how_many_more_drives_may_be_lost() {
    let place = Place::with_drives();
    place.run("array create vol0 --level raid6 d/drive0 d/drive1 d/drive2 d/drive3 d/drive4 --size max").exits(0);
    let whole = place.run("array status d/drive0 d/drive1 d/drive2 d/drive3 d/drive4").exits(0);
    assert!(!whole.stdout.contains("may be lost"), "{whole:#?}");
    let one = place.run("array status d/drive0 d/drive1 d/drive2 d/drive3").exits(0);
    one.says("1 of 5 drives not in full service: any one more may be lost").says("replace it:");
    let two = place.run("array status d/drive0 d/drive1 d/drive2").exits(0);
    let two = two.says("2 of 5 drives not in full service: no other may be lost");
    two.says("bring slots 3, 4 back or serve the array without them and replace them before another drive fails");
    let two = place.run("--json array status d/drive0 d/drive1 d/drive2").exits(0);
    assert_eq!(two.document("array-status")["losses_left"], 0);
    let alone = place.run("array replace d/drive0 d/drive1 d/drive2 --slot 3 --with d/drive5");
    alone
        .exits(4)
        .complains("slots 3, 4 of array vol0 are missing")
        .complains("start a server without them");
    let server = place.serve("d/drive0 d/drive1 d/drive2");
    let served = place.run("array status d/drive0").exits(0).says("no other may be lost");
    served.says("bring back the drive of slot 3, which has missed no write yet");
    let three = place.run("array replace d/drive0 --slot 3 --with d/drive5").exits(0);
    three.says("any one more may be lost");
    server.stop();
}

#[test]
fn two_arrays_with_one_name_are_told_apart() {
    let place = with_data();
    place.run("array create vol0 d/drive4 d/drive5 --size max").exits(0);
    let list = place.run("--json array list d").exits(0).document("array-list");
    let uuid = |drive: usize| list["drives"][drive]["array"].as_str().unwrap().to_owned();
    assert_ne!(uuid(0), uuid(4));
    place.run("array list d").exits(0).says(&uuid(0)).says(&uuid(4));
    let status = place.run(&format!("array status {MEMBERS} d/drive4")).exits(0).says(&uuid(0));
    status.says(&format!("belongs to another array, {}; this one is {}", uuid(4), uuid(0)));
    place.run(&format!("array check {MEMBERS}")).exits(0).says(&uuid(0));
    // A command on one array must not act on the array that comes first.
    let commands = [
        ("array fail", "--slot 1"),
        ("array scrub", ""),
        ("array replace", "--slot 1 --with d/drive5"),
        ("array check", ""),
        ("serve nbd", "--socket unix:s.sock"),
    ];
    for (command, options) in commands {
        let refused = place.run(&format!("{command} d/drive0 d/drive4 {options}")).exits(4);
        refused.complains("different arrays (vol0, and as many to another: d/drive");
    }
    place.run(&format!("array scrub {MEMBERS} d/drive4")).exits(0).says("no damage");
}

#[test]
fn a_copy_of_a_drive_is_noticed() {
    let place = with_data();
    fs::copy(place.path("d/drive1"), place.path("copy")).unwrap();
    let status = place.run(&format!("array status {MEMBERS} copy --check")).exits(12);
    status.says("the same member: one is a copy");
    let socket = "--socket unix:s.sock";
    for drives in [format!("{MEMBERS} copy"), format!("copy {MEMBERS}")] {
        place.run(&format!("serve nbd {drives} {socket}")).exits(4).complains("one is a copy");
        let list = place.run(&format!("--json array list {drives}")).exits(0);
        let list = list.document("array-list");
        let listed = list["drives"].as_array().unwrap();
        assert!(listed.iter().all(|drive| drive["state"] == "online"), "{list}");
    }
}

#[test]
fn inspection_shows_records_headers_blocks_and_damage() {
    let place = with_data();
    place.run("inspect d/drive0").exits(0).says("vol0 raid5 3+1 slot 0").says("header of segment");
    place.run("inspect d/drive0 --zone 2").exits(0).says("header of segment").says("(verified)");
    place.run("inspect d/drive0 --zone 2 --offset 1").exits(0).says("metadata\n").says("LBA");
    place.run("inspect d/drive0 --zone 99").exits(3).complains("zones 0 to 15");
    place.run("inspect d/drive0 --zone 2 --offset 9999").exits(3).complains("blocks 0 to 63");
    place.run("inspect d/drive0 --offset 1").exits(2);
    let drive = OpenOptions::new().read(true).write(true).open(place.path("d/drive0")).unwrap();
    let mut bytes = fs::read(place.path("d/drive0")).unwrap();
    // Damages the middle of every structured block and of every page of data that there is.
    let blocks = bytes.chunks_mut(4096).enumerate().skip(16);
    for (at, block) in blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 0)) {
        block[100] ^= 0xFF;
        drive.write_at(block, at as u64 * 4096).unwrap();
    }
    let zone = place.run("--json inspect d/drive0 --zone 2").exits(0).document("inspect-zone");
    let text = zone.to_string();
    assert!(text.contains("damaged") || text.contains("DAMAGED") || text.contains("mismatch"));
    place.run("inspect d/drive0").exits(0);
    place.run("inspect d/drive5").exits(0).says("no superblock record");
    place.run("inspect gone").exits(3);
}

#[test]
fn the_checker_tells_clean_damaged_and_lost_apart() {
    let place = with_data();
    place.run(&format!("array check {MEMBERS}")).exits(0).says("clean");
    place.run("array check d/drive0 d/drive1 d/drive2").exits(0).says("degraded");
    let check = place.run("--json array check d/drive0 d/drive1 d/drive2").exits(0);
    assert_eq!(check.document("array-check")["degraded"], true);
    let few = place.run("array check d/drive0 d/drive1").exits(3);
    few.complains("only 2 of its 4 drives were named: slots 2, 3 missing").complains("name all");
    place.run("array check d/drive0 d/drive1 gone lost").exits(6).complains("lost does not exist");
    place.run("array check d/drive4").exits(3);
}

#[test]
fn zone_maps_have_a_sign_for_every_zone() {
    let place = with_data();
    place.run("zones d/drive0 d/drive4").exits(0).says("█").says("      0  ················");
    place.run("zones d/drive0 --by wear").exits(0).says("resets:");
    place.run("zones d/drive0 --by valid").exits(5).complains("not being served");
    let map = place.run("--json zones d/drive0").exits(0).document("zones");
    assert_eq!(map["drives"][0]["zones"].as_array().unwrap().len(), 16);
    assert_eq!(map["drives"][0]["zones"][15]["state"], "empty");
    place.run("zones gone").exits(3);
}

/// It accepts connections and does not respond. The time limit is for all drives together.
#[test]
fn a_server_that_does_not_answer_keeps_no_drive_from_the_list() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    server.signal(Signal::STOP);
    let begun = Instant::now();
    let list = place.run("array list d").exits(0);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(list.stdout.matches("its server does not answer").count(), 4, "{list:#?}");
    list.says("d/drive4  blank").complains("its spares are listed as blank");
    server.signal(Signal::CONT);
    let list = place.run("--json array list d").exits(0).document("array-list");
    assert_eq!(
        (&list["drives"][0]["served"], &list["drives"][0]["problem"]),
        (&true.into(), &().into())
    );
    server.stop();
}

#[test]
fn what_is_to_be_typed_is_quoted_for_the_shell() {
    let place = Place::new();
    place.run("emu create a$b --drives 4 --zones 16 --zone-capacity 256KiB").exits(0);
    let drives = "a$b/drive0 a$b/drive1 a$b/drive2";
    let made = place.run(&format!("array create vol0 {drives} --size max")).exits(0);
    made.complains("zoneweave serve nbd 'a$b/drive0' 'a$b/drive1' 'a$b/drive2' --socket");
    let server = place.serve(drives);
    let path = |drive: &str| format!("'{}'", place.path("a$b").join(drive).display());
    let replace = format!("zoneweave array replace {} --slot 2", path("drive0"));
    place.run("array fail a$b/drive0 --slot 2").exits(0).says(&replace);
    server.stop();
    let status = place.run(&format!("array status {drives}")).exits(0);
    let [first, second, third] = ["drive0", "drive1", "drive2"].map(path);
    let readd = format!("array online {first} {second} --slot 2 --with {third}");
    status.says(&readd);
}

/// The copy was described as a drive that a forced start had left out, with advice that overwrites
/// it.
#[test]
fn a_copy_is_called_a_copy() {
    let place = Place::with_array();
    fs::copy(place.path("d/drive0"), place.path("copy0")).unwrap();
    let served = || place.serve(MEMBERS).stop();
    for age in [&|| String::new() as String, &served as &dyn Fn() -> String] {
        age();
        for drives in [format!("{MEMBERS} copy0"), format!("copy0 {MEMBERS}")] {
            let refused = place.run(&format!("serve nbd {drives} --socket unix:s.sock")).exits(4);
            let refused = refused.complains("one is a copy; leave one out");
            assert!(!refused.stderr.contains("--force"), "{refused:?}");
            let status = place.run(&format!("array status {drives}")).exits(0);
            let status = status.says("copy: says that it is slot 0, as another drive does");
            assert!(!status.stdout.contains("--yes-destroy"), "{status:?}");
        }
    }
}
