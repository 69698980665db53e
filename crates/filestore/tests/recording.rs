//! Events that a store gives to its recorder.

use std::cell::RefCell;
use std::rc::Rc;

use zoneweave_filestore::trace::{Class, Event, Recorder};
use zoneweave_filestore::{FileId, Hints, Lifetime, OpenOptions, StoreError};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BLOCK_BYTES, OobKind};

use crate::support::{bytes, drive, format, geometry, options, run, run_with};

/// A recorder in memory.
#[derive(Default)]
struct Memory {
    events: RefCell<Vec<Event>>,
    takes_reads: bool,
}

impl Recorder for Memory {
    fn record(&self, _at: Nanos, event: &Event) {
        self.events.borrow_mut().push(*event);
    }

    fn takes_reads(&self) -> bool {
        self.takes_reads
    }
}

impl Memory {
    fn options(self: &Rc<Self>) -> OpenOptions {
        OpenOptions { recorder: Some(self.clone()), ..options() }
    }

    fn take(&self) -> Vec<Event> {
        self.events.take()
    }
}

#[test]
fn each_call_is_an_event_of_its_file() {
    let drive = drive(geometry(12, 6, OobKind::Separate));
    format(&drive);
    let memory = Rc::new(Memory::default());
    let none = Hints::default();
    run_with(&drive, memory.options(), async |store, _, _| {
        store.create_directory("/db").await.unwrap();
        assert_eq!(memory.take(), [], "directories are no files");
        let file = store.create("/db/000007.sst", none).await.unwrap();
        let a = store.metadata("/db/000007.sst").unwrap().id;
        let hints = Hints { lifetime: Lifetime::Long, level: Some(2), expected_bytes: 9 };
        file.set_hints(hints);
        file.append(&bytes(1, 0, 9000)).await.unwrap();
        file.write_at(8000, &[1; 10]).await.unwrap();
        file.sync().await.unwrap();
        let hole = file.truncate(9000).await;
        assert!(matches!(hole, Err(StoreError::Hole { .. })), "{hole:?}");
        file.close().await.unwrap();
        let expected = [
            Event::Create { file: a, class: Class::Table, hints: none, replaces: None },
            Event::SetHints { file: a, hints },
            Event::Append { file: a, bytes: 9000 },
            Event::Truncate { file: a, bytes: 8000 },
            Event::Append { file: a, bytes: 10 },
            Event::Sync { file: a },
            Event::Flush { file: a },
            Event::Close { file: a, bytes: 8010 },
        ];
        assert_eq!(memory.take(), expected);
        let reader = store.open_file("/db/000007.sst").unwrap();
        reader.read_at(0, &mut [0; 10]).await.unwrap();
        store.remove_file("/db/000007.sst").await.unwrap();
        drop(reader);
        let expected =
            [Event::OpenRead { file: a }, Event::Unlink { file: a }, Event::CloseRead { file: a }];
        assert_eq!(memory.take(), expected, "reads are not asked for");
        let missing = store.remove_file("/db/000007.sst").await;
        assert!(missing.is_err() && memory.take().is_empty());
    });
}

#[test]
fn names_that_change_hands_are_told() {
    let drive = drive(geometry(12, 6, OobKind::Separate));
    format(&drive);
    let memory = Rc::new(Memory::default());
    let hints = Hints::default();
    run_with(&drive, memory.options(), async |store, _, _| {
        let mut made = Vec::new();
        for path in ["/CURRENT", "/a.dbtmp", "/b"] {
            drop(store.create(path, hints).await.unwrap());
            made.push(store.metadata(path).unwrap().id);
        }
        let [current, a, b] = made[..] else { unreachable!("three files") };
        memory.take();
        store.rename("/a.dbtmp", "/CURRENT").await.unwrap();
        store.rename("/b", "/MANIFEST-000004").await.unwrap();
        store.link("/CURRENT", "/other").await.unwrap();
        store.rename("/CURRENT", "/other").await.unwrap();
        drop(store.create("/other", hints).await.unwrap());
        let c = store.metadata("/other").unwrap().id;
        let class = Class::Other;
        let expected = [
            Event::Rename { file: a, class, replaces: Some(current) },
            Event::Rename { file: b, class: Class::Manifest, replaces: None },
            Event::Link { file: a },
            // Between two names of one file, a rename does nothing.
            Event::Create { file: c, class, hints, replaces: Some(a) },
            Event::Close { file: c, bytes: 0 },
        ];
        assert_eq!(memory.take(), expected);
        store.create_directory("/d").await.unwrap();
        store.rename("/d", "/e").await.unwrap();
        store.remove_directory("/e").await.unwrap();
        assert_eq!(memory.take(), []);
    });
}

#[test]
fn a_recording_begins_with_the_files_that_there_are() {
    let drive = drive(geometry(12, 6, OobKind::Separate));
    format(&drive);
    let ids: Vec<FileId> = run(&drive, async |store, _| {
        store.create_directory("/db").await.unwrap();
        for (path, count) in [("/db/1.log", 5000), ("/db/2.sst", 100)] {
            let file = store.create(path, Hints::default()).await.unwrap();
            file.append(&bytes(1, 0, count)).await.unwrap();
            file.sync().await.unwrap();
        }
        store.link("/db/2.sst", "/2").await.unwrap();
        ["/db/1.log", "/2"].map(|path| store.metadata(path).unwrap().id).to_vec()
    });
    let memory = Rc::new(Memory { takes_reads: true, ..Memory::default() });
    run_with(&drive, memory.options(), async |store, _, _| {
        let (class, hints) = (Class::Log, Hints::default());
        let log = Event::Exists { file: ids[0], class, hints, bytes: 5000, links: 1 };
        let events = memory.take();
        assert_eq!(events[0], log);
        let is_table = matches!(events[1], Event::Exists { file, bytes: 100, links: 2, .. }
            if file == ids[1]);
        assert!(is_table && events.len() == 2, "{events:?}");
        let file = store.append_to("/db/1.log").await.unwrap();
        let reader = store.open_file("/2").unwrap();
        reader.read_at(7, &mut [0; 200]).await.unwrap();
        drop((file, reader));
        let expected = [
            Event::Open { file: ids[0] },
            Event::OpenRead { file: ids[1] },
            Event::Read { file: ids[1], offset: 7, bytes: 200 },
            Event::Close { file: ids[0], bytes: 5000 },
            Event::CloseRead { file: ids[1] },
        ];
        assert_eq!(memory.take(), expected);
    });
}

#[test]
fn a_handle_that_is_dropped_tells_the_length_that_is_left() {
    let drive = drive(geometry(12, 6, OobKind::Separate));
    format(&drive);
    let memory = Rc::new(Memory::default());
    run_with(&drive, memory.options(), async |store, _, _| {
        let log = store.create("/1.log", Hints::default()).await.unwrap();
        let file = store.metadata("/1.log").unwrap().id;
        // Buffers of four blocks: the fifth block is lost.
        log.append(&bytes(1, 0, 5 * BLOCK_BYTES)).await.unwrap();
        drop(log);
        let left = 4 * BLOCK_BYTES as u64;
        assert_eq!(memory.take().last(), Some(&Event::Close { file, bytes: left }));
    });
}

/// A cut was told once it was durable: a file that lost its name meanwhile seemed to be cut behind.
#[test]
fn a_cut_is_told_before_what_follows_it() {
    let drive = drive(geometry(12, 6, OobKind::Separate));
    format(&drive);
    let memory = Rc::new(Memory::default());
    run_with(&drive, memory.options(), async |store, _, handle| {
        let file = store.create("/1.log", Hints::default()).await.unwrap();
        let id = store.metadata("/1.log").unwrap().id;
        file.append(&bytes(1, 0, 9000)).await.unwrap();
        file.sync().await.unwrap();
        memory.take();
        let cut = handle.spawn("cut", async move { file.truncate(5000).await });
        while store.metadata("/1.log").unwrap().length > 5000 {
            handle.yield_now().await;
        }
        store.remove_file("/1.log").await.unwrap();
        cut.await.unwrap();
        let expected = [
            Event::Truncate { file: id, bytes: 5000 },
            Event::Unlink { file: id },
            Event::Close { file: id, bytes: 5000 },
        ];
        assert_eq!(memory.take(), expected);
    });
}
