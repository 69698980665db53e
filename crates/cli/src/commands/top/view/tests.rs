//! Frames as text, of states that events and keys made.

use std::collections::BTreeSet;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use zoneweave_raid::log::MemberHealth;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{Histogram, Operation};

use super::super::keys::Key;
use super::super::state::{DriveZones, Event, Flow, MapZone};
use super::*;
use crate::commands::zones::StateWord;
use crate::job::{Job, JobKind, JobPhase};
use crate::status::examples::healthy;
use crate::status::{LatencyStatus, MemberIo};

const FULL: Look = Look { color: true, unicode: true, interval: Duration::from_secs(1) };

/// A state, and the time that frames are drawn at.
struct Scene {
    state: State,
    begin: Instant,
}

impl Scene {
    fn of(uuids: &[&str]) -> Self {
        let mut state = State::new(None);
        state.hear(Event::Served(uuids.iter().map(|uuid| (*uuid).to_owned()).collect()));
        Self { state, begin: Instant::now() }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.begin + Duration::from_secs(seconds)
    }

    fn hears(&mut self, uuid: &str, seconds: u64, answer: Result<ArrayStatus, &str>) {
        let answer = answer.map(Box::new).map_err(str::to_owned);
        self.state.hear(Event::Status { uuid: uuid.to_owned(), at: self.at(seconds), answer });
    }

    fn sees(&mut self, uuid: &str, zones: usize) {
        let zone = |at: usize| MapZone {
            state: match at * 4 / zones {
                0 => StateWord::Full,
                1 if at.is_multiple_of(2) => StateWord::Open,
                1 => StateWord::Closed,
                _ => StateWord::Empty,
            },
            resets: at as u64,
        };
        let drive = |slot| DriveZones { slot, zones: Ok((0..zones).map(zone).collect()) };
        let answer = Ok((0..4).map(drive).collect());
        self.state.hear(Event::Zones { uuid: uuid.to_owned(), answer });
    }

    fn drawn(&self, look: &Look, seconds: u64, columns: u16, lines: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        let now = self.at(seconds);
        terminal.draw(|frame| draw(&self.state, look, now, frame.buffer_mut())).unwrap();
        terminal.backend().buffer().clone()
    }

    fn frame(&self, seconds: u64, columns: u16, lines: u16) -> String {
        text(&self.drawn(&FULL, seconds, columns, lines))
    }
}

/// The text of a frame, without the spaces at the ends of lines.
fn text(buffer: &Buffer) -> String {
    let rows = buffer.content.chunks(usize::from(buffer.area.width));
    let row = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(|cell| cell.symbol()).collect();
        text.trim_end().to_owned() + "\n"
    };
    rows.map(row).collect()
}

/// A volume that a server has had for some seconds, and for which it did a MiB each.
fn served(name: &str, seconds: u64) -> ArrayStatus {
    let mut status = healthy();
    (status.name, status.scheme) = (name.to_owned(), "raid5 3+1".to_owned());
    let server = status.server.as_mut().unwrap();
    server.uptime_ns = seconds * 1_000_000_000;
    server.requests = 250 * seconds;
    let counters = &mut server.blocks.as_mut().unwrap().counters;
    (counters.user_blocks_read, counters.user_blocks_written) = (512 * seconds, 256 * seconds);
    for member in &mut status.members {
        member.io = Some(MemberIo {
            read_bytes: seconds << 19,
            written_bytes: seconds << 18,
            ..MemberIo::default()
        });
        let times = |us| {
            let mut times = Histogram::default();
            (0..100 * seconds).for_each(|_| times.note(Nanos::from_micros(us)));
            times
        };
        member.latencies =
            LatencyStatus::list(vec![(Operation::Read, times(83)), (Operation::Append, times(20))]);
    }
    status
}

/// As [`served`], without a drive and with a rebuild.
fn degraded(name: &str, seconds: u64) -> ArrayStatus {
    let mut status = served(name, seconds);
    status.health = Health::Degraded;
    status.why = Some("slot 2 failed: it does not take writes".to_owned());
    status.action =
        Some("put a new drive in: zoneweave array replace d/drive0 --slot 2".to_owned());
    status.members[2].state = MemberHealth::Failed;
    status.members[2].io.as_mut().unwrap().write_errors = 3;
    let progress = Some(Job { done: 40, total: 100 });
    let scrub = JobStatus { progress, ..JobStatus::of(JobKind::Scrub, JobPhase::Running) };
    status.server.as_mut().unwrap().jobs = vec![scrub];
    status
}

#[test]
fn a_frame_shows_health_load_drives_jobs_and_zones() {
    let mut scene = Scene::of(&["aa", "bb"]);
    scene.hears("aa", 0, Ok(served("vol0", 10)));
    scene.hears("aa", 2, Ok(degraded("vol0", 12)));
    scene.hears("bb", 2, Ok(served("vol1", 12)));
    scene.sees("aa", 904);
    let expected = "\
zoneweave top · 2 volumes every 1s                                 ? help  q end
▶ vol0  DEGRADED  250 requests/s · read 2 MiB/s · write 1 MiB/s · reclaim 0 B/s
  vol1  HEALTHY
vol0  DEGRADED  raid5 3+1 · block 1 GiB · up 12s · 0 clients
  why    slot 2 failed: it does not take writes
  action put a new drive in: zoneweave array replace d/drive0 --slot 2
  load   250 requests/s · read 2 MiB/s · write 1 MiB/s · reclaim 0 B/s
  scrub  ████████░░░░░░░░░░░░ 40 %  40/100 segments
SLOT  STATE   ERRORS   READ/s  WRITE/s  R p50/p99  W p50/p99  DRIVE
   0  online  0/0/0   512 KiB  256 KiB  98/130 us   24/32 us  d/drive0
   1  online  0/0/0   512 KiB  256 KiB  98/130 us   24/32 us  d/drive1
   2  failed  0/3/0   512 KiB  256 KiB  98/130 us   24/32 us  d/drive2
   3  online  0/0/0   512 KiB  256 KiB  98/130 us   24/32 us  d/drive3
zones by state, a sign for 7: the most frequent
";
    let frame = scene.frame(2, 80, 24);
    assert!(frame.starts_with(expected), "{frame}");
    assert!(frame.contains(crate::commands::zones::STATE_LEGEND), "{frame}");
    // A quarter is full, a quarter open or closed, the rest empty: in 130 signs of 7 zones.
    let map: String = frame.lines().skip(14).take(2).map(|row| row.get(5..).unwrap()).collect();
    let count = |sign| map.chars().filter(|found| *found == sign).count();
    assert_eq!((count('█'), count('·')), (32, 66), "{frame}");
    assert_eq!(count('▒') + count('▓'), 32, "{frame}");
    assert_eq!(scene.state.press(Key::Map), Flow::Go);
    let frame = scene.frame(2, 80, 24);
    assert!(frame.contains("zones by wear, a sign for 7: the most worn\n"), "{frame}");
    assert!(frame.contains("(highest: 903)\n"), "{frame}");
    assert_eq!(scene.state.press(Key::Help), Flow::Go);
    assert!(scene.frame(2, 40, 10).contains("q         end\n"));
    assert_eq!(scene.state.press(Key::Quit), Flow::End);
}

#[test]
fn a_small_terminal_has_the_selected_volume_alone() {
    let mut scene = Scene::of(&["aa", "bb"]);
    scene.hears("aa", 0, Ok(served("vol0", 10)));
    scene.hears("bb", 0, Ok(degraded("vol1", 10)));
    scene.hears("bb", 1, Ok(degraded("vol1", 11)));
    scene.sees("bb", 904);
    assert!(scene.frame(1, 40, 10).contains("vol0  HEALTHY"));
    scene.state.press(Key::Next);
    let expected = "\
zoneweave top · 2 volumes  ? help  q end
vol1  DEGRADED  raid5 3+1 · block 1 GiB
  why    slot 2 failed: it does not take
         writes…
  scrub  ████████░░░░░░░░░░░░ 40 %  40/1
SLOT  STATE   ERRORS   READ/s  WRITE/s
   0  online  0/0/0   512 KiB  256 KiB
   1  online  0/0/0   512 KiB  256 KiB
   2  failed  0/3/0   512 KiB  256 KiB
   3  online  0/0/0   512 KiB  256 KiB
";
    assert_eq!(scene.frame(1, 40, 10), expected);
    // Without room for all drives, one that failed is on the first line.
    let frame = scene.frame(1, 80, 8);
    assert!(frame.contains("   2  failed"), "{frame}");
    assert!(frame.ends_with("  3 more drives\n"), "{frame}");
}

#[test]
fn frames_of_any_size_are_drawn() {
    let mut scene = Scene::of(&["aa", "bb", "cc"]);
    scene.hears("aa", 0, Ok(degraded("vol0", 10)));
    scene.hears("aa", 1, Ok(degraded("vol0", 11)));
    scene.hears("bb", 1, Err("nobody listens"));
    scene.sees("aa", 904);
    for columns in [1, 2, 5, 17, 40, 79, 80, 81, 250] {
        for lines in [1, 2, 3, 7, 10, 15, 16, 24, 60] {
            let frame = scene.frame(2, columns, lines);
            assert!(frame.starts_with('z'), "{frame}");
        }
    }
    let wide = scene.frame(2, 250, 60);
    assert!(wide.contains("zones by state\n"), "a sign for each zone: {wide}");
}

/// A server that hangs has told something, and one that never answered has not.
#[test]
fn a_server_that_does_not_answer_is_unknown_with_its_reason_and_its_last_words() {
    let mut scene = Scene::of(&["aa", "bb"]);
    assert!(scene.frame(0, 80, 24).contains("\naa  asked\n"));
    scene.hears("aa", 0, Ok(served("vol0", 10)));
    scene.hears("aa", 1, Ok(served("vol0", 11)));
    scene.hears("aa", 4, Err("its server has not answered for 3 s"));
    scene.hears("bb", 4, Err("nobody listens at its socket"));
    let frame = scene.frame(9, 80, 24);
    for line in [
        "  bb    UNKNOWN",
        "vol0  UNKNOWN  raid5 3+1 · block 1 GiB · up 11s · 0 clients",
        "  why    its server has not answered for 3 s",
        "  told   what follows is 8 s old",
        "   0  online  0/0/0        -        -          -          -  d/drive0",
        "zones: being read",
    ] {
        assert!(frame.lines().any(|found| found == line), "{line} is not in\n{frame}");
    }
    assert!(!frame.contains("requests/s"), "{frame}");
    scene.state.press(Key::Previous);
    let frame = scene.frame(9, 80, 24);
    assert!(frame.contains("\nbb  UNKNOWN\n  why    nobody listens at its socket\n"), "{frame}");
    // Rates are of two answers in a row.
    scene.hears("aa", 10, Ok(served("vol0", 20)));
    scene.state.press(Key::Next);
    assert!(scene.frame(10, 80, 24).contains("  load   measured from the next answer on\n"));
    // A drive that hangs leaves the map as it was.
    scene.sees("aa", 16);
    let answer = Err("a drive does not answer".to_owned());
    scene.state.hear(Event::Zones { uuid: "aa".to_owned(), answer });
    let frame = scene.frame(10, 80, 24);
    assert!(frame.contains("zones by state; old: a drive does not answer\n"), "{frame}");
    assert!(frame.contains("\n   3 ████▒▓▒▓········\n"), "{frame}");
}

#[test]
fn volumes_come_and_go_beside_the_selected_one() {
    let mut scene = Scene::of(&["aa", "bb", "cc"]);
    for (uuid, name) in [("aa", "vol2"), ("bb", "vol1"), ("cc", "vol0")] {
        scene.hears(uuid, 0, Ok(served(name, 10)));
    }
    // The first to be known was selected, and stays so when it has a name.
    assert_eq!(scene.state.selected(), Some("aa"));
    scene.state.press(Key::Next);
    assert_eq!(scene.state.selected(), Some("aa"), "it is the last one");
    scene.state.press(Key::Previous);
    assert_eq!(scene.state.selected(), Some("bb"));
    let served = |uuids: &[&str]| -> BTreeSet<String> {
        uuids.iter().map(|uuid| (*uuid).to_owned()).collect()
    };
    scene.state.hear(Event::Served(served(&["bb", "dd"])));
    assert_eq!(scene.state.selected(), Some("bb"));
    scene.state.hear(Event::Served(served(&["dd"])));
    assert_eq!(scene.state.selected(), Some("dd"));
    scene.state.hear(Event::Served(served(&[])));
    assert!(scene.frame(0, 80, 24).contains("no volume is served"));
    // News of one that is gone are late.
    scene.hears("dd", 1, Err("late"));
    assert_eq!(scene.state.selected(), None);
}

#[test]
fn a_name_or_uuid_chooses_one_volume() {
    for chosen in ["vol1", "bb", "BB"] {
        let mut scene = Scene::of(&[]);
        scene.state = State::new(Some(chosen.to_owned()));
        assert!(scene.frame(0, 80, 24).contains(&format!("no served volume is named {chosen}")));
        let uuids = ["aa", "bb"].map(str::to_owned);
        scene.state.hear(Event::Served(uuids.into()));
        scene.hears("aa", 0, Ok(served("vol0", 10)));
        scene.hears("bb", 0, Ok(served("vol1", 10)));
        let frame = scene.frame(0, 80, 24);
        assert!(frame.contains("1 volume every") && frame.contains("\nvol1  HEALTHY"), "{frame}");
        assert!(!frame.contains("vol0"), "{frame}");
    }
}

/// "No served volume is named vol1" was said of one whose server had stopped answering before.
#[test]
fn a_server_that_never_answered_may_be_of_the_volume_that_is_meant() {
    let mut scene = Scene::of(&[]);
    scene.state = State::new(Some("vol1".to_owned()));
    scene.state.hear(Event::Served(["aa", "bb"].map(str::to_owned).into()));
    scene.hears("aa", 0, Ok(served("vol0", 10)));
    scene.hears("bb", 0, Err("it does not answer"));
    let frame = scene.frame(0, 80, 24);
    assert!(frame.contains("\nbb  UNKNOWN") && frame.contains("it does not answer"), "{frame}");
    assert!(!frame.contains("vol0") && !frame.contains("no served volume"), "{frame}");
    // It was another one.
    scene.hears("bb", 1, Ok(served("vol2", 10)));
    assert!(scene.frame(1, 80, 24).contains("no served volume is named vol1"));
}

#[test]
fn a_terminal_without_colours_or_unicode_gets_neither() {
    let mut scene = Scene::of(&["aa", "bb"]);
    let mut status = degraded("Z\u{fc}rich\x1b[2J", 10);
    status.members[0].drive = Some("d/laufwerk\u{2460}".to_owned());
    scene.hears("aa", 0, Ok(status));
    scene.sees("aa", 16);
    let is_coloured = |buffer: &Buffer| buffer.content.iter().any(|cell| cell.fg != Color::Reset);
    assert!(is_coloured(&scene.drawn(&FULL, 0, 80, 24)));
    let plain = Look { color: false, unicode: false, ..FULL };
    let buffer = scene.drawn(&plain, 0, 80, 24);
    assert!(!is_coloured(&buffer));
    let frame = text(&buffer);
    assert!(frame.is_ascii(), "{frame}");
    assert!(!frame.contains('\x1b'), "what a server sends controls no terminal");
    assert!(frame.contains("\n   3 ####+%+%........\n"), "{frame}");
    assert!(frame.contains(". empty  + open  % closed  # full  R read-only  X offline"), "{frame}");
    assert!(frame.contains("> Z?rich"), "{frame}");
}
