//! File stores on a drive and on a zoned volume.

use std::fs;
use std::path::Path;

use crate::common::{Place, Server};

const VOLUME: &str = "d/drive0,d/drive1,d/drive2,d/drive3";

/// Drives `d/drive0` to `d/drive4`.
fn with_drives(options: &str) -> Place {
    let place = Place::new();
    place
        .run(&format!("emu create d --drives 5 --zones 16 --zone-capacity 4MiB {options}"))
        .exits(0);
    place
}

/// A local file with bytes that have no period of a power of two.
fn local(place: &Place, name: &str, length: usize) -> Vec<u8> {
    let data: Vec<_> =
        (0..length).map(|at| (at % 251).to_le_bytes()[0] ^ (at >> 16).to_le_bytes()[0]).collect();
    fs::write(place.path(name), &data).unwrap();
    data
}

/// Uses every verb on a store that is not served.
fn exercise(place: &Place, store: &str) {
    exercise_until(place, store, |data| {
        let check = place.run(&format!("fs --json check {store}")).exits(0);
        let checked = check.document("fs-check");
        assert_eq!((&checked["clean"], &checked["counts"]["files"]), (&true.into(), &1.into()));
        assert_eq!(checked["counts"]["bytes"], data.len());
        let check = place.run(&format!("fs check {store}"));
        check.exits(0).says("1 files, 3 directories").says("clean");
    });
}

/// Uses the verbs on a store; checks it while it has one file.
fn exercise_until(place: &Place, store: &str, check: impl Fn(&[u8])) {
    let fs_verb = |words: &str| place.run(&format!("fs {words}"));
    let data = local(place, "local", 3 << 20 | 1234);
    fs_verb(&format!("mkdir {store} /db /db/archive")).exits(0);
    fs_verb(&format!("put {store} local /db/000001.sst")).exits(0).says("3.00 MiB");
    let listed = fs_verb(&format!("--json ls {store} /db")).exits(0).document("fs-ls");
    assert_eq!(listed["entries"][0]["name"], "000001.sst");
    assert_eq!(listed["entries"][0]["length_bytes"], data.len());
    assert_eq!(listed["entries"][1]["is_directory"], true);
    fs_verb(&format!("ln {store} /db/000001.sst /db/archive/copy")).exits(0);
    fs_verb(&format!("mv {store} /db/000001.sst /db/000002.sst")).exits(0);
    fs_verb(&format!("cat {store} /db/000001.sst")).exits(3).complains("no such file");
    fs_verb(&format!("rm {store} /db/archive")).exits(4).complains("not empty");
    check(&data);
    let get = format!("get {store} /db/000002.sst out");
    fs_verb(&get).exits(0);
    assert!(fs::read(place.path("out")).unwrap() == data, "another content");
    fs_verb(&get).exits(1).complains("out");
    let shown = place.command(&format!("fs cat {store} /db/archive/copy")).output().unwrap();
    assert!(shown.stdout == data, "another content under the other name");
    let used = |place: &Place| {
        let shown = place.run(&format!("--json fs df {store}")).exits(0).document("fs-df");
        shown["live_bytes"].as_u64().unwrap()
    };
    assert!(used(place) >= data.len() as u64);
    fs_verb(&format!("rm {store} /db/000002.sst /db/archive/copy /db/archive /db")).exits(0);
    assert_eq!(used(place), 0);
}

#[test]
fn files_of_a_store_on_a_drive_are_kept_between_commands() {
    for options in ["", "--without-metadata"] {
        let place = with_drives(options);
        place.run("fs ls d/drive4").exits(3).complains("make one first");
        place.run("fs check d/drive4").exits(3).says("no file store");
        place.run("fs mkfs d/drive4 --label test").exits(0).says("made a file store");
        exercise(&place, "d/drive4");
        place.run("--json fs df d/drive4").exits(0).says("\"label\": \"test\"");
        place.run("fs mkfs d/drive4").exits(4).complains("--yes-destroy");
        place.run("fs mkfs d/drive4 --yes-destroy").exits(0);
        place.run("fs ls d/drive4 /").exits(0);
    }
}

#[test]
fn a_store_on_a_zoned_volume_outlives_a_drive() {
    let place = with_drives("");
    let drives = VOLUME.replace(',', " ");
    place.run(&format!("array create z {drives} --kind zoned")).exits(0);
    place.run(&format!("fs mkfs {VOLUME}")).exits(0);
    exercise(&place, VOLUME);
    let data = local(&place, "kept", 5 << 20);
    place.run(&format!("fs put {VOLUME} kept /kept")).exits(0);
    fs::remove_file(place.path("d/drive2")).unwrap();
    let left = "d/drive0 d/drive1 d/drive3";
    // The advice was that of a verb that changes the array.
    let listed = place.run(&format!("fs ls {}", left.replace(' ', ","))).exits(4);
    listed.complains("slot 2").complains("fs serve STORE --without any");
    place.run(&format!("array replace {left} --slot 2 --with d/drive4")).exits(0);
    let store = "d/drive0,d/drive1,d/drive3,d/drive4";
    place.run(&format!("fs get {store} /kept back")).exits(0);
    assert!(fs::read(place.path("back")).unwrap() == data, "another content");
    place.run(&format!("fs mkfs {store}")).exits(4).complains("--yes-destroy");
}

#[test]
fn a_file_is_replaced_only_by_a_whole_one() {
    let place = with_drives("");
    place.run("fs mkfs d/drive0").exits(0);
    let old = local(&place, "old", 100_000);
    place.run("fs put d/drive0 old /file").exits(0);
    // Larger than the drive.
    let file = fs::File::create(place.path("large")).unwrap();
    file.set_len(100 << 20).unwrap();
    place.run("fs put d/drive0 large /file").exits(1).complains("no space left");
    place.run("fs get d/drive0 /file back").exits(0);
    assert!(fs::read(place.path("back")).unwrap() == old, "another content");
    let listed = place.run("--json fs ls d/drive0").exits(0).document("fs-ls");
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1, "nothing is left behind");
    place.run("fs put d/drive0 absent /other").exits(3);
    place.run("fs get d/drive0 /missing there").exits(3);
    assert!(!Path::new(&place.path("there")).exists(), "no local file is made");
}

#[test]
fn a_store_is_made_only_on_a_drive_that_nothing_else_needs() {
    let place = with_drives("");
    let drives = VOLUME.replace(',', " ");
    place.run(&format!("array create vol0 {drives} --size max")).exits(0);
    place.run("fs mkfs d/drive1").exits(4).complains("a member of array vol0");
    place.run("fs mkfs d/drive1,d/drive4").exits(2).complains("--kind zoned");
    place.run("fs mkfs d/absent").exits(3);
}

/// A store of a drive or volume in service, with its first socket.
fn served(place: &Place, store: &str, options: &str) -> (Server, String) {
    let server = place.serve_store(&format!("{store} {options}"));
    let look = server.announced.lines().find_map(|line| line.strip_prefix("zoneweave fs ls "));
    let socket = look.unwrap().to_owned();
    (server, socket)
}

#[test]
fn a_served_store_has_every_verb_at_its_socket_and_at_its_drive() {
    let place = with_drives("");
    place.run("fs mkfs d/drive4 --label tables").exits(0);
    let (server, socket) = served(&place, "d/drive4", "--socket unix:other --policy dual-pool");
    assert!(server.announced.contains("--fs_uri=zoneweave://unix:"), "{}", server.announced);
    for store in ["unix:other", "d/drive4"] {
        exercise_until(&place, store, |data| {
            let shown = place.run(&format!("--json fs df {store}")).exits(0).document("fs-df");
            assert_eq!((&shown["label"], shown["zones"].as_u64()), (&"tables".into(), Some(16)));
            assert!(shown["live_bytes"].as_u64().unwrap() >= data.len() as u64);
        });
        fs::remove_file(place.path("out")).unwrap();
    }
    place.run("fs check d/drive4").exits(4).complains("in use");
    place.run("fs serve d/drive3 --force").exits(2).complains("zoned volumes");
    place.run("fs serve d/drive3 --socket tcp:127.0.0.1:0").exits(2).complains("unix:PATH");
    place.run("fs check unix:other").exits(2).complains("not served");
    place.run("fs mkfs d/drive4 --yes-destroy").exits(4).complains("in use");
    place.run("fs serve d/drive4").exits(4).complains("in use");
    place.run(&format!("fs put {socket} local /kept")).exits(0);
    assert!(server.stop().contains("all synced bytes are on the drive"));
    place.run("fs ls unix:other").exits(3).complains("no server");
    place.run("fs ls d/drive4").exits(0).says("kept");
    place.run("fs check d/drive4").exits(0).says("clean");
}

#[test]
fn a_store_on_a_volume_is_served_while_its_drives_are_replaced() {
    let place = with_drives("");
    let drives = VOLUME.replace(',', " ");
    place.run(&format!("array create z {drives} --kind zoned")).exits(0);
    place.run(&format!("fs serve {VOLUME}")).exits(3).complains("make one first");
    // A start without a store, or of too few drives, costs no member.
    place.run("fs serve d/drive0,d/drive1,d/drive2").exits(4).complains("slot 3");
    place.run("array status d/drive0 d/drive1 d/drive2 d/drive3 --check").exits(0);
    place.run(&format!("fs mkfs {VOLUME}")).exits(0);
    let (server, socket) = served(&place, VOLUME, "");
    let data = local(&place, "local", 2 << 20 | 77);
    place.run(&format!("fs put {socket} local /file")).exits(0);
    place.run("zoned reset d/drive0 --zone 2").exits(4).complains("zoneweave fs");
    place.run("array status d/drive1 --check").exits(0).says("zoneweave://unix:");
    place.run("array fail d/drive0 --slot 2").exits(0).says("DEGRADED");
    place.run(&format!("fs get {VOLUME} /file out")).exits(0);
    assert!(fs::read(place.path("out")).unwrap() == data, "another content");
    place.run("array replace d/drive0 --slot 2 --with d/drive4").exits(0).says("HEALTHY");
    place.run(&format!("fs put {socket} local /second")).exits(0);
    server.kill();
    let volume = VOLUME.replace("drive2", "drive4");
    place.run(&format!("fs get {volume} /second back")).exits(0);
    place.run(&format!("fs check {volume}")).exits(0).says("2 files").says("clean");
}

/// Files with another name, a directory, hints and no bytes.
fn filled(place: &Place, store: &str) -> Vec<u8> {
    let data = local(place, "local", 1 << 20 | 321);
    fs::write(place.path("empty"), "").unwrap();
    place.run(&format!("fs mkdir {store} /db /db/archive")).exits(0);
    place.run(&format!("fs put {store} local /db/000001.sst")).exits(0);
    place.run(&format!("fs put {store} empty /db/LOCK")).exits(0);
    place.run(&format!("fs ln {store} /db/000001.sst /db/archive/copy")).exits(0);
    data
}

#[test]
fn a_backup_is_restored_in_another_store() {
    let place = with_drives("");
    place.run("fs mkfs d/drive0 --label tables").exits(0);
    let data = filled(&place, "d/drive0");
    place.run("fs backup d/drive0 saved").exits(0).says("3 files, 2 directories, 1.00 MiB");
    assert!(fs::read(place.path("saved/files/db/archive/../000001.sst")).unwrap() == data);
    place.run("fs backup d/drive0 saved").exits(1).complains("saved");
    place.run("fs mkfs d/drive1").exits(0);
    place.run("fs restore d/drive1 saved --dry-run").exits(0);
    place.run("fs ls d/drive1 /db").exits(3);
    place.run("fs restore d/drive1 saved").exits(0).says("3 files");
    place.run("fs get d/drive1 /db/archive/copy back").exits(0);
    assert!(fs::read(place.path("back")).unwrap() == data, "another content");
    let stat = "--json fs stat d/drive1 /db/000001.sst /db/archive/copy /db/LOCK";
    let files = place.run(stat).exits(0).document("fs-stat");
    let file = |at: usize, key: &str| files["files"][at][key].clone();
    assert_eq!((file(0, "id"), file(0, "links")), (file(1, "id"), 2.into()));
    assert_eq!((file(2, "length_bytes"), file(2, "extents")), (0.into(), serde_json::json!([])));
    place.run("fs restore d/drive1 saved").exits(4).complains("exists already");
    place.run("fs check d/drive1").exits(0).says("clean");
}

#[test]
fn a_damaged_or_unfinished_backup_changes_nothing() {
    let place = with_drives("");
    place.run("fs mkfs d/drive0").exits(0);
    filled(&place, "d/drive0");
    place.run("fs backup d/drive0 saved").exits(0);
    place.run("fs mkfs d/drive1").exits(0);
    let table = place.path("saved/files/db/000001.sst");
    let sound = fs::read(&table).unwrap();
    let mut rotten = sound.clone();
    rotten[77_777] ^= 1;
    for (contents, says) in [(&rotten, "checksum"), (&sound[..100].to_vec(), "length")] {
        fs::write(&table, contents).unwrap();
        place.run("fs restore d/drive1 saved").exits(1).complains(says);
    }
    fs::write(&table, &sound).unwrap();
    let path = place.path("saved/manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    for (from, to, says) in [
        ("/db/LOCK", "/../LOCK", "no path of a store"),
        ("/db/LOCK", "db/LOCK", "no path of a store"),
        ("/db/LOCK", "/db/000001.sst", "listed twice"),
        ("\"version\": 1", "\"version\": 2", "version 2"),
        ("\"lifetime\": 0", "\"lifetime\": 9", "no lifetime"),
        ("\"linked_to\": \"/db/000001.sst\"", "\"linked_to\": \"/etc\"", "linked to no file"),
        ("\"files\"", "\"fils\"", "fils"),
    ] {
        assert!(manifest.contains(from), "{from}");
        fs::write(&path, manifest.replacen(from, to, 1)).unwrap();
        place.run("fs restore d/drive1 saved").exits(1).complains(says);
    }
    fs::remove_file(&path).unwrap();
    place.run("fs restore d/drive1 saved").exits(3).complains("manifest.json");
    place.run("fs ls d/drive1 /db").exits(3);
}

#[test]
fn a_dump_has_every_extent_and_zone_of_a_store_in_use_too() {
    let place = with_drives("");
    place.run("fs mkfs d/drive0 --label tables").exits(0);
    filled(&place, "d/drive0");
    let dump = || place.run("--json fs dump d/drive0").exits(0).document("fs-dump");
    let own = dump();
    assert_eq!(own["zones"].as_array().unwrap().len(), 16);
    let tables = own["files"].as_array().unwrap();
    let table = tables.iter().find(|file| file["path"] == "/db/000001.sst").unwrap();
    let extents = table["extents"].as_array().unwrap();
    let bytes: u64 = extents.iter().map(|extent| extent["length_bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 1 << 20 | 321);
    place.run("fs dump d/drive0").exits(0).says("/db/archive/copy").says("PHASE");
    let (server, socket) = served(&place, "d/drive0", "");
    let served = dump();
    assert_eq!((&served["label"], &served["files"]), (&own["label"], &own["files"]));
    place.run(&format!("fs stat {socket} /db/000001.sst")).exits(0).says("links     2");
    place.run(&format!("fs backup {socket} saved")).exits(0).says("3 files");
    server.stop();
}

#[test]
fn a_served_store_is_recorded_and_its_trace_replayed() {
    let place = with_drives("");
    place.run("fs mkfs d/drive0").exits(0);
    local(&place, "local", 3 << 20);
    let (server, socket) = served(&place, "d/drive0", "--trace trace --trace-reads");
    for _ in 0..12 {
        place.run(&format!("fs put {socket} local /db.sst")).exits(0);
    }
    place.run(&format!("fs get {socket} /db.sst out")).exits(0);
    server.stop();
    let shown = place.run("fs --json trace trace").exits(0).document("fs-trace");
    assert_eq!((&shown["ending"], &shown["lost_events"]), (&"closed".into(), &0.into()));
    assert_eq!(shown["appended_bytes"], 36 << 20);
    assert_eq!((&shown["counts"]["create"], &shown["read_bytes"].is_u64()), (&12.into(), &true));
    assert_eq!(shown["buffer_bytes"], 1 << 20);
    assert!(shown.get("events").is_none());
    let listed = place.run("fs --json trace trace --events --limit 3").exits(0);
    let listed = listed.document("fs-trace")["events"].clone();
    assert_eq!((&listed[0]["event"], listed.as_array().unwrap().len()), (&"create".into(), 3));
    place.run("fs --json trace trace --events").exits(2).complains("at most 1000000 events");
    place.run("fs trace trace --events").exits(0).says("append").says("it ends with its store");

    let replay = |words: &str| place.run(&format!("fs --json replay trace {words}"));
    let once = replay("").exits(0).document("fs-replay");
    assert_eq!((&once["drive_zones"], &once["zones"]["count"]), (&16.into(), &14.into()));
    assert_eq!(once["host_bytes"], shown["appended_bytes"]);
    assert_eq!((&once["relocation_amplification"], &once["is_whole"]), (&1.0.into(), &true.into()));
    let words = "--times 9 --zones 12 --zone-capacity 2M --erase-blocks 64 --partial-erase";
    let first_fit = replay(words).exits(0).document("fs-replay");
    let again = replay(words).exits(0).document("fs-replay");
    assert_eq!(first_fit, again, "a replay is deterministic");
    let levelled = replay(&format!("{words} --policy least-worn")).exits(0).document("fs-replay");
    let small = "--preset femu-wa-zone --zone-capacity 512K --erase-blocks 64 --zones 64";
    assert_eq!(replay(small).exits(0).document("fs-replay")["erase_blocks"]["count"], 62 * 64);
    let most = |figures: &serde_json::Value| figures["zones"]["max"].as_u64().unwrap();
    assert!(most(&levelled) < most(&first_fit), "{levelled} {first_fit}");
    let told = place.run("fs replay trace --preset femu-wa-zone").exits(0);
    told.says("their erase blocks")
        .says("zones of metadata")
        .says("write amplification")
        .says("3584");

    place.run("fs serve d/drive0 --trace trace").exits(4).complains("remove it");
    place.run("fs serve d/drive0 --trace gone/trace").exits(3).complains("gone/trace");
    place.run("fs trace gone").exits(3).complains("gone");
    place.run("fs replay local").exits(1).complains("no trace");
    replay("--policy none").exits(2);
    replay("--preset none").exits(2).complains("emu presets");
    replay("--zones 6 --zone-capacity 64K").exits(1).complains("no space left");
    let mut bytes = fs::read(place.path("trace")).unwrap();
    bytes[100] ^= 1;
    fs::write(place.path("damaged"), &bytes).unwrap();
    place.run("fs trace damaged").exits(1).complains("frame 0, at byte 48, is damaged");
    fs::write(place.path("cut"), &bytes[..60]).unwrap();
    place.run("fs trace cut").exits(0).says("in the middle of a write");
}
