//! Golden images: this release writes byte for byte the same as the first version of the format,
//! and still reads that version's output. A difference means that the format changed: give it a new
//! version, keep reading the old one, and add files instead of changing these.
//!
//! `REGENERATE_GOLDEN=1 cargo test -p zoneweave-filestore --test main golden::` writes the files
//! anew; use it for new structures only.

use std::path::PathBuf;
use std::rc::Rc;

use zoneweave_emulator::RamDrive;
use zoneweave_filestore::format::fuzzing::samples;
use zoneweave_filestore::format::{MetadataRecord, Part};
use zoneweave_filestore::trace::{self, Encoder, Ending, Event, TraceHeader, TraceReader};
use zoneweave_filestore::{Hints, Lifetime};
use zoneweave_runtime::{Executor, Nanos, VirtualTime};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, OOB_BYTES, OobKind, Payload, ZoneAddress, ZoneId, ZonedDeviceExt,
};

use crate::support::{UUID, bytes, drive, format, geometry, read_all, run};

/// Compares the output with the file, and returns the file.
fn golden(name: &str, written: &[u8]) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(format!("{name}.bin"));
    if std::env::var_os("REGENERATE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, written).unwrap();
    }
    let stored = std::fs::read(&path).unwrap();
    assert_eq!(stored.len(), written.len(), "{name} has another length");
    let differing = (0..stored.len()).find(|at| stored[*at] != written[*at]);
    assert_eq!(differing, None, "{name} differs from that byte on: the format changed");
    stored
}

#[test]
fn records_are_as_in_version_1() {
    let record = MetadataRecord { owner: UUID, sequence: 9, part: Part::Log, entries: samples() };
    let stored = golden("record", record.encode().as_ref());
    assert_eq!(MetadataRecord::decode(&stored), Ok(record));
}

#[test]
fn traces_are_as_in_version_1() {
    let (zone_capacity, buffer) = (BlockCount(512), BlockCount(256));
    let header = TraceHeader { id: UUID, has_reads: true, zones: 384, zone_capacity, buffer };
    let mut events = trace::samples();
    // A second frame, in front of which events are missing.
    events.insert(9, Event::Lost { events: 1000 });
    let (mut encoder, mut written) = (Encoder::new(&header), header.encode().to_vec());
    for (number, event) in (1..).zip(&events) {
        let full = encoder.push(Nanos(1_000_000 * number), event);
        written.extend(full.into_iter().flat_map(|frame| frame.bytes));
    }
    written.extend(encoder.take().unwrap().bytes);
    let stored = golden("trace", &written);
    let mut reader = TraceReader::open(&stored[..]).unwrap();
    assert_eq!(*reader.header(), header);
    assert_eq!(events.pop(), Some(Event::End));
    for event in events {
        assert_eq!(reader.read_event().unwrap().unwrap().event, event);
    }
    assert_eq!(reader.read_event().unwrap(), None);
    assert_eq!(reader.ending(), Some(Ending::Closed));
}

/// Zones as a file: for each that is written its number, its blocks, and what is beside them.
fn image(drive: &RamDrive) -> Vec<u8> {
    let mut image = Vec::new();
    for zone in (0..drive.geometry().zones).map(ZoneId) {
        let blocks = drive.zone(zone).write_pointer.0;
        if blocks == 0 {
            continue;
        }
        image.extend(zone.0.to_le_bytes());
        image.extend(blocks.to_le_bytes());
        let payload = drive.peek(ZoneAddress::new(zone, 0), BlockCount(blocks));
        payload.iter_blocks().for_each(|block| image.extend(&block));
        image.extend(&payload.oob);
    }
    image
}

/// A drive with the zones of a file.
fn loaded(mut image: &[u8], oob: OobKind) -> RamDrive {
    let drive = drive(geometry(8, 4, oob));
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = drive.attach(&executor.handle());
    let mut take = |count: usize| {
        let (taken, rest) = image.split_at(count);
        image = rest;
        taken.to_vec()
    };
    executor.run(async {
        for _ in 0..2 {
            let zone = ZoneId(u32::from_le_bytes(take(4).try_into().unwrap()));
            let blocks = u32::from_le_bytes(take(4).try_into().unwrap()) as usize;
            let data = take(blocks * BLOCK_BYTES);
            let beside = if oob == OobKind::None { 0 } else { blocks * OOB_BYTES };
            let metadata = take(beside);
            for block in 0..blocks {
                let one = data[block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES].to_vec();
                let beside = metadata.chunks(OOB_BYTES).nth(block).unwrap_or_default().to_vec();
                let at = ZoneAddress::new(zone, u32::try_from(block).unwrap());
                let payload = Payload::new(one.into(), beside.into());
                device.write(at, payload, true).await.unwrap();
            }
        }
    });
    drive
}

/// Changes of every kind, and blocks that no record knows.
#[test]
fn stores_are_as_in_version_1() {
    for (name, oob) in [("store-separate", OobKind::Separate), ("store-inline", OobKind::None)] {
        let drive = drive(geometry(8, 4, oob));
        format(&drive);
        run(&drive, async |store, _| {
            let hints = Hints { lifetime: Lifetime::Medium, level: Some(1), expected_bytes: 0 };
            store.create_directory("/db").await.unwrap();
            let file = store.create("/db/log", hints).await.unwrap();
            for offset in [0, 100, 200] {
                file.append(&bytes(1, offset, 100)).await.unwrap();
                file.sync().await.unwrap();
            }
            file.truncate(250).await.unwrap();
            file.append(&bytes(1, 250, 50)).await.unwrap();
            file.sync().await.unwrap();
            store.link("/db/log", "/db/link").await.unwrap();
            store.rename("/db/log", "/log").await.unwrap();
        });
        let stored = golden(name, &image(&drive));
        let again = loaded(&stored, oob);
        run(&again, async |store, _| {
            assert_eq!(read_all(&store, "/log").await, bytes(1, 0, 300));
            let metadata = store.metadata("/db/link").unwrap();
            assert_eq!((metadata.links, metadata.hints.level), (2, Some(1)));
        });
    }
}
