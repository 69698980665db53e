//! Several bad drives at once, drives under several names, and drives in files without room.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;

use super::{Case, Kind};
use crate::common::{Ended, MEMBERS, Place, SmallDisk, pattern};

/// Only the first was named, with the advice to start without that one, which cannot work.
#[test]
fn all_drives_that_cannot_be_used_are_named_at_once() {
    for kind in [Kind::Log, Kind::Zoned] {
        let case = Case::with_data(kind);
        for slot in [1, 3] {
            fs::write(case.place.path(&format!("d/drive{slot}")), "no drive").unwrap();
        }
        let refused = case.place.run(&case.serves(MEMBERS)).exits(1);
        let refused = refused.complains("d/drive1").complains("d/drive3: the file is not a drive");
        assert!(!refused.stderr.contains("--without"), "{refused:#?}");
        let refused = case.place.run(&format!("array destroy {MEMBERS} --yes")).exits(1);
        refused.complains("d/drive1").complains("d/drive3: the file is not a drive");
        let refused = case.place.run("array create x n/drive0 gone n/drive1 away --size max");
        refused.exits(3).complains("gone does not exist").complains("away does not exist");
        // Its help says so.
        let destroyed = case.place.run(&format!("array destroy {MEMBERS} --yes --force")).exits(0);
        destroyed.complains("d/drive1").complains("this drive keeps what it holds");
        case.place.run("array status d/drive0 d/drive2").exits(3);
    }
}

/// Where the others are enough, the advice names every drive to leave out.
#[test]
fn advice_to_start_without_drives_names_all_of_them() {
    let place = Place::with_drives();
    let all = "d/drive0 d/drive1 d/drive2 d/drive3 d/drive4";
    place.run(&format!("array create vol0 {all} --level raid6 --size max --chunk 4KiB")).exits(0);
    place.run("emu create n --drives 2 --zones 16 --zone-capacity 256KiB").exits(0);
    for drive in ["d/drive1", "d/drive3"] {
        fs::remove_file(place.path(drive)).unwrap();
    }
    let refused = place.run(&format!("serve nbd {all} --socket unix:s.sock")).exits(3);
    refused.complains("--without d/drive1 --without d/drive3");
    let blank = "d/drive0 n/drive0 d/drive2 n/drive1 d/drive4";
    let refused = place.run(&format!("serve nbd {blank} --socket unix:s.sock")).exits(4);
    let refused = refused.complains("n/drive0 holds nothing; n/drive1 holds nothing");
    refused.complains("--without n/drive0 --without n/drive1");
}

/// A link to a drive in a folder that is searched was called a drive given twice.
#[test]
fn a_drive_with_two_names_in_a_folder_is_found_once() {
    let case = Case::new(Kind::Log);
    symlink("drive0", case.place.path("d/a-link")).unwrap();
    symlink("drive2", case.place.path("d/link")).unwrap();
    let serve = "serve nbd --array vol0 --search d --socket unix:s.sock";
    let server = case.place.start(serve, "nbdinfo '");
    case.place.run("array status d/drive0 --check").exits(0);
    server.stop();
    case.place.run("array rename vol0 next --search d").exits(0);
    case.place.run("array destroy next --search d --yes").exits(0);
    case.place.run("array list d").exits(0).says("blank");
}

/// The folder of the link was named, which has room.
#[test]
fn the_folder_that_is_full_is_that_of_the_file() {
    let place = Place::with_drives();
    let Some(disk) = SmallDisk::new(&place, "small", 2048) else { return };
    place.run("emu create small --drives 1 --zones 16 --zone-capacity 256KiB").exits(0);
    fs::remove_file(place.path("d/drive3")).unwrap();
    symlink("../small/drive0", place.path("d/drive3")).unwrap();
    place.run(&format!("array create vol0 {MEMBERS} --size max --chunk 4KiB")).exits(0);
    disk.fill();
    let refused = place.run(&format!("serve nbd {MEMBERS} --socket unix:s.sock")).exits(1);
    refused.complains("no space left for d/drive3").complains("/small has ");
    place
        .run(&format!("array status {MEMBERS}"))
        .exits(0)
        .says("free some space in /")
        .says("/small");
}

/// "More drives are lost than the redundancy covers", said some, and others "write fault".
#[test]
fn zoned_verbs_of_a_volume_without_room_say_so() {
    let place = Place::new();
    let Some(disk) = SmallDisk::new(&place, "d", 8 << 10) else { return };
    place.run("emu create d/x --drives 4 --zones 16 --zone-capacity 4MiB").exits(0);
    let members = "d/x/drive0 d/x/drive1 d/x/drive2 d/x/drive3";
    place.run(&format!("array create z {members} --kind zoned")).exits(0);
    fs::write(place.path("input"), pattern(3, 12 << 20)).unwrap();
    let mut write = place.command(&format!("zoned write {members} --zone 0"));
    write.stdin(fs::File::open(place.path("input")).unwrap());
    let full = Ended::of_command(&mut write);
    assert_ne!(full.code, 0, "{full:#?}");
    full.complains("no space left for d/x/drive");
    disk.fill();
    for verb in ["zoned report", "array scrub", "array clear"] {
        let refused = place.run(&format!("{verb} {members}")).exits(1);
        refused.complains("no space left for d/x/drive").complains("free some space");
    }
    place.run(&format!("zoned read {members} --zone 0")).exits(1).complains("free some space");
}

/// The drive was to be replaced.
#[test]
fn a_drive_without_room_is_to_get_some_and_to_come_back() {
    let place = Place::with_drives();
    let Some(disk) = SmallDisk::new(&place, "small", 1536) else { return };
    place.run("emu create small --drives 1 --zones 16 --zone-capacity 256KiB").exits(0);
    let members = "d/drive0 d/drive1 d/drive2 small/drive0";
    place.run(&format!("array create vol0 {members} --size max --chunk 4KiB")).exits(0);
    let server = place.serve(members);
    disk.fill();
    let mut client = server.client();
    client.write(0, &pattern(5, 1 << 20));
    client.flush();
    let status = place.run("array status d/drive0 --check").exits(11).says("free some space in /");
    status.says("then put the drive of slot 3 back");
    disk.free();
    let status = place.run("array status d/drive0 --check").exits(11);
    status.says("action put the drive of slot 3 back");
    place.run("array online d/drive0 --slot 3 --with small/drive0").exits(0).says("HEALTHY");
    assert!(client.read(0, 1 << 20) == pattern(5, 1 << 20));
    drop(client);
    server.stop();
}

/// Two drives of another array made the status FAILED, with lost drives to bring back.
#[test]
fn drives_of_another_array_do_not_stand_for_drives_that_were_not_named() {
    for kind in [Kind::Log, Kind::Zoned] {
        let case = Case::new(kind);
        case.place.run("emu create o --drives 3 --zones 24 --zone-capacity 1MiB").exits(0);
        let options = if kind == Kind::Zoned { "--kind zoned --unit 16KiB" } else { "--size max" };
        let create = "array create other o/drive0 o/drive1 o/drive2";
        case.place.run(&format!("{create} {options}")).exits(0);
        let mixed = "d/drive0 o/drive1 d/drive2";
        let status = case.place.run(&format!("array status --check {mixed}")).exits(14);
        status.says("only 2 of its 4 drives were named");
    }
}

/// The advice was to kill the server, which was healthy.
#[test]
fn a_server_that_this_user_may_not_reach_is_not_called_hung() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: ANOTHER USER NEEDS ROOT");
        return;
    }
    let case = Case::new(Kind::Log);
    let mode = |name: &str, mode| {
        fs::set_permissions(case.place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    (0..4).for_each(|drive| mode(&format!("d/drive{drive}"), 0o666));
    let server = case.serve(MEMBERS);
    let as_nobody = |words: &str| {
        let mut command = case.place.command(words);
        Ended::of_command(command.uid(65534).gid(65534))
    };
    let status = as_nobody(&format!("array status {MEMBERS} --check")).exits(14);
    let status = status.says("served by someone else");
    assert!(!format!("{status:?}").contains("kill -9"), "{status:#?}");
    let jobs = as_nobody("array jobs d/drive0").exits(5);
    jobs.complains("this user may not reach a server");
    server.stop();
    as_nobody(&format!("array status {MEMBERS} --check")).exits(0);
}
