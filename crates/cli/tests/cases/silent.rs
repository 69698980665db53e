//! Servers that do not answer, of volumes of each kind.

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Case, KINDS, Kind};
use crate::common::{Ended, MEMBERS, Place, unbroken};

/// Longest time until a command that waits for 3 s has given up, or several side by side have, on a
/// loaded machine. One after the other, several would need longer.
const BUDGET: Duration = Duration::from_secs(25);

/// Verbs of each kind waited for half a minute, or without end.
#[test]
fn no_verb_waits_for_a_volume_whose_server_is_stopped() {
    for kind in KINDS {
        let case = Case::new(kind);
        let all = case.with(MEMBERS);
        let mut verbs = vec![
            "array clear d/drive0".to_owned(),
            "array jobs d/drive0".to_owned(),
            "array scrub d/drive0 --pause".to_owned(),
            "array spare add d/drive0 n/drive0".to_owned(),
            "events d/drive0".to_owned(),
            format!("array check {MEMBERS}"),
            format!("array rename {all} next"),
            format!("array destroy {all} --yes"),
            "array stop vol0".to_owned(),
        ];
        if kind == Kind::Zoned {
            for verb in ["read", "write", "reset", "open"] {
                verbs.push(format!("zoned {verb} d/drive0 --zone 0"));
            }
            verbs.push("zoned report d/drive0".to_owned());
            verbs.push(format!("fs ls {}", MEMBERS.replace(' ', ",")));
        } else {
            verbs.push("array offline d/drive0 --slot 1".to_owned());
            verbs.push("array online d/drive0 --slot 1".to_owned());
        }
        let server = case.serve(MEMBERS);
        server.signal(Signal::STOP);
        let begun = Instant::now();
        let clients: Vec<_> = verbs.iter().map(|verb| case.place.begin(verb)).collect();
        for (verb, client) in verbs.iter().zip(clients) {
            let ended = Ended::of(client);
            let told = unbroken(&format!("{}{}", ended.stdout, ended.stderr));
            assert_eq!(ended.code, 5, "{kind:?} {verb}: {ended:#?}");
            assert!(told.contains("has not answered for 3 s"), "{kind:?} {verb}: {told}");
        }
        assert!(begun.elapsed() < BUDGET, "{kind:?}: {:?}", begun.elapsed());
        server.signal(Signal::CONT);
        case.place.run("array status d/drive0 --check").exits(0);
        server.stop();
    }
}

/// Shards were asked one after the other, each for 3 s.
#[test]
fn the_shards_of_a_server_are_asked_side_by_side() {
    let place = Place::new();
    place.run("emu create d --drives 20 --zones 16 --zone-capacity 256KiB").exits(0);
    let drives: Vec<_> = (0..20).map(|at| format!("d/drive{at}")).collect();
    let drives = drives.join(" ");
    let create = format!("array create vol0 {drives} --shards 10 --level raid1 --size max");
    place.run(&create).exits(0);
    let server = place.serve(&drives);
    server.signal(Signal::STOP);
    let begun = Instant::now();
    let verbs = ["array status d/drive19 --check", "array stop d/drive19", "iostat 1ms 1"];
    let [status, stop, rates] = verbs.map(|verb| place.begin(verb)).map(Ended::of);
    assert!(begun.elapsed() < BUDGET, "{:?}", begun.elapsed());
    assert!(unbroken(&status.exits(5).stdout).contains("has not answered for 3 s"));
    stop.exits(5).complains("has not answered");
    // It said that no array was served, with exit code 0.
    let told = rates.exits(5).stdout;
    assert_eq!(told.matches("UNKNOWN: its server has not answered").count(), 10, "{told}");
    let rates = place.run("--json iostat 1ms 1").exits(5).document("iostat");
    assert_eq!(rates["unknown"].as_array().map(Vec::len), Some(10), "{rates}");
    server.signal(Signal::CONT);
    place.run("array status d/drive0 --check").exits(0);
    server.stop();
}

/// A start waited without end for a server that listened at the place of its control socket, and
/// accepted nobody.
#[test]
fn no_start_waits_for_a_control_socket_that_hangs() {
    for kind in [Kind::Log, Kind::Zoned] {
        let case = Case::with_data(kind);
        let store = MEMBERS.replace(' ', ",");
        let starts = match kind {
            Kind::Zoned => [format!("fs serve {store}"), case.serves(MEMBERS)],
            Kind::Log | Kind::Shards => [
                "serve vhost-user d/drive0 d/drive1 d/drive2 --socket unix:v.sock".to_owned(),
                "serve fuse d/drive0 d/drive1 d/drive2 --mountpoint f".to_owned(),
            ],
        };
        let status = case.place.run(&format!("--json array status {MEMBERS}")).exits(0);
        let uuid = status.document("array-status")["array"].as_str().unwrap().to_owned();
        let socket = case.place.path(&format!("run/{uuid}.sock"));
        // The killed server has left it.
        let _ = fs::remove_file(&socket);
        let hung = UnixListener::bind(&socket).unwrap();
        rustix::net::listen(&hung, 0).unwrap();
        let media = case.media(&["d"]);
        for words in starts {
            let begun = Instant::now();
            let ended = case.place.run(&words);
            assert_eq!(ended.code, 5, "{kind:?} {words}: {ended:#?}");
            assert!(begun.elapsed() < BUDGET, "{words}: {:?}", begun.elapsed());
        }
        assert!(case.media(&["d"]) == media, "{kind:?}");
        drop(hung);
        case.is_whole();
    }
}
