//! Rebuilds and scrubs as jobs: what `status` and `jobs` show, and orders to them.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{MEMBERS, Place, pattern};

fn started(place: &Place, words: &str) -> Child {
    place.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn text(stream: Option<impl Read>) -> String {
    let mut text = String::new();
    stream.unwrap().read_to_string(&mut text).unwrap();
    text
}

/// The jobs, once they are as wanted.
fn jobs(place: &Place, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let jobs = place.run("--json array jobs d/drive0").exits(0).document("array-jobs");
        if wanted(&jobs) {
            return jobs;
        }
    }
}

fn phase_of(jobs: &Value, kind: &str) -> Option<String> {
    let found = jobs["jobs"].as_array()?.iter().find(|job| job["kind"] == kind)?;
    Some(found["phase"].as_str()?.to_owned())
}

/// `replace` printed nothing while it waited for a scrub, and nothing stopped a scrub.
#[test]
fn jobs_are_shown_and_take_orders() {
    let place = Place::new();
    place.run("emu create d --drives 5 --zones 96 --zone-capacity 1MiB").exits(0);
    place.run(&format!("array create vol0 {MEMBERS} --size 192MiB")).exits(0);
    // A rebuild of 48 MiB takes most of a minute at this rate, the lowest that there is.
    let server = place.serve(&format!("{MEMBERS} --rebuild-limit 1M"));
    let mut client = server.client();
    let data = pattern(7, 1 << 20);
    for at in 0..144 {
        client.write(at << 20, &data);
    }
    client.flush();
    place.run("array jobs d/drive0").exits(0).says("no jobs");
    place.run("array scrub d/drive0 --stop").exits(3).complains("no scrub runs");
    let replace = "array replace d/drive0 --slot 1 --with d/drive4 --yes-destroy";
    let mut replacing = started(&place, replace);
    jobs(&place, |jobs| phase_of(jobs, "rebuild").is_some_and(|phase| phase == "running"));
    let scrubbing = started(&place, "array scrub d/drive0");
    let queued = |phase: &str| phase == "queued";
    jobs(&place, |jobs| phase_of(jobs, "scrub").as_deref().is_some_and(queued));
    let shown = place.run("array jobs d/drive0").exits(0);
    shown.says("rebuild").says("slot 1").says("scrub").says("queued");
    place.run("array status d/drive0").exits(0).says("scrub").says("queued");
    place.run("array scrub d/drive0").exits(4).complains("a scrub is queued already");
    place.run("array scrub d/drive0 --pause").exits(0).says("paused");
    place.run("array scrub d/drive0 --resume").exits(0);
    jobs(&place, |jobs| phase_of(jobs, "scrub").as_deref().is_some_and(queued));
    // Ctrl-C ends the client only.
    kill_process(Pid::from_child(&replacing), Signal::INT).unwrap();
    let told = text(replacing.stderr.take());
    assert!(told.contains("the replacement goes on in the server; to stop it: "), "{told}");
    assert_eq!(replacing.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    place.run("array status d/drive0 --check").exits(10);
    place.run("array scrub d/drive0 --stop").exits(0);
    let stopped = scrubbing.wait_with_output().unwrap();
    let told = String::from_utf8(stopped.stdout).unwrap();
    assert_eq!(stopped.status.code(), Some(7), "{told}");
    assert!(told.contains("INCOMPLETE: it was stopped before its end"), "{told}");
    let shown = place.run("array jobs d/drive0").exits(0);
    shown.says("incomplete").says("it was stopped");
    drop(client);
    assert!(server.stop().contains("INCOMPLETE"));
    place.run(&format!("array jobs {MEMBERS}")).exits(5).complains("not being served");
}

/// A scrub without all drives reported that there was no damage, and 0.
#[test]
fn a_scrub_without_a_drive_says_that_it_is_incomplete() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let mut client = server.client();
    client.write(0, &pattern(7, 1 << 18));
    client.flush();
    place.run("array scrub d/drive0").exits(0).says("no damage");
    place.run("array fail d/drive0 --slot 2").exits(0);
    let found = place.run("array scrub d/drive0").exits(7);
    found.says("no damage in what was read").says("INCOMPLETE: slot 2 not read");
    let jobs = place.run("--json array jobs d/drive0").exits(0).document("array-jobs");
    assert_eq!(jobs["jobs"][0]["phase"], "incomplete", "{jobs}");
    assert_eq!(jobs["jobs"][1]["phase"], "done", "{jobs}");
    drop(client);
    drop(server);
}
