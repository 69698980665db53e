//! Numbers in records that no array reaches.

use crate::support::life::{assert_hit, live, one_life, put_all, refused};
use crate::support::{Array, Shape, executor, offer};
use bytes::Bytes;
use zoneweave_emulator::Immediate;
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::{
    EntryKind, Epoch, IndexBlock, IndexEntry, Oob, RecordBody, Seed, SegmentId, Sequence,
    SuperblockRecord, VolumeKind,
};
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_raid::log::{
    AssemblyError, Faults, LostRange, MemberErrors, OpenError, OpenOptions, ScrubRun, Scrubs,
    survey,
};
use zoneweave_raid::scheme::{Column, Scheme};
use zoneweave_runtime::Random;
use zoneweave_zoned::{BlockCount, Lba, Payload, ZoneAddress, ZoneId};

/// The highest number that a record may have, as docs/format.md says.
const HIGHEST: u64 = (1 << 62) - 1;

/// Changes every record of every drive, and makes everything beside it right.
fn forge(array: &Array, change: impl Fn(&mut SuperblockRecord)) {
    let executor = executor();
    for drive in &array.drives {
        let copy = drive.fork(Immediate);
        let found = executor.run(read_records(&*copy.attach(&executor.handle()))).unwrap();
        for (at, record) in &found.scan.records {
            let mut record = record.clone();
            change(&mut record);
            let (block, seed) = (record.encode(), Seed::of(record.config.array));
            let stored = drive.peek(*at, BlockCount(1));
            let oob = Oob::parse(&stored.block_oob(0)).unwrap().encode(seed, &block, false);
            drive.overwrite(*at, &Payload::new(block, Bytes::copy_from_slice(&oob)));
        }
    }
}

/// Changes the entries of every summary, all copies alike, and makes everything beside them right.
/// Returns the number of changed blocks.
fn forge_summaries(array: &Array, change: impl Fn(&mut [IndexEntry])) -> u64 {
    let executor = executor();
    let copy = array.drives[0].fork(Immediate);
    let found = executor.run(read_records(&*copy.attach(&executor.handle()))).unwrap();
    let (_, record) = found.scan.records.first().unwrap();
    let uuid = record.config.array;
    let offsets = |zone| (0..array.shape.zone_blocks).map(move |at| ZoneAddress::new(zone, at));
    let mut changed = 0;
    for drive in &array.drives {
        for at in (0..array.shape.zones).map(ZoneId).flat_map(offsets) {
            let stored = drive.peek(at, BlockCount(1));
            let Ok(mut summary) = IndexBlock::decode(&stored.block(0), uuid) else { continue };
            change(&mut summary.entries);
            let block = summary.encode(uuid);
            let oob = Oob::parse(&stored.block_oob(0)).unwrap();
            let oob = oob.encode(Seed::of(uuid), &block, false);
            drive.overwrite(at, &Payload::new(block, Bytes::copy_from_slice(&oob)));
            changed += 1;
        }
    }
    changed
}

/// A start counted on from such a number, and its records were refused by the next start: the array
/// was lost.
#[test]
fn numbers_that_no_array_reaches_are_refused_before_anything_is_written() {
    type Change = fn(&mut SuperblockRecord);
    let changes: [(&str, Change); 4] = [
        ("epoch", |record| record.epoch = Epoch(HIGHEST)),
        ("record sequence", |record| record.record_sequence = HIGHEST),
        ("sequence ceiling", |record| record.sequence_ceiling = Sequence(HIGHEST)),
        ("segment ceiling", |record| record.segment_ceiling = SegmentId(HIGHEST)),
    ];
    for (expected, change) in changes {
        let array = Array::create(Shape::small(), &mut Random::new(1));
        live(&array, async |volume, _, _| put_all(volume, 9, 1).await);
        forge(&array, change);
        match refused(&array, &[]) {
            OpenError::Array(AssemblyError::ImpossibleNumber { what, number }) => {
                assert_eq!((what, number), (expected, HIGHEST));
            }
            other => panic!("{expected}: {other}"),
        }
    }
}

/// Faults of fewer members, in an intact record of a member, ended every start with a panic, and
/// the survey too.
#[test]
fn faults_and_scrubs_of_another_configuration_are_left_out() {
    let array = Array::create(Shape::small(), &mut Random::new(1));
    live(&array, async |volume, _, _| put_all(volume, 9, 1).await);
    let lost = vec![LostRange { lba: Lba(399), blocks: 1 }];
    let faults = Faults { errors: vec![MemberErrors::default(); 3], lost, joined: false };
    forge(&array, |record| {
        if matches!(record.body, RecordBody::Checkpoint(_)) {
            record.body = match record.slot {
                Column(0) => RecordBody::Scrubs(Scrubs(vec![ScrubRun::begin(1)])),
                _ => RecordBody::Faults(faults.clone()),
            };
            record.config.scheme = Scheme::new(2, 1).unwrap();
            let VolumeKind::Log(log) = &mut record.config.volume else { unreachable!() };
            log.volume_blocks = 400;
            record.members.truncate(3);
            record.slot = Column(record.slot.0.min(2));
            record.members[record.slot.index()].uuid = record.member;
        }
    });
    let executor = executor();
    let found = executor.run(survey(offer(&array.drives, &executor.handle(), &[])));
    assert!(found.refusal.is_none(), "{:?}", found.refusal);
    assert_eq!((found.faults, found.scrubs), (None, Scrubs::default()));
    drop(executor);
    live(&array, async |volume, _, _| {
        let status = volume.status();
        assert!(status.lost.is_empty() && status.scrubs.is_empty());
    });
    assert_hit(&[Mark::OtherHistoryLeftOut]);
}

/// An entry of an intact summary named a lost block behind the volume: the array started, and ended
/// with a panic when it was scrubbed.
#[test]
fn a_lost_block_behind_the_volume_is_none_of_its_losses() {
    const BLOCKS: u64 = 100;
    let shape = Shape { zones: 40, volume_blocks: Some(BLOCKS), tabled: false, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(1));
    live(&array, async |volume, _, _| put_all(volume, BLOCKS, 1).await);
    let changed = forge_summaries(&array, |entries| {
        if let Some(entry) = entries.iter_mut().find(|entry| entry.kind == EntryKind::Data) {
            (entry.kind, entry.lba) = (EntryKind::Lost, Lba(BLOCKS));
        }
    });
    assert!(changed > 0, "no segment is full");
    let options = OpenOptions { ignore_checkpoint: true, ..OpenOptions::default() };
    one_life(&array, &[], options, async |volume, _, _| {
        let report = volume.scrub().await.unwrap();
        assert_eq!((report.lost_before, report.damaged, report.unrepairable), (0, 0, 0));
        assert!(volume.status().lost.is_empty());
    })
    .unwrap();
}
