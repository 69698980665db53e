//! Serving an array: data of clients survives failures of drives and servers.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{MEMBERS, Place, announced, pattern};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn a_drive_is_failed_replaced_and_rebuilt_under_a_client() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    assert!(
        server.announced.contains("nbdinfo 'nbd+unix:///vol0?socket=/"),
        "{}",
        server.announced
    );
    let mut client = server.client();
    let data = pattern(7, 3 << 20);
    client.write(0, &data);
    client.flush();
    place.run("array status d/drive2 --check").exits(0).says("HEALTHY").says("write amplification");
    let refused = place.run("array replace d/drive0 --slot 1 --with d/drive4").exits(4);
    refused.complains("slot 1 is online");
    let gone = place.run("array replace d/drive0 --slot 1 --with gone").exits(3);
    gone.complains("gone does not exist");
    place.run("array replace d/drive0 --slot 9 --with gone").exits(3).complains("slots 0 to 3");
    let failed = place.run("--json array fail d/drive0 --slot 1").exits(0);
    assert_eq!(failed.document("array-status")["members"][1]["state"], "failed");
    place.run("array fail d/drive0 --slot 1").exits(0);
    place.run("array fail d/drive0 --slot 2").exits(4).complains("lose data");
    place.run("array fail d/drive0 --slot 9").exits(3).complains("slots 0 to 3");
    place.run("array status d/drive0 --check").exits(11).says("DEGRADED").says("--slot 1");
    assert_eq!(client.read(0, data.len()), data);
    let replace = "array replace d/drive0 --slot 1 --with";
    place.run(&format!("{replace} d/drive3 --yes-destroy")).exits(4).complains("in service");
    place.run(&format!("{replace} d/drive1")).exits(4).complains("--yes-destroy");
    place.run("array status d/drive0").exits(0).says("d/drive1");
    place.run(&format!("{replace} d/drive1")).exits(4).complains("--yes-destroy");
    place.run(&format!("{replace} gone")).exits(3).complains("does not exist");
    place.run(&format!("{replace} d/drive4")).exits(0).says("HEALTHY");
    place.run("array status d/drive4 --check").exits(0).says("d/drive4");
    assert_eq!(client.read(0, data.len()), data);
    let scrub = place.run("--json array scrub d/drive0").exits(0).document("array-scrub");
    assert_eq!((&scrub["damaged"], &scrub["unrepairable"]), (&0.into(), &0.into()));
    place.run("zones d/drive4 --by valid").exits(0).says("valid:");
    drop(client);
    assert!(server.stop().contains("all acknowledged writes are on the drives"));
    place.run("array check d/drive0 d/drive4 d/drive2 d/drive3").exits(0).says("clean");
    let status = place.run("array status d/drive0 d/drive1 d/drive2 d/drive3 d/drive4").exits(0);
    status.says("d/drive1  stale: was slot 1").says("HEALTHY");
    let list = place.run("--json array list d").exits(0).document("array-list");
    assert_eq!(
        (&list["drives"][1]["state"], &list["drives"][4]["state"]),
        (&"stale".into(), &"online".into())
    );
    place.run("array list d").exits(0).says("stale: the array continued without it");
}

/// Each half of a mirror was started without the other: the valid history is unknown, and no drive
/// is blank.
#[test]
fn mirrors_that_were_started_apart_are_no_blank_drives() {
    let place = Place::with_drives();
    place.run("array create m d/drive0 d/drive1 --level raid1 --size max").exits(0);
    for drive in ["d/drive0", "d/drive1"] {
        place.serve(&format!("{drive} --force")).stop();
    }
    for command in ["array status", "serve nbd --socket unix:n.sock"] {
        let run = place.run(&format!("{command} d/drive0 d/drive1"));
        assert_ne!(run.code, 0);
        run.complains("were started apart and hold two histories");
    }
    place.run("array status d/drive1").exits(0).says("--force starts with these");
}

/// A start evicts the drives that are not named, so an array is not started if it cannot be served.
#[test]
fn a_server_that_cannot_listen_puts_no_drive_out_of_service() {
    let place = Place::with_data();
    let media = || -> Vec<_> {
        (0..4).map(|at| fs::read(place.path(&format!("d/drive{at}"))).unwrap()).collect()
    };
    let before = media();
    fs::write(place.path("file"), "precious").unwrap();
    place.run("emu create small --drives 1 --zones 8 --zone-capacity 256KiB").exits(0);
    let long = "x".repeat(300);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = [
        "nbd --socket unix:file".to_owned(),
        format!("nbd --socket tcp:127.0.0.1:{port}"),
        format!("nbd --socket unix:new.sock --export {long}"),
        "nbd --socket unix:new.sock --socket unix:new.sock".to_owned(),
        "vhost-user --socket unix:file".to_owned(),
        format!("nvme-tcp --listen 127.0.0.1:{port}"),
        "nvme-tcp --listen 0.0.0.0:0".to_owned(),
        "fuse --mountpoint no-such-folder/file".to_owned(),
        "fuse --mountpoint file".to_owned(),
        "nbd --socket unix:new.sock --spare small/drive0".to_owned(),
    ];
    for front in refused {
        let run = place.run(&format!("serve {front} d/drive0 d/drive1 d/drive2"));
        assert_ne!(run.code, 0, "{front}");
        assert!(media() == before, "{front}: {run:?}");
    }
    assert_eq!(fs::read_to_string(place.path("file")).unwrap(), "precious");
    let small = "serve nbd d/drive0 --socket unix:new.sock --spare small/drive0";
    place.run(small).exits(1).complains("small/drive0 cannot be a spare of array vol0");
    let hides = format!("serve fuse {MEMBERS} --mountpoint file");
    place.run(&hides).exits(1).complains("has 8 bytes");
    place.serve(MEMBERS).stop();
}

#[test]
fn a_server_goes_on_when_it_is_told_to_use_what_is_no_drive() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    place.run("array fail d/drive0 --slot 1").exits(0);
    let pipe = place.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let replace = "array replace d/drive0 --slot 1 --yes-destroy --with";
    place.run(&format!("{replace} pipe")).exits(1).complains("is a pipe, not a drive");
    place.run(&format!("{replace} s.sock")).exits(1).complains("is a socket, not a drive");
    place.run("array status d/drive0 --check").exits(11).says("DEGRADED");
    place.run(&format!("{replace} d/drive4")).exits(0).says("HEALTHY");
    server.stop();
}

#[test]
fn a_spare_takes_the_place_of_a_failed_drive_and_status_tells() {
    let place = Place::with_array();
    let with_spares = format!("{MEMBERS} --spare d/drive4 --spare d/drive5");
    let server = place.serve(&with_spares);
    let mut client = server.client();
    let data = pattern(9, 2 << 20);
    client.write(0, &data);
    client.flush();
    place.run("array status d/drive0").exits(0).says("d/drive4 on standby for any slot");
    let kind = || {
        let list = place.run("--json array list d").exits(0).document("array-list");
        let drive = &list["drives"][4];
        (drive["kind"].as_str().unwrap().to_owned(), drive["name"].clone())
    };
    assert_eq!(kind(), ("spare".to_owned(), "vol0".into()));
    place.run("array fail d/drive0 --slot 1").exits(0);
    let status = || place.run("--json array status d/drive0").exits(0).document("array-status");
    let spare = |status: &Value| status["server"]["spares"][0].clone();
    let mut found = status();
    for _ in 0..600 {
        if spare(&found)["state"] == "rebuilt" && found["members"][1]["drive"] == "d/drive4" {
            break;
        }
        sleep(Duration::from_millis(50));
        found = status();
    }
    assert_eq!((&found["health"], &spare(&found)["slot"]), (&"healthy".into(), &1.into()));
    assert_eq!(found["server"]["spares"][1]["state"], "waiting");
    place.run("array status d/drive4").exits(0).says("d/drive4 has replaced slot 1");
    assert_eq!(client.read(0, data.len()), data);
    assert_eq!(kind().0, "member");
    drop(client);
    server.stop();
    // With the same command, the member is a member and the blank drive a spare.
    let server = place.serve(&with_spares);
    assert_eq!(server.client().read(0, data.len()), data);
    place.run("array status d/drive4 --check").exits(0).says("d/drive5 on standby");
    server.stop();
}

/// Neither while a spare is rebuilt in the slot, nor afterwards: it was evicted again for the drive
/// that had waited.
#[test]
fn a_slot_that_a_spare_fills_is_not_filled_again_unasked() {
    let place = Place::with_array();
    let server = place.serve(&format!("{MEMBERS} --spare d/drive4 --rebuild-limit 1MiB"));
    let mut client = server.client();
    let data = pattern(9, 2 << 20);
    client.write(0, &data);
    client.flush();
    place.run("array fail d/drive0 --slot 2").exits(0);
    let status = || place.run("--json array status d/drive0").exits(0).document("array-status");
    let mut found = status();
    for _ in 0..600 {
        if found["members"][2]["drive"] == "d/drive4" {
            break;
        }
        sleep(Duration::from_millis(50));
        found = status();
    }
    assert_ne!(found["members"][2]["state"], "failed");
    place.run("array replace d/drive0 --slot 2 --with d/drive5").exits(4);
    assert_eq!(status()["members"][2]["drive"], "d/drive4");
    assert_eq!(client.read(0, data.len()), data);
    drop(client);
    server.stop();
}

#[test]
fn what_is_served_is_protected_from_other_commands() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    place.run(&format!("array check {MEMBERS}")).exits(4).complains("being served");
    place.run(&format!("serve nbd {MEMBERS} --socket unix:t.sock")).exits(4).complains("in use");
    place.run(&format!("array create x {MEMBERS} --size max --yes-destroy")).exits(4);
    place.run("array list d").exits(0).says("served");
    place.run("inspect d/drive0").exits(0).says("vol0");
    // With another runtime directory the server cannot be found, and nothing is forced.
    let elsewhere = place
        .command(&format!("array scrub {MEMBERS}"))
        .env("ZONEWEAVE_RUNTIME_DIR", place.path("other"))
        .output()
        .unwrap();
    assert_eq!(elsewhere.status.code(), Some(5));
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("run"), 0o700);
    let socket = fs::read_dir(place.path("run")).unwrap().next().unwrap().unwrap();
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    server.stop();
    assert!(fs::read_dir(place.path("run")).unwrap().next().is_none(), "sockets are removed");
}

#[test]
fn a_killed_server_loses_nothing_flushed() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let mut client = server.client();
    let data = pattern(3, 1 << 20);
    client.write(4096, &data);
    client.flush();
    server.kill();
    // The socket of the dead server does not hinder the next one.
    place.run(&format!("array status {MEMBERS} --check")).exits(0).says("not served");
    let server = place.serve("d/drive3 d/drive2 d/drive1 d/drive0");
    assert_eq!(server.client().read(4096, data.len()), data);
    server.stop();
    place.run(&format!("array check {MEMBERS}")).exits(0);
}

#[test]
fn an_array_starts_without_a_drive_and_says_so() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let data = pattern(5, 1 << 20);
    let mut client = server.client();
    client.write(0, &data);
    client.flush();
    drop(client);
    server.stop();
    let server = place.serve("d/drive0 gone d/drive2 d/drive3 d/drive5 --without any");
    assert!(server.announced.contains("DEGRADED"), "{}", server.announced);
    assert_eq!(server.client().read(0, data.len()), data);
    let stderr = server.stop();
    assert!(
        stderr.contains("gone does not exist") && stderr.contains("d/drive5: blank"),
        "{stderr}"
    );
    let serve = |drives: &str| place.run(&format!("serve nbd {drives} --socket unix:s.sock"));
    serve("d/drive0 d/drive2").exits(1).complains("has 2 of 4 drives and needs 3");
    serve("d/drive4 d/drive5").exits(3).complains("none of these drives");
    serve("gone").exits(3);
    place.run("serve nbd d/drive0 --socket nowhere").exits(2).complains("unix:PATH");
    place
        .run(&format!("serve nbd {MEMBERS} --socket tcp:192.0.2.1:1"))
        .exits(1)
        .complains("without encryption");
}

#[test]
fn without_the_driver_there_is_no_disk_and_nothing_is_left_behind() {
    if std::path::Path::new("/dev/ublk-control").exists() {
        return;
    }
    let place = Place::with_array();
    let needs = "modprobe ublk_drv";
    place.run(&format!("serve ublk {MEMBERS}")).exits(1).complains(needs);
    let both = format!("serve nbd {MEMBERS} --socket unix:s.sock --ublk=3");
    place.run(&both).exits(1).complains(needs);
    assert!(!place.path("s.sock").exists());
    place.run("emu serve d/drive0 --number 3").exits(1).complains(needs);
}

#[test]
fn a_drive_that_is_cut_off_is_noticed_though_nobody_uses_it() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let file = fs::OpenOptions::new().write(true).open(place.path("d/drive2")).unwrap();
    file.set_len(4096).unwrap();
    // Each look takes some milliseconds; the server looks once a second.
    let noticed = (0..2000).any(|_| place.run("array status d/drive0 --check").code == 11);
    assert!(noticed, "still healthy");
    place.run("array status d/drive0").says("truncated").says("failed");
    let told = server.stop();
    let news =
        told.lines().find_map(|line| line.split_once(" vol0: slot 2 (d/drive2) is now failed: "));
    let (time, _) = news.unwrap_or_else(|| panic!("nothing is told of it: {told}"));
    assert!(humantime::parse_rfc3339(time).is_ok(), "{time} is no time");
}

/// The header of a served drive was wiped: the array was HEALTHY, and its next start had lost the
/// drive.
#[test]
fn an_overwritten_header_of_a_served_drive_is_told_before_the_next_start() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let file = fs::OpenOptions::new().write(true).open(place.path("d/drive2")).unwrap();
    file.write_all_at(&[0; 4096], 0).unwrap();
    // Each look takes some milliseconds; the server looks once a second.
    let told = "slot 2 (d/drive2): the header of its file was overwritten";
    let is_told = || place.run("events d/drive0").stdout.contains(told);
    assert!((0..2000).any(|_| is_told()), "nothing is told of it");
    let status = place.run("array status d/drive0 --check").exits(11);
    status.says("DEGRADED").says("replace the drive of slot 2 before the server stops");
    place.run("array replace d/drive0 --slot 2 --with d/drive4 --yes-destroy").exits(0);
    place.run("array status d/drive0 --check").exits(0).says("HEALTHY");
    server.stop();
    place.run("array status d/drive0 d/drive1 d/drive4 d/drive3 --check").exits(0).says("HEALTHY");
}

#[test]
fn everything_can_be_done_without_a_server_too() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let data = pattern(11, 2 << 20);
    let mut client = server.client();
    client.write(0, &data);
    client.flush();
    drop(client);
    server.stop();
    let scrub = place.run("array scrub d/drive0 d/drive1 d/drive2").exits(4);
    scrub.complains("slot 3 of array vol0 is missing");
    place.run(&format!("array scrub {MEMBERS}")).exits(0).says("no damage");
    let healthy = place.run(&format!("array replace {MEMBERS} --slot 2 --with d/drive4")).exits(4);
    healthy.complains("slot 2 is online");
    // The advice to fail a drive must not come before the check that the new one exists.
    let gone = place.run(&format!("array replace {MEMBERS} --slot 2 --with gone")).exits(3);
    gone.complains("gone does not exist");
    let beyond = place.run(&format!("array replace {MEMBERS} --slot 4 --with gone")).exits(3);
    beyond.complains("slots 0 to 3");
    place.run(&format!("array fail {MEMBERS} --slot 2")).exits(0).says("slot 2 failed");
    let replace = format!("array replace {MEMBERS} --slot 2 --with");
    place.run(&format!("{replace} d/drive2")).exits(4).complains("--yes-destroy");
    place.run(&format!("{replace} d/drive0 --yes-destroy")).exits(4).complains("in service");
    let done = place.run(&format!("{replace} d/drive5")).exits(0).says("HEALTHY");
    assert!(done.stderr.contains("rebuild 100 %"), "{done:?}");
    let members = "d/drive0 d/drive1 d/drive5 d/drive3";
    place.run(&format!("array check {members}")).exits(0).says("clean");
    let server = place.serve(members);
    assert_eq!(server.client().read(0, data.len()), data);
}

#[test]
fn half_of_the_drives_start_by_force_only_and_the_rest_become_strangers() {
    let place = Place::with_drives();
    place.run("array create vol0 d/drive0 d/drive1 --level raid1 --size max --chunk 4KiB").exits(0);
    let server = place.serve("d/drive0 d/drive1");
    let data = pattern(13, 1 << 20);
    let mut client = server.client();
    client.write(0, &data);
    client.flush();
    drop(client);
    server.stop();
    let refused = place.run("serve nbd d/drive1 --socket unix:s.sock").exits(4);
    refused.complains("--force");
    let server = place.serve("d/drive1 --force");
    assert_eq!(server.client().read(0, data.len()), data);
    server.stop();
    let status = place.run("array status d/drive1 d/drive0 --check").exits(12);
    status.says("has diverged from this array, which was started with --force");
    let list = place.run("array list d/drive1 d/drive0").exits(0);
    list.says("diverged: the array was started with --force without it");
    // The diverged drive is not another array.
    place.serve("d/drive0 d/drive1 --force").stop();
    // With a second drive it is whole again, and starts by itself.
    let server = place.serve("d/drive1 --force");
    place.run("array replace d/drive1 --slot 0 --with d/drive0 --yes-destroy").exits(0);
    assert_eq!(server.client().read(0, data.len()), data);
    server.stop();
    place.run("array status d/drive1 d/drive0 --check").exits(0);
}

#[test]
fn clients_of_this_machine_may_use_tcp_and_another_name() {
    let place = Place::with_array();
    let mut child = place
        .command(&format!("serve nbd {MEMBERS} --socket tcp:127.0.0.1:0 --export disk --json -q"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let document = announced(&mut child);
    let uri = document["uris"][0].as_str().expect("a URI");
    let port = uri.strip_prefix("nbd://127.0.0.1:").and_then(|rest| rest.strip_suffix("/disk"));
    let port: u16 = port.expect("host and name").parse().expect("a port");
    let mut greeting = [0; 8];
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a listener");
    stream.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"NBDMAGIC");
    stop(child);
}

/// Runs a quickstart until it serves, and stops it; returns its document.
fn quickstart(place: &Place) -> serde_json::Value {
    let mut child = place
        .command("quickstart data --zones 12 --zone-capacity 256KiB --json -q")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let document = announced(&mut child);
    stop(child);
    document
}

/// Ends a server as Ctrl-C does.
fn stop(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    assert!(child.wait().expect("it is a child").success());
}

#[test]
fn quickstart_makes_what_is_missing_and_keeps_what_is_there() {
    let place = Place::new();
    let (first, second) = (quickstart(&place), quickstart(&place));
    assert_eq!(first["kind"], "serving");
    assert_eq!(first["status"]["array"], second["status"]["array"]);
    assert_eq!(second["status"]["health"], "healthy");
    let writing = &first["status"]["server"]["writing"];
    let users = &writing["lanes"][0];
    assert_eq!((&users["command"], &users["segments"]), (&"gathered".into(), &4.into()));
    assert_eq!(writing["fell_back"], serde_json::json!([]));
}

#[test]
fn quickstart_tells_which_options_do_not_match_what_is_there() {
    let place = Place::new();
    place.run("emu create data/deep --drives 4 --zones 12 --zone-capacity 256KiB").exits(0);
    let drives = "data/deep/drive0 data/deep/drive1 data/deep/drive2 data/deep/drive3";
    place.run(&format!("array create mine {drives} --size max")).exits(0);
    let mut child = place
        .command(
            "quickstart data --name other --drives 6 --zones 99 --zone-capacity 1MiB --level raid6",
        )
        .args(["--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let document = announced(&mut child);
    assert_eq!(document["status"]["name"], "mine");
    assert!(place.path("data/mine.sock").exists(), "the socket is called as the array is");
    let mut stderr = child.stderr.take().expect("a pipe");
    stop(child);
    let mut told = String::new();
    stderr.read_to_string(&mut told).expect("text");
    for expected in [
        "4 of 4 drives are in subdirectories of data",
        "warning: --name other is ignored: the array is called mine",
        "warning: --drives 6 is ignored: the array has 4",
        "warning: --zones 99 is ignored: the drives have 12",
        "warning: --zone-capacity 1 MiB is ignored: the zones hold 256 KiB",
        "warning: --level raid6 is ignored: the array is raid5 3+1",
    ] {
        assert!(told.contains(expected), "{expected:?} is not in {told}");
    }
    let mut child = place.command("quickstart data --level raid5 --drives 4 --json");
    let mut child =
        child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary was built");
    announced(&mut child);
    let mut stderr = child.stderr.take().expect("a pipe");
    stop(child);
    told.clear();
    stderr.read_to_string(&mut told).expect("text");
    assert!(!told.contains("warning"), "{told}");
}

#[test]
fn how_a_server_writes_can_be_pinned_and_what_does_not_fit_is_an_error() {
    let place = Place::with_drives();
    place.run(&format!("array create vol0 {MEMBERS} --size 2M --chunk 16KiB")).exits(0);
    fs::write(place.path("samples.jsonl"), "{}").unwrap();
    let serve =
        |options: &str| place.run(&format!("serve nbd {MEMBERS} --socket unix:s.sock {options}"));
    serve("--profile samples.jsonl").exits(2).complains("samples.jsonl");
    serve("--profile gone.jsonl").exits(3).complains("gone.jsonl");
    serve("--small 9x4KiB").exits(1).complains("9 open segments need 24 active zones");
    serve("--write-mode array --small 1x4KiB").exits(2).complains("--small: has no effect");
    serve("--group-rows 64").exits(2).complains("--group-rows: has no effect");
    serve("--write-mode adaptive --profile p").exits(2).complains("--profile: has no effect");
    for (options, found) in [
        ("--write-mode array", (1, 4, "append")),
        ("--write-mode zone-write", (3, 2, "write")),
        ("--write-mode zone-append --small 1x4KiB", (1, 1, "append")),
        ("--write-mode zapraid --small 1x4KiB --group-rows 64", (1, 1, "append")),
        ("--write-mode adaptive --small 2x8KiB --large 0", (2, 2, "gathered")),
        ("--small 2x4KiB", (2, 1, "gathered")),
        ("--large 1x16KiB", (3, 2, "gathered")),
    ] {
        let server = place.serve(&format!("{MEMBERS} {options}"));
        assert_eq!(users(&place), (found.0, found.1 * 4096, found.2.to_owned()), "{options}");
        server.stop();
    }
}

/// Segments for (small) user requests: their number, chunk size and write command.
fn users(place: &Place) -> (u64, u64, String) {
    let status = place.run("--json array status d/drive0").exits(0).document("array-status");
    let users = &status["server"]["writing"]["lanes"][0];
    let number = |name: &str| users[name].as_u64().expect("a number");
    let command = users["command"].as_str().expect("a word");
    (number("segments"), number("chunk_bytes"), command.to_owned())
}

/// An index of 69 pages with memory for 16: all data is served, and status shows the number of
/// pages on the drives only. The next server, with unlimited memory, has all of it again.
#[test]
fn an_index_takes_as_much_memory_as_it_may() {
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 32 --zone-capacity 4M").exits(0);
    place.run(&format!("array create vol0 --level raid5 --size 256M {MEMBERS}")).exits(0);
    let data = |at: u64| pattern(at, 1 << 20);
    for options in ["--index-memory 64K", ""] {
        let server = place.serve(&format!("{MEMBERS} {options}"));
        let mut client = server.client();
        if !options.is_empty() {
            (0..256).for_each(|at| client.write(at << 20, &data(at)));
        }
        (0..256).for_each(|at| assert!(client.read(at << 20, 1 << 20) == data(at), "MiB {at}"));
        let status = place.run("--json array status d/drive0").exits(0).document("array-status");
        let pages = &status["server"]["index_pages"];
        if options.is_empty() {
            assert!(pages.is_null(), "{pages}");
        } else {
            assert_eq!(
                (pages["total"].as_u64(), pages["limit_bytes"].as_u64()),
                (Some(69), Some(64 << 10))
            );
            assert!(pages["away"].as_u64() > Some(0), "{pages}");
            place.run("array status d/drive0").exits(0).says("of 69 pages on the drives only");
        }
        server.stop();
    }
}

/// Drives without a write buffer take many appends faster than one write: the server knows that
/// from a preset or a profile.
#[test]
fn a_server_appends_where_it_is_known_to_be_faster() {
    let place = Place::new();
    place.run("characterize --preset femu --quick --out prof").exits(0);
    let appended = (4, 8192, "append".to_owned());
    let gathered = (4, 8192, "gathered".to_owned());
    place.run("emu create d --drives 4 --zones 24 --zone-capacity 1M").exits(0);
    place.run(&format!("array create vol0 --level raid5 --size 16M {MEMBERS}")).exits(0);
    for (profile, found) in [("", &gathered), ("--profile prof/samples.jsonl", &appended)] {
        let server = place.serve(&format!("{MEMBERS} {profile}"));
        assert_eq!(&users(&place), found, "{profile}");
        let mut client = server.client();
        let data = pattern(3, 1 << 20);
        client.write(0, &data);
        assert_eq!(client.read(0, data.len()), data);
        server.stop();
    }
    let preset = Place::new();
    preset.run("emu create d --drives 4 --preset femu --zones 24 --zone-capacity 4M").exits(0);
    preset.run(&format!("array create vol0 --level raid5 --size 64M {MEMBERS}")).exits(0);
    let server = preset.serve(MEMBERS);
    assert_eq!(users(&preset), appended);
    preset.run("array status d/drive0").exits(0).says("4 segments of 8 KiB chunks by Zone Append");
    server.stop();
}

#[test]
fn quickstart_finds_a_drive_that_replaced_another() {
    let place = Place::new();
    quickstart(&place);
    fs::remove_file(place.path("data/drive2")).unwrap();
    place.run("emu create data/spare --drives 1 --zones 12 --zone-capacity 256KiB").exits(0);
    let members = "data/drive0 data/drive1 data/drive3";
    place.run(&format!("array replace {members} --slot 2 --with data/spare/drive0")).exits(0);
    let status = &quickstart(&place)["status"];
    assert_eq!(status["health"], "healthy");
    assert_eq!(status["members"][2]["drive"], "data/spare/drive0");
}
