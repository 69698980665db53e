//! The checker on zoned volumes: sound ones are clean and hold what the engine reads; damage is
//! found and covered; torn ends are no damage; breaches of the format are told from failures.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_check::{Checked, Options, Problem, Severity, check};
use zoneweave_emulator::{BlockPart, Damage, Jitter, RamDrive};
use zoneweave_raid::array::format::envelope::ArrayUuid;
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::log::{OfferedDrive, ScrubRun};
use zoneweave_raid::raizn::{CreateOptions, OpenOptions, Volume, create, open};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::{Executor, Handle, Nanos, Random, VirtualTime};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, Command, Geometry, OobKind, Payload, Status, ZoneAction, ZoneAddress,
    ZoneId, ZonedDevice, ZonedDeviceExt,
};

const UNIT: u32 = 4;
const FIRST_COLUMN: u32 = 7;
const LENGTH: u32 = 83;

fn executor() -> Executor {
    Executor::new(Rc::new(VirtualTime::new()))
}

fn timing(seed: u64) -> Jitter {
    Jitter::new(seed, Nanos(5_000))
}

fn block(zone: u32, at: u32) -> Bytes {
    let word = u64::from(zone) << 32 | u64::from(at + 1);
    word.to_le_bytes().repeat(BLOCK_BYTES / 8).into()
}

fn offer(drives: &[RamDrive], handle: &Handle) -> Vec<OfferedDrive> {
    let offer =
        |drive: &RamDrive| OfferedDrive { device: drive.attach(handle), label: "drive".into() };
    drives.iter().map(offer).collect()
}

async fn start(drives: &[RamDrive], handle: &Handle) -> Volume {
    open(handle, offer(drives, handle), OpenOptions::default()).await.unwrap().0
}

fn write(zone: u32, start: u32, blocks: u32) -> Command {
    let data = (start..start + blocks).map(|at| block(zone, at)).collect();
    let payload = Payload { data, oob: Bytes::new() };
    Command::Write { at: ZoneAddress::new(ZoneId(zone), start), payload, fua: true }
}

/// A volume with a partial zone, a full one, a finished one, and one that was reset and written
/// again; the first zone has writes in flight when the process is killed.
fn volume(oob: OobKind, parity: usize) -> Vec<RamDrive> {
    let geometry = Geometry { oob, ..Geometry::new(FIRST_COLUMN + 5, BlockCount(240)) };
    let drives: Vec<_> = (0..2 + parity as u64)
        .map(|seed| RamDrive::new(geometry.clone(), timing(seed)).unwrap())
        .collect();
    let executor = executor();
    let handle = executor.handle();
    let options = CreateOptions {
        array: ArrayUuid([7; 16]),
        name: "zoned".to_owned(),
        members: (1..).take(drives.len()).map(|at| MemberUuid([at; 16])).collect(),
        lineage: Lineage(1),
        scheme: Scheme::new(2, parity).unwrap(),
        unit: BlockCount(UNIT),
        checksums: true,
        wipe: false,
    };
    executor.run(async {
        create(&offer(&drives, &handle), &options).await.unwrap();
        let volume = start(&drives, &handle).await;
        let manage = |zone, action| Command::Manage { zone: ZoneId(zone), action };
        let commands = [
            write(0, 0, LENGTH),
            write(1, 0, 480),
            write(2, 0, 21),
            manage(2, ZoneAction::Finish),
            write(3, 0, 50),
            manage(3, ZoneAction::Reset),
            write(3, 0, 5),
        ];
        for command in commands {
            volume.submit(command).await.unwrap();
        }
    });
    drop(executor);
    drives.iter().for_each(|drive| drive.process_kill(1));
    drives
}

/// Checks the drives but some.
fn checked(drives: &[RamDrive], without: &[usize]) -> Checked {
    let executor = executor();
    let handle = executor.handle();
    let device = |(at, drive): (usize, &RamDrive)| -> Option<Rc<dyn ZonedDevice>> {
        (!without.contains(&at)).then(|| drive.attach(&handle))
    };
    let devices = drives.iter().enumerate().map(device).collect();
    executor.run(check(devices, Options { zone_blocks: true, ..Options::default() }))
}

fn assert_holds(checked: &Checked) {
    let ends: Vec<_> = checked.zones.iter().map(|zone| (zone.blocks, zone.is_full)).collect();
    let expected = [(LENGTH, false), (480, true), (21, true), (5, false), (0, false)];
    assert_eq!(ends, expected, "{:#?}", checked.report);
    for (zone, found) in (0..).zip(&checked.zones) {
        let right = (0..).zip(&found.data).all(|(at, data)| block(zone, at) == *data);
        assert!(right, "the blocks of zone {zone}");
    }
}

fn severities(checked: &Checked) -> (u64, u64, u64) {
    let tally = checked.report.tally;
    (tally.damage, tally.losses, tally.violations)
}

#[test]
fn sound_volumes_are_clean_and_hold_what_was_written() {
    for (oob, parity) in [(OobKind::Separate, 1), (OobKind::None, 1), (OobKind::Separate, 2)] {
        let drives = volume(oob, parity);
        let all = checked(&drives, &[]);
        assert!(all.report.clean && !all.report.degraded, "{:#?}", all.report);
        assert_holds(&all);
        for lost in 0..drives.len() {
            let some = checked(&drives, &[lost]);
            assert!(some.report.clean && some.report.degraded, "{:#?}", some.report);
            assert_holds(&some);
        }
    }
    assert_holds(&checked(&volume(OobKind::Separate, 2), &[0, 2]));
}

#[test]
fn damage_is_covered_up_to_the_redundancy() {
    let drives = volume(OobKind::Separate, 1);
    let at = |offset| ZoneAddress::new(ZoneId(FIRST_COLUMN), offset);
    drives[0].set_unreadable(at(3), BlockCount(1));
    drives[1].corrupt(at(9), Damage::Garbage { part: BlockPart::Data, seed: 1 });
    let found = checked(&drives, &[]);
    assert_holds(&found);
    assert_eq!(severities(&found), (2, 0, 0), "{:#?}", found.report);
    // The same place of another member: one block of the stripe is lost, and none behind it.
    drives[2].set_unreadable(at(3), BlockCount(1));
    let found = checked(&drives, &[]);
    assert_eq!(lost_blocks(&found), [(0, 3)], "{:#?}", found.report);
    assert_eq!((found.zones[0].blocks, found.zones[0].lost), (LENGTH, 1));
    assert_eq!(found.report.counts.lost_blocks, 1);
}

/// Blocks that are lost, each by itself: zone and number.
fn lost_blocks(checked: &Checked) -> Vec<(u32, u32)> {
    let lost = checked.report.findings.iter().filter_map(|finding| match finding.problem {
        Problem::ZoneBlockLost { zone, block } => Some((zone, block)),
        _ => None,
    });
    lost.collect()
}

/// Blocks on record as lost.
fn recorded(checked: &Checked) -> Vec<(u32, u32)> {
    let ranges = checked.report.findings.iter().filter_map(|finding| match finding.problem {
        Problem::LostOnRecord { zone, block, blocks, joined: false } => Some((zone, block, blocks)),
        _ => None,
    });
    let blocks = |(zone, block, blocks): (u32, u32, u64)| {
        let end = u64::from(block) + blocks;
        (u64::from(block)..end).map(move |block| (zone, u32::try_from(block).unwrap()))
    };
    ranges.flat_map(blocks).collect()
}

/// A zone was taken to end at its first lost block, so that hundreds of them were one loss.
#[test]
fn each_lost_block_is_a_loss_as_for_the_engine() {
    let drives = volume(OobKind::Separate, 1);
    for zone in 0..3 {
        for drive in &drives[..2] {
            drive.set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN + zone), 1), BlockCount(2));
        }
    }
    let found = checked(&drives, &[]);
    let executor = executor();
    let handle = executor.handle();
    let (refused, damaged) = executor.run(async {
        let volume = start(&drives, &handle).await;
        let mut refused = Vec::new();
        for (zone, blocks) in [(0, LENGTH), (1, 480), (2, 21)] {
            for at in 0..blocks {
                match volume.read(ZoneAddress::new(ZoneId(zone), at), BlockCount(1)).await {
                    Ok(_) => {}
                    Err(Status::UnrecoveredRead) => refused.push((zone, at)),
                    Err(status) => panic!("{status}"),
                }
            }
        }
        let damaged = volume.scrub().await.unwrap().damaged;
        volume.close().await;
        (refused, damaged)
    });
    drop(executor);
    assert!(refused.iter().any(|(zone, _)| *zone == 2), "{refused:?}");
    assert_eq!(lost_blocks(&found), refused);
    assert_eq!(severities(&found), (damaged, refused.len() as u64, 0));
    assert_eq!(found.report.counts.lost_blocks, refused.len() as u64);
    assert!(recorded(&found).is_empty());
    let ends: Vec<_> = found.zones.iter().map(|zone| zone.blocks).collect();
    assert_eq!(ends, [LENGTH, 480, 21, 5, 0]);
    let found = checked(&drives, &[]);
    assert_eq!((lost_blocks(&found), recorded(&found)), (refused.clone(), refused));
}

/// Behind the last stripe that all members hold, a block that is lost is the end: nothing shows
/// that those behind it were acknowledged.
#[test]
fn a_zone_ends_at_a_lost_block_of_its_tail() {
    let drives = volume(OobKind::Separate, 1);
    let last = LENGTH / (2 * UNIT) * UNIT;
    let column = ZoneId(FIRST_COLUMN);
    let data = drives.iter().find(|drive| drive.zone(column).write_pointer.0 > last);
    data.unwrap().set_unreadable(ZoneAddress::new(column, last + 1), BlockCount(1));
    // Its parity.
    for drive in &drives {
        for zone in (4..FIRST_COLUMN).map(ZoneId) {
            let written = drive.zone(zone).write_pointer.0;
            if written > 0 {
                drive.set_unreadable(ZoneAddress::new(zone, 0), BlockCount(written));
            }
        }
    }
    let found = checked(&drives, &[]);
    let end = LENGTH / (2 * UNIT) * 2 * UNIT + 1;
    let cut = Problem::ZoneCutShort { zone: 0, block: end };
    let report = &found.report;
    assert!(report.findings.iter().any(|finding| finding.problem == cut), "{report:#?}");
    assert_eq!((found.zones[0].blocks, lost_blocks(&found)), (end, vec![]));
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let report = start(&drives, &handle).await.report().await.unwrap();
        assert_eq!(report[0].write_pointer.0, end);
    });
}

/// No drive holds anything of a zone whose columns are offline.
#[test]
fn a_finished_zone_of_which_nothing_is_left_is_one_loss() {
    let drives = volume(OobKind::Separate, 1);
    drives.iter().for_each(|drive| drive.set_offline(ZoneId(FIRST_COLUMN + 2)));
    let found = checked(&drives, &[]);
    let findings = found.report.findings.iter();
    let losses = findings.filter(|finding| finding.severity == Severity::Loss);
    let losses: Vec<_> = losses.map(|finding| &finding.problem).collect();
    assert_eq!(losses, [&Problem::ZoneCutShort { zone: 2, block: 0 }]);
    assert_eq!((found.zones[2].blocks, found.zones[2].lost), (21, 21));
}

#[test]
fn faults_and_scrubs_on_record_are_counted() {
    let drives = volume(OobKind::Separate, 1);
    for drive in &drives[..2] {
        drive.set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN + 1), 3), BlockCount(1));
    }
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let volume = start(&drives, &handle).await;
        volume.record_scrub(ScrubRun::begin(5)).await.unwrap();
        volume.scrub().await.unwrap();
        volume.close().await;
    });
    drop(executor);
    let counts = checked(&drives, &[]).report.counts;
    assert_eq!((counts.recorded_scrubs, counts.recorded_unrepairable), (1, 2), "{counts:?}");
    assert!((1..=2).contains(&counts.recorded_lost_ranges), "{counts:?}");
}

#[test]
fn parity_that_differs_is_judged_by_the_checksums() {
    // Without them, a drive may be at fault.
    let drives = volume(OobKind::None, 1);
    let flip = Damage::BitFlip { part: BlockPart::Data, seed: 3 };
    drives[0].corrupt(ZoneAddress::new(ZoneId(FIRST_COLUMN + 1), 6), flip);
    let found = checked(&drives, &[]);
    let (damage, losses, violations) = severities(&found);
    assert_eq!((damage, losses, violations), (1, 0, 0), "{:#?}", found.report);
    let expected = Problem::ZoneParityUnclear { zone: 1, block: 2 * UNIT + 2 };
    assert_eq!(found.report.findings[0].problem, expected);
}

/// A misplaced block verifies by itself, but not in its place.
#[test]
fn blocks_count_only_in_their_places() {
    let drives = volume(OobKind::Separate, 1);
    let at = |offset| ZoneAddress::new(ZoneId(FIRST_COLUMN + 1), offset);
    let other = drives[0].peek(at(5), BlockCount(1));
    drives[0].overwrite(at(6), &other);
    let found = checked(&drives, &[]);
    assert_eq!(severities(&found), (1, 0, 0), "{:#?}", found.report);
    assert_eq!(found.report.findings[0].problem, Problem::ColumnBlockDamaged);
    assert_holds(&found);
}

/// Power losses in the middle of writes: nothing contradicts, and what the next start reads is what
/// the checker found.
#[test]
fn torn_volumes_hold_what_the_next_start_reads() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let drives = volume(OobKind::Separate, 1 + usize::try_from(random.below(2)).unwrap());
        let executor = self::executor();
        let handle = executor.handle();
        let work = async {
            let volume = start(&drives, &handle).await;
            let mut at = LENGTH;
            let mut answers = Vec::new();
            while at < 400 {
                let blocks = 1 + u32::try_from(random.below(20)).unwrap();
                answers.push(volume.submit(write(0, at, blocks)));
                at += blocks;
            }
            handle.sleep(Nanos(1 + random.below(120_000))).await;
        };
        executor.run(work);
        drop(executor);
        drives.iter().for_each(|drive| drive.power_loss(seed));
        let lost: Vec<_> = (random.below(2) == 1).then_some(1).into_iter().collect();
        let found = checked(&drives, &lost);
        let bad = found.report.findings.iter().find(|at| at.severity >= Severity::Damage);
        assert!(bad.is_none(), "seed {seed}: {bad:?}");
        let executor = self::executor();
        let handle = executor.handle();
        executor.run(async {
            let mut offered = offer(&drives, &handle);
            lost.iter().for_each(|at| drop(offered.remove(*at)));
            let (volume, _) = open(&handle, offered, OpenOptions::default()).await.unwrap();
            let report = volume.report().await.unwrap();
            assert_eq!(found.zones[0].blocks, report[0].write_pointer.0, "seed {seed}");
        });
    }
}

/// Damages written blocks of the full zone on one drive, fewer than a scrub can move; returns their
/// number.
fn damage(drive: &RamDrive, random: &mut Random) -> u64 {
    let zone = ZoneId(FIRST_COLUMN + 1);
    let written = u64::from(drive.zone(zone).write_pointer.0);
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..1 + random.below(10) {
        places.insert(u32::try_from(random.below(written)).unwrap());
    }
    for place in &places {
        let at = ZoneAddress::new(zone, *place);
        if random.per_mille(300) {
            drive.set_unreadable(at, BlockCount(1));
        } else {
            let part = [BlockPart::Data, BlockPart::Both][usize::from(random.per_mille(500))];
            drive.corrupt(at, Damage::Garbage { part, seed: random.next() });
        }
    }
    places.len() as u64
}

/// Blocks that the members count as damaged: restored ones and lost ones.
fn counted(volume: &Volume) -> u64 {
    let members = volume.status().members;
    members.iter().map(|member| member.errors.repaired + member.errors.unrepairable).sum()
}

/// Of a block volume, each of them once counted some blocks that the others did not.
#[test]
fn checker_scrub_and_status_count_damage_alike() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let drives = volume(OobKind::Separate, 1 + usize::try_from(random.below(2)).unwrap());
        let slot = usize::try_from(random.below(drives.len() as u64)).unwrap();
        let damaged = damage(&drives[slot], &mut random);
        let found = checked(&drives, &[]);
        assert_eq!(severities(&found), (damaged, 0, 0), "seed {seed}: {:#?}", found.report);
        let executor = self::executor();
        let handle = executor.handle();
        executor.run(async {
            let volume = start(&drives, &handle).await;
            let report = volume.scrub().await.unwrap();
            assert_eq!((report.damaged, report.unrepairable), (damaged, 0), "seed {seed}");
            assert_eq!(counted(&volume), damaged, "seed {seed}");
            for at in 0..480 {
                let read = volume.read(ZoneAddress::new(ZoneId(1), at), BlockCount(1)).await;
                assert!(read.is_ok(), "seed {seed}: block {at}");
            }
            assert_eq!(volume.scrub().await.unwrap().damaged, 0, "seed {seed}");
            assert_eq!(counted(&volume), damaged, "seed {seed}: reads and scrubs find no more");
            volume.close().await;
        });
    }
}
