//! `array destroy`: nothing finds the array afterwards, and nothing starts what is left of it
//! before.

use std::fs;
use std::rc::Rc;

use zoneweave_linux::{Drive, Ring};
use zoneweave_raid::log::recover::records::{mark_destroyed, read_records};
use zoneweave_runtime::Executor;

use crate::common::{MEMBERS, Place, SmallDisk, pattern};

const SCAN: &str = "array assemble --scan --config z.toml";

fn configured(place: &Place) {
    let table = "[volume.vol0]\nsearch = [\"d\"]\nnbd = { socket = \"unix:s.sock\" }\n";
    fs::write(place.path("z.toml"), table).unwrap();
}

/// The bytes of the drives.
fn media(place: &Place) -> Vec<Vec<u8>> {
    (0..6).map(|drive| fs::read(place.path(&format!("d/drive{drive}"))).unwrap()).collect()
}

#[test]
fn an_array_is_shown_then_destroyed_and_its_drives_are_blank() {
    let place = Place::with_array();
    configured(&place);
    let server = place.serve(MEMBERS);
    server.client().write(0, &pattern(1, 1 << 20));
    place.run("array destroy vol0 --search d --yes").exits(4).complains("array stop vol0");
    server.stop();
    let before = media(&place);
    let shown = place.run(&format!("array destroy {MEMBERS} --dry-run")).exits(0);
    let shown = shown.says("vol0 would be destroyed").says("slot").says("d/drive3");
    assert!(shown.stdout.contains("MiB on media"), "{shown:?}");
    let shown = place.run("--json array destroy vol0 --search d --dry-run").exits(0);
    let shown = shown.document("array-destroy");
    assert_eq!((&shown["name"], &shown["dry_run"]), (&"vol0".into(), &true.into()));
    assert_eq!(shown["drives"].as_array().unwrap().len(), 4);
    assert!(shown["written_bytes"].as_u64().unwrap() >= 1 << 20, "{shown}");
    place.run("array destroy vol0 --search d").exits(4).complains("array vol0 with its 4 drives");
    assert!(media(&place) == before, "nothing was written");
    place.run("array destroy vol0 --search d --yes").exits(0).says("vol0 destroyed");
    place.run(SCAN).exits(0).says("vol0: absent");
    place.run(&format!("array status {MEMBERS}")).exits(3);
    place.run("array destroy vol0 --search d --yes").exits(3);
    // Blank: nobody has to agree to their use.
    place.run(&format!("array create vol1 {MEMBERS} --size max --chunk 4KiB")).exits(0);
}

/// Marks drives, as a command does that is interrupted then.
fn mark(place: &Place, drives: &[&str]) {
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    for drive in drives {
        let drive = Drive::open(&ring, &executor.handle(), &place.path(drive)).unwrap();
        let marked = executor.run(async {
            let records = read_records(&drive).await.unwrap();
            let array = records.newest().unwrap().config.array;
            mark_destroyed(&drive, array).await
        });
        marked.unwrap();
    }
}

#[test]
fn what_is_left_of_an_array_that_is_being_destroyed_never_starts() {
    let place = Place::with_drives();
    let all = ["d/drive0", "d/drive1", "d/drive2", "d/drive3"];
    place
        .run(&format!("array create vol0 {MEMBERS} --level raid6 --size max --chunk 4KiB"))
        .exits(0);
    configured(&place);
    mark(&place, &all[..3]);
    place.run(SCAN).exits(0).says("vol0: being destroyed");
    let refused = place.run(&format!("serve nbd {MEMBERS} --socket unix:s.sock")).exits(4);
    refused.complains("array vol0 is being destroyed");
    // Three of four are enough for RAID-6, and force takes less.
    for some in [MEMBERS, "d/drive0 d/drive1 d/drive2", "d/drive0 d/drive3 d/drive1"] {
        let serve = format!("serve nbd {some} --force --without any --socket unix:s.sock");
        place.run(&serve).exits(4).complains("is being destroyed");
    }
    let status = place.run(&format!("array status {MEMBERS} --check")).exits(12);
    status.says("is being destroyed");
    // A member without a mark is here, so that others may be without one, too.
    place.run("array destroy d/drive0 d/drive3 --yes").exits(4).complains("slots 1, 2");
    // All are marked, and one is erased: the same command goes on.
    mark(&place, &all);
    place.run("drive wipe d/drive0 --force --yes").exits(0);
    place.run("array destroy vol0 --search d --dry-run").exits(0);
    place.run("array destroy vol0 --search d --yes").exits(0);
    place.run(SCAN).exits(0).says("vol0: absent");
}

/// The first shard of a volume was published before the second one refused the start.
#[test]
fn a_volume_of_which_one_shard_is_marked_starts_nothing() {
    let place = Place::with_drives();
    place.run(&format!("array create vol0 --shards 2 --level raid1 {MEMBERS} --size max")).exits(0);
    configured(&place);
    mark(&place, &["d/drive2"]);
    let before = media(&place);
    place.run(SCAN).exits(0).says("vol0: being destroyed");
    let serve = format!("serve nbd {MEMBERS} --socket unix:s.sock");
    place.run(&serve).exits(4).complains("is being destroyed");
    assert!(media(&place) == before, "nothing was written");
    place.run("array destroy vol0 --search d --yes").exits(0);
}

#[test]
fn a_drive_without_space_for_its_mark_leaves_all_others_unmarked() {
    let place = Place::with_drives();
    let Some(disk) = SmallDisk::new(&place, "small", 2048) else { return };
    place.run("emu create small --drives 1 --zones 16 --zone-capacity 256KiB").exits(0);
    let drives = "d/drive0 d/drive1 d/drive2 small/drive0";
    place.run(&format!("array create vol0 {drives} --size max --chunk 4KiB")).exits(0);
    disk.fill();
    let stuck = place.run(&format!("array destroy {drives} --yes")).exits(1);
    stuck.complains("small/drive0").complains("no space left");
    disk.free();
    place.run(&format!("array status {drives} --check")).exits(0);
    place.run(&format!("array destroy {drives} d/drive4 --yes")).exits(0);
}

/// A drive of a volume that was destroyed without it comes back, and another volume has the name.
#[test]
fn a_drive_left_behind_makes_no_second_array_of_its_name() {
    let place = Place::with_array();
    configured(&place);
    fs::rename(place.path("d/drive3"), place.path("drive3")).unwrap();
    place.run("array destroy d/drive0 d/drive1 d/drive2 --yes --force").exits(0);
    let drives = "d/drive0 d/drive1 d/drive2 d/drive4";
    place.run(&format!("array create vol0 {drives} --size max --chunk 4KiB")).exits(0);
    fs::rename(place.path("drive3"), place.path("d/drive3")).unwrap();
    place.run(SCAN).exits(0).says("vol0: ready");
    // Two whole ones are ambiguous, and neither hinders other volumes.
    place.run("emu create e --drives 2 --zones 16 --zone-capacity 256KiB").exits(0);
    place.run("array create vol0 e/drive0 e/drive1 --size max --chunk 4KiB").exits(0);
    let table = "[volume.vol0]\nsearch = [\"d\", \"e\"]\nublk = true\n";
    fs::write(place.path("z.toml"), table).unwrap();
    place.run(SCAN).exits(0).says("vol0: ambiguous");
    place.run("array destroy vol0 --search d --search e --yes").exits(4).complains("UUID");
}

/// Each half of a mirror was started without the other. Nothing could destroy the array.
#[test]
fn an_array_of_two_histories_is_destroyed_by_force_only() {
    let place = Place::with_drives();
    place.run("array create m d/drive0 d/drive1 --level raid1 --size max").exits(0);
    for drive in ["d/drive0", "d/drive1"] {
        place.serve(&format!("{drive} --force")).stop();
    }
    let before = media(&place);
    place.run("array destroy d/drive0 d/drive1 --yes").complains("two histories");
    let shown = place.run("array destroy d/drive0 d/drive1 --force --dry-run").exits(0);
    shown.says("m would be destroyed").says("d/drive0").says("d/drive1");
    assert!(media(&place) == before, "nothing was written");
    place.run("array destroy d/drive0 d/drive1 --force --yes").exits(0).says("m destroyed");
    place.run("array create m d/drive0 d/drive1 --level raid1 --size max").exits(0);
}

#[test]
fn shards_and_zoned_volumes_are_destroyed_whole() {
    let place = Place::with_drives();
    place.run(&format!("array create wide --shards 2 --level raid1 {MEMBERS} --size max")).exits(0);
    place.run("array destroy d/drive0 d/drive1 --yes").exits(4).complains("shard 1 of array wide");
    place
        .run("array destroy d/drive0 d/drive2 d/drive3 --yes")
        .exits(4)
        .complains("slot 1 of shard 0");
    let shown = place.run("array destroy wide --search d --dry-run").exits(0);
    shown.says("shard slot drive written").says("1 1 d/drive3");
    place.run("array destroy wide --search d --yes").exits(0);
    place.run(&format!("array status {MEMBERS}")).exits(3);
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create z {MEMBERS} --kind zoned")).exits(0);
    let server = place.serve_zoned(MEMBERS);
    place.run(&format!("array destroy {MEMBERS} --yes")).exits(4).complains("array stop z");
    server.stop();
    place.run(&format!("array destroy {MEMBERS} --yes")).exits(0).says("z destroyed");
    place.run(&format!("array create z {MEMBERS} --kind zoned")).exits(0);
}
