//! Members that fail, are replaced and rebuilt, while the volume is in use and across crashes.

use std::cell::RefCell;

use crate::support::{
    self, Array, DumpOnPanic, Shape, SharedHistory, Workload, check_offline, crash, executor,
    for_each_seed, new_drive, open, read_all, run_workers, verify_recovered, workload,
};
use zoneweave_emulator::{BlockPart, CommandKind, Damage, FaultAction, Selector};
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{Health, MemberHealth, Volume};
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockDevice, Status, ZoneAddress, ZoneId, ZoneState};

/// Steps in which any of these lives comes to its end.
const LIVE_STEPS: u64 = 2_000_000;

/// Restores every slot without a member: replaces failed drives, and resumes interrupted rebuilds.
async fn bring_back(volume: &Volume, array: &Array, handle: &Handle, seed: u64) {
    let is_out = |state| matches!(state, MemberHealth::Failed | MemberHealth::Missing);
    let failed: Vec<_> = volume.status().members.iter().map(|m| is_out(m.state)).collect();
    volume.resume_rebuild().await.expect("a rebuild goes on");
    for (slot, _) in failed.iter().enumerate().filter(|(_, failed)| **failed) {
        let uuid = MemberUuid(support::uuid(seed, slot + 50));
        let device = array.drives[slot].attach(handle);
        volume.replace(slot, device, uuid).await.expect("the replacement is rebuilt");
    }
}

/// One life: start, verify, work, and rebuild meanwhile; stopped at a random point.
fn one_life(
    array: &Array,
    history: &SharedHistory,
    random: &mut Random,
    power_lost: &mut bool,
    stoppable: bool,
) {
    let executor = executor();
    let handle = executor.handle();
    let lost_before = *power_lost;
    let mut steps = if stoppable { 1 + random.below(20_000) } else { LIVE_STEPS };
    let mut work = random.fork();
    let seed = random.next();
    let running = RefCell::new(None);
    let _dump = DumpOnPanic(&running);
    let life = async {
        let (volume, _) = open(array, &handle, &[]).await.expect("the array starts");
        *running.borrow_mut() = Some(volume.clone());
        verify_recovered(&volume, array, history, lost_before).await;
        *power_lost = false;
        let load = workload(&mut work);
        let workers = run_workers(&volume, array, &handle, history, load, &mut work);
        let rebuild = bring_back(&volume, array, &handle, seed);
        futures_util::future::join(workers, rebuild).await;
        assert_eq!(volume.status().health, Health::Healthy);
        verify_recovered(&volume, array, history, false).await;
        volume.close().await.unwrap();
    };
    let ended = executor.run_until(life, || {
        steps -= 1;
        steps == 0
    });
    assert!(ended.is_some() || stoppable, "the volume is busy without getting anywhere");
}

#[test]
fn replaced_members_are_rebuilt_across_crashes() {
    for_each_seed("members", "replaced_members_are_rebuilt_across_crashes", |seed| {
        let mut random = Random::new(seed ^ 0xEB_0000);
        let shape = Shape { data: 3, ..Shape::random(&mut random) };
        let mut array = Array::create(shape, &mut random);
        let history = SharedHistory::default();
        let mut power_lost = false;
        for round in 0..6 {
            one_life(&array, &history, &mut random, &mut power_lost, true);
            power_lost |= crash(&array, &mut random);
            if round % 3 == 0 {
                let slot = usize::try_from(random.below(shape.columns() as u64)).unwrap();
                array.drives[slot] = new_drive(&shape, &mut random);
                // The next life must come to its end: a second loss would be one too many.
                one_life(&array, &history, &mut random, &mut power_lost, false);
            }
        }
        one_life(&array, &history, &mut random, &mut power_lost, false);
        let executor = executor();
        let handle = executor.handle();
        executor.run(async {
            let (volume, _) = open(&array, &handle, &[]).await.unwrap();
            let found = read_all(&volume, array.blocks).await.unwrap();
            volume.close().await.unwrap();
            check_offline(&array, &handle, &[], &found).await;
        });
    });
}

#[test]
fn a_rebuild_stopped_by_crashes_goes_on() {
    for_each_seed("members", "a_rebuild_stopped_by_crashes_goes_on", |seed| {
        let mut random = Random::new(seed ^ 0xEC_0000);
        let shape = Shape { data: 3, ..Shape::random(&mut random) };
        let mut array = Array::create(shape, &mut random);
        let history = SharedHistory::default();
        let mut power_lost = false;
        one_life(&array, &history, &mut random, &mut power_lost, false);
        let slot = usize::try_from(random.below(shape.columns() as u64)).unwrap();
        array.drives[slot] = new_drive(&shape, &mut random);
        for _ in 0..4 {
            power_lost |= crash(&array, &mut random);
            one_life(&array, &history, &mut random, &mut power_lost, true);
        }
        power_lost |= crash(&array, &mut random);
        one_life(&array, &history, &mut random, &mut power_lost, false);
    });
}

fn with_running_volume(
    name: &str,
    salt: u64,
    shape: impl Fn(&mut Random) -> Shape + std::panic::RefUnwindSafe,
    test: impl AsyncFn(&Volume, &Array, &Handle, &SharedHistory, &mut Random)
    + std::panic::RefUnwindSafe,
) {
    for_each_seed("members", name, |seed| {
        let mut random = Random::new(seed ^ salt);
        let shape = shape(&mut random);
        let array = Array::create(shape, &mut random);
        let history = SharedHistory::default();
        let executor = executor();
        let handle = executor.handle();
        let running = RefCell::new(None);
        let _dump = DumpOnPanic(&running);
        let mut steps = LIVE_STEPS;
        let life = async {
            let (volume, _) = open(&array, &handle, &[]).await.unwrap();
            *running.borrow_mut() = Some(volume.clone());
            let load = Workload { trims_per_mille: 50, ..workload(&mut random) };
            run_workers(&volume, &array, &handle, &history, load, &mut random).await;
            test(&volume, &array, &handle, &history, &mut random).await;
            verify_recovered(&volume, &array, &history, false).await;
            volume.close().await.unwrap();
        };
        let ended = executor.run_until(life, || {
            steps -= 1;
            steps == 0
        });
        assert!(ended.is_some(), "the volume is busy without getting anywhere");
    });
}

fn three_data(random: &mut Random) -> Shape {
    Shape { data: 3, ..Shape::random(random) }
}

#[test]
fn a_drive_that_vanishes_under_load_costs_nothing() {
    let name = "a_drive_that_vanishes_under_load_costs_nothing";
    with_running_volume(
        name,
        0xA1_0000,
        three_data,
        async |volume, array, handle, history, random| {
            let gone = usize::try_from(random.below(array.shape.columns() as u64)).unwrap();
            array.drives[gone]
                .inject(Selector::default().after(random.below(50)), FaultAction::Gone);
            let load = workload(random);
            run_workers(volume, array, handle, history, load, random).await;
            assert!(volume.status().health != Health::Failed);
        },
    );
}

#[test]
fn failed_writes_are_done_again_elsewhere() {
    let name = "failed_writes_are_done_again_elsewhere";
    with_running_volume(
        name,
        0xA2_0000,
        three_data,
        async |volume, array, handle, history, random| {
            let at = usize::try_from(random.below(array.shape.columns() as u64)).unwrap();
            for kind in [CommandKind::Append, CommandKind::Write] {
                for _ in 0..3 {
                    let after = random.below(80);
                    let action = if random.per_mille(500) {
                        FaultAction::Fail(Status::WriteFault)
                    } else {
                        FaultAction::FailApplied(Status::WriteFault)
                    };
                    array.drives[at].inject(Selector::next(kind).after(after), action);
                }
            }
            let load = workload(random);
            run_workers(volume, array, handle, history, load, random).await;
        },
    );
}

/// Damages written blocks of one drive, anywhere.
fn damage(array: &Array, drive: usize, count: u64, random: &mut Random) -> u64 {
    let mut damaged = 0;
    for _ in 0..count * 4 {
        let zone = ZoneId(u32::try_from(random.below(array.shape.zones.into())).unwrap());
        let info = array.drives[drive].zone(zone);
        let written = u64::from(info.write_pointer.0);
        if info.state == ZoneState::Empty || written == 0 || damaged == count {
            continue;
        }
        let offset = u32::try_from(random.below(written)).unwrap();
        let part = [BlockPart::Data, BlockPart::Oob, BlockPart::Both]
            [usize::try_from(random.below(3)).unwrap()];
        let how = Damage::Garbage { part, seed: random.next() };
        array.drives[drive]
            .corrupt(ZoneAddress { zone, offset: zoneweave_zoned::ZoneOffset(offset) }, how);
        damaged += 1;
    }
    damaged
}

#[test]
fn a_scrub_heals_every_damaged_block_of_a_drive() {
    let name = "a_scrub_heals_every_damaged_block_of_a_drive";
    with_running_volume(name, 0xA3_0000, three_data, async |volume, array, handle, _, random| {
        let drive = usize::try_from(random.below(array.shape.columns() as u64)).unwrap();
        // Segments that are being reclaimed need not be found.
        while volume.describe().contains("busy true") {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        let damaged = damage(array, drive, 1 + random.below(40), random);
        let reclaimed = volume.status().counters.segments_reclaimed;
        let report = volume.scrub().await.unwrap();
        // Damage is found, or vanishes with a segment that is reclaimed meanwhile.
        let vanished = volume.status().counters.segments_reclaimed > reclaimed;
        let found = damaged == 0 || report.damaged > 0;
        assert!(found || vanished, "{damaged} damaged: {report:?}");
        assert_eq!(report.unrepairable, 0);
        let again = volume.scrub().await.unwrap();
        assert_eq!((again.damaged, again.parity_mismatches), (0, 0));
        let found = read_all(volume, array.blocks).await.unwrap();
        volume.flush().await.unwrap();
        volume.close().await.unwrap();
        drop(found);
    });
}

#[test]
fn damage_found_at_the_start_is_healed() {
    for_each_seed("members", "damage_found_at_the_start_is_healed", |seed| {
        let mut random = Random::new(seed ^ 0xA4_0000);
        let shape = three_data(&mut random);
        let array = Array::create(shape, &mut random);
        let history = SharedHistory::default();
        let mut power_lost = false;
        one_life(&array, &history, &mut random, &mut power_lost, true);
        power_lost |= support::kill(&array, &mut random);
        let drive = usize::try_from(random.below(shape.columns() as u64)).unwrap();
        damage(&array, drive, 1 + random.below(40), &mut random);
        let executor = executor();
        let handle = executor.handle();
        let running = RefCell::new(None);
        let _dump = DumpOnPanic(&running);
        executor.run(async {
            let (volume, _) = open(&array, &handle, &[]).await.expect("the array starts");
            *running.borrow_mut() = Some(volume.clone());
            verify_recovered(&volume, &array, &history, power_lost).await;
            volume.scrub().await.unwrap();
            if volume.status().health != Health::Healthy {
                // Every superblock record of the drive was hit: it is no member any more.
                bring_back(&volume, &array, &handle, seed).await;
            }
            volume.scrub().await.unwrap();
            let found = read_all(&volume, array.blocks).await.unwrap();
            volume.close().await.unwrap();
            check_offline(&array, &handle, &[], &found).await;
        });
    });
}
