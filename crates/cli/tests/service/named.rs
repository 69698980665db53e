//! Volumes that the configuration file names.

use std::fs;

use crate::common::{MEMBERS, Place, pattern};

/// A place with an array and a file that names it, with `options` of the volume.
fn named(options: &str) -> Place {
    let place = Place::with_array();
    let table = "[volume.vol0]\nsearch = [\"d\"]\nnbd = { socket = \"unix:s.sock\" }\n";
    fs::write(place.path("z.toml"), format!("{table}{options}")).unwrap();
    place
}

#[test]
fn a_named_volume_is_found_and_served() {
    let place = named("");
    let checked = place.run("config check --config z.toml").exits(0);
    let checked = checked.says("zoneweave serve nbd --socket=unix:s.sock --search=d --array=vol0");
    checked.says("d/drive0 d/drive1 d/drive2 d/drive3");
    let data = pattern(3, 1 << 16);
    let server = place.serve_named("vol0 --config z.toml");
    server.client().write(0, &data);
    server.client().flush();
    place.run("array status d/drive3").exits(0).says("vol0  HEALTHY");
    server.stop();
    // A drive of another array changes nothing, and one that is gone where the file allows it.
    place.run("array create other d/drive4 d/drive5 --level raid1 --size max").exits(0);
    fs::rename(place.path("d/drive1"), place.path("drive1")).unwrap();
    place.run("serve named vol0 --config z.toml").exits(1).complains("were not found");
    let table = fs::read_to_string(place.path("z.toml")).unwrap();
    fs::write(place.path("z.toml"), format!("{table}without = [\"any\"]\n")).unwrap();
    let server = place.serve_named("vol0 --config z.toml");
    assert!(server.announced.contains("DEGRADED"), "{}", server.announced);
    assert_eq!(server.client().read(0, data.len()), data);
    server.stop();
}

#[test]
fn the_drives_of_a_named_volume_may_come_later() {
    let place = named("wait = \"30s\"\n");
    fs::rename(place.path("d"), place.path("later")).unwrap();
    fs::create_dir(place.path("d")).unwrap();
    let starting = place.spawn("serve named vol0 --config z.toml", "waiting for array vol0");
    for drive in 0..4 {
        let name = format!("drive{drive}");
        fs::rename(place.path("later").join(&name), place.path("d").join(&name)).unwrap();
    }
    let server = starting.until("nbdinfo '");
    assert!(server.announced.contains("vol0  HEALTHY"), "{}", server.announced);
    server.stop();
}

#[test]
fn a_volume_that_cannot_be_found_is_not_served() {
    let place = named("wat = 1\n");
    let check = place.run("config check --config z.toml").exits(2);
    check.complains("z.toml:4: volume vol0: unknown key \"wat\": did you mean \"wait\"?");
    place.run("serve named vol0 --config z.toml").exits(2).complains("z.toml:4: ");
    fs::write(place.path("z.toml"), "[volume.vol1]\nublk = true\n").unwrap();
    place.run("serve named vol0 --config z.toml").exits(3).complains("its volumes: vol1");
    place.run("config check --config gone.toml").exits(3).complains("gone.toml");
    place
        .run("serve nbd --array vol7 --search d --socket unix:s.sock")
        .exits(3)
        .complains("no drive of array vol7 was found");
    place.run("serve nbd --array vol0 d/drive0 --socket unix:s.sock").exits(2);
    place.run("serve nbd --socket unix:s.sock").exits(2).complains("<DRIVE>");
}

#[test]
fn arrays_of_one_name_are_told_apart_by_uuid() {
    let place = Place::with_drives();
    for drives in ["d/drive0 d/drive1", "d/drive2 d/drive3"] {
        place.run(&format!("array create vol0 {drives} --level raid1 --size max")).exits(0);
    }
    let serve = "serve nbd --search d --socket unix:s.sock --array";
    place.run(&format!("{serve} vol0")).exits(4).complains("two arrays are called vol0");
    let listed = place.run("array list d --json").exits(0).document("array-list");
    let uuid = listed["drives"][2]["array"].as_str().unwrap().to_owned();
    let server = place.start(&format!("{serve} {uuid}"), "nbdinfo '");
    place.run("array status d/drive2").exits(0).says("vol0  HEALTHY");
    server.stop();
}

/// The drives of a start by name are those that are there: a late one would have been evicted.
#[test]
fn a_part_of_the_drives_is_started_only_on_request() {
    let place = Place::with_array();
    fs::rename(place.path("d/drive3"), place.path("away")).unwrap();
    let serve = "serve nbd --array vol0 --search d --socket unix:s.sock";
    place.run(serve).exits(1).complains("1 drives of array vol0 were not found");
    fs::rename(place.path("away"), place.path("d/drive3")).unwrap();
    place.start(serve, "nbdinfo '").stop();
    fs::rename(place.path("d/drive3"), place.path("away")).unwrap();
    let server = place.start(&format!("{serve} --without any"), "nbdinfo '");
    place.run("array status d/drive0 --check").exits(11);
    server.client().write(0, &[1; 4096]);
    server.client().flush();
    server.stop();
    // It is out of service now, and nobody waits for it.
    place.start(serve, "nbdinfo '").stop();
}

/// A drive that was replaced still takes itself, and others of its time, for members.
#[test]
fn records_of_replaced_drives_are_not_believed() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    for (slot, drive) in [(1, 4), (2, 5)] {
        let new = format!("--slot {slot} --with d/drive{drive} --yes-destroy");
        place.run(&format!("array replace d/drive0 {new}")).exits(0);
    }
    server.stop();
    fs::remove_file(place.path("d/drive2")).unwrap();
    let server = place.start("serve nbd --array vol0 --search d --socket unix:s.sock", "nbdinfo '");
    place.run("array status d/drive0 --check").exits(0);
    server.stop();
}
