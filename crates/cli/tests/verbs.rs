//! Verbs of administrators: a refusal changes nothing, health is the truth, nothing waits without
//! end.

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Ended, MEMBERS, Place, Server, pattern, rot, unbroken};

/// Longest time for a command that gives up on a server: its patience of 3 s, with a margin for a
/// loaded machine.
const BUDGET: Duration = Duration::from_secs(25);

/// Drives that do not fit, beside the six of [`Place::with_drives`].
fn others(place: &Place) {
    place.run("emu create few --drives 1 --zones 12 --zone-capacity 256KiB").exits(0);
    place.run("emu create small --drives 1 --zones 16 --zone-capacity 128KiB").exits(0);
    place.run("emu create plain --drives 1 --zones 16 --zone-capacity 256KiB --without-metadata");
    place.run("emu create o --drives 4 --zones 16 --zone-capacity 256KiB").exits(0);
    let other = "o/drive0 o/drive1 o/drive2 o/drive3";
    place.run(&format!("array create other {other} --size max --chunk 4KiB")).exits(0);
    fs::write(place.path("text"), "x".repeat(10_000)).unwrap();
    fs::copy(place.path("few/drive0"), place.path("fs")).unwrap();
}

/// The contents of every drive, by path.
fn media(place: &Place) -> Vec<(String, u32, u64)> {
    let mut found = Vec::new();
    for folder in ["d", "few", "small", "plain", "o", "copies", "away"] {
        for entry in fs::read_dir(place.path(folder)).into_iter().flatten().flatten() {
            let bytes = fs::read(entry.path()).unwrap();
            let name = format!("{folder}/{}", entry.file_name().display());
            found.push((name, crc32c::crc32c(&bytes), bytes.len() as u64));
        }
    }
    found.sort();
    found
}

/// Runs commands that are refused, and compares the media before and after each of them.
#[track_caller]
fn refuses(place: &Place, table: &[(&str, i32, &str)]) {
    let before = media(place);
    for (command, exit, complaint) in table {
        let ended = place.run(command);
        assert_eq!(ended.code, *exit, "{command}: {ended:#?}");
        assert!(ended.stderr.contains(complaint), "{command}: {complaint:?} is not in {ended:#?}");
        assert!(!ended.stderr.contains("100 %"), "{command} was not done: {ended:#?}");
        let after = media(place);
        let changed: Vec<_> =
            before.iter().zip(&after).filter(|(one, other)| one != other).collect();
        assert!(changed.is_empty(), "{command} changed {changed:?}");
    }
}

/// A refused `replace` took the missing drive of the slot out of service first, as it started the
/// array without it; a refused `fail` started the array, too. The array has crashed with data, so
/// that a start would write.
#[test]
fn a_refused_verb_changes_no_byte_of_an_array_that_is_not_served() {
    let place = Place::with_data();
    others(&place);
    let all = MEMBERS;
    let three = "d/drive0 d/drive2 d/drive3";
    let table = [
        (format!("array replace {three} --slot 1 --with few/drive0"), 1, "too small"),
        (format!("array replace {three} --slot 1 --with few/drive0 --yes-destroy"), 1, "too small"),
        (format!("array replace {three} --slot 1 --with small/drive0"), 1, "too small"),
        (format!("array replace {three} --slot 1 --with plain/drive0"), 1, "write unit"),
        (format!("array replace {three} --slot 1 --with o/drive0"), 4, "a member of array other"),
        (format!("array replace {three} --slot 1 --with d/drive1"), 4, "--yes-destroy"),
        (format!("array replace {three} --slot 1 --with d/drive2"), 4, "in service"),
        (format!("array replace {three} --slot 1 --with text"), 1, "not a drive"),
        (format!("array replace {three} --slot 1 --with gone"), 3, "does not exist"),
        (format!("array replace {three} --slot 7 --with d/drive4"), 3, "slots 0 to 3"),
        (format!("array replace {three} --slot 2 --with d/drive4"), 4, "slot 2 is online"),
        (format!("array replace {three} --slot 2 --with d/drive4 --yes-destroy"), 4, "slot 1"),
        (format!("array replace {all} --slot 2 --with d/drive4"), 4, "slot 2 is online"),
        (format!("array replace {all} --slot 2 --with few/drive0 --yes-destroy"), 1, "too small"),
        (format!("array replace {all} --slot 9 --with d/drive4 --yes-destroy"), 3, "slots 0 to 3"),
        ("array replace d/drive0 d/drive2 --slot 1 --with d/drive4".to_owned(), 4, "missing"),
        (format!("array fail {all} --slot 9"), 3, "slots 0 to 3"),
        (format!("array fail {three} --slot 2"), 4, "slot 1"),
        ("array fail d/drive0 --slot 2".to_owned(), 4, "missing"),
        (format!("array scrub {three}"), 4, "slot 1 of array vol0 is missing"),
        (format!("array create x {all} --size max"), 4, "a member of array vol0"),
        ("array create x d/drive4 d/drive5 few/drive0 --size 1T".to_owned(), 2, "does not fit"),
        ("array create x d/drive4 plain/drive0 --size max".to_owned(), 1, "write unit"),
        ("array create x d/drive4 d/drive4 --size max".to_owned(), 2, "twice"),
        (format!("serve nbd {all} --socket unix:s.sock --spare few/drive0"), 1, "too small"),
        (format!("serve nbd {all} --socket unix:s.sock --spare o/drive0"), 4, "array other"),
        (format!("serve nbd {all} --socket unix:s.sock --spare gone"), 3, "does not exist"),
        (format!("array destroy {three} --yes"), 4, "slot 1 of array vol0"),
        (format!("array destroy {all}"), 4, "repeat with --yes"),
        (format!("array destroy {all} o/drive0 --yes"), 4, "a member of array other"),
        (format!("array destroy {all} text --yes"), 1, "not a drive"),
        (format!("array destroy {all} gone --yes --force"), 3, "does not exist"),
        ("array destroy d/drive4 d/drive5 --yes".to_owned(), 3, "belongs to an array"),
        ("array destroy other --search d --yes".to_owned(), 3, "no drive of array other"),
        (format!("array rename {three} next"), 4, "slot 1 of array vol0"),
        (format!("array rename {all} other --search o"), 4, "is here already"),
        (format!("array rename {all} -x"), 2, "-x"),
        ("drive wipe d/drive0 --yes".to_owned(), 4, "a member of array vol0"),
        ("drive wipe d/drive0 --force".to_owned(), 4, "repeat with --yes"),
        ("drive wipe text --yes --force".to_owned(), 1, "not a drive"),
        (format!("array create x {all} --size 1T --dry-run"), 2, "does not fit"),
        (format!("array replace {three} --slot 1 --with few/drive0 --dry-run"), 1, "too small"),
        ("fs mkfs gone --dry-run".to_owned(), 3, "gone"),
        ("characterize o/drive0 --quick".to_owned(), 4, "a member of array other"),
        ("emu create d --drives 2".to_owned(), 4, "never overwritten"),
    ];
    let table: Vec<_> =
        table.iter().map(|(command, exit, why)| (&command[..], *exit, *why)).collect();
    refuses(&place, &table);
    place.run(&format!("array status {all} --check")).exits(0);
    // Nothing is to be done for a slot that is out already, and nothing is written.
    place.run(&format!("array fail {all} --slot 1")).exits(0);
    let before = media(&place);
    place.run(&format!("array fail {all} --slot 1")).exits(0);
    assert_eq!(media(&place), before);
    // Redundancy is gone: no further drive may be taken out.
    let spent = [
        (&format!("array fail {three} --slot 2")[..], 4, "lose data"),
        (&format!("array replace {three} --slot 2 --with d/drive4 --yes-destroy"), 4, "lose data"),
    ];
    refuses(&place, &spent);
}

/// Copies have the superblock of the drives that are served: verbs on them reached the running
/// array, and threw its drives out.
#[test]
fn a_refused_verb_changes_no_byte_of_a_running_array() {
    let place = Place::with_array();
    others(&place);
    fs::create_dir(place.path("copies")).unwrap();
    for drive in ["drive0", "drive1", "drive2", "drive3"] {
        let copy = place.path("copies").join(drive);
        fs::copy(place.path("d").join(drive), copy).unwrap();
    }
    fs::create_dir(place.path("links")).unwrap();
    fs::hard_link(place.path("d/drive3"), place.path("links/drive3")).unwrap();
    let server = place.serve(MEMBERS);
    let copies = "copies/drive0 copies/drive1 copies/drive2 copies/drive3";
    let table = [
        (format!("array replace {copies} --slot 3 --with d/drive4 --yes-destroy"), 4, "a copy of"),
        (
            "array replace copies/drive3 --slot 3 --with d/drive4 --yes-destroy".to_owned(),
            4,
            "a copy",
        ),
        (format!("array fail {copies} --slot 3"), 4, "a copy of"),
        ("array fail d/drive0 copies/drive1 --slot 3".to_owned(), 4, "a copy of"),
        (format!("array scrub {copies}"), 4, "a copy of"),
        (format!("array status {copies} --check"), 4, "a copy of"),
        ("array fail links/drive3 --slot 9".to_owned(), 3, "slots 0 to 3"),
        (
            "array replace d/drive0 --slot 1 --with links/drive3 --yes-destroy".to_owned(),
            4,
            "in service",
        ),
        ("array replace d/drive0 --slot 1 --with d/drive4".to_owned(), 4, "slot 1 is online"),
        (
            "array replace d/drive0 --slot 1 --with few/drive0 --yes-destroy".to_owned(),
            1,
            "too small",
        ),
        (
            "array replace d/drive0 --slot 1 --with small/drive0 --yes-destroy".to_owned(),
            1,
            "too small",
        ),
        (
            "array replace d/drive0 --slot 1 --with plain/drive0 --yes-destroy".to_owned(),
            1,
            "write unit",
        ),
        ("array replace d/drive0 --slot 1 --with o/drive0".to_owned(), 4, "slot 1 is online"),
        (
            "array replace d/drive0 --slot 1 --with gone --yes-destroy".to_owned(),
            3,
            "does not exist",
        ),
        ("array replace d/drive0 --slot 9 --with d/drive4".to_owned(), 3, "slots 0 to 3"),
        ("array fail d/drive0 --slot 9".to_owned(), 3, "slots 0 to 3"),
        (format!("array stop {copies}"), 4, "a copy of"),
        (format!("array destroy {MEMBERS} --yes --force"), 4, "array stop vol0"),
        (format!("array destroy {copies} --yes"), 4, "is being served"),
        ("array destroy d/drive0 --yes --force".to_owned(), 4, "array stop vol0"),
        (format!("array rename {MEMBERS} next"), 4, "array stop vol0"),
        ("drive wipe d/drive0 --yes --force".to_owned(), 4, "in use"),
        ("drive wipe copies/drive0 --yes".to_owned(), 4, "a member of array vol0"),
        ("array stop vol1".to_owned(), 3, "no drive of array vol1"),
        (format!("array check {MEMBERS}"), 4, "being served"),
        (format!("array create x {MEMBERS} --size max --yes-destroy"), 4, "in use"),
    ];
    let table: Vec<_> =
        table.iter().map(|(command, exit, why)| (&command[..], *exit, *why)).collect();
    refuses(&place, &table);
    place.run("array status d/drive0 --check").exits(0);
    let list = place.run("--json array list d/drive1 copies/drive1 links/drive3").exits(0);
    let list = list.document("array-list");
    let served: Vec<_> =
        list["drives"].as_array().unwrap().iter().map(|d| d["served"].clone()).collect();
    assert_eq!(served, [true, false, true]);
    let problem = list["drives"][1]["problem"].as_str().unwrap();
    assert!(problem.contains("a copy of") && problem.ends_with("which is served"), "{problem}");
    // Copies can be checked, as nobody writes to them.
    place.run(&format!("array check {copies}")).exits(0);
    server.stop();
}

/// A former member finds the server of its array, which has another drive in its slot.
#[test]
fn a_former_member_gives_no_orders_to_the_array_that_went_on_without_it() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    place.run("array replace d/drive0 --slot 1 --with d/drive4 --yes-destroy").exits(0);
    let refused = place.run("array fail d/drive1 --slot 2").exits(4);
    refused.complains("continued without them").complains("/d/drive");
    let status = place.run("array status d/drive1 --check").exits(0).complains("without them");
    status.says("d/drive4");
    server.stop();
}

/// `status --check` of a stopped server took half a minute, and `fail` and `replace` as long.
#[test]
fn no_verb_waits_for_a_server_that_is_stopped() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    server.signal(Signal::STOP);
    let verbs = [
        "array status d/drive0",
        "array status d/drive0 --check",
        "array fail d/drive0 --slot 1",
        "array replace d/drive0 --slot 1 --with d/drive4",
        "array scrub d/drive0",
        "zones d/drive0 --by valid",
        &format!("array check {MEMBERS}"),
        "array stop vol0",
        "array spare add vol0 d/drive4",
    ];
    for verb in verbs {
        let begun = Instant::now();
        let ended = place.run(verb).exits(5);
        assert!(begun.elapsed() < BUDGET, "{verb}: {:?}", begun.elapsed());
        let told = format!("{}{}", ended.stdout, ended.stderr);
        let told = unbroken(&told);
        assert!(told.contains("has not answered for 3 s"), "{verb}: {told}");
    }
    let unknown = place.run("--json array status d/drive0").exits(5).document("array-status");
    assert_eq!((&unknown["health"], &unknown["is_silent"]), (&"unknown".into(), &true.into()));
    server.signal(Signal::CONT);
    place.run("array status d/drive0 --check").exits(0);
    server.stop();
}

/// Shards share a process: each of them was waited for in turn.
#[test]
fn the_status_of_shards_of_a_stopped_server_is_unknown() {
    let place = Place::with_drives();
    place.run(&format!("array create vol0 --shards 2 --level raid1 {MEMBERS} --size max")).exits(0);
    let server = place.serve(MEMBERS);
    fs::copy(place.path("d/drive3"), place.path("copy")).unwrap();
    place.run("events d/drive3").exits(0);
    place.run("events copy").exits(4).complains("copy is a copy of");
    // The server of the other shard has it: it was "in use by another process".
    let has = "shard 1 of this volume has d/drive3 in service";
    place.run("array replace d/drive0 --slot 1 --with d/drive3").exits(4).complains(has);
    place.run("array spare add d/drive0 d/drive3").exits(4).complains(has);
    server.signal(Signal::STOP);
    for drives in ["d/drive3", MEMBERS] {
        let status = place.run(&format!("array status {drives} --check")).exits(5).says("UNKNOWN");
        assert!(unbroken(&status.stdout).contains("has not answered for 3 s"), "{status:?}");
    }
    server.signal(Signal::CONT);
    place.run("array status d/drive0 --check").exits(0);
    server.stop();
}

/// Connecting waits in the kernel while the backlog of a socket is full.
#[test]
fn no_verb_waits_for_a_socket_that_takes_no_connections() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let socket = fs::read_dir(place.path("run")).unwrap().next().unwrap().unwrap().path();
    server.stop();
    let listener = UnixListener::bind(&socket).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let connect = || {
        let stream = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK,
            None,
        );
        let (stream, address) =
            (stream.unwrap(), rustix::net::SocketAddrUnix::new(&socket).unwrap());
        rustix::net::connect(&stream, &address).map(|()| stream)
    };
    let mut backlog = Vec::new();
    while let Ok(stream) = connect() {
        backlog.push(stream);
    }
    for verb in
        [&format!("array status {MEMBERS} --check"), &format!("array fail {MEMBERS} --slot 1")]
    {
        let begun = Instant::now();
        place.run(verb).exits(5);
        assert!(begun.elapsed() < BUDGET, "{verb}: {:?}", begun.elapsed());
    }
    let list = place.run("array list d").exits(0);
    assert_eq!(list.stdout.matches("its server does not answer").count(), 4, "{list:#?}");
}

/// Without the server's folder of sockets, the array was reported as healthy and not served.
#[test]
fn an_array_that_someone_else_serves_is_not_called_healthy() {
    let place = Place::with_array();
    let elsewhere = |words: &str| {
        let mut command = place.command(words);
        let ended = command.env("ZONEWEAVE_RUNTIME_DIR", place.path("other")).output().unwrap();
        Ended {
            code: ended.status.code().unwrap(),
            stdout: String::from_utf8(ended.stdout).unwrap(),
            stderr: String::from_utf8(ended.stderr).unwrap(),
        }
    };
    elsewhere(&format!("array status {MEMBERS} --check")).exits(0).says("HEALTHY");
    let server = place.serve(MEMBERS);
    let status = elsewhere(&format!("array status {MEMBERS} --check")).exits(14);
    status.says("vol0 UNKNOWN").says("served by someone else: its drives are locked");
    let status = elsewhere("array status d/drive0").exits(0);
    let status = status.says("UNKNOWN").says("ZONEWEAVE_RUNTIME_DIR");
    assert!(!status.stdout.contains("not served"), "{status:#?}");
    // They advised to start another server.
    for verb in ["array jobs", "events", "array scrub --pause", "zones --by valid"] {
        elsewhere(&format!("{verb} d/drive0")).exits(5).complains("in use by another process");
    }
    elsewhere("array list d").exits(0).says("in use by a process that does not answer this user");
    server.stop();
    elsewhere(&format!("array status {MEMBERS} --check")).exits(0).says("HEALTHY");
}

/// A six-drive raid6 on [`Place::with_drives`], with data.
fn raid6() -> (Place, Server) {
    let place = Place::with_drives();
    let drives = "d/drive0 d/drive1 d/drive2 d/drive3 d/drive4";
    place.run(&format!("array create vol0 {drives} --level raid6 --size max")).exits(0);
    place.run("emu create n --drives 3 --zones 16 --zone-capacity 256KiB").exits(0);
    let server = place.serve(&format!("{drives} --rebuild-limit 1MiB"));
    let mut client = server.client();
    client.write(0, &pattern(4, 4 << 20));
    client.flush();
    (place, server)
}

fn status(place: &Place, drive: &str) -> Value {
    place.run(&format!("--json array status {drive}")).exits(0).document("array-status")
}

/// Waits until the status is as wanted.
fn wait_for(place: &Place, drive: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..2000 {
        let found = status(place, drive);
        if wanted(&found) {
            return found;
        }
    }
    panic!("never: {}", status(place, drive));
}

/// With one slot rebuilding and another without a drive, the action was "none". After a stop in the
/// middle of a rebuild, the banner of the next start advised to replace the drive being rebuilt.
#[test]
fn each_state_of_a_rebuild_has_its_health_and_advice() {
    let (place, server) = raid6();
    place.run("array fail d/drive0 --slot 1").exits(0);
    let replacing = place.command("array replace d/drive0 --slot 1 --with n/drive0").spawn();
    let mut replacing = replacing.unwrap();
    let found =
        wait_for(&place, "d/drive0", |status| status["members"][1]["state"] == "rebuilding");
    assert_eq!(found["health"], "rebuilding");
    place.run("array status d/drive0 --check").exits(10).says("REBUILDING").says("action none:");
    place.run("array fail d/drive0 --slot 2").exits(0);
    let both = place.run("array status d/drive0 --check").exits(11).says("DEGRADED");
    let both = both.says("why slot 1 rebuilding; slot 2 failed");
    let asks = both.says("slot 1 being rebuilt; replace the drive of slot 2:");
    let command = format!("zoneweave array replace {} --slot 2", place.path("d/drive0").display());
    assert!(asks.stdout.contains(&command), "{asks:#?}");
    // A second replacement waits for the first rebuild, and is shown.
    let second = place.command("array replace d/drive0 --slot 2 --with n/drive1").spawn();
    let mut second = second.unwrap();
    let waits = wait_for(&place, "d/drive0", |status| status["server"]["waiting"][0]["slot"] == 2);
    let action = waits["action"].as_str().unwrap();
    assert!(action.starts_with("none: ") && action.contains("waits to replace slot 2"), "{action}");
    let log = server.stop();
    assert!(
        log.contains("slot 1: to be replaced by") || log.contains("): to be replaced by"),
        "{log}"
    );
    let _ = (replacing.wait(), second.wait());
    let drives = "d/drive0 n/drive0 d/drive3 d/drive4";
    let idle = place.run(&format!("array status {drives} --check")).exits(11);
    idle.says("slot 1 rebuilding").says("--slot 2 --with NEWDRIVE");
    let server = place.serve(&format!("{drives} --rebuild-limit 1MiB"));
    let announced = unbroken(&server.announced);
    assert!(
        announced.contains("slot 1 being rebuilt; replace the drive of slot 2:"),
        "{announced}"
    );
    assert!(!announced.contains("--slot 1"), "{announced}");
    server.stop();
}

#[test]
fn a_start_in_the_middle_of_a_rebuild_goes_on_with_it() {
    let (place, server) = raid6();
    place.run("array fail d/drive0 --slot 1").exits(0);
    let mut replacing =
        place.command("array replace d/drive0 --slot 1 --with n/drive0").spawn().unwrap();
    wait_for(&place, "d/drive0", |status| status["members"][1]["state"] == "rebuilding");
    server.stop();
    let _ = replacing.wait();
    let drives = "d/drive0 n/drive0 d/drive2 d/drive3 d/drive4";
    let idle = place.run(&format!("array status {drives} --check")).exits(11);
    idle.says("serve the array: its rebuild resumes by itself");
    let server = place.serve(drives);
    let announced = unbroken(&server.announced);
    assert!(announced.contains("REBUILDING") && announced.contains("action none:"), "{announced}");
    let is_done =
        |status: &Value| status["health"] == "healthy" && status["server"]["rebuild"].is_null();
    wait_for(&place, "d/drive0", is_done);
    let log = server.stop();
    assert!(log.contains("the interrupted rebuild goes on"), "{log}");
    assert!(log.contains("the interrupted rebuild is complete"), "{log}");
    assert!(!log.contains("the rebuild has stopped"), "{log}");
}

/// The advice named drives by the server's relative paths.
#[test]
fn advice_can_be_pasted_in_any_directory() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    place.run("array fail d/drive0 --slot 2").exits(0);
    let mut command = place.command("array status --check");
    let command = command.arg(place.path("d/drive0")).current_dir("/").output().unwrap();
    assert_eq!(command.status.code(), Some(11));
    let text = String::from_utf8(command.stdout).unwrap();
    let line = text.lines().find(|line| line.trim().starts_with("zoneweave array replace"));
    let path = place.path("d/drive0");
    let expected = format!("zoneweave array replace {} --slot 2 --with NEWDRIVE", path.display());
    assert_eq!(line.map(str::trim), Some(&expected[..]), "{text}");
    assert!(text.contains(&format!("in {}", place.path("d").display())), "{text}");
    assert!(!text.contains(" d/drive"), "{text}");
    let spare = server.stop();
    assert!(spare.contains("slot 2 (d/drive2) is now failed"), "{spare}");
}

/// A spare with the superblock of another array was taken for a drive of this one, ignored, and did
/// not replace a lost drive. A former member of this array is kept apart with a reason.
#[test]
fn a_spare_that_is_none_is_refused_or_told() {
    let place = Place::with_array();
    others(&place);
    let serve = |spare: &str| {
        place.run(&format!("serve nbd {MEMBERS} --socket unix:s.sock --spare {spare}"))
    };
    serve("o/drive0")
        .exits(4)
        .complains("cannot be a spare of array vol0: it holds a member of array other");
    serve("d/drive4 --spare d/drive4").exits(2).complains("d/drive4 is given twice");
    let written = fs::OpenOptions::new().write(true).open(place.path("d/drive5")).unwrap();
    drop(written);
    let server = place.serve(&format!("{MEMBERS} --spare d/drive4"));
    place.run("array replace d/drive0 --slot 1 --with d/drive5 --yes-destroy").exits(0);
    server.stop();
    // drive1 is a former member now; the command of a unit may still name it.
    let server = place.serve("d/drive0 d/drive5 d/drive2 d/drive3 --spare d/drive1");
    place
        .run("array status d/drive0 --check")
        .exits(0)
        .says("d/drive1 is unusable: it was a member");
    place.run("array fail d/drive0 --slot 2").exits(0);
    let failed = place.run("array status d/drive0 --check").exits(11);
    failed.says("d/drive1 is unusable: it was a member of this array").says("--slot 2 --with");
    server.stop();
}

/// A replacement onto a full file system, and one whose file was removed, failed with "Host Path
/// Error".
#[test]
fn a_replacement_that_fails_tells_why() {
    let (place, server) = raid6();
    place.run("array fail d/drive0 --slot 1").exits(0);
    let replacing = place
        .command("array replace d/drive0 --slot 1 --with n/drive0")
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&place, "d/drive0", |status| status["members"][1]["state"] == "rebuilding");
    fs::remove_file(place.path("n/drive0")).unwrap();
    let ended = replacing.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("the drive's file was removed"), "{told}");
    let log = server.stop();
    assert!(log.contains("the replacement failed: the new drive"), "{log}");
    assert!(!log.contains("Host Path"), "{log}");
}

/// A quick replacement, and a scrub, left no line in the log.
#[test]
fn the_log_of_a_server_has_every_event() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    place.run("array replace d/drive0 --slot 1 --with d/drive4 --yes-destroy").exits(0);
    place.run("array scrub d/drive0").exits(0);
    place.run("array replace d/drive0 --slot 1 --with gone --yes-destroy").exits(3);
    place.run("array fail d/drive0 --slot 2").exits(0);
    let log = server.stop();
    let expected = [
        "slot 1 (d/drive1): to be replaced by /",
        "d/drive4): the replacement is rebuilt",
        "scrub: begins",
        "scrub: ended: ",
        "no damage",
        "slot 2 (d/drive2) is now failed: taken out of service by the administrator",
    ];
    for text in expected {
        assert!(log.contains(text), "{text:?} is not in {log}");
    }
}

/// An array with blocks that cannot be read was HEALTHY.
#[test]
fn an_array_that_lost_blocks_is_damaged_and_says_so() {
    let place = Place::with_drives();
    place.run("array create vol0 d/drive0 d/drive1 --level raid0 --size max").exits(0);
    let server = place.serve("d/drive0 d/drive1");
    let mut client = server.client();
    client.write(0, &pattern(5, 1 << 20));
    client.flush();
    place.run("array status d/drive0 --check").exits(0);
    rot(&place.path("d/drive0"));
    place.run("array scrub d/drive0").exits(6);
    let damaged = place.run("array status d/drive0 --check").exits(13).says("vol0 DAMAGED");
    damaged.says("could not be read, nor restored from other drives").says("restore the data");
    place.run("array status d/drive0").exits(0);
    let log = server.stop();
    assert!(log.contains("slot 0 (d/drive0): ") && log.contains("LOST"), "{log}");
    let history = place.run("array jobs d/drive0 d/drive1 --history").exits(0);
    history.says("complete · began ").says(" lost");
    let history = place.run("--json array jobs d/drive0 d/drive1 --history").exits(0);
    let history = history.document("array-history");
    let scrub = &history["scrubs"][0];
    assert!(
        scrub["lost"].as_u64() > Some(0) && scrub["ended_s"].as_u64() >= scrub["begun_s"].as_u64(),
        "{history}"
    );
    let stopped = place.run("array status d/drive0 d/drive1 --check").exits(13);
    stopped.says("vol0 DAMAGED").says("(offsets in bytes)").says("zoneweave array clear");
    let document = place.run("--json array status d/drive0 d/drive1").exits(0);
    let document = document.document("array-status");
    let ranges = document["lost"]["ranges"].as_array().unwrap();
    assert!(!ranges.is_empty() && ranges[0]["size_bytes"].as_u64() > Some(0), "{document}");
    // Blocks that were not written again are still lost.
    let cleared = place.run("array clear d/drive0 d/drive1").exits(0);
    cleared.says("blocks are still lost").says("vol0 DAMAGED");
    place.run("array status d/drive0 d/drive1 --check").exits(13);
    let server = place.serve("d/drive0 d/drive1");
    let mut client = server.client();
    client.write(0, &pattern(6, 1 << 20));
    client.flush();
    place.run("array clear d/drive0").exits(0).says("HEALTHY");
    server.stop();
    place.run("array status d/drive0 d/drive1 --check").exits(0);
}
