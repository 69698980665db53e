//! Starts that do not serve, and stops: a start changes the array only when nothing can fail any
//! more, waits for nobody without end, and heeds signals at any moment.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Ended, MEMBERS, Nbd, Place, SmallDisk, pattern};

/// All but one of the members: a start would take the other one out of service.
const THREE: &str = "d/drive0 d/drive1 d/drive2";

/// Contents of the drives in a folder.
fn media(place: &Place, folder: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        fs::read_dir(place.path(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(|path| fs::read(path).unwrap()).collect()
}

/// A start with a limit of open files.
fn with_limit(place: &Place, files: u32, words: &str) -> Ended {
    let start = place.command(words);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -n {files} && exec \"$0\" \"$@\""));
    shell.arg(start.get_program()).args(start.get_args());
    shell.current_dir(place.path("")).env("ZONEWEAVE_RUNTIME_DIR", place.path("run"));
    Ended::of_command(&mut shell)
}

/// The other tests would see this if a start did more than refuse.
#[test]
fn a_start_without_a_member_of_a_crashed_array_writes() {
    let place = Place::with_data();
    let before = media(&place, "d");
    place.serve(THREE).stop();
    assert!(media(&place, "d") != before);
    place.run(&format!("array status {MEMBERS} --check")).exits(11);
}

/// The control socket was opened, and the file mounted, after the array had started: a start that
/// failed there had taken the missing member out of service for good.
#[test]
fn a_start_that_cannot_be_controlled_changes_nothing() {
    let place = Place::with_data();
    let before = media(&place, "d");
    fs::create_dir(place.path("open")).unwrap();
    fs::set_permissions(place.path("open"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(place.path("file"), "precious").unwrap();
    let (long, deep) = ("x".repeat(90), format!("{}/{}", "y".repeat(120), "z".repeat(120)));
    let fronts = [
        "nbd --socket unix:s.sock",
        "vhost-user --socket unix:v.sock",
        "fuse --mountpoint f",
        "nvme-tcp --listen 127.0.0.1:0",
    ];
    for directory in ["open", "file", &long, &deep] {
        for front in fronts {
            let start = &mut place.command(&format!("serve {front} {THREE}"));
            let run = Ended::of_command(start.env("ZONEWEAVE_RUNTIME_DIR", place.path(directory)));
            assert_ne!(run.code, 0, "{front} {run:?}");
            assert!(media(&place, "d") == before, "{directory} {front}: {run:?}");
        }
    }
    for left in ["s.sock", "v.sock", "f"] {
        assert!(!place.path(left).exists(), "{left}");
    }
    place.run(&format!("array status {MEMBERS} --check")).exits(0);
}

#[test]
fn copies_of_a_running_array_do_not_start_and_do_not_change() {
    let place = Place::with_data();
    fs::create_dir(place.path("copy")).unwrap();
    for at in 0..4 {
        fs::copy(place.path(&format!("d/drive{at}")), place.path(&format!("copy/drive{at}")))
            .unwrap();
    }
    let before = media(&place, "copy");
    let server = place.serve(MEMBERS);
    let copies = "serve nbd copy/drive0 copy/drive1 copy/drive2 --socket unix:c.sock";
    place.run(copies).exits(1).complains("in use by a running server");
    assert!(media(&place, "copy") == before);
    server.stop();
}

/// With too few descriptors, the drives that could not be opened any more were taken for lost: two
/// of twelve, all the redundancy there was.
#[test]
fn a_start_with_too_few_descriptors_changes_nothing() {
    let place = Place::new();
    place.run("emu create d --drives 12 --zones 16 --zone-capacity 256KiB").exits(0);
    let drives: Vec<_> = (0..12).map(|at| format!("d/drive{at}")).collect();
    let drives = drives.join(" ");
    place.run(&format!("array create vol0 --level raid6 --size max {drives}")).exits(0);
    place.crash(&drives);
    let before = media(&place, "d");
    for files in [8, 12, 16, 20, 24, 28, 32] {
        for front in ["nbd --socket unix:s.sock", "nbd --socket unix:s.sock --without any"] {
            let run = with_limit(&place, files, &format!("serve {front} {drives}"));
            assert_ne!(run.code, 0, "{files}");
            assert!(media(&place, "d") == before, "{files}: {run:?}");
        }
    }
    let few = with_limit(&place, 24, &format!("serve nbd {drives} --socket unix:s.sock"));
    few.complains("raise the limit");
    // A soft limit is raised.
    let start = place.command(&format!("serve nbd {drives} --socket unix:s.sock"));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("ulimit -S -n 12 && exec \"$0\" \"$@\"");
    shell.arg(start.get_program()).args(start.get_args());
    let shell = shell.current_dir(place.path("")).env("ZONEWEAVE_RUNTIME_DIR", place.path("run"));
    let mut server = shell.stdout(Stdio::piped()).spawn().unwrap();
    until(server.stdout.take().unwrap(), "ready");
    end(&mut server, Signal::TERM);
    assert!(server.wait().unwrap().success());
}

/// Nothing of a volume starts before all its shards have what they need.
#[test]
fn a_shard_that_cannot_start_leaves_the_others_as_they_were() {
    let place = Place::with_drives();
    let all = "d/drive0 d/drive1 d/drive2 d/drive3 d/drive4 d/drive5";
    place.run(&format!("array create vol0 {all} --shards 2 --size max")).exits(0);
    let status = place.run(&format!("--json array status {all}")).document("array-status");
    let second =
        status["shards"][1]["array"].as_str().unwrap_or_else(|| panic!("{status}")).to_owned();
    place.crash(all);
    let before = media(&place, "d");
    let socket = place.path(&format!("run/{second}.sock"));
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "precious").unwrap();
    let five = "d/drive0 d/drive1 d/drive3 d/drive4 d/drive5";
    let refused = place.run(&format!("serve nbd {five} --socket unix:s.sock"));
    refused.exits(1).complains("shard 1 of 2").complains("is not a socket");
    assert!(media(&place, "d") == before);
}

/// A look at its drives found nothing wrong, and the start of the other shard took a late drive out
/// of service.
#[test]
fn a_shard_whose_drives_cannot_be_written_leaves_the_others_as_they_were() {
    let place = Place::with_drives();
    let all = "d/drive0 d/drive1 d/drive2 d/drive3 d/drive4 d/drive5";
    place.run(&format!("array create vol0 {all} --shards 2 --size max")).exits(0);
    place.crash(all);
    let immutable = |flag: &str| {
        let drives = ["d/drive0", "d/drive1"].map(|drive| place.path(drive));
        Command::new("chattr").arg(flag).args(drives).output().is_ok_and(|it| it.status.success())
    };
    if !immutable("+i") {
        eprintln!("SKIPPED: CHATTR NEEDS ROOT AND A FILE SYSTEM THAT KNOWS IT");
        return;
    }
    let before = media(&place, "d");
    let few = "d/drive0 d/drive1 d/drive2 d/drive4 d/drive5";
    let refused = place.run(&format!("serve nbd {few} --socket unix:s.sock --without any"));
    assert!(immutable("-i"));
    refused.exits(1).complains("shard 0 of 2").complains("needs");
    assert!(media(&place, "d") == before);
    place.serve(all).stop();
}

/// The drive of a file system that was not mounted, or a file restored to the wrong place, was left
/// alone, and the member whose place it had was out of service.
#[test]
fn a_named_drive_in_the_place_of_a_missing_member_refuses_the_start() {
    let place = Place::with_drives();
    place.run("emu create e --drives 2 --zones 16 --zone-capacity 256KiB").exits(0);
    place.run("array create other e/drive0 e/drive1 --level raid1 --size max").exits(0);
    let five = format!("{MEMBERS} d/drive4");
    let whole = [
        (MEMBERS.to_owned(), THREE, "--size max --chunk 4KiB"),
        (format!("{five} d/drive5"), &five, "--size max --chunk 4KiB --shards 2"),
    ];
    for (all, few, options) in whole {
        place.run(&format!("array create vol0 {all} {options} --yes-destroy")).exits(0);
        let server = place.serve(&all);
        let mut client = server.client();
        client.write(0, &pattern(8, 64 << 10));
        client.flush();
        drop(client);
        server.stop();
        place.run("emu create blank --drives 1 --zones 16 --zone-capacity 256KiB").exits(0);
        let before = media(&place, "d");
        for (stranger, holds) in [("blank/drive0", " no"), ("e/drive0", "another array")] {
            let serve = format!("serve nbd {few} {stranger} --socket unix:s.sock");
            let refused = place.run(&serve).exits(4).complains(holds);
            refused.complains("is missing").complains(&format!("--without {stranger}"));
        }
        assert!(media(&place, "d") == before, "{options}");
        // Beside a whole array they are left alone, and so they are if asked.
        place.serve(&format!("{all} blank/drive0")).stop();
        place.serve(&format!("{few} blank/drive0 --without blank/drive0")).stop();
        place.serve(&format!("{few} blank/drive0 --without any")).stop();
        fs::remove_dir_all(place.path("blank")).unwrap();
    }
    let place = Place::new();
    place.run("emu create d --drives 5 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create vol0 {MEMBERS} --kind zoned")).exits(0);
    let before = media(&place, "d");
    let refused = place.run(&format!("serve zoned {THREE} d/drive4")).exits(4);
    refused.complains("d/drive4 holds nothing").complains("slot 3 of array vol0 is missing");
    assert!(media(&place, "d") == before);
    place.serve_zoned(&format!("{MEMBERS} d/drive4")).stop();
}

/// With --force, the first shard was started before the second one turned out to have too few
/// drives: its missing drive was out of service, and nothing was served.
#[test]
fn a_forced_start_of_shards_starts_all_or_none() {
    let place = Place::with_drives();
    let all = "d/drive0 d/drive1 d/drive2 d/drive3 d/drive4 d/drive5";
    place.run(&format!("array create vol0 {all} --shards 2 --size max --chunk 4KiB")).exits(0);
    let server = place.serve(all);
    let mut client = server.client();
    client.write(0, &pattern(8, 1 << 20));
    client.flush();
    drop(client);
    server.stop();
    let before = media(&place, "d");
    for few in ["d/drive0 d/drive1 d/drive3", "d/drive3 d/drive0 d/drive1"] {
        let refused = place.run(&format!("serve nbd {few} --force --socket unix:s.sock"));
        refused.exits(1).complains("shard 1 of 2").complains("has 1 of 3 drives");
        assert!(media(&place, "d") == before);
    }
    place.run(&format!("array status {all} --check")).exits(0);
}

/// A drive that was named and could not be opened was taken for lost: it was out of service when
/// the reason was gone.
#[test]
fn a_named_drive_that_cannot_be_opened_refuses_the_start() {
    let place = Place::with_array();
    let (drive, kept) = (place.path("d/drive3"), place.path("kept"));
    fs::rename(&drive, &kept).unwrap();
    let before = media(&place, "d");
    let folder = |path: &Path| fs::create_dir(path).unwrap();
    let circle = |path: &Path| symlink(path, path).unwrap();
    let truncated = |path: &Path| {
        fs::copy(&kept, path).unwrap();
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() - 4096).unwrap();
    };
    type Damage<'a> = &'a dyn Fn(&Path);
    let unusable: [(Damage<'_>, i32, &str); 4] = [
        (&|_: &Path| {}, 3, "does not exist"),
        (&folder, 1, "is a directory"),
        (&circle, 1, "symbolic links"),
        (&truncated, 1, "truncated"),
    ];
    for (make, code, reason) in unusable {
        make(&drive);
        for front in
            ["nbd --socket unix:s.sock", "fuse --mountpoint f", "vhost-user --socket unix:v"]
        {
            let refused = place.run(&format!("serve {front} {MEMBERS}")).exits(code);
            refused.complains(reason).complains("--without d/drive3");
        }
        let _ = fs::remove_dir(&drive);
        let _ = fs::remove_file(&drive);
        assert!(media(&place, "d") == before, "{reason}");
    }
    fs::rename(&kept, &drive).unwrap();
    place.serve(MEMBERS).stop();
    place.run(&format!("array status {MEMBERS} --check")).exits(0);
    fs::rename(&drive, &kept).unwrap();
    // With a word, the array starts without it.
    let server = place.serve(&format!("{MEMBERS} --without d/drive3"));
    assert!(server.announced.contains("DEGRADED"), "{}", server.announced);
    server.stop();
    let server = place.serve(&format!("{MEMBERS} --without any"));
    assert!(server.stop().contains("d/drive3 does not exist"));
    let mistyped = format!("serve nbd {MEMBERS} --socket unix:s.sock --without x");
    place.run(&mistyped).exits(2).complains("x is none of the drives given");
    // A spare that has become a member was served although it was to be left out.
    for drives in [MEMBERS, "--array vol0 --search d"] {
        let drives = format!("{drives} --spare d/drive3 --without d/drive3");
        let refused = place.run(&format!("serve nbd {drives} --socket unix:s.sock")).exits(2);
        refused.complains("d/drive3 is given with --spare too");
    }
}

/// The administrative commands start the array too.
#[test]
fn a_drive_that_can_only_be_read_is_not_taken_out_of_service_by_a_scrub() {
    let place = Place::with_array();
    let immutable = |flag: &str| {
        let done = Command::new("chattr").arg(flag).arg(place.path("d/drive3")).output();
        done.is_ok_and(|done| done.status.success())
    };
    if !immutable("+i") {
        eprintln!("SKIPPED: CHATTR NEEDS ROOT AND A FILE SYSTEM THAT KNOWS IT");
        return;
    }
    let runs = [
        place.run(&format!("array scrub {MEMBERS}")),
        place.run(&format!("array fail {MEMBERS} --slot 1")),
        place.run(&format!("serve nbd {MEMBERS} --socket unix:s.sock")),
    ];
    // It changes nothing, and wanted to write.
    let checked = place.run(&format!("array check {MEMBERS}"));
    assert!(immutable("-i"));
    checked.exits(0);
    for run in runs {
        assert_ne!(run.code, 0, "{run:?}");
    }
    place.run(&format!("array status {MEMBERS} --check")).exits(0);
}

/// Reads a stream until it says something.
fn until(stream: impl Read, word: &str) -> String {
    let mut text = String::new();
    let mut lines = BufReader::new(stream);
    while !text.contains(word) {
        assert!(lines.read_line(&mut text).unwrap() > 0, "it ended without {word:?}: {text}");
    }
    text
}

fn end(child: &mut Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A start waited without end for a server that listened and accepted nobody, deaf to SIGTERM.
#[test]
fn a_start_does_not_wait_for_a_server_that_hangs() {
    let place = Place::with_data();
    let before = media(&place, "d");
    let hung = UnixListener::bind(place.path("hung")).unwrap();
    rustix::net::listen(&hung, 0).unwrap();
    let serve = format!("serve nbd {THREE} --socket unix:hung");
    place.run(&serve).exits(5).complains("accepts no connection");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let hung_again = UnixListener::bind(place.path("again")).unwrap();
        let mut child = place.begin_hearing(&format!("serve nbd {THREE} --socket unix:again"));
        // It has connected once it has found the socket in its way.
        poll(&mut [PollFd::new(&hung_again, PollFlags::IN)], None).unwrap();
        end(&mut child, signal);
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status:?}");
        fs::remove_file(place.path("again")).unwrap();
    }
    assert!(media(&place, "d") == before);
}

#[test]
fn late_drives_are_waited_for() {
    let place = Place::with_array();
    let (drive, away) = (place.path("d/drive3"), place.path("away"));
    for (drives, waits) in [(MEMBERS, "waiting for d/drive3"), (THREE, "waiting for 1 member")] {
        place.crash(MEMBERS);
        fs::rename(&drive, &away).unwrap();
        let before = media(&place, "d");
        let serve = format!("serve nbd {drives} --socket unix:s.sock --wait 10min");
        let mut stopped = place.begin_hearing(&serve);
        until(stopped.stderr.take().unwrap(), waits);
        end(&mut stopped, Signal::TERM);
        assert_eq!(stopped.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
        assert!(media(&place, "d") == before);
        let mut server = place.begin_hearing(&serve);
        let mut stderr = server.stderr.take().unwrap();
        until(&mut stderr, waits);
        fs::rename(&away, &drive).unwrap();
        let announced = until(server.stdout.take().unwrap(), "ready");
        assert!(announced.contains("HEALTHY"), "{announced}");
        end(&mut server, Signal::TERM);
        assert!(server.wait().unwrap().success());
    }
    fs::rename(&drive, &away).unwrap();
    let late = format!("serve nbd {MEMBERS} --socket unix:s.sock --wait 1ms");
    place.run(&late).exits(3).complains("--without d/drive3");
    place.run(&format!("serve nbd {MEMBERS} --socket unix:s.sock --wait long")).exits(2);
}

/// No command could name such a drive, and the server's control socket was deaf.
#[test]
fn a_drive_whose_path_is_not_utf_8_is_refused() {
    let place = Place::with_array();
    let odd = std::ffi::OsStr::from_bytes(b"d/odd\xff");
    fs::rename(place.path("d/drive3"), place.path("").join(odd)).unwrap();
    let mut start = place.command(&format!("serve nbd {THREE} --socket unix:s.sock"));
    Ended::of_command(start.arg(odd)).exits(2).complains("not UTF-8");
}

/// A hangup ended the server as a crash does.
#[test]
fn a_hangup_stops_a_server_in_order_unless_it_is_to_be_ignored() {
    let place = Place::with_array();
    let mut server = place.begin_hearing(&format!("serve nbd {MEMBERS} --socket unix:s.sock"));
    until(server.stdout.as_mut().unwrap(), "ready");
    end(&mut server, Signal::HUP);
    let mut told = String::new();
    server.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(server.wait().unwrap().success(), "{told}");
    assert!(told.contains("all acknowledged writes are on the drives"), "{told}");
    // As `nohup` does.
    let start = place.command(&format!("serve nbd {MEMBERS} --socket unix:s.sock"));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("trap '' HUP; exec \"$0\" \"$@\"").arg(start.get_program());
    shell.args(start.get_args()).current_dir(place.path(""));
    shell.env("ZONEWEAVE_RUNTIME_DIR", place.path("run"));
    let mut server = shell.stdout(Stdio::piped()).spawn().unwrap();
    until(server.stdout.as_mut().unwrap(), "ready");
    end(&mut server, Signal::HUP);
    place.run("array status d/drive0 --check").exits(0);
    end(&mut server, Signal::TERM);
    assert!(server.wait().unwrap().success());
}

/// A stop waits for clients that take no replies; the operator need not.
#[test]
fn a_second_signal_ends_a_stop() {
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 32 --zone-capacity 1MiB").exits(0);
    place.run(&format!("array create vol0 {MEMBERS} --size max")).exits(0);
    let mut server = place.begin_hearing(&format!("serve nbd {MEMBERS} --socket unix:s.sock"));
    until(server.stdout.as_mut().unwrap(), "ready");
    let mut client = Nbd::connect(&place.path("s.sock"), "vol0");
    assert!(client.size_bytes >= 4 << 20);
    client.ask_in_vain();
    end(&mut server, Signal::TERM);
    until(server.stderr.as_mut().unwrap(), "finishing requests in flight");
    // The kernel and the shell both send one when a terminal is closed.
    end(&mut server, Signal::HUP);
    end(&mut server, Signal::INT);
    let status = server.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()), "{status:?}");
    place.serve(MEMBERS).stop();
}

/// The socket was there for a moment while the start checked that it could listen, and again when
/// it did, before it listened: clients that came as soon as they saw it were refused.
#[test]
fn clients_that_come_early_wait_for_the_array() {
    let place = Place::with_array();
    for _ in 0..5 {
        let mut server = place.begin_hearing(&format!("serve nbd {MEMBERS} --socket unix:s.sock"));
        let connected = loop {
            match UnixStream::connect(place.path("s.sock")) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    assert!(server.try_wait().unwrap().is_none(), "the server ended");
                }
                other => break other,
            }
        };
        let mut greeting = [0; 8];
        connected.unwrap().read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGIC");
        until(server.stdout.take().unwrap(), "ready");
        end(&mut server, Signal::TERM);
        assert!(server.wait().unwrap().success());
    }
}

#[test]
fn of_two_servers_that_race_for_the_drives_one_serves() {
    let place = Place::with_array();
    let serve =
        |socket: &str| place.begin_hearing(&format!("serve nbd {MEMBERS} --socket unix:{socket}"));
    let mut servers = [serve("a.sock"), serve("b.sock")];
    // The loser is the first to end, whichever it is.
    let loser = loop {
        if let Some(at) = servers.iter_mut().position(|server| server.try_wait().unwrap().is_some())
        {
            break at;
        }
        std::thread::yield_now();
    };
    let [first, second] = &mut servers;
    let (lost, won) = if loser == 0 { (first, second) } else { (second, first) };
    assert_eq!(lost.wait().unwrap().code(), Some(4));
    until(won.stdout.take().unwrap(), "ready");
    place.run("array status d/drive0 --check").exits(0).says("HEALTHY");
    end(won, Signal::TERM);
    assert!(won.wait().unwrap().success());
}

/// The start failed with "more drives are lost than the redundancy covers", and status said
/// HEALTHY.
#[test]
fn drives_on_a_full_file_system_are_not_started_and_not_healthy() {
    let place = Place::new();
    let Some(disk) = SmallDisk::new(&place, "d", 8 << 10) else { return };
    place.run("emu create d/x --drives 4 --zones 16 --zone-capacity 256KiB").exits(0);
    let members = "d/x/drive0 d/x/drive1 d/x/drive2 d/x/drive3";
    place.run(&format!("array create vol0 {members} --size max --chunk 4KiB")).exits(0);
    let server = place.serve(members);
    disk.fill();
    // Neither is any drive lost while a server runs, nor is one to be brought back.
    let mut client = server.client();
    let _refused = client.try_write(0, &pattern(5, 4 << 20));
    let status = place.run("array status d/x/drive0 --check").exits(12);
    status.says("no space left").says("action  free some space in /").says("no drive is lost");
    drop(client);
    server.kill();
    let before = media(&place, "d/x");
    for drives in [members, "d/x/drive0 d/x/drive1 d/x/drive2"] {
        let refused = place.run(&format!("serve nbd {drives} --socket unix:s.sock")).exits(1);
        refused.complains("there is no space left for d/x/drive0").complains("free some space");
    }
    let status = place.run(&format!("array status {members} --check")).exits(12).says("FAILED");
    status.says("no space left for d/x/drive0").says("free some space");
    assert!(media(&place, "d/x") == before);
    disk.free();
    place.run(&format!("array status {members} --check")).exits(0);
    place.serve(members).stop();
}

#[test]
fn a_zoned_volume_on_a_full_file_system_is_not_healthy() {
    let place = Place::new();
    let Some(disk) = SmallDisk::new(&place, "d", 8 << 10) else { return };
    place.run("emu create d/x --drives 4 --zones 16 --zone-capacity 4MiB").exits(0);
    let members = "d/x/drive0 d/x/drive1 d/x/drive2 d/x/drive3";
    place.run(&format!("array create z {members} --kind zoned")).exits(0);
    // Drives that are not named may not be lost.
    let status = place.run("array status d/x/drive0 d/x/drive1 --check").exits(14).says("UNKNOWN");
    status.says("only 2 of its 4 drives were named: slots 2, 3 missing");
    disk.fill();
    let status = place.run(&format!("array status {members} --check")).exits(12).says("FAILED");
    status.says("no space left for d/x/drive0").says("free some space");
    place.run(&format!("serve zoned {members}")).exits(1).complains("free some space");
    disk.free();
    place.run(&format!("array status {members} --check")).exits(0);
}
