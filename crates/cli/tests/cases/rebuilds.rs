//! Rebuilds that fail, that a restart interrupts, and that leave another slot without a drive.

use std::fs;

use serde_json::Value;

use super::{Case, Kind, absolute};
use crate::common::{Ended, MEMBERS, Server, SmallDisk, pattern, unbroken};

/// Zones of drives whose rebuild takes most of a minute at the lowest rate that there is.
const LARGE: &str = "--zones 48 --zone-capacity 4MiB";

/// Drives of the array while slot 1 is rebuilt.
const REBUILT: &str = "d/drive0 n/drive1 d/drive2 d/drive3";

/// Writes so many pieces: each to a zone of its own, or one behind the other.
fn fill(case: &Case, server: &Server, pieces: u32, bytes: usize) {
    let data = pattern(8, bytes);
    if case.kind == Kind::Zoned {
        (0..pieces).for_each(|zone| case.write_zone(zone, &data));
        return;
    }
    let mut client = server.client();
    for piece in 0..u64::from(pieces) {
        client.write(piece * bytes as u64, &data);
    }
    client.flush();
}

fn is_rebuilding(status: &Value) -> bool {
    status["members"][1]["state"] == "rebuilding"
}

/// A replacement onto a drive whose file was removed failed with "Host Path Error".
fn fails_without_its_new_drive(case: &Case) {
    let replacing = case.place.begin("array replace d/drive0 --slot 1 --with n/drive0");
    case.wait_for(is_rebuilding);
    fs::remove_file(case.place.path("n/drive0")).unwrap();
    Ended::of(replacing).exits(1).complains("the drive's file was removed");
    case.wait_for(|status| status["members"][1]["state"] == "failed");
}

/// The banner of a start that resumes a rebuild advised to replace the drive being rebuilt.
fn goes_on_after_a_restart(case: &Case, server: Server) -> Server {
    let replacing = case.place.begin("array replace d/drive0 --slot 1 --with n/drive1");
    case.wait_for(is_rebuilding);
    let check = "array status d/drive0 --check";
    case.place.run(check).exits(10).says("REBUILDING").says("action none:");
    let log = server.stop();
    assert!(log.contains("the replacement failed: ") && !log.contains("Host Path"), "{log}");
    assert_ne!(Ended::of(replacing).code, 0);
    let idle = case.place.run(&format!("array status {} --check", case.with(REBUILT)));
    idle.exits(11).says("serve the array: its rebuild resumes by itself");
    let server = case.serve(&format!("{REBUILT} --rebuild-limit 1MiB"));
    let announced = unbroken(&server.announced);
    assert!(announced.contains("REBUILDING") && announced.contains("action none:"), "{announced}");
    case.place.run(check).exits(10);
    server
}

/// With one slot being rebuilt and another without a drive, the action was "none".
fn asks_for_the_other_slot(case: &Case, server: Server) {
    fs::remove_file(case.place.path("d/drive2")).unwrap();
    let lost = case.wait_for(|status| status["members"][2]["state"] == "failed");
    let reason = lost["members"][2]["reason"].as_str().unwrap();
    assert!(reason.contains("file was removed"), "{reason}");
    let asks = case.place.run("array status d/drive0 --check").exits(11).says("DEGRADED");
    let path = absolute(&case.place, "d/drive0");
    asks.says("why slot 1 rebuilding; slot 2 failed: ")
        .says("slot 1 being rebuilt; replace the drive of slot 2:")
        .says(&format!("zoneweave array replace {path} --slot 2 --with NEWDRIVE"));
    server.stop();
    let left = "d/drive0 n/drive1 d/drive3";
    let idle = case.place.run(&format!("array status {} --check", case.with(left))).exits(11);
    idle.says("why slot 1 rebuilding; slot 2 failed").says("--slot 2 --with NEWDRIVE");
    let server = case.serve(left);
    let announced = unbroken(&server.announced);
    let asks = "slot 1 being rebuilt; replace the drive of slot 2:";
    assert!(announced.contains(asks) && !announced.contains("--slot 1"), "{announced}");
    case.wait_for(|status| status["members"][1]["state"] == "online");
    assert!(case.read(&server) == pattern(8, super::DATA), "{:?} has other data", case.kind);
    let log = server.stop();
    assert!(log.contains("the interrupted rebuild is complete"), "{log}");
    assert!(!log.contains("the rebuild has stopped"), "{log}");
}

#[test]
fn a_rebuild_tells_why_it_fails_and_goes_on_after_a_restart() {
    for kind in [Kind::Shards, Kind::Zoned] {
        let case = Case::of(kind, "raid6", LARGE);
        let server = case.serve(&format!("{MEMBERS} --rebuild-limit 1MiB"));
        // 48 MiB for each drive; half of what is written to shards is of the other one.
        let (pieces, bytes) = if kind == Kind::Zoned { (12, 8 << 20) } else { (48, 4 << 20) };
        fill(&case, &server, pieces, bytes);
        case.place.run("array fail d/drive0 --slot 1").exits(0);
        fails_without_its_new_drive(&case);
        let server = goes_on_after_a_restart(&case, server);
        asks_for_the_other_slot(&case, server);
    }
}

/// Only a new drive without any space was tried: it is refused before it is written.
#[test]
fn a_new_drive_whose_space_ends_in_the_rebuild_is_lost_alone() {
    for kind in [Kind::Log, Kind::Zoned] {
        let case = Case::new(kind);
        let Some(_disk) = SmallDisk::new(&case.place, "small", 3 << 10) else { return };
        let run = |words: &str| case.place.run(words);
        run("emu create small --drives 1 --zones 24 --zone-capacity 1MiB").exits(0);
        let server = case.serve(MEMBERS);
        // Each drive holds a third of 18 MiB or more.
        fill(&case, &server, if kind == Kind::Zoned { 6 } else { 8 }, 3 << 20);
        run("array fail d/drive0 --slot 1").exits(0);
        let full = run("array replace d/drive0 --slot 1 --with small/drive0").exits(1);
        full.complains("small/drive0 failed: ").complains("there is no space left");
        let status = run("array status d/drive0 --check").exits(11).says("no space left");
        status.says("replace the drive of slot 1");
        run("array replace d/drive0 --slot 1 --with n/drive0").exits(0).says("HEALTHY");
        assert!(case.read(&server) == pattern(8, super::DATA), "{kind:?} has other data");
        server.stop();
        let drives = "d/drive0 n/drive0 d/drive2 d/drive3";
        run(&format!("array status {drives} --check")).exits(0);
        run(&format!("array check {drives}")).exits(0);
    }
}
