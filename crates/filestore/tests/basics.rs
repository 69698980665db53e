//! Files and names without crashes.

use zoneweave_filestore::policy::by_name;
use zoneweave_filestore::{
    FileStore, FormatError, FormatOptions, Hints, Lifetime, OpenError, OpenOptions, Phase,
    StoreError, Unfit,
};
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{OobKind, ZonedDevice};

use crate::support::{UUID, bytes, drive, format, geometry, options, read_all, run, run_with};

const KINDS: [OobKind; 2] = [OobKind::Separate, OobKind::None];

#[test]
fn files_are_what_was_appended() {
    for oob in KINDS {
        let drive = drive(geometry(12, 6, oob));
        format(&drive);
        run(&drive, async |store, _| {
            let file = store.create("/a", Hints::default()).await.unwrap();
            let mut length = 0;
            for count in [1, 100, 4096, 4064, 5000, 30_000, 7] {
                file.append(&bytes(1, length, count)).await.unwrap();
                length += count as u64;
                assert_eq!(file.length(), length);
                assert_eq!(
                    read_all(&store, "/a").await,
                    bytes(1, 0, usize::try_from(length).unwrap())
                );
                if count % 2 == 0 {
                    file.sync().await.unwrap();
                }
            }
            let reader = store.open_file("a").unwrap();
            for (offset, count) in [(0, 1), (4090, 20), (length - 5, 5), (9000, 20_000)] {
                let mut data = vec![0; count];
                assert_eq!(reader.read_at(offset, &mut data).await, Ok(count));
                assert_eq!(data, bytes(1, offset, count));
            }
            assert_eq!(reader.read_at(length - 3, &mut [0; 9]).await, Ok(3));
            assert_eq!(reader.read_at(length + 3, &mut [0; 9]).await, Ok(0));
            file.close().await.unwrap();
        });
        run(&drive, async |store, _| {
            let length = store.metadata("/a").unwrap().length;
            assert_eq!(read_all(&store, "/a").await, bytes(1, 0, usize::try_from(length).unwrap()));
        });
    }
}

#[test]
fn names_change_as_posix_has_it() {
    let drive = drive(geometry(12, 6, OobKind::Separate));
    format(&drive);
    run(&drive, async |store, _| {
        let missing = |path: &str| StoreError::NotFound { path: path.to_owned() };
        assert_eq!(store.list("/db").err(), Some(missing("/db")));
        store.create_directory("/db").await.unwrap();
        for (path, text) in [("/db/one", "1"), ("/db/two", "2")] {
            let file = store.create(path, Hints::default()).await.unwrap();
            file.append(text.as_bytes()).await.unwrap();
            file.close().await.unwrap();
        }
        store.link("/db/one", "/db/link").await.unwrap();
        assert_eq!(store.metadata("/db/link").unwrap().links, 2);
        store.rename("/db/two", "/db/one").await.unwrap();
        assert_eq!(read_all(&store, "/db/one").await, b"2");
        assert_eq!(read_all(&store, "/db/link").await, b"1");
        let full = StoreError::NotEmpty { path: "/db".to_owned() };
        assert_eq!(store.remove_directory("/db").await, Err(full));
        let exists = StoreError::Exists { path: "/db/one".to_owned() };
        assert_eq!(store.create_new("/db/one", Hints::default()).await.err(), Some(exists));
        store.rename("/db", "/moved").await.unwrap();
        store.remove_file("/moved/one").await.unwrap();
        assert_eq!(store.metadata("/moved/one").err(), Some(missing("/moved/one")));
        let names: Vec<String> =
            store.list("/moved").unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["link"]);
    });
    run(&drive, async |store, _| {
        assert_eq!(read_all(&store, "/moved/link").await, b"1");
        assert_eq!(store.metadata("/moved/link").unwrap().links, 1);
    });
}

#[test]
fn a_deleted_file_can_be_read_while_it_is_open() {
    let drive = drive(geometry(8, 4, OobKind::Separate));
    format(&drive);
    run(&drive, async |store, handle| {
        let file = store.create("/a", Hints::default()).await.unwrap();
        file.append(&bytes(1, 0, 20_000)).await.unwrap();
        let reader = store.open_file("/a").unwrap();
        store.remove_file("/a").await.unwrap();
        file.append(&bytes(1, 20_000, 20_000)).await.unwrap();
        let mut data = vec![0; 40_000];
        assert_eq!(reader.read_at(0, &mut data).await, Ok(40_000));
        assert_eq!(data, bytes(1, 0, 40_000));
        assert!(store.space().live_bytes > 0);
        file.close().await.unwrap();
        drop(reader);
        // Its blocks are free once the record of its deletion is durable.
        handle.yield_now().await;
        handle.yield_now().await;
        assert_eq!(store.space().live_bytes, 0);
    });
}

#[test]
fn direct_writers_write_their_last_block_again() {
    for oob in KINDS {
        let drive = drive(geometry(12, 6, oob));
        format(&drive);
        run(&drive, async |store, _| {
            let file = store.create("/sst", Hints::default()).await.unwrap();
            // RocksDB pads the last block, syncs, and writes that block again.
            let mut padded = bytes(1, 0, 10_000);
            padded.resize(12_288, 0);
            file.write_at(0, &padded).await.unwrap();
            file.sync().await.unwrap();
            let mut padded = bytes(1, 8192, 9000);
            padded.resize(12_288, 0);
            file.write_at(8192, &padded).await.unwrap();
            file.truncate(17_192).await.unwrap();
            file.sync().await.unwrap();
            file.close().await.unwrap();
            assert_eq!(read_all(&store, "/sst").await, bytes(1, 0, 17_192));
            let file = store.append_to("/sst").await.unwrap();
            let hole = StoreError::Hole { offset: 17_193, length: 17_192 };
            assert_eq!(file.write_at(17_193, b"x").await, Err(hole));
        });
        run(&drive, async |store, _| {
            assert_eq!(read_all(&store, "/sst").await, bytes(1, 0, 17_192));
        });
    }
}

#[test]
fn a_file_has_one_writer() {
    let drive = drive(geometry(8, 4, OobKind::Separate));
    format(&drive);
    let options = OpenOptions { max_writers: 2, ..options() };
    run_with(&drive, options, async |store, _, _| {
        let _one = store.create("/a", Hints::default()).await.unwrap();
        let busy = StoreError::Busy { path: "/a".to_owned() };
        assert_eq!(store.append_to("/a").await.err(), Some(busy));
        let _two = store.create("/b", Hints::default()).await.unwrap();
        let many = StoreError::TooManyWriters { most: 2 };
        assert_eq!(store.create("/c", Hints::default()).await.err(), Some(many));
    });
}

#[test]
fn drives_that_cannot_hold_a_store_are_refused() {
    let executor = Executor::new(std::rc::Rc::new(VirtualTime::new()));
    let make = |geometry| {
        let drive = drive(geometry);
        let device = drive.attach(&executor.handle());
        executor.run(FileStore::format(&*device, &FormatOptions::new(UUID)))
    };
    let unfit = |unfit| Err(FormatError::Unfit(unfit));
    let few = make(geometry(4, 4, OobKind::Separate));
    assert_eq!(few, unfit(Unfit::Zones { found: 4, needed: 5 }));
    let inactive = make(geometry(8, 2, OobKind::Separate));
    assert_eq!(inactive, unfit(Unfit::ActiveZones { found: 2, needed: 3 }));
}

#[test]
fn a_drive_in_use_is_reset_only_by_force() {
    let drive = drive(geometry(8, 4, OobKind::Separate));
    format(&drive);
    run(&drive, async |store, _| {
        store.create_directory("/kept").await.unwrap();
    });
    let executor = Executor::new(std::rc::Rc::new(VirtualTime::new()));
    let device: std::rc::Rc<dyn ZonedDevice> = drive.attach(&executor.handle());
    let mut options = FormatOptions::new([8; 16]);
    let refused = executor.run(FileStore::format(&*device, &options));
    assert!(matches!(refused, Err(FormatError::NotEmpty { .. })), "{refused:?}");
    options.force = true;
    executor.run(FileStore::format(&*device, &options)).unwrap();
    run(&drive, async |store, _| {
        assert_eq!(store.uuid(), [8; 16]);
        assert_eq!(store.list("/").unwrap(), []);
    });
}

#[test]
fn an_empty_drive_has_no_store() {
    let drive = drive(geometry(8, 4, OobKind::Separate));
    let executor = Executor::new(std::rc::Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let device = drive.attach(&handle);
    let opened = executor.run(FileStore::open(handle.clone(), device, options()));
    assert_eq!(opened.map(drop).unwrap_err(), OpenError::NoStore);
}

/// ZenFS reports no space while garbage is left, and does not wait for its collector.
#[test]
pub(crate) fn space_is_reclaimed_until_everything_is_live() {
    for active in [3, 6, 14] {
        let drive = drive(geometry(20, active, OobKind::Separate));
        format(&drive);
        run(&drive, async |store, _| {
            // 16 data zones and the reserve: 95 % of what files can have.
            let capacity = 17 * 16 * 4096;
            let file_bytes = 3 * 4096;
            let files = capacity * 95 / 100 / file_bytes;
            let write = async |name: usize, round: usize| {
                let lifetime = Lifetime::ALL[2 + name % 4];
                let hints = Hints { lifetime, ..Hints::default() };
                let path = format!("/{name}");
                let file = store.create(&path, hints).await?;
                file.append(&bytes((name + round) as u64, 0, file_bytes)).await?;
                file.close().await
            };
            for name in 0..files {
                write(name, 0).await.unwrap();
            }
            for round in 1..6 {
                for step in 0..files {
                    let name = step * 7 % files;
                    store.remove_file(&format!("/{name}")).await.unwrap();
                    write(name, round).await.unwrap_or_else(|error| {
                        panic!("{error} in round {round} with {active} zones: {:?}", store.zones())
                    });
                }
            }
            for name in 0..files {
                let data = read_all(&store, &format!("/{name}")).await;
                assert_eq!(data, bytes((name + 5) as u64, 0, file_bytes));
            }
            assert!(store.counters().relocated > 0);
            // More than there is space for.
            let mut filled = Ok(());
            for name in files..files + 30 {
                filled = filled.and(write(name, 0).await);
            }
            assert_eq!(filled, Err(StoreError::NoSpace));
            store.remove_file("/0").await.unwrap();
            write(0, 9).await.unwrap();
        });
    }
}

/// RocksDB sets all its hints after it made a file, and few files are closed when a process ends.
#[test]
fn hints_of_an_unfinished_file_survive_the_process() {
    let drive = drive(geometry(8, 4, OobKind::Separate));
    format(&drive);
    let hints = Hints { lifetime: Lifetime::Long, level: Some(3), ..Hints::default() };
    run(&drive, async |store, _| {
        let file = store.create("/a", Hints::default()).await.unwrap();
        file.append(&[1; 5000]).await.unwrap();
        file.sync().await.unwrap();
        file.set_hints(hints);
        store.create_directory("/later").await.unwrap();
    });
    run(&drive, async |store, _| assert_eq!(store.metadata("/a").unwrap().hints, hints));
    run(&drive, async |store, _| assert_eq!(store.metadata("/a").unwrap().hints, hints));
}

#[test]
fn a_path_that_exists_exists_even_if_there_is_no_space_for_metadata() {
    let drive = drive(geometry(8, 4, OobKind::Separate));
    format(&drive);
    run(&drive, async |store, _| {
        store.create_directory("/a").await.unwrap();
        let mut made = Ok(());
        for number in 0..10_000 {
            if made.is_ok() {
                made = store.create_directory(&format!("/a/{number:0250}")).await;
            }
        }
        assert_eq!(made, Err(StoreError::MetadataFull));
        let path = "/a".to_owned();
        assert_eq!(store.create_directory("/a").await, Err(StoreError::Exists { path }));
    });
}

/// Hot files wear out the zones that cold files leave them, unless a policy levels wear.
#[test]
fn wear_is_levelled_by_the_policies_that_promise_it() {
    let spread = |policy: &str| {
        let drive = drive(geometry(14, 6, OobKind::Separate));
        format(&drive);
        let options = OpenOptions { policy: by_name(policy).unwrap(), ..options() };
        run_with(&drive, options, async |store, _, _| {
            let write = async |path: &str, seed: u64, blocks: usize| {
                // As RocksDB's tables of levels 3 and 1.
                let (lifetime, level) = match path {
                    "/cold" => (Lifetime::Extreme, Some(3)),
                    _ => (Lifetime::Medium, Some(1)),
                };
                let hints = Hints { lifetime, level, ..Hints::default() };
                let file = store.create(path, hints).await.unwrap();
                file.append(&bytes(seed, 0, blocks * 4096)).await.unwrap();
                file.close().await.unwrap();
            };
            write("/cold", 1, 80).await;
            for round in 0..400 {
                write("/hot", round, 12).await;
            }
            assert_eq!(read_all(&store, "/cold").await, bytes(1, 0, 80 * 4096));
            let zones = store.zones();
            let resets = zones.iter().filter(|zone| zone.phase != Phase::Metadata);
            let resets: Vec<u64> = resets.map(|zone| zone.resets).collect();
            let extra = store.counters().relocated * 100 / store.counters().written;
            (resets.iter().max().unwrap() - resets.iter().min().unwrap(), extra)
        })
    };
    let spreads = ["lifetime", "least-worn", "dual-pool", "wear-aware"].map(spread);
    println!("spread of resets, extra writes in percent: {spreads:?}");
    let [(lifetime, _), (least, _), (dual, extra), (aware, _)] = spreads;
    assert!(dual * 3 < least && least <= lifetime && extra <= 12, "{spreads:?}");
    // WA-Zone moves files away from zones only while others are filled: here that levels little.
    assert!(aware <= lifetime, "{spreads:?}");
}
