//! Drives that are to become members: nothing is given up for one that is of no use.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::{MEMBERS, Place, SmallDisk};

/// Five drives in `d`, and one in `full` on a file system without space; `None` without root.
fn with_full_drive() -> Option<(Place, SmallDisk)> {
    let place = Place::new();
    place.run("emu create d --drives 5 --zones 16 --zone-capacity 4MiB").exits(0);
    let disk = SmallDisk::new(&place, "full", 1500)?;
    place.run("emu create full --drives 1 --zones 16 --zone-capacity 4MiB").exits(0);
    disk.fill();
    Some((place, disk))
}

fn media(place: &Place) -> Vec<Vec<u8>> {
    let read = |at| fs::read(place.path(&format!("d/drive{at}"))).unwrap();
    (0..5).map(read).collect()
}

/// The working drive was out of service before the new one could not be written.
#[test]
fn a_full_file_system_costs_no_working_drive() {
    let Some((place, _disk)) = with_full_drive() else { return };
    for kind in ["--size max", "--kind zoned"] {
        place.run(&format!("array create vol0 {MEMBERS} {kind} --yes-destroy")).exits(0);
        let replace = "--slot 3 --with full/drive0 --yes-destroy";
        let before = media(&place);
        for options in ["", "--dry-run"] {
            let refused = place.run(&format!("array replace {MEMBERS} {replace} {options}"));
            refused.exits(1).complains("no space left for full/drive0").complains("nothing was");
        }
        assert!(media(&place) == before, "{kind}");
        let is_block = kind == "--size max";
        let server = if is_block { place.serve(MEMBERS) } else { place.serve_zoned(MEMBERS) };
        let refused = place.run(&format!("array replace d/drive0 {replace}")).exits(1);
        refused.complains("no space left for").complains("free some space");
        if is_block {
            let refused = place.run("array spare add d/drive0 full/drive0").exits(1);
            refused.complains("no space left");
        }
        place.run("array status d/drive0 --check").exits(0).says("HEALTHY");
        server.stop();
    }
    place.run(&format!("array create vol0 {MEMBERS} --size max --yes-destroy")).exits(0);
    let serve = format!("serve nbd {MEMBERS} --spare full/drive0 --socket unix:s.sock");
    place.run(&serve).exits(1).complains("no space left");
}

/// The older array was erased, and the new one could not be made.
#[test]
fn no_array_is_erased_for_one_that_has_no_space() {
    let Some((place, disk)) = with_full_drive() else { return };
    place.run(&format!("array create old {MEMBERS} --size max")).exits(0);
    let before = media(&place);
    for kind in ["--size max", "--kind zoned"] {
        let create = format!("array create new {MEMBERS} full/drive0 {kind} --yes-destroy");
        place.run(&create).exits(1).complains("no space left for full/drive0");
        assert!(media(&place) == before, "{kind}");
    }
    place.run(&format!("array status {MEMBERS} --check")).exits(0).says("old");
    disk.free();
    let create = format!("array create new {MEMBERS} full/drive0 --size max --yes-destroy");
    place.run(&create).exits(0);
}

/// Half of the drives was wasted without a word.
#[test]
fn a_zoned_volume_of_unequal_drives_tells_what_is_unused() {
    let place = Place::new();
    place.run("emu create a --drives 2 --zones 32 --zone-capacity 4M").exits(0);
    place.run("emu create b --drives 2 --zones 16 --zone-capacity 8M").exits(0);
    let drives = "a/drive0 a/drive1 b/drive0 b/drive1";
    for kind in ["--size max", "--kind zoned"] {
        let told = place.run(&format!("array create y {drives} {kind} --dry-run")).exits(0);
        told.complains("the drives differ").complains("64 MiB of a/drive0");
    }
    // Those of each shard.
    let shards = "a/drive0 b/drive0 a/drive1 b/drive1 --shards 2 --level raid1 --size max";
    let told = place.run(&format!("array create y {shards} --dry-run")).exits(0);
    told.complains("64 MiB of a/drive0").complains("64 MiB of a/drive1");
}

/// The advice was to replace a drive that only could not be opened.
#[test]
fn the_reason_why_a_drive_cannot_be_opened_comes_first() {
    let place = Place::with_array();
    let drive = place.path("d/drive3");
    fs::rename(&drive, place.path("kept")).unwrap();
    symlink(&drive, &drive).unwrap();
    for verb in ["fail", "replace --with d/drive4 --yes-destroy"] {
        let refused = place.run(&format!("array {verb} {MEMBERS} --slot 2")).exits(4);
        let said = refused.complains("slot 3 of array vol0 is missing").stderr;
        let reason = said.find("symbolic links").unwrap_or_else(|| panic!("{said}"));
        assert!(reason < said.find("is missing").unwrap(), "{said}");
    }
}
