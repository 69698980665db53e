//! `array assemble --scan`, in a place without a service manager.

use std::fs;

use crate::common::Place;

const SCAN: &str = "array assemble --scan --config z.toml";

#[test]
fn a_volume_is_ready_once_all_of_its_drives_are_here() {
    let place = Place::with_array();
    let table = "[volume.vol0]\nsearch = [\"d\"]\nnbd = { socket = \"unix:s.sock\" }\n";
    fs::write(place.path("z.toml"), table).unwrap();
    let ready = "vol0: ready; to serve it: zoneweave serve named vol0 --config z.toml";
    place.run(SCAN).exits(0).says(ready);
    place.run(SCAN).exits(0).says(ready);
    // A start would evict a drive that is late.
    fs::rename(place.path("d/drive2"), place.path("drive2")).unwrap();
    place.run(SCAN).exits(0).says("vol0: incomplete, 1 of its drives are missing");
    fs::rename(place.path("drive2"), place.path("d/drive2")).unwrap();
    let server = place.serve_named("vol0 --config z.toml");
    place.run(SCAN).exits(0).says("vol0: served");
    // A drive that the array has lost keeps no volume waiting.
    place.run("array fail d/drive0 --slot 2").exits(0);
    server.stop();
    fs::remove_file(place.path("d/drive2")).unwrap();
    let document = place.run(&format!("{SCAN} --json")).exits(0).document("array-assemble");
    assert_eq!(document["volumes"][0]["state"], "ready");
    for drive in [0, 1, 3] {
        fs::remove_file(place.path(&format!("d/drive{drive}"))).unwrap();
    }
    place.run(SCAN).exits(0).says("vol0: absent");
}

#[test]
fn named_drives_and_all_shards_are_waited_for() {
    let place = Place::with_drives();
    let drives = "d/drive0 d/drive1 d/drive2 d/drive3";
    place.run(&format!("array create wide --shards 2 --level raid1 {drives} --size max")).exits(0);
    let table = |drives: &str| {
        let table = format!("[volume.w]\ndrives = [{drives}]\nublk = true\n");
        fs::write(place.path("z.toml"), table).unwrap();
    };
    table("\"d/drive0\", \"d/drive1\", \"d/drive2\", \"d/drive3\", \"d/drive4\"");
    place.run(SCAN).exits(0).says("w: ready");
    table("\"d/drive0\", \"d/drive1\", \"gone\"");
    place.run(SCAN).exits(0).says("w: incomplete, 1 of");
}

#[test]
fn nothing_to_do_is_a_success_and_a_wrong_table_stops_no_other() {
    let place = Place::with_array();
    place.run("array assemble --scan --config gone.toml").exits(3).complains("gone.toml");
    fs::write(place.path("z.toml"), "").unwrap();
    place.run(SCAN).exits(0).says("names no volume");
    let tables = "[volume.bad]\nublc = true\n[volume.vol0]\nsearch = [\"d\"]\nublk = true\n";
    fs::write(place.path("z.toml"), tables).unwrap();
    let ended = place.run(SCAN).exits(2).says("vol0: ready");
    ended.complains("z.toml:2: volume bad: unknown key \"ublc\"");
    place.run("array assemble").exits(2).complains("--scan");
}
