//! Numbers in records that no array reaches.

use crate::support::life::{live, put_all, refused};
use crate::support::{Array, Shape, executor};
use bytes::Bytes;
use zoneweave_emulator::Immediate;
use zoneweave_raid::log::format::{Oob, Seed, SegmentId, SuperblockRecord};
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_raid::log::{AssemblyError, OpenError};
use zoneweave_runtime::Random;
use zoneweave_zoned::{BlockCount, Payload};

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

/// A start counted on from such a number, and its records were refused by the next start: the array
/// was lost.
#[test]
fn numbers_that_no_array_reaches_are_refused_before_anything_is_written() {
    type Change = fn(&mut SuperblockRecord);
    let changes: [(&str, Change); 4] = [
        ("epoch", |record| record.epoch = HIGHEST),
        ("record sequence", |record| record.record_sequence = HIGHEST),
        ("sequence ceiling", |record| record.sequence_ceiling = HIGHEST),
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
