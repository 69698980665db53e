//! Stores that are recorded, and replays of their traces.

use std::cell::RefCell;

use zoneweave_emulator::{BlockMapping, EraseMode};
use zoneweave_filestore::trace::{Class, Encoder, Event, Recorder, TraceHeader};
use zoneweave_filestore::{Hints, Lifetime, Phase};

use super::*;

/// A recorder in memory.
struct Memory(RefCell<(Encoder, Vec<u8>)>);

impl Memory {
    fn new() -> Self {
        let header = header();
        Self(RefCell::new((Encoder::new(&header), header.encode().to_vec())))
    }

    fn trace(&self) -> Vec<u8> {
        self.record(Nanos::ZERO, &Event::End);
        let (encoder, bytes) = &mut *self.0.borrow_mut();
        bytes.extend(encoder.take().unwrap().bytes);
        bytes.clone()
    }
}

impl Recorder for Memory {
    fn record(&self, at: Nanos, event: &Event) {
        let (encoder, bytes) = &mut *self.0.borrow_mut();
        bytes.extend(encoder.push(at, event).into_iter().flat_map(|frame| frame.bytes));
    }

    fn takes_reads(&self) -> bool {
        true
    }
}

fn header() -> TraceHeader {
    let (zone_capacity, buffer) = (BlockCount(64), BlockCount(16));
    TraceHeader { id: [1; 16], has_reads: true, zones: 24, zone_capacity, buffer }
}

fn replay(policy: &str) -> FileReplay {
    let preset = Preset::by_name("zn540-1tb").unwrap().with_zones(24, BlockCount(64)).unwrap();
    FileReplay {
        preset,
        wear: WearSettings::new(8),
        policy: policy.to_owned(),
        passes: 1,
        buffer: BlockCount(16),
        active_zones: None,
        finish_percent: 0,
        seed: 1,
    }
}

fn replayed(replay: &FileReplay, trace: &[u8]) -> Result<FileReplayed, FileReplayError> {
    replay.run(|| TraceReader::open(trace))
}

/// Runs a workload on a store on the drive of a replay; returns its trace, and the resets of all
/// zones for data.
fn recorded(replay: &FileReplay) -> (Vec<u8>, Vec<u64>) {
    let drive = RamDrive::new(replay.preset.geometry().clone(), replay.preset.timing(1)).unwrap();
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let device = drive.attach(&handle);
    let memory = Rc::new(Memory::new());
    let resets = executor.run(async {
        FileStore::format(&*device, &FormatOptions::new([7; 16])).await.unwrap();
        let options = OpenOptions { recorder: Some(memory.clone()), ..replay.options().unwrap() };
        let (store, _) = FileStore::open(handle.clone(), device, options).await.unwrap();
        workload(&store).await;
        let zones = store.zones().into_iter().filter(|zone| zone.phase != Phase::Metadata);
        zones.map(|zone| drive.zone(zone.zone).resets).collect()
    });
    (memory.trace(), resets)
}

/// Short files beside long ones, a log, names that change, a cut, and handles of deleted files.
async fn workload(store: &FileStore) {
    let hints = |lifetime, level| Hints { lifetime, level: Some(level), expected_bytes: 0 };
    let short = hints(Lifetime::Medium, 1);
    for number in 0..6 {
        let cold = store.create(&format!("/cold{number}.sst"), Hints::default()).await.unwrap();
        cold.set_hints(hints(Lifetime::Extreme, 3));
        cold.append(&[1; 200_000]).await.unwrap();
        cold.sync().await.unwrap();
    }
    let log = store.create("/000001.log", Hints::default()).await.unwrap();
    for number in 0..200_u32 {
        log.append(&[2; 900]).await.unwrap();
        let name = format!("/{number}.sst");
        let table = store.create(&name, short).await.unwrap();
        table.append(&vec![3; 80_000 + number as usize * 7]).await.unwrap();
        table.truncate(79_000).await.unwrap();
        table.sync().await.unwrap();
        table.close().await.unwrap();
        let reader = store.open_file(&name).unwrap();
        reader.read_at(100, &mut [0; 5000]).await.unwrap();
        if number > 4 {
            store.remove_file(&format!("/{}.sst", number - 5)).await.unwrap();
        }
        if number % 10 == 0 {
            let next = store.create("/next.dbtmp", Hints::default()).await.unwrap();
            next.append(b"MANIFEST").await.unwrap();
            next.sync().await.unwrap();
            drop(next);
            store.rename("/next.dbtmp", "/CURRENT").await.unwrap();
            log.sync().await.unwrap();
        }
    }
    store.link("/CURRENT", "/LINK").await.unwrap();
    store.remove_file("/LINK").await.unwrap();
    drop(log);
    let log = store.append_to("/000001.log").await.unwrap();
    log.write_at(10, b"again").await.unwrap();
    log.close().await.unwrap();
}

#[test]
fn a_replay_does_to_a_drive_what_was_recorded() {
    for policy in ["lifetime", "dual-pool"] {
        let replay = replay(policy);
        let (trace, resets) = recorded(&replay);
        let figures = replayed(&replay, &trace).unwrap();
        assert_eq!(figures.resets, resets, "{policy}");
        assert!(figures.zones.total > 30, "{figures:?}");
        assert_eq!(figures.zones.total, resets.iter().sum::<u64>());
        // A reset erases all of the eight blocks.
        assert_eq!(figures.erase_blocks.total, 8 * figures.zones.total);
        assert!(figures.relocation_amplification >= 1.0 && figures.seconds > 0.0, "{figures:?}");
        assert_eq!(figures.metadata_zones.count, 2);
        assert_eq!(replayed(&replay, &trace).unwrap(), figures, "{policy}: it is not repeatable");
    }
}

#[test]
fn policies_wear_a_drive_differently_and_passes_add_up() {
    let (trace, _) = recorded(&replay("lifetime"));
    let of = |policy| replayed(&FileReplay { passes: 3, ..replay(policy) }, &trace).unwrap();
    let (first_fit, least_worn) = (of("lifetime"), of("least-worn"));
    let once = replayed(&replay("lifetime"), &trace).unwrap();
    assert_eq!(first_fit.events, 3 * once.events);
    assert_eq!(first_fit.host_bytes, 3 * once.host_bytes);
    assert!(first_fit.zones.max > once.zones.max, "{first_fit:?} {once:?}");
    assert!(least_worn.zones.max < first_fit.zones.max, "{least_worn:?} {first_fit:?}");
    assert!(least_worn.zones.deviation < first_fit.zones.deviation);
}

#[test]
fn partial_erases_spare_what_was_not_written() {
    let (trace, _) = recorded(&replay("lifetime"));
    let mut replay = FileReplay { finish_percent: 50, ..replay("lifetime") };
    let full = replayed(&replay, &trace).unwrap();
    (replay.wear.reset, replay.wear.mapping) = (EraseMode::Partial, BlockMapping::Circular);
    let partial = replayed(&replay, &trace).unwrap();
    assert_eq!(partial.resets, full.resets);
    assert!(partial.erase_blocks.total < full.erase_blocks.total, "{partial:?} {full:?}");
}

/// The end of a handle of file 2.
const CLOSED: Event = Event::Close { file: FileId(2), bytes: 0 };

#[test]
fn impossible_events_and_gaps_are_refused() {
    let file = FileId(2);
    let (hints, class) = (Hints::default(), Class::Other);
    let created = Event::Create { file, class, hints, replaces: None };
    let refused = |events: &[Event]| {
        let memory = Memory::new();
        events.iter().for_each(|event| memory.record(Nanos::ZERO, event));
        replayed(&replay("lifetime"), &memory.trace()).unwrap_err()
    };
    let append = Event::Append { file, bytes: 1 };
    let none = FileId(9);
    for (events, at, state) in [
        (&[append][..], 1, FileState::Missing),
        (&[created, created], 2, FileState::There),
        (&[created, Event::Unlink { file }, CLOSED, append], 4, FileState::Missing),
        (&[created, CLOSED, CLOSED], 3, FileState::Closed),
        (&[created, Event::Open { file }], 2, FileState::Open),
        (&[created, Event::CloseRead { file }], 2, FileState::Closed),
        (&[created, Event::Unlink { file }, Event::Link { file }], 3, FileState::Nameless),
        (&[created, Event::Rename { file, class, replaces: Some(none) }], 2, FileState::Missing),
        (&[created, Event::Rename { file, class, replaces: Some(file) }], 2, FileState::There),
        (&[Event::Create { file, class, hints, replaces: Some(none) }], 1, FileState::Missing),
    ] {
        match refused(events) {
            FileReplayError::Impossible { at: found, state: why, .. } => {
                assert_eq!((found, why), (at, state), "{events:?}");
            }
            other => panic!("{events:?}: {other}"),
        }
    }
    let lost = refused(&[created, Event::Lost { events: 7 }, append]);
    assert!(matches!(lost, FileReplayError::Lost { events: 7, at: 2 }), "{lost}");
    let huge = refused(&[created, Event::Append { file, bytes: 1 << 47 }]);
    let is_full = matches!(huge, FileReplayError::Store { at: 2, error: StoreError::NoSpace, .. });
    assert!(is_full, "{huge}");
}

#[test]
fn spreads_are_those_of_their_counts() {
    let erases = Erases::of(&[0, 0, 10, 0, 30]);
    assert_eq!((erases.count, erases.total, erases.min, erases.max), (5, 40, 0, 30));
    assert!((erases.never_percent - 60.0).abs() < 1e-9);
    // 30 of 40 are not 80 %: it takes both.
    assert!((erases.busiest_percent - 40.0).abs() < 1e-9);
    assert!((erases.mean - 8.0).abs() < 1e-9);
    assert_eq!(Erases::of(&[]), Erases::default());
    assert!(Erases::of(&[0, 0]).busiest_percent.abs() < 1e-9);
}

/// A handle that was dropped lost the bytes of its buffer, as large as that was. The next one
/// opened the file while its last writes were in flight.
#[test]
fn a_handle_that_was_dropped_leaves_the_length_that_it_left() {
    let created = Event::Create {
        file: FileId(2),
        class: Class::Log,
        hints: Hints::default(),
        replaces: None,
    };
    let memory = Memory::new();
    let file = FileId(2);
    for event in [
        created,
        Event::Append { file, bytes: 500_000 },
        Event::Close { file, bytes: 458_752 },
        Event::Open { file },
        Event::Truncate { file, bytes: 458_752 },
        Event::Append { file, bytes: 9 },
        Event::Sync { file },
        Event::Close { file, bytes: 458_761 },
    ] {
        memory.record(Nanos::ZERO, &event);
    }
    let trace = memory.trace();
    for blocks in [1, 4, 64, 256] {
        let replay = FileReplay { buffer: BlockCount(blocks), ..replay("lifetime") };
        let figures = replayed(&replay, &trace).unwrap();
        assert_eq!((figures.host_bytes, figures.is_whole), (500_009, true), "{blocks} blocks");
    }
}

#[test]
fn files_that_were_there_count_from_the_second_pass_on() {
    let (file, class, hints) = (FileId(2), Class::Other, Hints::default());
    let memory = Memory::new();
    for event in [
        Event::Exists { file, class, hints, bytes: 300_000, links: 2 },
        Event::Open { file },
        Event::Append { file, bytes: 1000 },
        Event::Close { file, bytes: 301_000 },
    ] {
        memory.record(Nanos::ZERO, &event);
    }
    let trace = memory.trace();
    let once = replayed(&replay("lifetime"), &trace).unwrap();
    assert_eq!((once.events, once.host_bytes), (3, 1000));
    assert!(once.drive_bytes < 300_000 && once.is_whole, "{once:?}");
    let twice = replayed(&FileReplay { passes: 2, ..replay("lifetime") }, &trace).unwrap();
    assert_eq!((twice.events, twice.host_bytes), (7, 302_000));
    let cut = replayed(&replay("lifetime"), &trace[..TraceHeader::BYTES]).unwrap();
    assert_eq!((cut.events, cut.is_whole), (0, false));
}
