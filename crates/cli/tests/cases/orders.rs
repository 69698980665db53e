//! Orders that are refused: of drives that do not fit or are not all there, by copies of drives in
//! use, and with copies beside their originals.

use std::fs;

use super::{Case, KINDS, Kind};
use crate::common::{MEMBERS, Place};

/// All but one of [`MEMBERS`].
const THREE: &str = "d/drive0 d/drive2 d/drive3";

/// Drives that do not fit, and those of another array.
fn others(place: &Place) {
    let drives = [
        "few --drives 1 --zones 12 --zone-capacity 1MiB",
        "small --drives 1 --zones 24 --zone-capacity 512KiB",
        "plain --drives 1 --zones 24 --zone-capacity 1MiB --without-metadata",
        "o --drives 2 --zones 24 --zone-capacity 1MiB",
    ];
    for drives in drives {
        place.run(&format!("emu create {drives}")).exits(0);
    }
    place.run("array create other o/drive0 o/drive1 --level raid1 --size max").exits(0);
    fs::write(place.path("text"), "x".repeat(10_000)).unwrap();
}

/// Refusals of verbs on the array, of which slot 1 is missing.
fn refusals(case: &Case) -> Vec<(String, i32, &'static str)> {
    let is_zoned = case.kind == Kind::Zoned;
    let small = if is_zoned { "the array uses 24 of 1 MiB" } else { "too small" };
    let plain = if is_zoned { "no metadata beside its blocks" } else { "write unit" };
    let replace = |with: &str| format!("array replace {THREE} --slot 1 --with {with}");
    let three = case.with(THREE);
    let all = case.with(MEMBERS);
    vec![
        (replace("few/drive0"), 1, small),
        (replace("few/drive0 --yes-destroy"), 1, small),
        (replace("few/drive0 --dry-run"), 1, small),
        (replace("small/drive0 --yes-destroy"), 1, small),
        (replace("plain/drive0 --yes-destroy"), 1, plain),
        (replace("o/drive0"), 4, "a member of array other"),
        (replace("d/drive1"), 4, "--yes-destroy"),
        (replace("d/drive2 --yes-destroy"), 4, "in service"),
        (replace("text"), 1, "not a drive"),
        (replace("gone"), 3, "does not exist"),
        (format!("array replace {THREE} --slot 7 --with n/drive0"), 3, "slots 0 to 3"),
        (format!("array replace {THREE} --slot 2 --with n/drive0"), 4, "slot 2 is online"),
        (format!("array replace {THREE} --slot 2 --with n/drive0 --yes-destroy"), 4, "slot 1"),
        (format!("array replace {MEMBERS} --slot 2 --with n/drive0"), 4, "slot 2 is online"),
        (format!("array replace {MEMBERS} --slot 2 --with few/drive0 --yes-destroy"), 1, small),
        ("array replace d/drive0 d/drive2 --slot 1 --with n/drive0".to_owned(), 4, "missing"),
        (format!("array fail {MEMBERS} --slot 9"), 3, "slots 0 to 3"),
        (format!("array fail {THREE} --slot 2"), 4, "slot 1 of array vol0 is missing"),
        ("array fail d/drive0 --slot 2".to_owned(), 4, "missing"),
        (format!("array scrub {THREE}"), 4, "slot 1 of array vol0 is missing"),
        (format!("array clear {THREE}"), 4, "slot 1 of array vol0 is missing"),
        ("array spare add d/drive0 n/drive0".to_owned(), 5, "not being served"),
        (format!("array create x {MEMBERS} --size max"), 4, "a member of array vol0"),
        (format!("array destroy {three} --yes"), 4, "slot 1 of"),
        (format!("array destroy {all}"), 4, "repeat with --yes"),
        (format!("array destroy {all} o/drive0 --yes"), 4, "a member of array other"),
        (format!("array rename {three} next"), 4, "slot 1 of array vol0 is missing"),
        ("drive wipe d/drive0 --yes".to_owned(), 4, "a member of array vol0"),
    ]
}

/// The drives of a shard, and those of a zoned volume, are checked as those of other arrays are:
/// before the array is started, which would expel the missing drive.
#[test]
fn a_refused_verb_changes_no_byte_of_a_volume_that_is_not_served() {
    for kind in [Kind::Shards, Kind::Zoned] {
        let case = Case::with_data(kind);
        others(&case.place);
        let mut table = refusals(&case);
        if kind == Kind::Zoned {
            let slot = "slot 1 of array vol0 is missing";
            table.extend([
                (format!("array offline {MEMBERS} --slot 1"), 4, "cannot be put back"),
                (format!("zoned reset {THREE} gone --zone 0"), 4, "gone does not exist"),
                (format!("zoned reset {THREE} n/drive0 --zone 0"), 4, slot),
                (format!("zoned reset {MEMBERS} --zone 99"), 1, "ends before it"),
                ("zoned report d/drive0".to_owned(), 4, "missing"),
                (
                    "fs mkfs d/drive0,d/drive2,d/drive3 --yes-destroy".to_owned(),
                    4,
                    "no drive of slot 1",
                ),
            ]);
        } else {
            let spare = format!("{} --spare o/drive0", case.serves(MEMBERS));
            table.extend([
                (format!("array offline {MEMBERS} --slot 1"), 5, "not served"),
                (spare, 4, "array other"),
                (format!("array scrub {}", case.with(MEMBERS)), 4, "several shards"),
            ]);
        }
        // The copy of a drive was taken for one that a forced start had left out.
        case.copy();
        let mut with_copy = Vec::new();
        for drives in [format!("{MEMBERS} copy/drive0"), format!("copy/drive0 {MEMBERS}")] {
            let status = format!("array status {}", case.with(&drives));
            let copy = "copy: says that it is slot 0, as another drive does";
            with_copy.extend([(case.serves(&drives), 4, "one is a copy"), (status, 0, copy)]);
        }
        table.extend(with_copy.clone());
        case.changes_nothing(&["d", "s", "n", "o", "copy"], &table);
        case.is_whole();
        // It is older than the array now.
        case.changes_nothing(&["d", "s", "copy"], &with_copy);
    }
}

/// Verbs on copies reached the running array, whose superblocks they have.
#[test]
fn copies_of_a_served_volume_give_no_orders() {
    let copies = MEMBERS.replace("d/", "copy/");
    for kind in KINDS {
        let case = Case::with_data(kind);
        case.copy();
        case.place.run("emu create o --drives 2 --zones 24 --zone-capacity 1MiB").exits(0);
        case.place.run("array create other o/drive0 o/drive1 --level raid1 --size max").exits(0);
        let of_copies = |verb: &str| format!("array {verb} {copies}");
        let mut table = vec![
            (of_copies("clear"), 4, "a copy of"),
            (of_copies("jobs"), 4, "a copy of"),
            (of_copies("jobs --history"), 4, "a copy of"),
            (of_copies("scrub --pause"), 4, "a copy of"),
            (of_copies("scrub --stop"), 4, "a copy of"),
            ("array spare add copy/drive0 n/drive0".to_owned(), 4, "a copy of"),
            ("events copy/drive3".to_owned(), 4, "a copy of"),
            (format!("array rename {copies} next"), 4, "array stop vol0"),
            (format!("array destroy {copies} --yes"), 4, "array stop vol0"),
            ("drive wipe copy/drive0 --yes".to_owned(), 4, "a member of array vol0"),
            (
                "array replace d/drive0 --slot 1 --with copy/drive2".to_owned(),
                4,
                "slot 1 is online",
            ),
        ];
        if kind == Kind::Zoned {
            for verb in ["read", "write", "append", "reset", "finish", "open", "close"] {
                table.push((format!("zoned {verb} {copies} --zone 0"), 4, "a copy of"));
            }
            table.push((format!("zoned report {copies}"), 4, "a copy of"));
            table.push(("array spare add vol0 o/drive0".to_owned(), 4, "zoned volume"));
        } else {
            table.extend([
                (of_copies("offline --slot 1"), 4, "a copy of"),
                (of_copies("online --slot 1 --with n/drive0"), 4, "a copy of"),
                ("zones copy/drive0 --by valid".to_owned(), 4, "a copy of"),
                ("array spare add d/drive0 copy/drive1".to_owned(), 4, "a spare must be blank"),
                ("array spare add d/drive0 o/drive0".to_owned(), 4, "a spare must be blank"),
            ]);
        }
        let server = case.serve(MEMBERS);
        case.changes_nothing(&["copy", "n", "o"], &table);
        case.place.run("array status d/drive0 --check").exits(0);
        server.stop();
        case.is_whole();
    }
}

/// The volume that was meant is served; its copy was overwritten.
#[test]
fn no_store_is_made_on_copies_of_a_served_volume() {
    let case = Case::new(Kind::Zoned);
    case.copy();
    let server = case.serve(MEMBERS);
    let store = MEMBERS.replace("d/", "copy/").replace(' ', ",");
    case.changes_nothing(&["copy"], &[(format!("fs mkfs {store}"), 4, "a copy of")]);
    server.stop();
}

/// Of a drive and its older copy, the one that was named last was called the copy, to be left out.
#[test]
fn the_older_of_two_copies_is_the_one_to_leave_out() {
    for kind in KINDS {
        let case = Case::with_data(kind);
        case.copy();
        case.is_whole();
        for drives in [format!("{MEMBERS} copy/drive0"), format!("copy/drive0 {MEMBERS}")] {
            let status = case.place.run(&format!("array status {}", case.with(&drives))).exits(0);
            status.says("copy/drive0 copy: says that it is slot 0, as another drive does");
        }
    }
}
