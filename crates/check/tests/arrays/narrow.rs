//! Segments on some columns of the array only.

use bytes::Bytes;
use zoneweave_check::{Problem, Severity};
use zoneweave_emulator::{BlockPart, Damage, RamDrive};
use zoneweave_raid::log::format::{
    BlockType, Envelope, Epoch, Generation, IndexEntry, NarrowListRecord, Oob, Place, RecordBody,
    Seed, SegmentHeader,
};
use zoneweave_raid::log::{OfferedDrive, OpenOptions, open_array};
use zoneweave_raid::scheme::{Column, ColumnSet, MAX_COLUMNS};
use zoneweave_zoned::{BlockCount, BlockDevice, Lba, Payload, ZoneAddress, ZoneId};

use super::{assert_finds, contents, stripes, stripes_of};
use crate::image::{ARRAY, Content, Image, SegmentPlan, pattern, structured_of};

/// The zones of the sealed narrow segment, and of the one that is not.
const SEALED: u32 = 3;
const TAIL: u32 = 4;

fn set(columns: &[u8]) -> ColumnSet {
    columns.iter().copied().map(Column).collect()
}

/// A plan of a segment that is not on some columns.
fn plan(image: &Image, id: u64, zone: u32, absent: ColumnSet, count: u32) -> SegmentPlan {
    let geometry = image.geometry_without(absent);
    let stripes = stripes_of(geometry, count, 7 * id, 100 * id);
    SegmentPlan { absent, ..SegmentPlan::new(id, zone, stripes) }
}

/// A sealed segment on all columns, a sealed narrow one, and a narrow tail with a torn stripe.
fn sound(scheme: (usize, usize), chunk_blocks: u32, tabled: bool, absent: &[u8]) -> Image {
    let mut image = Image::new(scheme, chunk_blocks, tabled);
    let (rows, absent) = (image.geometry().rows(), set(absent));
    image.segment(&SegmentPlan::new(1, 2, stripes(&image, rows, 0, 10)));
    let sealed = plan(&image, 2, SEALED, absent, rows);
    image.segment(&sealed);
    let tail = plan(&image, 3, TAIL, absent, 2);
    image.segment(&SegmentPlan { torn: 1, ..tail });
    image
}

/// Images, and the columns that their narrow segments are not on.
fn shapes() -> [(Image, &'static [u8]); 6] {
    let shape = |scheme, chunk_blocks, tabled, absent| {
        (sound(scheme, chunk_blocks, tabled, absent), absent)
    };
    [
        shape((3, 1), 1, false, &[1]),
        shape((3, 1), 1, true, &[0]),
        shape((3, 1), 2, true, &[3]),
        shape((4, 1), 1, false, &[0, 2, 4]),
        shape((4, 2), 2, true, &[0, 4]),
        shape((3, 2), 3, false, &[1, 2]),
    ]
}

/// The drives that narrow segments are on, by slot.
fn own<'a>(image: &'a Image, absent: &[u8]) -> Vec<(Column, &'a RamDrive)> {
    let drives = (0..).map(Column).zip(&image.drives);
    drives.filter(|(column, _)| !absent.contains(&column.0)).collect()
}

fn block(zone: u32, offset: u32) -> ZoneAddress {
    ZoneAddress::new(ZoneId(zone), offset)
}

/// A block with its metadata changed, and the checksum of that made right.
fn renamed(payload: &Payload, is_data: bool, change: fn(&mut Oob)) -> Payload {
    let mut oob = Oob::parse(&payload.block_oob(0)).unwrap();
    change(&mut oob);
    let data = payload.block(0);
    let bytes = oob.encode(Seed::of(ARRAY), &data, is_data).to_vec();
    Payload::new(data, bytes.into())
}

#[test]
fn whole_segments_are_clean_and_their_blocks_are_found() {
    for (image, absent) in shapes() {
        let checked = image.check(&[]);
        let report = &checked.report;
        assert!(report.clean && !report.degraded, "{absent:?}: {:#?}", report.findings);
        assert_eq!((report.counts.segments, report.counts.sealed_segments), (3, 2));
        assert_eq!((report.counts.discarded_stripes, report.counts.doubtful_stripes), (1, 0));
        assert_eq!(report.counts.reconstructed_blocks, 0);
        let held = contents(&image, &checked);
        let narrow = plan(&image, 2, SEALED, set(absent), image.geometry().rows()).stripes;
        let last = narrow.concat().len() - 1;
        let Content::Data(lba, sequence) = narrow.concat()[last] else { panic!("of data") };
        assert!(held.contains(&(lba, sequence)), "{absent:?}: {held:?}");
        let tail = plan(&image, 3, TAIL, set(absent), 1).stripes.concat();
        assert!(tail.iter().all(|content| {
            matches!(content, Content::Data(lba, sequence) if held.contains(&(*lba, *sequence)))
        }));
    }
}

#[test]
fn with_members_missing_the_contents_are_the_same() {
    for (image, absent) in shapes() {
        let held = contents(&image, &image.check(&[]));
        let last = own(&image, absent).last().unwrap().0;
        for missing in 0..image.drives.len() {
            let checked = image.check(&[missing]);
            assert!(checked.report.degraded && checked.report.clean);
            // Without the torn column the last stripe of the tail looks complete.
            let torn = missing == last.index();
            assert!(torn || contents(&image, &checked) == held, "without {missing}");
            assert!(checked.report.counts.discarded_stripes <= u64::from(!torn));
        }
    }
}

#[test]
fn damage_to_any_block_is_found_and_covered() {
    for (image, absent) in shapes() {
        let held = contents(&image, &image.check(&[]));
        for (column, drive) in own(&image, absent) {
            for offset in 0..drive.zone(ZoneId(SEALED)).write_pointer.0 {
                let at = block(SEALED, offset);
                let before = drive.peek(at, BlockCount(1));
                for part in [BlockPart::Data, BlockPart::Oob] {
                    drive.corrupt(at, Damage::BitFlip { part, seed: offset.into() });
                    let checked = image.check(&[]);
                    let tally = checked.report.tally;
                    let where_to = format!("{column} {at} {part:?} without {absent:?}");
                    assert_eq!(tally.damage, 1, "{where_to}: {:#?}", checked.report.findings);
                    assert_eq!((tally.losses, tally.violations), (0, 0), "{where_to}");
                    assert_eq!(contents(&image, &checked), held, "{where_to}");
                    drive.overwrite(at, &before);
                }
            }
        }
    }
}

#[test]
fn more_damage_than_parity_is_a_loss() {
    let (image, absent) = &shapes()[0];
    for (_, drive) in &own(image, absent)[1..] {
        drive.set_unreadable(block(SEALED, 1), BlockCount(1));
    }
    assert_finds(image, |problem| matches!(problem, Problem::StripeLost { stripe: 0, block: 0 }));
}

#[test]
fn a_column_that_it_is_on_is_missed_and_no_other_one() {
    for (image, absent) in shapes() {
        let held = contents(&image, &image.check(&[]));
        for (column, drive) in own(&image, absent) {
            let before: Vec<_> = (0..drive.zone(ZoneId(SEALED)).write_pointer.0)
                .map(|offset| drive.peek(block(SEALED, offset), BlockCount(1)))
                .collect();
            image.reset(column, ZoneId(SEALED));
            let checked = image.check(&[]);
            let damage = checked.report.findings.iter().filter(|at| at.severity > Severity::Note);
            let problems: Vec<_> = damage.map(|at| &at.problem).collect();
            assert_eq!(problems, [&Problem::ColumnMissing { column: column.0.into() }]);
            assert_eq!(contents(&image, &checked), held, "without {column}");
            before.into_iter().for_each(|block| image.append(column, SEALED, block));
        }
    }
}

/// A column that the segment does not have is no missing column, whose write pointer could mislead.
#[test]
fn a_group_followed_by_another_must_be_complete() {
    let mut image = Image::new((3, 1), 1, false);
    let torn = plan(&image, 1, 2, set(&[1]), 4);
    image.segment(&SegmentPlan { torn: 1, ..torn });
    assert!(image.check(&[]).report.clean);
    let missing =
        |problem: &Problem| matches!(problem, Problem::ChunkMissing { stripe: 3, column: 3 });
    let go_on = |column: u8| {
        let written = image.drives[usize::from(column)].peek(block(2, 1), BlockCount(1));
        image.append(Column(column), 2, written);
    };
    go_on(0);
    assert!(!image.check(&[]).report.findings.iter().any(|finding| missing(&finding.problem)));
    go_on(2);
    assert_finds(&image, missing);
}

#[test]
fn a_header_with_a_zone_for_an_absent_column_is_damage() {
    let (image, _) = &shapes()[0];
    let held = contents(image, &image.check(&[]));
    let (at, drive) = (block(SEALED, 0), &image.drives[0]);
    let first = drive.peek(at, BlockCount(1)).block(0);
    let header = SegmentHeader::decode(&first, ARRAY).unwrap();
    // The engine encodes no such header: a zone for column 1 is put into the block. Zones are last.
    let length = Envelope::open_of(&first, BlockType::SegmentHeader, ARRAY).unwrap().len();
    let zone = Envelope::BYTES + length - 4 * (MAX_COLUMNS - 1);
    let mut encoded = first.to_vec();
    encoded[zone..zone + 4].copy_from_slice(&5_u32.to_le_bytes());
    Envelope::seal(&mut encoded, BlockType::SegmentHeader, ARRAY, length);
    let (encoded, generation) = (Bytes::from(encoded), header.generation);
    let spoiled = structured_of(encoded, Place::Header, generation, Column(0), set(&[1]));
    drive.overwrite(at, &spoiled);
    let checked = image.check(&[]);
    let findings = &checked.report.findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].problem, Problem::HeaderDamaged);
    assert_eq!(contents(image, &checked), held);
}

/// The width alone shows that the block behind it is parity.
#[test]
fn a_damaged_header_before_parity_hides_nothing() {
    let mut image = Image::new((3, 1), 1, false);
    let short = plan(&image, 1, 2, set(&[0, 2]), 1);
    image.segment(&short);
    image.drives[3].corrupt(block(2, 0), Damage::BitFlip { part: BlockPart::Data, seed: 1 });
    let findings = image.check(&[]).report.findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].problem, Problem::HeaderDamaged);
}

#[test]
fn metadata_that_names_other_columns_is_not_that_of_the_segment() {
    let end = |drive: &RamDrive| drive.zone(ZoneId(SEALED)).write_pointer.0 - 1;
    let (image, _) = &shapes()[0];
    // Stripe 0 has its first data chunk there.
    let drive = &image.drives[0];
    for (offset, problem) in [
        (0, Problem::HeaderDiffers),
        (1, Problem::ChunkDamaged),
        (end(drive), Problem::IndexDamaged),
    ] {
        let before = drive.peek(block(SEALED, offset), BlockCount(1));
        let others: [fn(&mut Oob); 2] =
            [|oob| oob.absent = ColumnSet::default(), |oob| oob.absent = set(&[1, 2])];
        for other in others {
            drive.overwrite(block(SEALED, offset), &renamed(&before, offset == 1, other));
            let findings = image.check(&[]).report.findings;
            assert!(findings.iter().any(|at| at.problem == problem), "{findings:#?}");
        }
        drive.overwrite(block(SEALED, offset), &before);
    }
    let before = drive.peek(block(SEALED, 1), BlockCount(1));
    let spoiled: [fn(&mut Oob); 2] = [|oob| oob.width = 4, |oob| oob.columns |= 1 << 1];
    for spoil in spoiled {
        drive.overwrite(block(SEALED, 1), &renamed(&before, true, spoil));
        assert_finds(image, |problem| *problem == Problem::ChunkDamaged);
    }
}

#[test]
fn parity_that_does_not_match_and_lists_that_lie_are_violations() {
    for tabled in [false, true] {
        let mut image = Image::new((4, 2), 1, tabled);
        let rows = image.geometry().rows();
        let spoiled = plan(&image, 1, 2, set(&[2]), rows);
        image.segment(&SegmentPlan { spoil_parity: true, ..spoiled });
        assert_finds(&image, |problem| matches!(problem, Problem::ParityDiffers { stripe: 3 }));
        let lying = plan(&image, 2, 3, set(&[5]), rows);
        let spoil_index =
            |entry: &mut IndexEntry| entry.sequence.0 += u64::from(entry.sequence.0 > 0);
        image.segment(&SegmentPlan { spoil_index, ..lying });
        assert_finds(&image, |problem| matches!(problem, Problem::IndexDiffers { .. }));
    }
}

/// The narrow list of an image with segments with these headers.
fn narrow_list(segments: &[&SegmentHeader]) -> RecordBody {
    let segments = segments.iter().map(|header| (*header).clone()).collect();
    RecordBody::NarrowList(NarrowListRecord { below: Generation(600), segments })
}

/// The headers of both narrow segments.
fn narrow_headers(image: &Image, absent: &[u8]) -> [SegmentHeader; 2] {
    let (_, drive) = own(image, absent)[0];
    [SEALED, TAIL].map(|zone| {
        let header = drive.peek(block(zone, 0), BlockCount(1)).block(0);
        SegmentHeader::decode(&header, ARRAY).unwrap()
    })
}

#[test]
fn what_is_not_on_the_narrow_list_counts_for_nothing() {
    for (mut image, absent) in shapes() {
        let held = contents(&image, &image.check(&[]));
        let [sealed, tail] = narrow_headers(&image, absent);
        image.record(narrow_list(&[&sealed, &tail]));
        assert_eq!(contents(&image, &image.check(&[])), held);
        image.record(RecordBody::NarrowList(NarrowListRecord {
            below: sealed.generation,
            segments: Vec::new(),
        }));
        assert_eq!(contents(&image, &image.check(&[])), held, "it does not tell of newer ones");
        image.record(narrow_list(&[&tail]));
        let report = image.check(&[]).report;
        assert!(report.clean, "{:#?}", report.findings);
        assert_eq!((report.counts.dead_segments, report.counts.segments), (1, 2));
        image.record(RecordBody::Dead(vec![tail.generation]));
        let counts = image.check(&[]).report.counts;
        assert_eq!((counts.dead_segments, counts.segments), (2, 1), "listed and dead");
    }
}

#[test]
fn what_the_narrow_list_has_is_found_without_headers() {
    for (mut image, absent) in shapes() {
        let held = contents(&image, &image.check(&[]));
        let headers = narrow_headers(&image, absent);
        image.record(narrow_list(&[&headers[0], &headers[1]]));
        for (_, drive) in own(&image, absent) {
            for zone in [SEALED, TAIL] {
                drive.corrupt(block(zone, 0), Damage::BitFlip { part: BlockPart::Data, seed: 1 });
            }
        }
        let checked = image.check(&[]);
        assert_eq!(contents(&image, &checked), held);
        let damage = |problem: &Problem| *problem == Problem::HeaderDamaged;
        assert!(checked.report.findings.iter().all(|finding| damage(&finding.problem)));
    }
}

#[test]
fn a_listed_segment_is_lost_unless_a_drive_tells_that_it_never_was() {
    for (mut image, absent) in shapes() {
        let [sealed, tail] = narrow_headers(&image, absent);
        image.record(narrow_list(&[&sealed, &tail]));
        let lost = |image: &Image| {
            let findings = image.check(&[]).report.findings;
            findings.iter().filter(|finding| finding.problem == Problem::SegmentLost).count()
        };
        let drives = own(&image, absent);
        for (_, drive) in &drives[1..] {
            drive.set_offline(ZoneId(SEALED));
        }
        assert_eq!(lost(&image), 0);
        image.reset(drives[0].0, ZoneId(SEALED));
        assert_eq!(lost(&image), 0);
        drives[0].1.set_offline(ZoneId(SEALED));
        assert_eq!(lost(&image), 1);
    }
}

/// A drive that was rebuilt since may have had the segment in any of its zones.
#[test]
fn a_listed_segment_may_have_been_rebuilt_in_a_zone_that_is_lost() {
    for (mut image, absent) in shapes() {
        let [sealed, tail] = narrow_headers(&image, absent);
        image.record(narrow_list(&[&sealed, &tail]));
        let first = own(&image, absent)[0].0;
        image.epoch = Epoch(2);
        image.members[first.index()].since_epoch = Epoch(2);
        image.record(RecordBody::State);
        let lost = |image: &Image| {
            let findings = image.check(&[]).report.findings;
            findings.iter().filter(|finding| finding.problem == Problem::SegmentLost).count()
        };
        for (_, drive) in &own(&image, absent)[1..] {
            drive.set_offline(ZoneId(SEALED));
        }
        image.reset(first, ZoneId(SEALED));
        assert_eq!(lost(&image), 0);
        image.drives[first.index()].set_offline(ZoneId(TAIL + 1));
        assert_eq!(lost(&image), 1);
    }
}

#[test]
fn the_engine_finds_the_same() {
    for (image, _) in shapes() {
        let held = contents(&image, &image.check(&[]));
        let handle = image.executor.handle();
        let offer = |drive: &RamDrive| OfferedDrive {
            device: drive.attach(&handle),
            label: "drive".to_owned(),
        };
        let offered = image.drives.iter().map(offer).collect();
        image.executor.run(async {
            let (volume, _) = open_array(&handle, offered, OpenOptions::default()).await.unwrap();
            for (lba, sequence) in &held {
                let data = volume.read(Lba(*lba), 1).await.unwrap().concat();
                // Stripes that may have been acknowledged count from now on.
                let newer = |newer: &u64| *newer > *sequence && data == pattern(*lba, *newer);
                assert!(data == pattern(*lba, *sequence) || (300..400).any(|at| newer(&at)));
            }
            assert_eq!(volume.scrub().await.unwrap().parity_mismatches, 0);
            volume.close().await.unwrap();
        });
        let checked = image.check(&[]);
        assert!(checked.report.is_consistent(), "{:#?}", checked.report.findings);
    }
}
