//! `drive wipe`, and the verbs that show first what they would destroy.

use std::fs;

use crate::common::{MEMBERS, Place, pattern};

/// The bytes of the drives.
fn media(place: &Place) -> Vec<Vec<u8>> {
    (0..6).map(|drive| fs::read(place.path(&format!("d/drive{drive}"))).unwrap()).collect()
}

#[test]
fn a_drive_is_wiped_if_no_array_would_miss_it() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    server.client().write(0, &pattern(1, 1 << 20));
    place.run("drive wipe d/drive1 --yes --force").exits(4).complains("in use");
    server.stop();
    let before = media(&place);
    let refused = place.run("drive wipe d/drive1 --yes").exits(4);
    refused.complains("a member of array vol0").complains("array destroy").complains("--force");
    place.run("drive wipe d/drive1 --force").exits(4).complains("repeat with --yes");
    let shown = place.run("--json drive wipe d/drive1 --force --dry-run").exits(0);
    let shown = shown.document("drive-wipe");
    assert!(shown["holds"].as_str().unwrap().contains("vol0"), "{shown}");
    assert!(shown["written_bytes"].as_u64().unwrap() > 0 && shown["dry_run"] == true, "{shown}");
    place.run("drive wipe gone --yes").exits(3);
    place.run("drive wipe d/drive5 --yes").exits(0).says("d/drive5 is blank");
    assert!(media(&place) == before, "nothing was written");
    place.run("drive wipe d/drive1 --force --yes").exits(0).says("d/drive1 erased");
    place.run("drive wipe d/drive1").exits(0).says("d/drive1 is blank");
    // The array misses it, and gets it back as any new drive.
    let three = "d/drive0 d/drive2 d/drive3";
    place.run(&format!("array status {MEMBERS} --check")).exits(11);
    place.run(&format!("array replace {three} --slot 1 --with d/drive1")).exits(0);
    place.run(&format!("array check {MEMBERS}")).exits(0);
}

#[test]
fn zoned_members_stores_and_foreign_data_are_wiped() {
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create z {MEMBERS} --kind zoned")).exits(0);
    place.run("drive wipe d/drive0 --yes").exits(4).complains("a member of array z");
    place.run("drive wipe d/drive0 --yes --force").exits(0);
    place.run(&format!("array status {MEMBERS} --check")).exits(11);
    place.run("fs mkfs d/drive0").exits(0);
    place.run("drive wipe d/drive0").exits(4).complains("written zones");
    place.run("drive wipe d/drive0 --yes").exits(0).says("written zones");
    place.run("fs mkfs d/drive0").exits(0);
}

#[test]
fn a_dry_run_shows_what_would_be_destroyed_and_changes_nothing() {
    let place = Place::with_array();
    place.run("fs mkfs d/drive5").exits(0);
    let before = media(&place);
    let dry = |words: &str| place.run(&format!("{words} --dry-run")).exits(0);
    let shown = dry(&format!("array create new {MEMBERS} --size max"));
    shown.says("new").says("d/drive2 would be overwritten: it holds a member of array vol0");
    let shown = dry("--json array create new d/drive4 d/drive5 --size max");
    let shown = shown.document("array-create");
    assert_eq!(shown["dry_run"], true);
    assert_eq!(shown["destroys"][0]["drive"], "d/drive5");
    let shown = dry("array replace d/drive0 d/drive1 d/drive2 --slot 3 --with d/drive5");
    shown.says("slot 3 of vol0").says("d/drive5 would be overwritten");
    place.run(&format!("array replace {MEMBERS} --slot 9 --with d/drive5 --dry-run")).exits(3);
    dry("fs mkfs d/drive5").says("d/drive5 would be overwritten");
    dry("fs mkfs d/drive4").says("nothing was changed");
    dry("characterize d/drive5").says("d/drive5 would be overwritten");
    assert!(media(&place) == before, "nothing was written");
    let server = place.serve(MEMBERS);
    let replace = "array replace d/drive0 --slot 3 --with d/drive5";
    dry(&format!("{replace} --yes-destroy")).says("d/drive5 would be overwritten");
    place.run("array replace d/drive0 --slot 3 --with d/drive2 --dry-run").exits(4);
    server.stop();
}

/// A dry run said that a replacement would be done which was refused, and asked no server.
#[test]
fn a_dry_run_of_a_replacement_refuses_what_the_replacement_refuses() {
    for kind in ["--size max", "--kind zoned"] {
        let place = Place::new();
        place.run("emu create d --drives 6 --zones 16 --zone-capacity 4MiB").exits(0);
        place.run(&format!("array create vol0 {MEMBERS} {kind}")).exits(0);
        let agree = |drives: &str, slot: u8, code: i32, why: &str| {
            for option in ["", "--dry-run"] {
                let with = format!("--slot {slot} --with d/drive4 {option}");
                place.run(&format!("array replace {drives} {with}")).exits(code).complains(why);
            }
        };
        agree(MEMBERS, 3, 4, "slot 3 is online");
        agree("d/drive0 d/drive1", 3, 4, "missing");
        let is_block = kind == "--size max";
        let server = if is_block { place.serve(MEMBERS) } else { place.serve_zoned(MEMBERS) };
        agree("d/drive0", 3, 4, "slot 3 is online");
        place.run("array fail d/drive0 --slot 1").exits(0);
        let works = "array replace d/drive0 --slot 3 --with d/drive4 --yes-destroy";
        for option in ["", "--dry-run"] {
            place.run(&format!("{works} {option}")).exits(4).complains("slot");
        }
        let would = place.run("array replace d/drive0 --slot 1 --with d/drive4 --dry-run").exits(0);
        would.says("slot 1 of vol0, which is failed, would get d/drive4");
        let own = place.run("array replace d/drive0 --slot 1 --with d/drive1 --dry-run").exits(0);
        own.says("d/drive1 would be overwritten");
        place.run("array replace d/drive0 --slot 1 --with d/drive4").exits(0).says("HEALTHY");
        server.stop();
    }
}
