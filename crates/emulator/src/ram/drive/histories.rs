//! Random histories with crashes, checked against the contract of a drive.
//!
//! Several tasks append, flush, reset and finish; the power fails at a random moment, or the
//! process is killed. Afterwards each zone must hold a prefix of its blocks (extended by commands
//! in flight), at least as long as the prefix acknowledged as durable.

use std::collections::BTreeMap;

use zoneweave_runtime::{Executor, Random, VirtualTime};
use zoneweave_zoned::{BLOCK_BYTES, OOB_BYTES, ZoneAction, ZonedDeviceExt};

use super::*;
use crate::preset::Model;
use crate::{Jitter, Preset, Stations, Timing};

const ZONES: u32 = 6;
const WORKERS: u64 = 5;

/// The host's knowledge of one zone, since its last reset.
#[derive(Clone, Copy, Default)]
struct Told {
    resets: u32,
    completed: u32,
    durable: u32,
    /// Appends in flight. Resets wait until there are none, as engines do.
    appending: u32,
    /// A reset or finish is in flight.
    changing: bool,
}

type Ledger = Rc<RefCell<BTreeMap<ZoneId, Told>>>;

/// A block of bytes that no other append of the history carries.
fn unique(random: &mut Random, blocks: u32) -> Payload {
    let mut data = vec![0; BlockCount(blocks).data_bytes()];
    let mut oob = vec![0; BlockCount(blocks).oob_bytes()];
    for (block, oob) in data.chunks_mut(BLOCK_BYTES).zip(oob.chunks_mut(OOB_BYTES)) {
        let tag = random.next().to_le_bytes();
        block[..8].copy_from_slice(&tag);
        oob[..8].copy_from_slice(&tag);
    }
    Payload::new(data.into(), oob.into())
}

async fn append(device: &dyn ZonedDevice, ledger: &Ledger, random: &mut Random, zone: ZoneId) {
    let volatile = device.geometry().volatile_cache;
    let blocks = 1 + u32::try_from(random.below(4)).unwrap();
    let fua = random.per_mille(200);
    ledger.borrow_mut().entry(zone).or_default().appending += 1;
    let answer = device.append(zone, unique(random, blocks), fua).await;
    let mut ledger = ledger.borrow_mut();
    let told = ledger.entry(zone).or_default();
    told.appending -= 1;
    if let Ok(at) = answer {
        told.completed = told.completed.max(at.offset.0 + blocks);
        if fua || !volatile {
            told.durable = told.durable.max(at.offset.0 + blocks);
        }
    }
}

async fn flush(device: &dyn ZonedDevice, ledger: &Ledger) {
    let covered = ledger.borrow().clone();
    device.flush().await.unwrap();
    for (zone, told) in ledger.borrow_mut().iter_mut() {
        let before = covered.get(zone).copied().unwrap_or_default();
        // A reset in between took the blocks away that the flush covered.
        if before.resets == told.resets {
            told.durable = told.durable.max(before.completed);
        }
    }
}

async fn change(device: &dyn ZonedDevice, ledger: &Ledger, zone: ZoneId, action: ZoneAction) {
    ledger.borrow_mut().entry(zone).or_default().changing = true;
    device.manage(zone, action).await.unwrap();
    let mut ledger = ledger.borrow_mut();
    let told = ledger.entry(zone).or_default();
    told.changing = false;
    if action == ZoneAction::Reset {
        *told = Told { resets: told.resets + 1, ..Told::default() };
    }
}

async fn work(device: Rc<dyn ZonedDevice>, ledger: Ledger, mut random: Random) {
    loop {
        let zone = ZoneId(u32::try_from(random.below(ZONES.into())).unwrap());
        let told = ledger.borrow().get(&zone).copied().unwrap_or_default();
        match random.below(20) {
            0 => flush(&*device, &ledger).await,
            1 if told.appending == 0 && !told.changing => {
                change(&*device, &ledger, zone, ZoneAction::Reset).await;
            }
            2 if told.appending == 0 && !told.changing && random.per_mille(200) => {
                change(&*device, &ledger, zone, ZoneAction::Finish).await;
            }
            _ if !told.changing => append(&*device, &ledger, &mut random, zone).await,
            _ => {
                device.read(ZoneAddress::new(zone, 0), BlockCount(3)).await.unwrap();
            }
        }
    }
}

/// One life of a process on the drive, ended by a crash.
fn live_and_crash(drive: &RamDrive, ledger: &Ledger, random: &mut Random) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = drive.attach(&executor.handle());
    for _ in 0..WORKERS {
        let worker = work(device.clone(), ledger.clone(), random.fork());
        executor.handle().spawn("worker", worker);
    }
    let handle = executor.handle();
    executor.run(handle.sleep(Nanos(random.below(100_000))));
    drop((executor, handle, device));

    let contents = || {
        (0..ZONES).map(ZoneId).map(|zone| {
            let info = drive.zone(zone);
            (info, drive.peek(ZoneAddress::new(zone, 0), BlockCount(info.write_pointer.0)))
        })
    };
    let before: Vec<_> = contents().collect();
    let power = random.per_mille(700);
    match power {
        true => drive.power_loss(random.next()),
        false => drive.process_kill(random.next()),
    }
    for ((old, held), (new, holds)) in before.into_iter().zip(contents()) {
        let mut ledger = ledger.borrow_mut();
        let told = ledger.entry(new.zone).or_default();
        if old.resets == new.resets {
            let kept = old.write_pointer.min(new.write_pointer).index();
            assert!(held.iter_blocks().take(kept).eq(holds.iter_blocks().take(kept)));
            assert_eq!(held.oob[..kept * OOB_BYTES], holds.oob[..kept * OOB_BYTES]);
            assert!(power || new.write_pointer >= old.write_pointer);
        }
        // A reset that was in flight takes the promises with it.
        if !told.changing {
            assert!(new.write_pointer.0 >= told.durable, "{} lost blocks", new.zone);
        }
        assert!(!power || !new.state.is_open());
        let end = new.write_pointer.0;
        let durable = if power { end } else { told.durable.min(end) };
        *told = Told { completed: end, durable, ..Told::default() };
    }
}

fn crash_often(seeds: u64, lives: u32, timing: impl Fn(&Geometry, u64) -> Box<dyn Timing>) {
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let geometry = Geometry {
            volatile_cache: random.per_mille(700),
            max_open: Some(3),
            max_active: Some(4),
            ..Geometry::new(ZONES, BlockCount(40))
        };
        let timing = timing(&geometry, random.next());
        let drive = RamDrive::new(geometry, timing).unwrap();
        let ledger = Ledger::default();
        for _ in 0..lives {
            live_and_crash(&drive, &ledger, &mut random);
        }
    }
}

#[test]
fn crashes_keep_what_was_promised() {
    crash_often(300, 6, |_, seed| Box::new(Jitter::new(seed, Nanos(3_000))));
}

/// A buffer of one MiB that a few dies empty slowly, so that commands wait for room.
#[test]
fn crashes_of_timed_drives_keep_what_was_promised() {
    let preset = Preset::parse(
        "extends = 'zn540-1tb'
        [stations.flash]
        dies = 4
        channels = 1
        chunk_kib = 24
        [stations.buffer]
        size_mib = 1
        fetched_writes = 3
        [stations.management]
        reset_us = 20.0
        reset_active_us = 0.0",
    )
    .unwrap();
    let Model::Stations(parameters) = preset.model() else { panic!("a drive of stations") };
    crash_often(100, 6, |geometry, seed| Box::new(Stations::new(parameters, geometry, seed)));
}
