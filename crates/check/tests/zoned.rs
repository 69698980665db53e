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
    BLOCK_BYTES, BlockCount, Command, Geometry, OobKind, Payload, ZoneAction, ZoneAddress, ZoneId,
    ZonedDevice, ZonedDeviceExt,
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
    let (damage, losses, violations) = severities(&found);
    assert!(damage >= 2 && (losses, violations) == (0, 0), "{:#?}", found.report);
    // The same place of another member: one block of the stripe is lost, and the zone ends there.
    drives[2].set_unreadable(at(3), BlockCount(1));
    let found = checked(&drives, &[]);
    let lost = |problem: &Problem| matches!(problem, Problem::ZoneCutShort { zone: 0, .. });
    let findings = &found.report.findings;
    assert!(findings.iter().any(|finding| lost(&finding.problem)), "{findings:#?}");
    assert!(found.zones[0].blocks < LENGTH);
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
