//! The checker on arrays made by hand: sound ones are clean, every kind of damage is found and
//! covered, and breaches of the format are distinguished from failures of drives.

mod narrow;

use crate::image::{self, ARRAY, Content, Image, SegmentPlan, pattern, structured};
use zoneweave_check::{Checked, Newest, Problem, Severity};
use zoneweave_emulator::{BlockPart, Damage, RamDrive};
use zoneweave_raid::log::format::checkpoint::{
    BlockLocation, CheckpointPointer, Coverage, ShardId,
};
use zoneweave_raid::log::format::{
    Death, Epoch, Generation, IndexEntry, Lineage, MemberState, MemberUuid, Place, RecordBody,
    Remains, SealRecord, SegmentHeader, SegmentId, Sequence,
};
use zoneweave_raid::log::geometry::{ChunkBlock, SegmentGeometry};
use zoneweave_raid::log::{OfferedDrive, OpenOptions, open_array};
use zoneweave_raid::scheme::Column;
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, BlockDevice, Lba, OOB_BYTES, Payload, ZoneAddress, ZoneId,
};

/// Stripes of data at consecutive blocks of the volume, with sequences from `sequence` on.
fn stripes(image: &Image, count: u32, lba: u64, sequence: u64) -> Vec<Vec<Content>> {
    stripes_of(image.geometry(), count, lba, sequence)
}

/// The same for a segment of some shape.
fn stripes_of(geometry: SegmentGeometry, count: u32, lba: u64, sequence: u64) -> Vec<Vec<Content>> {
    let blocks = geometry.scheme().data() * geometry.chunk_blocks() as usize;
    let mut next = 0;
    let mut content = || {
        next += 1;
        Content::Data((lba + next - 1) % image::VOLUME_BLOCKS, sequence + next)
    };
    (0..count).map(|_| (0..blocks).map(|_| content()).collect()).collect()
}

/// A sealed segment, one overwriting part of it with trims and padding, and a tail without seal.
fn sound(scheme: (usize, usize), chunk_blocks: u32, tabled: bool) -> Image {
    let mut image = Image::new(scheme, chunk_blocks, tabled);
    let rows = image.geometry().rows();
    let plan = SegmentPlan::new(1, 2, stripes(&image, rows, 0, 10));
    image.segment(&plan);
    let mut second = stripes(&image, rows, 5, 200);
    let last = second.last_mut().unwrap();
    last.fill(Content::Padding);
    last[0] = Content::Trim(4, 3, 300);
    image.segment(&SegmentPlan::new(2, 3, second));
    let tail = stripes(&image, rows.min(2), 30, 400);
    image.segment(&SegmentPlan { torn: 1, ..SegmentPlan::new(3, 4, tail) });
    image
}

fn shapes() -> [Image; 4] {
    [
        sound((2, 1), 1, false),
        sound((2, 1), 1, true),
        sound((3, 2), 2, true),
        sound((1, 2), 3, false),
    ]
}

/// The contents of the volume, with data.
fn contents(image: &Image, checked: &Checked) -> Vec<(u64, u64)> {
    let contents = checked.contents.as_ref().expect("there is an array");
    let mut all = Vec::new();
    for (lba, newest) in contents.iter() {
        assert_eq!(contents.newest(lba), newest);
        let Newest::Data { sequence } = newest else { panic!("{newest:?} at {lba}") };
        let data = image.executor.run(contents.read(lba)).unwrap().expect("data");
        assert!(data == pattern(lba, sequence), "LBA {lba} has the data of another version");
        all.push((lba, sequence));
    }
    all
}

#[track_caller]
fn assert_finds(image: &Image, expected: fn(&Problem) -> bool) {
    let report = image.check(&[]).report;
    assert!(!report.clean);
    assert!(report.findings.iter().any(|at| expected(&at.problem)), "{:#?}", report.findings);
}

#[test]
fn sound_arrays_are_clean_and_read_as_written() {
    for image in shapes() {
        let checked = image.check(&[]);
        let report = &checked.report;
        assert!(report.clean && !report.degraded, "{:#?}", report.findings);
        assert_eq!((report.counts.segments, report.counts.sealed_segments), (3, 2));
        assert_eq!((report.counts.discarded_stripes, report.counts.doubtful_stripes), (1, 0));
        let held = contents(&image, &checked);
        assert_eq!(held.len() as u64, report.counts.mapped_blocks);
        assert!(held.iter().all(|(lba, _)| !(4..7).contains(lba)), "trimmed blocks are not mapped");
        assert_eq!(report.counts.trimmed_blocks, 3);
        let contents = checked.contents.unwrap();
        assert_eq!(contents.newest(5), Newest::Trimmed { sequence: 300 });
        assert_eq!(image.executor.run(contents.read(5)), Ok(None));
    }
}

#[test]
fn with_members_missing_up_to_the_parity_the_contents_are_the_same() {
    for image in shapes() {
        let held = contents(&image, &image.check(&[]));
        let scheme = image.config.scheme;
        for missing in 0..scheme.columns() {
            let checked = image.check(&[missing]);
            assert!(checked.report.degraded);
            assert!(checked.report.clean, "{:#?}", checked.report.findings);
            // Without the torn column the last stripe of the tail looks complete.
            let torn = missing == scheme.columns() - 1;
            assert!(torn || contents(&image, &checked) == held, "without {missing}");
            assert_eq!(checked.report.counts.discarded_stripes, u64::from(!torn));
        }
    }
}

#[test]
fn stripes_that_may_have_counted_are_told_where_too_little_is_left_of_them() {
    for image in shapes() {
        let parity = image.config.scheme.columns() - image.config.scheme.data();
        for damaged in [parity, parity + 1] {
            for drive in &image.drives[..damaged] {
                drive.set_unreadable(ZoneAddress::new(ZoneId(4), 1), BlockCount(64));
            }
            let counts = image.check(&[]).report.counts;
            assert_eq!(counts.doubtful_stripes, u64::from(damaged > parity), "{damaged} damaged");
            assert_eq!(counts.lost_blocks, 0, "a crash may have torn it");
        }
    }
}

#[test]
fn damage_to_any_block_is_found_and_covered() {
    for image in shapes() {
        let held = contents(&image, &image.check(&[]));
        for (drive, ram) in image.drives.iter().enumerate() {
            // Not the superblock zone: a drive with only a damaged record is as good as missing.
            // Nor the tail: without a seal, a damaged tail may not count.
            for zone in 2..4 {
                for offset in 0..ram.zone(ZoneId(zone)).write_pointer.0 {
                    let at = ZoneAddress::new(ZoneId(zone), offset);
                    let before = ram.peek(at, BlockCount(1));
                    for part in [BlockPart::Data, BlockPart::Oob] {
                        ram.corrupt(at, Damage::BitFlip { part, seed: offset.into() });
                        let checked = image.check(&[]);
                        let tally = checked.report.tally;
                        let where_to = format!("drive {drive} {at} {part:?}");
                        assert!(tally.damage > 0, "{where_to} not found");
                        let worse = (tally.losses, tally.violations);
                        assert_eq!(worse, (0, 0), "{where_to}: {:#?}", checked.report.findings);
                        assert_eq!(contents(&image, &checked), held, "{where_to}");
                        ram.overwrite(at, &before);
                    }
                }
            }
        }
    }
}

#[test]
fn a_damaged_record_among_others_is_found() {
    let mut image = sound((2, 1), 1, false);
    image.record(RecordBody::State);
    let at = ZoneAddress::new(ZoneId(0), 0);
    image.drives[1].corrupt(at, Damage::BitFlip { part: BlockPart::Data, seed: 3 });
    assert_finds(&image, |problem| *problem == Problem::RecordDamaged);
}

#[test]
fn more_damage_than_parity_is_a_loss_and_tells_the_rest() {
    let image = sound((2, 1), 1, false);
    for drive in [0, 1] {
        let at = ZoneAddress::new(ZoneId(2), 1);
        image.drives[drive].set_unreadable(at, BlockCount(1));
    }
    let report = image.check(&[]).report;
    assert_eq!((report.tally.losses, report.tally.violations), (1, 0), "{:#?}", report.findings);
    assert_finds(&image, |problem| matches!(problem, Problem::StripeLost { stripe: 0, block: 0 }));
}

#[test]
fn a_seal_overrules_a_stripe_that_looks_complete() {
    let mut image = Image::new((2, 1), 1, false);
    let plan = SegmentPlan::new(1, 2, stripes(&image, 6, 0, 10));
    image.segment(&plan);
    assert_eq!(image.check(&[]).report.counts.mapped_blocks, 12);
    let generation = Generation(501);
    let seal = SealRecord { segment: SegmentId(1), generation, rows: 4, valid: vec![false, true] };
    image.record(RecordBody::Seals(vec![seal.clone()]));
    let checked = image.check(&[]);
    assert!(checked.report.clean, "{:#?}", checked.report.findings);
    assert_eq!(checked.report.counts.mapped_blocks, 10);
    assert_eq!(checked.contents.unwrap().newest(8), Newest::Unwritten);
    image.record(RecordBody::Seals(vec![SealRecord { rows: 0, ..seal }]));
    assert_finds(&image, |problem| matches!(problem, Problem::SealsDiffer { sealed: 1 }));
}

#[test]
fn dead_segments_count_for_nothing() {
    let mut image = sound((2, 1), 1, true);
    let before = image.check(&[]).report.counts;
    image.record(RecordBody::Dead(vec![Generation(502)]));
    let report = image.check(&[]).report;
    assert!(report.clean, "{:#?}", report.findings);
    assert_eq!((report.counts.dead_segments, report.counts.segments), (1, 2));
    assert_eq!((before.trimmed_blocks, report.counts.trimmed_blocks), (3, 0));
    let remains = vec![Remains::In(ZoneId(2)), Remains::Nothing, Remains::Anywhere];
    let death = |at| Death { generation: Generation(at), remains: remains.clone() };
    image.record(RecordBody::Deaths(vec![death(400), death(501)]));
    let report = image.check(&[]).report;
    assert!(report.clean, "{:#?}", report.findings);
    assert_eq!((report.counts.dead_segments, report.counts.segments), (2, 1));
    image.record(RecordBody::Deaths(vec![death(501), death(400)]));
    assert_finds(&image, |problem| *problem == Problem::RecordDamaged);
}

/// A crash left the record that a drive failed on one drive only; two others were then started by
/// force.
#[test]
fn a_record_that_a_forced_start_left_behind_counts_for_nothing() {
    let mut image = sound((2, 2), 1, false);
    let held = contents(&image, &image.check(&[]));
    image.epoch = Epoch(2);
    image.members[0].state = MemberState::Failed;
    image.record_on(Column(3), RecordBody::State);
    image.members[3].state = MemberState::Failed;
    image.lineage = Lineage(6);
    image.record_on(Column(1), RecordBody::State);
    image.record_on(Column(2), RecordBody::State);
    let checked = image.check(&[]);
    let findings = &checked.report.findings;
    let strangers = findings.iter().filter(|at| at.problem == Problem::NotAMember);
    let strangers: Vec<_> = strangers.map(|at| at.location.drive).collect();
    assert_eq!(strangers, [Some(0), Some(3)], "{findings:#?}");
    assert!(findings.iter().all(|at| at.severity < Severity::Loss), "{findings:#?}");
    // The remaining columns have all of the torn stripe, so it may count.
    let now = contents(&image, &checked);
    assert!(held.iter().all(|block| now.contains(block)), "{now:?}");
}

/// A record of epoch `unfinished` on the drive in slot 3 only. The other drives were started by
/// force in epoch 2 and replaced slots 0 and 3; the new drive of slot 0 is present.
fn left_behind(unfinished: u64) -> Image {
    let mut image = sound((2, 2), 1, false);
    image.members[0].state = MemberState::Failed;
    image.epoch = Epoch(unfinished);
    image.record_on(Column(3), RecordBody::State);
    image.lineage = Lineage(6);
    image.epoch = Epoch(3);
    for slot in [0, 3] {
        image.members[slot].uuid = MemberUuid([0x70 + u8::try_from(slot).unwrap(); 16]);
        image.members[slot].state = MemberState::Rebuilding;
    }
    image.reset(Column(0), ZoneId(0));
    (0..3).for_each(|slot| image.record_on(Column(slot), RecordBody::State));
    image
}

/// The drives that are no members, and whether the choice of the epoch is certain.
fn strangers(image: &Image) -> (Vec<usize>, bool) {
    let findings = image.check(&[]).report.findings;
    let strangers = findings.iter().filter(|at| at.problem == Problem::NotAMember);
    let unsure = findings.iter().any(|at| at.problem == Problem::NoMajority);
    (strangers.filter_map(|at| at.location.drive).collect(), !unsure)
}

/// Spoils the last record of a drive, so that it may hide a newer one.
fn hide_newest(image: &Image, column: Column) {
    let zeros = vec![0; BLOCK_BYTES];
    image.append(column, 0, Payload::new(zeros.into(), vec![0; OOB_BYTES].into()));
}

#[test]
fn a_record_left_behind_counts_for_nothing_once_its_drive_was_replaced() {
    for unfinished in [3, 4] {
        assert_eq!(strangers(&left_behind(unfinished)), (vec![3], true));
    }
}

/// A crash kept the drive in slot 1 out of a forced start. Another crash had left the record that
/// the drive in slot 3 failed on one drive only.
#[test]
fn a_drive_that_knows_one_of_those_that_carry_an_epoch_is_one_of_them() {
    for last in [Column(2), Column(3)] {
        let mut image = sound((2, 2), 1, false);
        image.epoch = Epoch(2);
        image.members[3].state = MemberState::Failed;
        image.record_on(Column(1), RecordBody::State);
        image.members[3].state = MemberState::Online;
        image.members[0].state = MemberState::Failed;
        (image.lineage, image.epoch) = (Lineage(6), Epoch(4));
        image.record_on(Column(5 - last.0), RecordBody::State);
        image.record_on(last, RecordBody::State);
        assert_eq!(strangers(&image), (vec![0], true));
    }
}

#[test]
fn a_record_in_doubt_is_not_left_behind_for_sure() {
    for unfinished in [3, 4] {
        let image = left_behind(unfinished);
        // One certain drive is enough.
        hide_newest(&image, Column(1));
        assert_eq!(strangers(&image), (vec![3], true));
        hide_newest(&image, Column(2));
        assert!(!strangers(&image).1);
        let image = left_behind(unfinished);
        hide_newest(&image, Column(3));
        assert!(!strangers(&image).1);
    }
}

#[test]
fn a_failed_member_counts_for_nothing_even_if_it_returns() {
    let mut image = sound((2, 1), 1, false);
    let held = contents(&image, &image.check(&[]));
    image.members[0].state = MemberState::Failed;
    image.epoch = Epoch(2);
    image.record_on(Column(1), RecordBody::State);
    image.record_on(Column(2), RecordBody::State);
    // The stale drive now contradicts the others, which must not matter.
    let zone = ZoneAddress::new(ZoneId(3), 0);
    image.drives[0].corrupt(zone, Damage::Garbage { part: BlockPart::Both, seed: 1 });
    let checked = image.check(&[]);
    assert!(checked.report.degraded && checked.report.clean, "{:#?}", checked.report.findings);
    assert!(checked.report.findings.iter().any(|at| at.problem == Problem::NotAMember));
    assert_eq!(checked.report.array.as_ref().unwrap().epoch, 2);
    assert_eq!(contents(&image, &checked), held);
}

#[test]
fn an_epoch_without_a_majority_does_not_count() {
    let mut image = sound((2, 1), 1, false);
    image.members[0].state = MemberState::Failed;
    image.epoch = Epoch(2);
    image.record_on(Column(2), RecordBody::State);
    let report = image.check(&[]).report;
    assert!(!report.degraded, "{:#?}", report.findings);
    assert_eq!(report.array.unwrap().epoch, 1);
}

#[test]
fn parity_that_verifies_but_does_not_match_is_a_violation() {
    for tabled in [false, true] {
        let mut image = Image::new((2, 1), 1, tabled);
        let plan = stripes(&image, 4, 0, 10);
        image.segment(&SegmentPlan { spoil_parity: true, ..SegmentPlan::new(1, 2, plan) });
        assert_finds(&image, |problem| matches!(problem, Problem::ParityDiffers { stripe: 3 }));
    }
}

#[test]
fn an_index_that_lies_is_a_violation() {
    let lies: [fn(&mut IndexEntry); 3] = [
        |entry| entry.sequence.0 += u64::from(entry.lba.0 == 3),
        |entry| entry.stripe_in_group = 0,
        |entry| *entry = IndexEntry { lba: entry.lba, ..IndexEntry::EMPTY },
    ];
    for lie in lies {
        let mut image = Image::new((2, 1), 1, false);
        let plan = stripes(&image, image.geometry().rows(), 0, 10);
        image.segment(&SegmentPlan { spoil_index: lie, ..SegmentPlan::new(1, 2, plan) });
        assert_finds(&image, |problem| matches!(problem, Problem::IndexDiffers { .. }));
    }
}

#[test]
fn versions_with_one_sequence_must_be_equal() {
    let mut image = Image::new((1, 1), 1, false);
    image.segment(&SegmentPlan::new(1, 2, vec![vec![Content::Data(1, 10)]]));
    image.segment(&SegmentPlan::new(2, 3, vec![vec![Content::Data(1, 10)]]));
    assert!(image.check(&[]).report.clean);
    image.segment(&SegmentPlan::new(3, 4, vec![vec![Content::Lost(1, 10)]]));
    let checked = image.check(&[]);
    assert!(checked.report.clean, "a copy recorded as lost does not differ");
    assert_eq!(checked.contents.unwrap().newest(1), Newest::Data { sequence: 10 });
    let mut other = Image::new((1, 1), 1, false);
    other.segment(&SegmentPlan::new(1, 2, vec![vec![Content::Lost(1, 10)]]));
    assert_finds(&other, |problem| matches!(problem, Problem::RecordedAsLost { lba: 1 }));
    let mut differing = Image::new((1, 1), 1, false);
    differing.segment(&SegmentPlan::new(1, 2, vec![vec![Content::Data(1, 10)]]));
    differing.segment(&SegmentPlan::new(2, 3, vec![vec![Content::Other(1, 10)]]));
    assert_finds(&differing, |problem| matches!(problem, Problem::VersionsDiffer { lba: 1, .. }));
}

#[test]
fn sequences_and_segments_stay_below_their_ceilings() {
    let mut image = Image::new((1, 1), 1, false);
    image.segment(&SegmentPlan::new(1, 2, vec![vec![Content::Data(1, 1000)]]));
    assert_finds(&image, |problem| matches!(problem, Problem::SequenceAboveCeiling { .. }));
    let mut image = Image::new((1, 1), 1, false);
    image.segment(&SegmentPlan::new(100, 2, vec![vec![Content::Data(1, 1)]]));
    assert_finds(&image, |problem| matches!(problem, Problem::SegmentAboveCeiling { .. }));
}

#[test]
fn a_group_followed_by_another_must_be_complete() {
    let mut image = Image::new((2, 1), 1, false);
    let plan = stripes(&image, 4, 0, 10);
    image.segment(&SegmentPlan { torn: 1, ..SegmentPlan::new(1, 2, plan.clone()) });
    assert!(image.check(&[]).report.clean);
    // Drives 0 and 1 go on with the next group although drive 2 lacks the end of the first. One of
    // them alone may have stored an append twice.
    let missing =
        |problem: &Problem| matches!(problem, Problem::ChunkMissing { stripe: 3, column: 2 });
    let go_on = |column: u8| {
        let drive = &image.drives[usize::from(column)];
        let block = drive.peek(ZoneAddress::new(ZoneId(2), 1), BlockCount(1));
        image.append(Column(column), 2, block);
    };
    go_on(0);
    assert!(!image.check(&[]).report.findings.iter().any(|finding| missing(&finding.problem)));
    go_on(1);
    assert_finds(&image, missing);
}

#[test]
fn zones_that_belong_to_nothing_and_headers_out_of_place_are_found() {
    let image = sound((2, 1), 1, false);
    let stray = image.drives[0].peek(ZoneAddress::new(ZoneId(2), 3), BlockCount(1));
    image.append(Column(1), 5, stray);
    assert_finds(&image, |problem| *problem == Problem::OrphanZone);
    let image = sound((2, 1), 1, false);
    let header = image.drives[0].peek(ZoneAddress::new(ZoneId(2), 0), BlockCount(1));
    image.append(Column(0), 5, header.clone());
    assert_finds(&image, |problem| *problem == Problem::HeaderDiffers);
    let moved = structured(header.block(0), Place::Header, Generation(501), Column(1));
    let image = sound((2, 1), 1, false);
    image.append(Column(1), 5, moved);
    assert_finds(&image, |problem| *problem == Problem::HeaderDiffers);
}

#[test]
fn a_block_of_another_place_is_damage() {
    let image = sound((2, 1), 1, false);
    let other = image.drives[0].peek(ZoneAddress::new(ZoneId(2), 3), BlockCount(1));
    image.drives[0].overwrite(ZoneAddress::new(ZoneId(2), 2), &other);
    assert_finds(&image, |problem| *problem == Problem::ChunkDamaged);
    assert!(image.check(&[]).report.is_consistent());
}

#[test]
fn drives_without_an_array_or_of_another_one_are_told() {
    let image = Image::new((2, 1), 1, false);
    let report = image.check(&[0, 1, 2]).report;
    assert_eq!(report.findings[0].problem, Problem::NoArray);
    assert_eq!(report.findings[0].severity, Severity::Loss);
    let blank = Payload::new(vec![0; 4096].into(), vec![0; 64].into());
    image.drives[0].overwrite(ZoneAddress::new(ZoneId(0), 0), &blank);
    let report = image.check(&[]).report;
    assert!(report.degraded);
    assert!(report.findings.iter().any(|at| at.problem == Problem::NoRecords));
    assert!(report.array.unwrap().uuid.starts_with("a5a5a5a5-"), "{ARRAY}");
}

#[test]
fn garbage_anywhere_never_panics() {
    for seed in 0..300_u64 {
        let image = sound((2, 1), 1, seed % 2 == 0);
        for hit in 0..=seed % 8 {
            let drive = &image.drives[usize::try_from((seed + hit) % 3).unwrap()];
            let zone = ZoneId(u32::try_from((seed * 7 + hit) % 5).unwrap());
            let written = u64::from(drive.zone(zone).write_pointer.0).max(1);
            let offset = u32::try_from(seed * 13 % written).unwrap();
            let part = [BlockPart::Data, BlockPart::Oob, BlockPart::Both]
                [usize::try_from(hit % 3).unwrap()];
            drive.corrupt(
                ZoneAddress { zone, offset: zoneweave_zoned::ZoneOffset(offset) },
                Damage::Garbage { part, seed },
            );
        }
        let checked = image.check(&[]);
        assert!(checked.report.is_consistent(), "seed {seed}: {:#?}", checked.report.findings);
    }
}

/// A rebuilt column whose member is in some state, with its last index block damaged.
fn rebuilt(state: MemberState) -> (Image, Vec<(u64, u64)>) {
    let mut image = Image::new((2, 1), 1, false);
    let plan = stripes(&image, image.geometry().rows(), 0, 10);
    image.segment(&SegmentPlan::new(1, 2, plan));
    let held = contents(&image, &image.check(&[]));
    let (from, to) = (ZoneId(2), ZoneId(5));
    let drive = &image.drives[0];
    let first = drive.peek(ZoneAddress::new(from, 0), BlockCount(1)).block(0);
    let mut header = SegmentHeader::decode(&first, ARRAY).unwrap();
    (header.epoch, header.zones[0]) = (Epoch(2), Some(to));
    let block = structured(header.encode(ARRAY), Place::Header, header.generation, Column(0));
    image.append(Column(0), to.0, block);
    let end = drive.zone(from).write_pointer.0;
    for offset in 1..end {
        let block = drive.peek(ZoneAddress::new(from, offset), BlockCount(1));
        image.append(Column(0), to.0, block);
    }
    image.reset(Column(0), from);
    let last = ZoneAddress::new(to, end - 1);
    image.drives[0].corrupt(last, Damage::BitFlip { part: BlockPart::Data, seed: 1 });
    image.members[0].state = state;
    image.epoch = Epoch(2);
    image.record(RecordBody::State);
    (image, held)
}

/// A damaged last index block made a whole rebuilt column count for nothing.
#[test]
fn rebuilt_columns_of_online_members_need_no_proof_that_they_are_whole() {
    let (image, held) = rebuilt(MemberState::Online);
    let checked = image.check(&[]);
    let findings = &checked.report.findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].problem, Problem::IndexDamaged);
    assert_eq!(contents(&image, &checked), held);
    let (image, held) = rebuilt(MemberState::Rebuilding);
    let checked = image.check(&[]);
    let findings = &checked.report.findings;
    assert!(findings.iter().any(|at| at.problem == Problem::RebuildUnfinished), "{findings:#?}");
    assert_eq!(contents(&image, &checked), held, "reconstructed from the others");
}

/// An array with mapping blocks, in complete stripes and in one that is not, which claim a newer
/// version of a block than there is; and a record that points at a checkpoint.
fn with_checkpoint() -> Image {
    let mut image = Image::new((2, 1), 1, false);
    let mut plan = stripes(&image, image.geometry().rows(), 0, 10);
    plan[3][1] = Content::Mapping(0, 300);
    image.segment(&SegmentPlan::new(1, 2, plan));
    let tail = vec![
        vec![Content::Data(30, 310), Content::Mapping(5, 320)],
        vec![Content::Mapping(8, 330), Content::Data(31, 315)],
    ];
    image.segment(&SegmentPlan { torn: 1, ..SegmentPlan::new(2, 3, tail) });
    let (column, block) = (Column(0), ChunkBlock(3));
    image.record(RecordBody::Checkpoint(CheckpointPointer {
        shard: ShardId::default(),
        number: Sequence(1),
        coverage: Coverage { covered: Sequence(300), sequence: Sequence(300) },
        replay_from: SegmentId(2),
        root: BlockLocation { segment: SegmentId(1), generation: Generation(501), column, block },
    }));
    image
}

#[test]
fn the_checker_takes_checkpoints_for_padding() {
    let image = with_checkpoint();
    let checked = image.check(&[]);
    assert!(checked.report.clean, "{:#?}", checked.report.findings);
    let held = contents(&image, &checked);
    assert!(held.contains(&(0, 11)) && held.contains(&(30, 310)));
    assert!(!held.iter().any(|(_, sequence)| [300, 320, 330].contains(sequence)));
}

#[test]
fn the_engine_takes_checkpoints_for_padding() {
    let image = with_checkpoint();
    let mut held = contents(&image, &image.check(&[]));
    // The stripe that lacks a chunk may have been acknowledged: its data counts from now on.
    held.retain(|(lba, _)| *lba != 31);
    held.push((31, 315));
    let handle = image.executor.handle();
    let label = "drive".to_owned();
    let offer =
        |drive: &RamDrive| OfferedDrive { device: drive.attach(&handle), label: label.clone() };
    let offered = image.drives.iter().map(offer).collect();
    image.executor.run(async {
        let (volume, _) = open_array(&handle, offered, OpenOptions::default()).await.unwrap();
        for (lba, sequence) in &held {
            let data = volume.read(Lba(*lba), 1).await.unwrap();
            assert!(data.concat() == pattern(*lba, *sequence), "LBA {lba}");
        }
        assert_eq!(volume.scrub().await.unwrap().parity_mismatches, 0);
        volume.close().await.unwrap();
    });
    let checked = image.check(&[]);
    assert!(checked.report.is_consistent(), "{:#?}", checked.report.findings);
    held.sort_unstable();
    assert_eq!(contents(&image, &checked), held);
}
