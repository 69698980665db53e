//! Damaged and hostile media.

use zoneweave_emulator::{BlockPart, Damage, RamDrive};
use zoneweave_filestore::format::{BlockLayout, Entry, MetadataRecord, Part, RecordBuilder};
use zoneweave_filestore::policy::DualPoolPolicy;
use zoneweave_filestore::{FileStore, Hints, Lifetime, OpenError, OpenOptions, StoreError};
use zoneweave_runtime::{Executor, Random, VirtualTime};
use zoneweave_zoned::{BlockCount, OobKind, Payload, ZoneAddress, ZoneId};

use crate::support::{UUID, bytes, drive, format, geometry, options, read_all, run, run_with};

fn flip(drive: &RamDrive, at: ZoneAddress) {
    drive.corrupt(at, Damage::Garbage { part: BlockPart::Data, seed: 1 });
}

/// The data zone that a file of 10 blocks was written to.
fn written_zone(drive: &RamDrive) -> ZoneId {
    let written = |zone: &ZoneId| drive.zone(*zone).write_pointer.0 == 10;
    (2..drive.geometry().zones).map(ZoneId).find(written).unwrap()
}

/// A file of 10 blocks that no record knows.
fn unrecorded(oob: OobKind) -> (RamDrive, usize) {
    let drive = drive(geometry(8, 4, oob));
    format(&drive);
    let payload = BlockLayout::for_drive(oob).payload_bytes();
    run(&drive, async |store, _| {
        let file = store.create("/a", Hints::default()).await.unwrap();
        file.append(&bytes(1, 0, 10 * payload)).await.unwrap();
        file.flush().await.unwrap();
    });
    (drive, payload)
}

/// Reads each block of the file by itself, as long as the file is.
async fn blocks_read(store: &FileStore, payload: usize) -> Vec<Result<(), StoreError>> {
    let reader = store.open_file("/a").unwrap();
    let blocks = reader.length() / payload as u64;
    assert_eq!(reader.length() % payload as u64, 0);
    let mut read = Vec::new();
    for block in 0..blocks {
        let mut data = vec![0; payload];
        let result = reader.read_at(block * payload as u64, &mut data).await;
        read.push(result.map(|count| {
            assert_eq!(count, payload);
            assert_eq!(data, bytes(1, block * payload as u64, payload));
        }));
    }
    read
}

/// A start keeps the bytes of a block that rotted before it was on record: they read as damaged,
/// then and at later starts. Its tag shows its file, or the blocks behind it do.
#[test]
pub(crate) fn a_damaged_block_of_an_open_zone_is_an_error_of_its_bytes() {
    for oob in [OobKind::Separate, OobKind::None] {
        for part in [BlockPart::Data, BlockPart::Both] {
            let (drive, payload) = unrecorded(oob);
            let at = ZoneAddress::new(written_zone(&drive), 6);
            drive.corrupt(at, Damage::Garbage { part, seed: 1 });
            for life in 0..2 {
                run_with(&drive, options(), async |store, report, _| {
                    let found = (report.found_blocks, report.damaged_blocks);
                    assert_eq!(found, if life == 0 { (10, 1) } else { (0, 0) });
                    assert_eq!(report.unclaimed_blocks, 0);
                    let read = blocks_read(&store, payload).await;
                    assert_eq!(read.len(), 10);
                    let failed: Vec<usize> = (0..10).filter(|at| read[*at].is_err()).collect();
                    assert_eq!(failed, [6]);
                    let file = store.metadata("/a").unwrap().id;
                    let offset = 6 * payload as u64;
                    assert_eq!(read[6], Err(StoreError::Damaged { file, offset, at }));
                });
            }
        }
    }
}

/// The last block of a file whose tag is lost cannot be told from garbage: a start says so.
#[test]
fn a_damaged_last_block_without_a_tag_is_reported() {
    for oob in [OobKind::Separate, OobKind::None] {
        let (drive, payload) = unrecorded(oob);
        let at = ZoneAddress::new(written_zone(&drive), 9);
        let with_tag = drive.fork(zoneweave_emulator::Immediate);
        drive.corrupt(at, Damage::Garbage { part: BlockPart::Both, seed: 1 });
        run_with(&drive, options(), async |store, report, _| {
            assert_eq!((report.damaged_blocks, report.unclaimed_blocks), (0, 1));
            assert_eq!(read_all(&store, "/a").await, bytes(1, 0, 9 * payload));
        });
        with_tag.corrupt(at, Damage::BitFlip { part: BlockPart::Data, seed: 1 });
        run_with(&with_tag, options(), async |store, report, _| {
            assert_eq!((report.damaged_blocks, report.unclaimed_blocks), (1, 0));
            let read = blocks_read(&store, payload).await;
            assert!(read.len() == 10 && read[9].is_err() && read[..9].iter().all(Result::is_ok));
        });
    }
}

/// Where blocks of a synced log begin is read from tags. A damaged block makes its own bytes
/// unreadable; behind a block that was cut since, nobody knows which these are.
#[test]
fn a_damaged_block_of_a_log_spares_its_neighbours() {
    for cut in [false, true] {
        let drive = drive(geometry(8, 4, OobKind::Separate));
        format(&drive);
        run(&drive, async |store, _| {
            let file = store.create("/a", Hints::default()).await.unwrap();
            for part in 0..5 {
                file.append(&bytes(1, part * 100, 100)).await.unwrap();
                file.sync().await.unwrap();
            }
            if cut {
                file.truncate(450).await.unwrap();
            }
            for part in 5..10 {
                file.append(&bytes(1, file.length(), 100)).await.unwrap();
                file.sync().await.unwrap();
                assert_eq!(file.length(), part * 100 + if cut { 50 } else { 100 });
            }
        });
        // Now the extent is on record.
        run(&drive, async |_, _| ());
        flip(&drive, ZoneAddress::new(written_zone(&drive), 5));
        run(&drive, async |store, _| {
            let reader = store.open_file("/a").unwrap();
            let mut failed = Vec::new();
            for at in (0..reader.length()).step_by(50) {
                let mut data = vec![0; 50];
                match reader.read_at(at, &mut data).await {
                    Ok(_) => assert_eq!(data, bytes(1, at, 50)),
                    Err(StoreError::Damaged { .. }) => failed.push(at),
                    Err(error) => panic!("{error}"),
                }
            }
            let all: Vec<u64> = (0..950).step_by(50).collect();
            assert_eq!(failed, if cut { all } else { vec![500, 550] });
        });
    }
}

#[test]
fn a_damaged_block_on_record_is_an_error_of_its_bytes() {
    let drive = drive(geometry(8, 4, OobKind::Separate));
    format(&drive);
    run(&drive, async |store, _| {
        let file = store.create("/a", Hints::default()).await.unwrap();
        file.append(&bytes(1, 0, 10 * 4096)).await.unwrap();
        file.sync().await.unwrap();
    });
    run(&drive, async |_, _| ());
    let at = ZoneAddress::new(written_zone(&drive), 6);
    flip(&drive, at);
    run(&drive, async |store, _| {
        let reader = store.open_file("/a").unwrap();
        let mut data = vec![0; 4096];
        assert_eq!(reader.read_at(5 * 4096, &mut data).await, Ok(4096));
        let file = store.metadata("/a").unwrap().id;
        let damaged = StoreError::Damaged { file, offset: 6 * 4096, at };
        assert_eq!(reader.read_at(5 * 4096 + 1, &mut data).await, Err(damaged));
    });
}

/// A store with many changes on record; returns the metadata zone that is being written.
fn used(drive: &RamDrive) -> ZoneId {
    format(drive);
    run(drive, async |store, _| {
        store.create_directory("/db").await.unwrap();
        for name in 0..6 {
            let path = format!("/db/{name}");
            let file = store.create(&path, Hints::default()).await.unwrap();
            file.append(&bytes(name, 0, 9000)).await.unwrap();
            file.sync().await.unwrap();
            file.append(b"more").await.unwrap();
            file.truncate(8000).await.unwrap();
        }
        let records = || [0, 1].map(|zone| drive.zone(ZoneId(zone)).write_pointer.0);
        for extra in 0..20 {
            // Neither few records, nor so many that the zone becomes full.
            if !(8..12).contains(&records().into_iter().max().unwrap()) {
                store.create_directory(&format!("/{extra}")).await.unwrap();
            }
        }
        store.rename("/db/0", "/db/1").await.unwrap();
        store.link("/db/2", "/two").await.unwrap();
        store.remove_file("/db/3").await.unwrap();
    });
    let zones = [ZoneId(0), ZoneId(1)];
    zones.into_iter().max_by_key(|zone| drive.zone(*zone).write_pointer).unwrap()
}

/// ZenFS refuses to mount after a torn last record.
#[test]
fn a_torn_last_record_is_as_if_never_written_and_a_lost_one_is_noticed() {
    let drive = drive(geometry(12, 4, OobKind::Separate));
    let zone = used(&drive);
    let last = drive.zone(zone).write_pointer.0 - 1;
    assert!(last > 4, "few records");
    let torn = drive.fork(zoneweave_emulator::Immediate);
    flip(&torn, ZoneAddress::new(zone, last));
    run(&torn, async |store, _| {
        assert!(store.metadata("/db/3").is_ok(), "the record of its deletion is torn");
        assert!(store.metadata("/two").is_ok());
    });
    flip(&drive, ZoneAddress::new(zone, last - 2));
    let at = ZoneAddress::new(zone, last - 1);
    assert_eq!(open(&drive), Err(OpenError::JournalDamaged { at }));
}

fn open(drive: &RamDrive) -> Result<(), OpenError> {
    let executor = Executor::new(std::rc::Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let device = drive.attach(&handle);
    executor.run(async {
        let (store, _) = FileStore::open(handle.clone(), device, options()).await?;
        visit(&store, "/", 0).await;
        // Changes of a store from a forged image fail or succeed.
        let _ = store.create_directory("/new").await;
        if let Ok(file) = store.create("/new/file", Hints::default()).await {
            let _ = file.append(&[1; 20_000]).await;
            let _ = file.sync().await;
        }
        let _ = store.remove_file("/db/1").await;
        let _ = store.rename("/db", "/other").await;
        Ok(())
    })
}

/// Reads everything, and ignores errors.
async fn visit(store: &FileStore, path: &str, depth: u32) {
    let Ok(listed) = store.list(path) else { return };
    for (name, metadata) in listed {
        let below = format!("{path}/{name}");
        if metadata.is_directory && depth < 10 {
            Box::pin(visit(store, &below, depth + 1)).await;
        } else if let Ok(reader) = store.open_file(&below) {
            let mut data = vec![0; usize::try_from(metadata.length.min(1 << 20)).unwrap()];
            let _ = reader.read_at(0, &mut data).await;
        }
    }
}

/// Records that decode, with contents that no store writes: errors, never a panic.
#[test]
fn forged_metadata_opens_or_is_refused() {
    let image = drive(geometry(12, 4, OobKind::Separate));
    let zone = used(&image);
    let count = image.zone(zone).write_pointer.0;
    let record = |block| {
        let read = image.peek(ZoneAddress::new(zone, block), BlockCount(1));
        MetadataRecord::decode(&read.block(0)).unwrap()
    };
    let records: Vec<MetadataRecord> = (0..count).map(record).collect();
    let (mut opened, mut refused) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let forged = image.fork(zoneweave_emulator::Immediate);
        for _ in 0..=random.below(2) {
            let block = random.below(u64::from(count));
            let record = forge(&records, usize::try_from(block).unwrap(), &mut random);
            let Some(data) = record else { continue };
            let at = ZoneAddress::new(zone, u32::try_from(block).unwrap());
            forged.overwrite(at, &data);
        }
        match open(&forged) {
            Ok(()) => opened += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(opened > 10 && refused > 10, "{opened} opened, {refused} refused");
}

/// A record with entries of another, or with bytes of an entry changed.
fn forge(records: &[MetadataRecord], block: usize, random: &mut Random) -> Option<Payload> {
    let mut record = records[block].clone();
    let mut pick = |most: usize| usize::try_from(random.below(most as u64)).unwrap();
    let other = &records[pick(records.len())].entries;
    let at = pick(record.entries.len());
    match pick(3) {
        0 => record.entries[at] = other[pick(other.len())].clone(),
        1 => record.entries.insert(at, other[pick(other.len())].clone()),
        _ => {
            let mut bytes = Vec::new();
            record.entries[at].encode(&mut bytes);
            let byte = 4 + pick(bytes.len() - 4);
            bytes[byte] = [0, 1, 255, bytes[byte] ^ 1][pick(4)];
            record.entries[at] = Entry::from_bytes(&bytes)?;
        }
    }
    let mut builder = RecordBuilder::default();
    let fits = record.entries.iter().all(|entry| builder.push(entry));
    let part: Part = record.part;
    fits.then(|| builder.payload(UUID, record.sequence, part, true))
}

/// A zone of cold files that lags in wear and has a damaged block stays as it is: copies of its
/// other blocks would be written for nothing.
#[test]
pub(crate) fn a_zone_with_a_damaged_block_is_not_levelled_in_part() {
    let drive = drive(geometry(14, 6, OobKind::Separate));
    format(&drive);
    let write = async |store: &FileStore, path: &str, lifetime, seed, blocks: usize| {
        let file = store.create(path, Hints { lifetime, ..Hints::default() }).await.unwrap();
        file.append(&bytes(seed, 0, blocks * 4096)).await.unwrap();
        file.close().await.unwrap();
    };
    run(&drive, async |store, _| write(&store, "/cold", Lifetime::Extreme, 1, 40).await);
    let cold = (2..14).map(ZoneId).find(|zone| drive.zone(*zone).write_pointer.0 == 16).unwrap();
    flip(&drive, ZoneAddress::new(cold, 11));
    let options = OpenOptions { policy: Box::new(DualPoolPolicy::new(0)), ..options() };
    run_with(&drive, options, async |store, _, _| {
        let live = |store: &FileStore| {
            store.zones().iter().find(|zone| zone.zone == cold).map(|zone| zone.live)
        };
        let before = live(&store);
        for round in 0..200 {
            write(&store, "/hot", Lifetime::Medium, round, 12).await;
        }
        assert_eq!(live(&store), before, "no block has left the zone");
        let mut block = vec![0; 4096];
        let reader = store.open_file("/cold").unwrap();
        assert_eq!(reader.read_at(0, &mut block).await, Ok(4096));
        assert_eq!(block, bytes(1, 0, 4096));
    });
}
