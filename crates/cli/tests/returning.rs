//! Drives that are away for a while: none is expelled before it misses a write, and each gets what
//! it missed and nothing else.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::common::{Ended, MEMBERS, Nbd, Place, Server, pattern};

/// All but one of the members.
const THREE: &str = "d/drive0 d/drive1 d/drive2";

/// Bytes that are written before a drive is away.
const DATA: usize = 6 << 20;

/// Bytes that are written while it is away.
const MISSED: usize = 64 << 10;

fn status(place: &Place) -> Value {
    place.run("--json array status d/drive0").exits(0).document("array-status")
}

/// Waits until a served array is healthy.
fn healthy(place: &Place) -> Value {
    loop {
        let checked = place.run("--json array status d/drive0 --check");
        match checked.code {
            0 => return checked.document("array-status"),
            10 | 11 => {}
            _ => panic!("{checked:?}"),
        }
    }
}

/// Bytes that a server has written to the drive of slot 3.
fn written(status: &Value) -> u64 {
    status["members"][3]["io"]["written_bytes"].as_u64().unwrap_or_else(|| panic!("{status}"))
}

/// An array with data and free segments for as much again, and the bytes on the drive of slot 3.
fn with_data() -> (Place, Vec<u8>, u64) {
    let place = Place::new();
    place.run("emu create d --drives 6 --zones 64 --zone-capacity 256KiB").exits(0);
    place.run(&format!("array create vol0 {MEMBERS} --size 8MiB --chunk 4KiB")).exits(0);
    let data = pattern(3, DATA);
    let server = place.serve(MEMBERS);
    let mut client = server.client();
    write(&mut client, &data);
    client.flush();
    let all = written(&status(&place));
    drop(client);
    server.stop();
    (place, data, all)
}

/// Bytes of one request.
const REQUEST: usize = 1 << 20;

fn write(client: &mut Nbd, data: &[u8]) {
    let mut offset = 0;
    for part in data.chunks(REQUEST) {
        client.write(offset, part);
        offset += part.len() as u64;
    }
}

fn read(server: &Server, length: usize) -> Vec<u8> {
    let mut client = server.client();
    let offsets = (0..length).step_by(REQUEST);
    offsets.flat_map(|offset| client.read(offset as u64, REQUEST.min(length - offset))).collect()
}

fn says(run: &Ended, what: &str) {
    assert!(run.stderr.contains(what), "{run:?}");
}

/// The start itself took the missing drive out of service: it needed a whole rebuild, although it
/// had missed nothing.
#[test]
fn a_start_without_a_drive_and_without_a_write_costs_it_nothing() {
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 64 --zone-capacity 256KiB").exits(0);
    place.run(&format!("array create vol0 {MEMBERS} --size 8MiB --chunk 4KiB")).exits(0);
    for without in [3, 1, 3] {
        let drives: Vec<_> =
            (0..4).filter(|at| *at != without).map(|at| format!("d/drive{at}")).collect();
        let server = place.serve(&drives.join(" "));
        assert!(server.announced.contains("DEGRADED"), "{}", server.announced);
        assert_eq!(read(&server, REQUEST), vec![0; REQUEST]);
        let run = place.run("array status d/drive0 --check").exits(11);
        run.says(&format!("slot {without} missing")).says("has missed no write yet");
        server.stop();
    }
    let server = place.serve(MEMBERS);
    assert!(server.announced.contains("HEALTHY"), "{}", server.announced);
    assert!(!server.stop().contains("returns"));
}

/// The same with data: each of the drives returns with what it has.
#[test]
fn drives_that_are_missing_in_turn_return_with_all_that_they_have() {
    let (place, data, all) = with_data();
    for without in [3, 1, 3] {
        let drives: Vec<_> =
            (0..4).filter(|at| *at != without).map(|at| format!("d/drive{at}")).collect();
        let server = place.serve(&drives.join(" "));
        assert!(server.announced.contains("DEGRADED"), "{}", server.announced);
        assert_eq!(read(&server, DATA), data);
        server.stop();
        let server = place.serve(MEMBERS);
        let copied = written(&healthy(&place));
        assert!(copied * 2 < all, "{copied} bytes were copied, of {all}");
        assert_eq!(read(&server, DATA), data);
        server.stop();
    }
}

#[test]
fn a_drive_that_missed_writes_gets_them_at_the_next_start() {
    let (place, mut data, all) = with_data();
    let server = place.serve(THREE);
    let mut client = server.client();
    data[..MISSED].copy_from_slice(&pattern(4, MISSED));
    client.write(0, &data[..MISSED]);
    client.flush();
    place.run("array status d/drive0 --check").exits(11).says("slot 3 failed");
    drop(client);
    server.stop();
    place.run(&format!("array status {MEMBERS}")).exits(0).says("a server re-adds it at its start");
    let server = place.serve(MEMBERS);
    let copied = written(&healthy(&place));
    assert!(copied * 2 < all, "{copied} bytes were copied, of {all} that it had");
    let told = server.stop();
    assert!(told.contains("slot 3 (") && told.contains("d/drive3): has what it missed"), "{told}");
    // It counts as redundancy.
    let server = place.serve("d/drive1 d/drive2 d/drive3");
    assert_eq!(read(&server, DATA), data);
    server.stop();
    // Slot 0 has missed relocations.
    let server = place.serve(MEMBERS);
    healthy(&place);
    server.stop();
    place.run(&format!("array scrub {MEMBERS}")).exits(0).says("no damage");
    place.run(&format!("array check {MEMBERS}")).exits(0).says("clean");
}

#[test]
fn a_drive_goes_offline_and_comes_back_while_clients_write() {
    let (place, mut data, all) = with_data();
    let server = place.serve(MEMBERS);
    let mut client = server.client();
    for round in 0..3 {
        let offline = place.run("array offline d/drive0 --slot 3").exits(0).says("DEGRADED");
        offline.says("array online").says("--slot 3 --with /");
        data[..MISSED].copy_from_slice(&pattern(5 + round, MISSED));
        client.write(0, &data[..MISSED]);
        // Its file is closed: it may be moved.
        std::fs::rename(place.path("d/drive3"), place.path("d/moved")).unwrap();
        let gone = place.run("array online d/drive0 --slot 3").exits(3);
        says(&gone, "does not exist");
        std::fs::rename(place.path("d/moved"), place.path("d/drive3")).unwrap();
        place.run("array online d/drive0 --slot 3").exits(0).says("HEALTHY");
    }
    let copied = written(&status(&place));
    assert!(copied < all, "{copied} bytes were copied, of {all} that it had");
    drop(client);
    assert_eq!(read(&server, DATA), data);
    server.stop();
    place.run(&format!("array scrub {MEMBERS}")).exits(0).says("no damage");
    let server = place.serve("d/drive1 d/drive2 d/drive3");
    assert_eq!(read(&server, DATA), data);
    server.stop();
}

#[test]
fn offline_and_online_refuse_what_would_cost_data_or_an_array_of_its_own() {
    let (place, data, _) = with_data();
    for verb in ["offline", "online"] {
        let refused = place.run(&format!("array {verb} {MEMBERS} --slot 3")).exits(5);
        says(&refused, "the array is not served");
        place.run(&format!("array {verb} d/drive5 --slot 3")).exits(3);
    }
    let server = place.serve(MEMBERS);
    place.run("array offline d/drive0 --slot 4").exits(3).complains("slot 4");
    place.run("array online d/drive0 --slot 4").exits(3).complains("slot 4");
    place.run("array online d/drive0 --slot 3").exits(4).complains("slot 3 is online already");
    place.run("array offline d/drive0 --slot 3").exits(0);
    place.run("array offline d/drive0 --slot 3").exits(0);
    place.run("array offline d/drive0 --slot 2").exits(4);
    let online = "array online d/drive0 --slot 3 --with";
    place.run(&format!("{online} d/drive1")).exits(4).complains("in service");
    place.run(&format!("{online} d/drive4")).exits(4).complains("has no superblock of an array");
    place.run(&format!("{online} d/drive3")).exits(0).says("HEALTHY");
    assert_eq!(read(&server, DATA), data);
    server.stop();
    let server = place.serve(THREE);
    place.run("array online d/drive0 --slot 3").exits(2).complains("--with");
    place.run(&format!("{online} d/drive3")).exits(0).says("HEALTHY");
    server.stop();
}

/// An older copy in the place of a drive came into service without a word.
#[test]
fn an_older_copy_of_a_drive_is_told() {
    let (place, _, _) = with_data();
    let (drive, copy) = (place.path("d/drive3"), place.path("older"));
    fs::copy(&drive, &copy).unwrap();
    let data = pattern(4, DATA);
    let server = place.serve(MEMBERS);
    let mut client = server.client();
    write(&mut client, &data);
    client.flush();
    drop(client);
    server.stop();
    fs::rename(&copy, &drive).unwrap();
    let server = place.serve(MEMBERS);
    let found = healthy(&place);
    let of_slots =
        (0..4_usize).map(|slot| found["members"][slot]["segments_absent_at_start"].as_u64());
    let of_slots: Vec<_> = of_slots.map(Option::unwrap).collect();
    assert!(of_slots[..3] == [0; 3] && of_slots[3] > 0, "{of_slots:?}");
    assert_eq!(found["members"][3]["segments_lacking"], 0);
    assert_eq!(server.client().read(0, DATA), data);
    let log = server.stop();
    assert!(log.contains("slot 3 (d/drive3): older than the array"), "{log}");
    place.run(&format!("array check {MEMBERS}")).exits(0);
}

/// The path of a drive led to another member, and the server disowned that one.
#[test]
fn a_drive_is_taken_offline_whatever_its_path_leads_to() {
    let place = Place::with_array();
    fs::create_dir(place.path("l")).unwrap();
    let link = |slot: usize, to: usize| {
        let path = place.path(&format!("l/drive{slot}"));
        if path.is_symlink() {
            fs::remove_file(&path).unwrap();
        }
        symlink(format!("../d/drive{to}"), path).unwrap();
    };
    (0..4).for_each(|slot| link(slot, slot));
    let server = place.serve("l/drive0 l/drive1 l/drive2 l/drive3");
    link(2, 0);
    place.run("array offline l/drive1 --slot 2").exits(0);
    let found = place.run("--json array status l/drive0").exits(0).document("array-status");
    assert_eq!(found["members"][0]["drive"], "l/drive0");
    place.run("array online l/drive1 --slot 2").exits(4).complains("in service");
    link(2, 2);
    place.run("array online l/drive1 --slot 2").exits(0).says("HEALTHY");
    place.run("array scrub l/drive0").exits(0).says("no damage");
    server.stop();
}
