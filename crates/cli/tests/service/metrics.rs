//! `zoneweave metrics`: of all arrays that are served.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{MEMBERS, Place};

#[test]
fn metrics_follow_what_happens() {
    let place = Place::with_array();
    place.run("metrics").exits(0).says("# EOF");
    let server = place.serve(MEMBERS);
    let mut client = server.client();
    client.write(0, &[7; 64 << 10]);
    client.flush();
    let text = place.run("metrics").exits(0).stdout;
    for (start, end) in [
        ("zoneweave_up{array=\"vol0\"", "} 1"),
        ("zoneweave_user_written_bytes_total{array=\"vol0\"", "} 65536"),
        ("zoneweave_drive_zones{array=\"vol0\"", "state=\"empty\"} 11"),
    ] {
        let found = text.lines().any(|line| line.starts_with(start) && line.ends_with(end));
        assert!(found, "{start} .. {end} is not in {text}");
    }
    let count = |text: &str, metric: &str, labels: &[&str]| -> u64 {
        let start = format!("zoneweave_{metric}_latency_seconds_count{{");
        let is_it = |line: &&str| {
            line.starts_with(&start) && labels.iter().all(|label| line.contains(label))
        };
        let found = text.lines().find(is_it);
        found.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    };
    let request = |text: &str, word| count(text, "request", &[&format!("operation=\"{word}\"")]);
    assert_eq!((request(&text, "write"), request(&text, "flush")), (1, 1), "{text}");
    assert_eq!((request(&text, "read"), request(&text, "trim")), (0, 0), "{text}");
    client.read(0, 4096);
    client.trim(0, 4096);
    client.write_zeroes(4096, 4096);
    let later = place.run("metrics").exits(0).stdout;
    let unmapped = (request(&later, "trim"), request(&later, "write_zeroes"));
    assert_eq!((request(&later, "read"), unmapped), (1, (1, 1)), "{later}");
    for slot in 0..4 {
        let slot = format!("slot=\"{slot}\"");
        let commands = |word| count(&later, "drive", &[&slot, &format!("operation=\"{word}\"")]);
        assert!(commands("write") + commands("append") > 0, "{later}");
        assert!(commands("read") > 0 && commands("flush") > 0, "{later}");
    }
    let rates = place.run("iostat 1ms 1 --json").exits(0).document("iostat");
    assert_eq!(rates["arrays"][0]["drives"][3]["state"], "online", "{rates}");
    place.run("iostat 1ms 2").exits(0).says("vol0").says("WRITE/s");
    place.run("array fail d/drive0 --slot 2").exits(0);
    let text = place.run("metrics").exits(0).stdout;
    let state = |line: &&str| line.contains("slot=\"2\",state=\"failed\"");
    assert!(text.lines().find(state).unwrap().ends_with("} 1"), "{text}");
    // A server that hangs is not up, and not gone.
    server.signal(Signal::STOP);
    let text = place.run("metrics").exits(0).stdout;
    let up = text.lines().find(|line| line.starts_with("zoneweave_up{")).unwrap();
    assert!(up.ends_with("} 0"), "{text}");
    server.signal(Signal::CONT);
    // One that has died is not gone either, until it is started again and ends in order.
    server.kill();
    let text = place.run("metrics").exits(0).stdout;
    assert!(
        text.lines().any(|line| line.starts_with("zoneweave_up{") && line.ends_with(" 0")),
        "{text}"
    );
    place.serve(MEMBERS).stop();
    let text = place.run("metrics").exits(0).stdout;
    assert!(!text.contains("zoneweave_up{"), "{text}");
}

#[test]
fn scrapes_are_answered_at_a_socket_of_this_machine_only() {
    let place = Place::with_array();
    let refused = place.run("metrics --listen tcp:0.0.0.0:0").exits(2);
    refused.complains("only this machine may connect");
    let mut exporter = place
        .command("metrics --listen unix:m.sock")
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(exporter.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().starts_with("ready")).unwrap().unwrap();
    place.run("metrics --listen unix:m.sock").exits(2).complains("in use");
    // A client that sends nothing does not stop the others.
    let _silent = UnixStream::connect(place.path("m.sock")).unwrap();
    let mut client = UnixStream::connect(place.path("m.sock")).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    exporter.kill().unwrap();
    exporter.wait().unwrap();
    // Its socket is left behind, and the next one takes its place.
    assert!(place.path("m.sock").exists());
    // A process that accepts no connection is no reason to wait.
    let hung = UnixListener::bind(place.path("hung")).unwrap();
    rustix::net::listen(&hung, 0).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = zoneweave_linux::try_connect(&place.path("hung")) {
        waiting.push(stream);
    }
    place.run("metrics --listen unix:hung").exits(2).complains("in use");
}

/// A signal left the socket behind, and a hangup was a failure.
#[test]
fn metrics_end_in_order_by_a_signal() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let place = Place::new();
        let mut exporter =
            place.hearing("metrics --listen unix:m.sock").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(exporter.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().starts_with("ready")).unwrap().unwrap();
        kill_process(Pid::from_child(&exporter), signal).unwrap();
        assert_eq!(exporter.wait().unwrap().code(), Some(0), "{signal:?}");
        assert!(!place.path("m.sock").exists());
    }
}

/// One that had ended removed the socket of the next one.
#[test]
fn metrics_leave_the_socket_of_a_successor() {
    let place = Place::new();
    let begin = || {
        let words = "metrics --listen unix:m.sock";
        let mut exporter = place.hearing(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(exporter.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().starts_with("ready")).unwrap().unwrap();
        (exporter, lines)
    };
    let end = |exporter: &mut Child| {
        kill_process(Pid::from_child(exporter), Signal::TERM).unwrap();
        assert_eq!(exporter.wait().unwrap().code(), Some(0));
    };
    let (mut first, _first_lines) = begin();
    fs::remove_file(place.path("m.sock")).unwrap();
    let (mut second, _second_lines) = begin();
    end(&mut first);
    assert!(place.path("m.sock").exists());
    end(&mut second);
    assert!(!place.path("m.sock").exists());
}

/// The alerts fire when they should, and Prometheus takes what servers tell.
#[test]
fn alerts_fire_when_they_should() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/prometheus");
    let promtool =
        |words: &[&str]| Command::new("promtool").args(words).current_dir(rules).output();
    let Ok(tested) = promtool(&["test", "rules", "zoneweave.test.yml"]) else {
        eprintln!("SKIPPED: THE ALERTS ARE TESTED WITH promtool, OF THE PACKAGE prometheus");
        return;
    };
    assert!(tested.status.success(), "{tested:?}");
    let checked = promtool(&["check", "rules", "zoneweave.rules.yml"]).unwrap();
    assert!(checked.status.success(), "{checked:?}");
}
