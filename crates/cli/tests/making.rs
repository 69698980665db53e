//! Creating drives and arrays: refusals, their reasons and exit codes.

use std::fs;
use std::process::Command;

use crate::common::{Ended, MEMBERS, Place, SmallDisk};
use zoneweave_emulator::preset;

#[test]
fn drives_are_sparse_files_and_never_overwritten() {
    let place = Place::new();
    let made = place.run("--json emu create d --drives 3 --zones 8 --zone-capacity 1MiB").exits(0);
    let made = made.document("emu-create");
    assert_eq!(made["capacity_bytes"], 8 << 20);
    assert_eq!(made["drives"][2]["path"], "d/drive2");
    let before = fs::read(place.path("d/drive0")).unwrap();
    place.run("emu create d --drives 1").exits(4).complains("never overwritten");
    assert_eq!(fs::read(place.path("d/drive0")).unwrap(), before);
    fs::create_dir(place.path("e")).unwrap();
    fs::write(place.path("e/drive1"), "precious").unwrap();
    place.run("emu create e --drives 2").exits(4).complains("e/drive1 exists");
    assert!(!place.path("e/drive0").exists(), "nothing is made if something is in the way");
}

/// A signal ended the command, as it would have ended a server.
#[test]
fn a_limit_of_file_sizes_is_an_error_like_others() {
    let place = Place::new();
    let create = place.command("emu create d --drives 1 --zones 8 --zone-capacity 1MiB");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("ulimit -f 100 && exec \"$0\" \"$@\"");
    shell.arg(create.get_program()).args(create.get_args()).current_dir(place.path(""));
    let ended = Ended::of_command(&mut shell).complains("File too large");
    assert!(ended.code > 0, "{ended:?}");
}

#[test]
fn drives_without_metadata_make_arrays_of_their_own() {
    let place = Place::new();
    place
        .run("emu create d --drives 4 --zones 16 --zone-capacity 1MiB --without-metadata")
        .exits(0);
    let members = "d/drive0 d/drive1 d/drive2 d/drive3";
    place.run(&format!("array create vol0 --level raid5 --size 4MiB {members}")).exits(0);
    place.run(&format!("array scrub {members}")).exits(0).says("no damage");
    place.run(&format!("array check {members}")).exits(0);
    place.run("emu create e --drives 1 --zones 16 --zone-capacity 1MiB").exits(0);
    let odd = format!("array create vol1 --size max {members} --yes-destroy --chunk 16KiB");
    place.run(&odd).exits(2).complains("a multiple of that, such as 28 KiB");
    let lanes = format!("serve nbd {members} --socket unix:s.sock --small 3x8KiB");
    place.run(&lanes).exits(1).complains("chunks of 8 KiB").complains("write unit of 28 KiB");
    let small = "emu create f --drives 2 --zones 16 --zone-capacity 32KiB --without-metadata";
    place.run(small).exits(0);
    place
        .run("array create vol1 --size max f/drive0 f/drive1")
        .exits(1)
        .complains("zones must hold 64 KiB");
    let mixed = "array create vol1 --level raid1 --size 1MiB e/drive0 d/drive0 --yes-destroy --destroy d/drive0";
    place.run(mixed).exits(1).complains("either all drives");
}

#[test]
fn unknown_words_are_wrong_usage() {
    let place = Place::new();
    place.run("emu create d --preset zn540").exits(2).complains("choose one of instant");
    place.run("emu create d --zone-capacity 5000").exits(2).complains("multiple of the block size");
    place.run("emu create d --drives 0").exits(2);
    place.run("emu create d --zones 0").exits(1).complains("at least one zone");
    assert!(!place.path("d").exists(), "refused, and nothing is left of it");
    place.run("array fial d").exits(2).complains("fail");
    place.run("").exits(2);
    place.run("array create vol0 --size max").exits(2).complains("DRIVE");
}

#[test]
fn what_cannot_be_made_leaves_nothing_behind() {
    let place = Place::new();
    place.run("emu create a/b --drives 2 --zones 0").exits(1).complains("at least one zone");
    assert!(!place.path("a").exists(), "directories that were made for it are gone, too");
    fs::create_dir(place.path("k")).unwrap();
    place.run("emu create k/l --zones 0").exits(1);
    assert!(place.path("k").exists() && !place.path("k/l").exists());
    // Possible drives for an impossible array.
    place.run("quickstart q --zones 4").exits(2).complains("too few");
    place.run("quickstart q --drives 2 --level raid6").exits(2).complains("at least 3 drives");
    place.run("quickstart q --name a/b").exits(2).complains("cannot be a name");
    assert!(!place.path("q").exists(), "the next one begins anew");
    fs::write(place.path("k/precious"), "data").unwrap();
    place.run("quickstart k --zones 4").exits(2);
    let left = fs::read_dir(place.path("k")).unwrap().count();
    assert_eq!(left, 1, "what was there stays");
}

#[test]
fn presets_are_listed_printed_and_made() {
    let place = Place::new();
    let list = place.run("emu presets").exits(0).says("zn540-1tb").says("904 x").says("femu");
    assert_eq!(list.stdout.lines().count(), 1 + preset::names().len(), "a head and a line each");
    let list = place.run("--json emu presets").exits(0).document("emu-presets");
    assert_eq!(list["presets"][0]["name"], "instant");
    place.run("emu presets femu").exits(0).says("program_us = 140.0");
    place.run("emu presets none").exits(3).complains("there are instant");
    let made = place.run("--json emu create d --drives 1 --preset zn540-1tb").exits(0);
    let made = made.document("emu-create");
    assert_eq!((&made["zones"], &made["preset"]), (&904.into(), &"zn540-1tb".into()));
    assert_eq!(made["zone_capacity_bytes"], 1077_u64 << 20);
    place.run("inspect d/drive0").exits(0).says("as zn540-1tb").says("0 worn zones");
    let few = "emu create e --drives 1 --preset femu-wa-zone --zones 8";
    place.run(few).exits(0).says("8 zones of 128 MiB").says("as femu-wa-zone");
    place.run("zones e/drive0").exits(0).says("erase-block cycles at most 0");
    let map = place.run("--json zones e/drive0").exits(0).document("zones");
    assert_eq!(map["drives"][0]["wear"]["erases"]["max"], 0);
    let small = "emu create f --preset femu-wa-zone --zone-capacity 4KiB";
    place.run(small).exits(2).complains("`wear` is refused");
    place.run("emu create f --preset femu --zones 0").exits(2).complains("at least one zone");
    place
        .run("emu create f --preset mine.toml")
        .exits(2)
        .complains("store the name of their preset");
    assert!(!place.path("f").exists(), "refused before anything is made");
    let instant = place.run("--json emu create g --drives 1 --preset instant").exits(0);
    let instant = instant.document("emu-create");
    assert_eq!((&instant["zones"], &instant["preset"]), (&256.into(), &serde_json::Value::Null));
}

#[test]
fn every_level_makes_the_scheme_it_names() {
    for (level, drives, scheme) in [
        ("raid0", 2, "raid0 2+0"),
        ("raid1", 2, "raid1 1+1"),
        ("raid1", 3, "raid1 1+2"),
        ("raid5", 2, "raid1 1+1"),
        ("raid01", 6, "raid01 3+3"),
        ("raid4", 4, "raid4 3+1"),
        ("raid5", 4, "raid5 3+1"),
        ("raid6", 6, "raid6 4+2"),
        ("raid --data 3 --parity 3", 6, "raid 3+3"),
    ] {
        let place = Place::with_drives();
        let drives: Vec<_> = (0..drives).map(|number| format!("d/drive{number}")).collect();
        let line = format!("--json array create v {} --level {level} --size max", drives.join(" "));
        let made = place.run(&line).exits(0).document("array-create");
        assert!(made["scheme"].as_str().unwrap().ends_with(scheme), "{made}");
        let status = place.run(&format!("--json array status {}", drives.join(" "))).exits(0);
        assert_eq!(status.document("array-status")["health"], "healthy");
    }
}

#[test]
fn impossible_arrays_are_refused_before_anything_is_touched() {
    let place = Place::with_drives();
    let create = |rest: &str| place.run(&format!("array create {rest}"));
    create("v d/drive0 d/drive1 --level raid4 --size max").exits(2).complains("at least 3 drives");
    create("v d/drive0 d/drive1 --level raid01 --size max").exits(2).complains("at least 4 drives");
    let five = "v d/drive0 d/drive1 d/drive2 d/drive3 d/drive4 --level raid01 --size max";
    create(five).exits(2).complains("an even number of drives");
    create(&format!("v {MEMBERS} --level raid --size max")).exits(2).complains("--data K");
    create(&format!("v {MEMBERS} --data 2 --parity 2 --size max"))
        .exits(2)
        .complains("--level raid");
    create(&format!("v {MEMBERS} --level raid --data 9 --parity 1 --size max"))
        .exits(2)
        .complains("needs 10 drives");
    create("v d/drive0 --size max").exits(2).complains("at least 2 drives");
    create(&format!("v {MEMBERS} --size 1TiB")).exits(2).complains("does not fit");
    create(&format!("v {MEMBERS} --size 1000")).exits(2).complains("block size");
    create(&format!("a/b {MEMBERS} --size max")).exits(2).complains("cannot be a name");
    create("v d/drive0 d/drive1 d/drive9 --size max").exits(3).complains("d/drive9 does not exist");
    create("v d/drive0 d/drive1 d/drive0 --size max").exits(2).complains("d/drive0 is given twice");
    create("v d/drive0 d/drive1 d --size max").exits(1).complains("d is a directory, not a drive");
    let status = place.run(&format!("array status {MEMBERS}"));
    status.exits(3).complains("none of these drives belongs to an array");
}

#[test]
fn drives_that_hold_something_are_destroyed_on_request_only() {
    let place = Place::with_array();
    let before = fs::read(place.path("d/drive2")).unwrap();
    let again = "array create other d/drive2 d/drive4 d/drive5 --size max";
    place.run(again).exits(4).complains("d/drive2 holds a member of array vol0");
    assert_eq!(fs::read(place.path("d/drive2")).unwrap(), before);
    place.run(&format!("--json {again}")).exits(4).document("error");
    place.run(&format!("{again} --yes-destroy")).exits(0);
    place.run("array status d/drive2 d/drive4 d/drive5 --check").exits(0).says("other  HEALTHY");
}

/// `--data` and `--parity` were refused with every level but `raid`, also where they agree.
#[test]
fn chunks_that_agree_with_the_level_are_accepted() {
    let made = |rest: &str| {
        let place = Place::with_drives();
        let ended = place.run(&format!("--json array create v {MEMBERS} --size max {rest}"));
        ended.exits(0).document("array-create")["scheme"].as_str().unwrap().to_owned()
    };
    assert_eq!(made("--level raid5 --data 3 --parity 1"), "raid5 3+1");
    assert_eq!(made("--data 3"), "raid5 3+1");
    assert_eq!(made("--level raid6 --parity 2"), "raid6 2+2");
    assert_eq!(made("--level raid01 --data 2 --parity 2"), "raid01 2+2");
    assert_eq!(made("--level raid --data 3"), "raid5 3+1");
    let place = Place::with_drives();
    let create = |rest: &str| place.run(&format!("array create v {MEMBERS} --size max {rest}"));
    create("--level raid5 --data 2")
        .exits(2)
        .complains("raid5 on 4 drives has 3 data and 1 parity");
    create("--level raid0 --parity 1").exits(2).complains("4 data and 0 parity chunks");
}

/// A volume as large as possible was written at nine times amplification, once it was full.
#[test]
fn a_reserve_is_left_unless_the_size_says_otherwise() {
    let created = |rest: &str| {
        let place = Place::new();
        place.run("emu create d --drives 4 --zones 128 --zone-capacity 8MiB").exits(0);
        let ended = place.run(&format!("--json array create v {MEMBERS} {rest}")).exits(0);
        let document = ended.document("array-create");
        let number = |name: &str| document[name].as_f64().unwrap();
        (number("size_bytes"), number("reserve_percent"), ended.stderr)
    };
    let (size, percent, told) = created("--size max");
    // A share of blocks, which binary fractions only approach.
    assert!((19.999..20.2).contains(&percent), "{percent}");
    assert!(!told.contains("warning"), "{told}");
    let (least, few, _) = created("--size max --reserve 0");
    assert!(least > size * 1.1 && few < 10.0, "{least} of {size}, {few}");
    let (_, _, told) = created(&format!("--size {least}"));
    assert!(told.contains("random writes cost about"), "{told}");
    let (half, percent, _) = created("--size max --reserve 100");
    assert!((99.999..102.0).contains(&percent) && half < size, "{percent}");
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 128 --zone-capacity 8MiB").exits(0);
    let refused = place.run(&format!("array create v {MEMBERS} --size {size} --reserve 40"));
    refused.exits(2).complains("40 % of reserve leave at most");
}

/// A shell puts drive10 before drive2, which gave it slot 2.
#[test]
fn drives_get_slots_in_the_order_of_their_numbers() {
    let place = Place::new();
    place.run("emu create d --drives 11 --zones 16 --zone-capacity 256KiB").exits(0);
    let glob = "d/drive0 d/drive1 d/drive10 d/drive2 d/drive3 d/drive4";
    let made = place.run(&format!("--json array create v {glob} --size max")).exits(0);
    let drives = made.document("array-create")["drives"].clone();
    assert_eq!((&drives[2], &drives[5]), (&"d/drive2".into(), &"d/drive10".into()));
    let list = place.run("--json array list d").exits(0).document("array-list");
    assert_eq!(
        (&list["drives"][10]["path"], &list["drives"][10]["slot"]),
        (&"d/drive10".into(), &5.into())
    );
    // Another order is what the operator wants.
    let own = "d/drive9 d/drive5 d/drive8";
    let made = place.run(&format!("--json array create w {own} --size max")).exits(0);
    assert_eq!(made.document("array-create")["drives"][1], "d/drive5");
}

/// Half of each drive was lost without a word.
#[test]
fn the_space_that_unequal_drives_waste_is_reported() {
    let place = Place::new();
    place.run("emu create a --drives 2 --zones 32 --zone-capacity 256KiB").exits(0);
    place.run("emu create b --drives 2 --zones 16 --zone-capacity 512KiB").exits(0);
    let made = place.run("--json array create v a/drive0 a/drive1 b/drive0 b/drive1 --size max");
    let made =
        made.exits(0).complains("the drives differ, and 16 zones of 256 KiB are used of each");
    let made = made.complains("4 MiB of a/drive0, 4 MiB of a/drive1, 4 MiB of b/drive0");
    assert_eq!(made.document("array-create")["unused_bytes"], 16 << 20);
}

#[test]
fn the_status_fits_a_terminal() {
    let place = Place::with_array();
    let fits = |drives: &str| {
        let status = place.run(&format!("array status {drives}")).exits(0);
        for line in status.stdout.lines() {
            let is_path = !line.trim().contains(' ') || line.contains("zoneweave array ");
            assert!(line.chars().count() <= 80 || is_path, "{line}");
        }
    };
    fits(MEMBERS);
    let server = place.serve(&format!("{MEMBERS} --spare d/drive4"));
    fits("d/drive0");
    place.run("array fail d/drive0 --slot 1").exits(0);
    fits("d/drive0");
    server.stop();
    fits("d/drive0 d/drive2 d/drive3 d/drive4");
    fits("d/drive0");
}

/// A file system that was full at the last drive left a degraded array of the others, and repeating
/// was refused.
#[test]
fn an_array_that_cannot_be_completed_is_not_left_half_made() {
    let place = Place::with_drives();
    let Some(disk) = SmallDisk::new(&place, "tt", 1 << 10) else { return };
    place.run("emu create tt --drives 1 --zones 16 --zone-capacity 256KiB").exits(0);
    disk.fill();
    for options in ["", "--level raid6 --size 1M", "--shards 2 --level raid1"] {
        let create = format!("array create half d/drive0 d/drive1 d/drive2 tt/drive0 {options}");
        let size = if options.contains("--size") { "" } else { "--size max" };
        let failed = place.run(&format!("{create} {size}")).exits(1).complains("no space left");
        assert!(!failed.stderr.contains("--yes-destroy"), "{failed:?}");
        for at in 0..3 {
            place.run(&format!("array list d/drive{at}")).exits(0).says("blank");
        }
    }
    disk.free();
    place.run("array create half d/drive0 d/drive1 d/drive2 tt/drive0 --size max").exits(0);
}

/// The array that is planned is the array that is made.
#[test]
fn a_plan_has_the_space_of_the_array() {
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 60 --zone-capacity 1MiB").exits(0);
    let made = "--json array create vol0 --size max d/drive0 d/drive1 d/drive2 d/drive3";
    let made = place.run(made).exits(0).document("array-create");
    let one = "[drive]\nmodel = \"instant\"\nzones = 60\nzone_capacity = \"1MiB\"\n\
               [host]\narrays = 1\n[cluster]\nhosts = 1\nracks = 1\n[pool]\ncopies = 1\n";
    fs::write(place.path("one.toml"), one).unwrap();
    let planned = place.run("--json plan one.toml --cycles 100").exits(0).document("plan");
    assert_eq!(planned["plan"]["capacity"]["volume_bytes"].as_f64(), made["size_bytes"].as_f64());
    let drawn = place.run("plan one.toml --cycles 100 --plot plan.svg").exits(0);
    drawn.says("raw for each usable byte").says("Markov chain");
    assert!(fs::read_to_string(place.path("plan.svg")).unwrap().contains("<svg"));
    fs::write(place.path("bad.toml"), "[pool]\ncopys = 2\n").unwrap();
    place.run("plan bad.toml").exits(2).complains("copys").complains("copies");
    place.run("plan none.toml").exits(3).complains("none.toml");
}
