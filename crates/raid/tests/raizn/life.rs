//! Random histories of crashes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::{Jitter, RamDrive};
use zoneweave_raid::array::format::envelope::ArrayUuid;
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::log::OfferedDrive;
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::raizn::{CreateOptions, OpenOptions, Volume, create, open};
use zoneweave_raid::scheme::{Column, Scheme};
use zoneweave_runtime::{Executor, Handle, Nanos, Random, VirtualTime};
use zoneweave_zoned::{
    BlockCount, Geometry, OobKind, Payload, ZoneAction, ZoneAddress, ZoneAttributes, ZoneId,
    ZoneState, ZonedDevice, ZonedDeviceExt,
};

use super::model::{Found, ModelZone, block};

/// Whether members are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Losses {
    None,
    Some,
}

struct World {
    drives: Vec<RamDrive>,
    lost: Option<usize>,
    /// The lost member's slot has a new drive, which may not have all columns yet.
    replaced: bool,
    geometry: Geometry,
    zones: Vec<ModelZone>,
    next_tag: u64,
    volatile: bool,
}

/// The world, shared by the workers of a life.
type Shared = Rc<RefCell<World>>;

pub(super) fn history(seed: u64, losses: Losses) {
    crate::support::instrument();
    let mut random = Random::new(seed);
    let scheme = Scheme::new(2 + random.below(2) as usize, 1 + random.below(2) as usize).unwrap();
    let unit = 1 + random.below(4) as u32;
    let volatile = random.per_mille(500);
    let metadata = random.per_mille(500);
    let capacity =
        BlockCount(unit * (8 + random.below(16) as u32) + random.below(u64::from(unit)) as u32);
    let capacity = BlockCount(capacity.0.max(4 * 4 * (unit + 1)));
    let geometry = Geometry {
        volatile_cache: volatile,
        oob: if metadata { OobKind::Separate } else { OobKind::None },
        max_active: Some(8),
        max_open: Some(8),
        max_transfer: BlockCount(1 + random.below(16) as u32),
        ..Geometry::new(7 + 5, capacity)
    };
    let drives: Vec<_> = (0..scheme.columns())
        .map(|_| {
            let longest = Nanos(1 + random.below(10_000));
            RamDrive::new(geometry.clone(), Jitter::new(random.next(), longest)).unwrap()
        })
        .collect();
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let offered = offer(&drives, &executor.handle(), None);
    let options = CreateOptions {
        array: ArrayUuid([7; 16]),
        name: "zoned".to_owned(),
        members: (0..scheme.columns()).map(|at| MemberUuid([at as u8 + 1; 16])).collect(),
        lineage: Lineage(1),
        scheme,
        unit: BlockCount(unit),
        checksums: true,
        wipe: false,
    };
    executor.run(create(&offered, &options)).unwrap();
    let zones = vec![ModelZone::default(); 5];
    let mut world =
        World { drives, lost: None, replaced: false, geometry, zones, next_tag: 1, volatile };
    for _ in 0..12 {
        world = life(world, &mut random, losses);
    }
}

fn offer(drives: &[RamDrive], handle: &Handle, lost: Option<usize>) -> Vec<OfferedDrive> {
    let present = drives.iter().enumerate().filter(|(at, _)| Some(*at) != lost);
    let offered = present.map(|(at, drive)| OfferedDrive {
        device: drive.attach(handle),
        label: format!("drive {at}"),
    });
    offered.collect()
}

/// A start, commands, and a crash.
fn life(world: World, random: &mut Random, losses: Losses) -> World {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let mut world = world;
    if losses == Losses::Some && world.lost.is_none() && random.per_mille(150) {
        world.lost = Some(random.below(world.drives.len() as u64) as usize);
    }
    let lost = world.lost.filter(|_| !world.replaced);
    let offered = offer(&world.drives, &handle, lost);
    let crash_at = Nanos(random.below(1_500_000));
    let shared = Rc::new(RefCell::new(world));
    let stop = {
        let handle = handle.clone();
        move || handle.now() >= crash_at
    };
    let (workers, steps) = (1 + random.below(6), random.below(60));
    let seed = random.next();
    let lose_at = Nanos(random.below(1_500_000));
    let loses = losses == Losses::Some && random.per_mille(200);
    let main = run(handle.clone(), offered, shared.clone(), seed, workers, steps);
    if loses && shared.borrow().lost.is_none() {
        let shared = shared.clone();
        let clock = handle.clone();
        handle.spawn("loss", async move {
            clock.sleep_until(lose_at).await;
            let mut world = shared.borrow_mut();
            let at = (seed % world.drives.len() as u64) as usize;
            world.drives[at].set_gone(true);
            world.lost = Some(at);
            world.replaced = false;
        });
    }
    executor.run_until(main, stop);
    drop(executor);
    let world = Rc::try_unwrap(shared).ok().expect("the workers are gone").into_inner();
    let power = random.per_mille(600);
    for drive in &world.drives {
        match power {
            true => drive.power_loss(random.next()),
            false => drive.process_kill(random.next()),
        }
    }
    world
}

async fn run(
    handle: Handle,
    offered: Vec<OfferedDrive>,
    world: Shared,
    seed: u64,
    workers: u64,
    steps: u64,
) {
    let (volume, _) = open(&handle, offered, OpenOptions::default()).await.unwrap();
    verify(&volume, &world).await;
    handle.spawn("repair", repair(handle.clone(), volume.clone(), world.clone(), seed));
    let joins: Vec<_> = (0..workers)
        .map(|worker| {
            let work = work(volume.clone(), world.clone(), Random::new(seed ^ worker), steps);
            handle.spawn("worker", work)
        })
        .collect();
    for join in joins {
        join.await;
    }
    verify_live(&volume, &world).await;
    if seed.is_multiple_of(3) {
        volume.close().await;
    }
}

/// Goes on with a rebuild, or puts a blank drive in the place of a lost one.
async fn repair(handle: Handle, volume: Volume, world: Shared, seed: u64) {
    let (lost, replaced) = (world.borrow().lost, world.borrow().replaced);
    let Some(at) = lost else { return };
    if replaced {
        // The crash may have come before the drive was a member.
        let _failed = volume.resume_rebuilds().await;
    } else if seed.is_multiple_of(2) {
        let geometry = world.borrow().geometry.clone();
        let drive = RamDrive::new(geometry, Jitter::new(seed, Nanos(5_000))).unwrap();
        let device = drive.attach(&handle);
        world.borrow_mut().drives[at] = drive;
        world.borrow_mut().replaced = true;
        let mut uuid = [0xEE; 16];
        uuid[..8].copy_from_slice(&world.borrow().next_tag.to_le_bytes());
        uuid[8] = at as u8;
        world.borrow_mut().next_tag += 1;
        let uuid = MemberUuid(uuid);
        let _failed = volume.replace(Column::of(at), device, uuid).await;
    }
    let status = volume.status();
    let mut world = world.borrow_mut();
    // A drive that vanished just now may not have been missed yet.
    if world.lost == Some(at) && world.replaced && status.members[at].online {
        world.lost = None;
        world.replaced = false;
    } else if replaced && status.members[at].failure.is_some() {
        world.replaced = false;
    }
}

/// After a start: every zone holds what it may hold, which is pinned then.
async fn verify(volume: &Volume, world: &Shared) {
    let report = volume.report().await.unwrap();
    let capacity = volume.geometry().zone_capacity.0 as usize;
    let count = world.borrow().zones.len();
    for (zone, info) in report.iter().enumerate().take(count) {
        let length = info.write_pointer.0 as usize;
        let blocks = contents(volume, zone as u32, length).await;
        let found = Found {
            pointer: length,
            is_full: info.state == ZoneState::Full,
            by_volume: info.attributes.contains(ZoneAttributes::FINISHED_BY_DRIVE),
            capacity,
            blocks: &blocks,
        };
        world.borrow_mut().zones[zone].settle(&found);
    }
}

/// With nothing in flight: every zone holds all of what was submitted.
async fn verify_live(volume: &Volume, world: &Shared) {
    let report = volume.report().await.unwrap();
    let zones = world.borrow().zones.clone();
    for (zone, model) in zones.iter().enumerate() {
        if model.finish.is_none() {
            assert_eq!(report[zone].write_pointer.0 as usize, model.tags.len(), "zone {zone}");
        }
        let found = contents(volume, zone as u32, model.tags.len()).await;
        let right = model.tags.iter().zip(&found).all(|(tag, found)| block(*tag) == *found);
        assert!(right, "zone {zone} holds something else");
    }
}

async fn contents(volume: &Volume, zone: u32, length: usize) -> Vec<Bytes> {
    if length == 0 {
        return Vec::new();
    }
    let count = BlockCount(length as u32);
    let read = volume.read_in_pieces(ZoneAddress::new(ZoneId(zone), 0), count).await;
    read.unwrap_or_else(|status| panic!("zone {zone}: {status} {:?}", volume.status()))
        .iter_blocks()
        .collect()
}

async fn work(volume: Volume, world: Shared, mut random: Random, steps: u64) {
    let active = Cell::new(0);
    for _ in 0..steps {
        let zone = random.below(3) as u32;
        match random.below(100) {
            0..60 => write(&volume, &world, &mut random, zone).await,
            60..75 => flush(&volume, &world).await,
            75..80 => reset(&volume, &world, zone).await,
            80..82 => finish(&volume, &world, zone).await,
            _ => read(&volume, &world, &mut random, zone).await,
        }
        active.set(active.get() + 1);
    }
}

async fn write(volume: &Volume, world: &Shared, random: &mut Random, zone: u32) {
    let capacity = volume.geometry().zone_capacity.0 as usize;
    let (submitted, start, count, fua, generation) = {
        let mut world = world.borrow_mut();
        let start = world.zones[zone as usize].tags.len();
        let room = capacity - start;
        if room == 0 || world.zones[zone as usize].finish.is_some() {
            return;
        }
        let most = [1, 4, 40][random.below(3) as usize].min(room as u64);
        let count = 1 + random.below(most) as usize;
        let fua = random.per_mille(200);
        let tags: Vec<u64> = (0..count as u64).map(|at| world.next_tag + at).collect();
        world.next_tag += count as u64;
        let data = tags.iter().map(|tag| block(*tag)).collect();
        let payload = Payload { data, oob: Bytes::new() };
        world.zones[zone as usize].tags.extend(tags);
        let generation = world.zones[zone as usize].before.len();
        let submitted = match random.per_mille(300) {
            true => {
                volume.submit(zoneweave_zoned::Command::Append { zone: ZoneId(zone), payload, fua })
            }
            false => volume.submit(zoneweave_zoned::Command::Write {
                at: ZoneAddress::new(ZoneId(zone), start as u32),
                payload,
                fua,
            }),
        };
        (submitted, start, count, fua, generation)
    };
    let reply = submitted.await.unwrap();
    let at = ZoneAddress::new(ZoneId(zone), start as u32);
    assert_eq!(reply, zoneweave_zoned::Reply::Written(at));
    let mut world = world.borrow_mut();
    let volatile = world.volatile;
    let model = &mut world.zones[zone as usize];
    let model = match model.before.get_mut(generation) {
        Some(before) => before,
        None => model,
    };
    if model.tags.len() >= start + count {
        model.acked = model.acked.max(start + count);
        if fua || !volatile {
            model.floor = model.floor.max(start + count);
        }
    }
}

async fn flush(volume: &Volume, world: &Shared) {
    let acked: Vec<_> = world
        .borrow()
        .zones
        .iter()
        .map(|z| (z.before.len(), z.acked, z.tags.first().copied()))
        .collect();
    volume.flush().await.unwrap();
    for (zone, (before, acked, first)) in world.borrow_mut().zones.iter_mut().zip(acked) {
        if zone.before.len() == before && zone.tags.first().copied() == first {
            zone.floor = zone.floor.max(acked);
        }
    }
}

async fn reset(volume: &Volume, world: &Shared, zone: u32) {
    let submitted = {
        let mut world = world.borrow_mut();
        let model = &mut world.zones[zone as usize];
        let mut before = std::mem::take(&mut model.before);
        before.push(std::mem::take(model));
        model.before = before;
        volume.submit(zoneweave_zoned::Command::Manage {
            zone: ZoneId(zone),
            action: ZoneAction::Reset,
        })
    };
    let generation = world.borrow().zones[zone as usize].before.len();
    submitted.await.unwrap();
    // Resets of a zone end in order: what was before this one is gone.
    let mut world = world.borrow_mut();
    let model = &mut world.zones[zone as usize];
    let left = model.before.len().min(generation);
    for gone in &mut model.before[..left] {
        *gone = ModelZone { floor: usize::MAX, ..ModelZone::default() };
    }
}

async fn finish(volume: &Volume, world: &Shared, zone: u32) {
    let (submitted, generation) = {
        let mut world = world.borrow_mut();
        let model = &mut world.zones[zone as usize];
        if model.finish.is_some() {
            return;
        }
        model.finish = Some(false);
        let generation = model.before.len();
        let command =
            zoneweave_zoned::Command::Manage { zone: ZoneId(zone), action: ZoneAction::Finish };
        (volume.submit(command), generation)
    };
    submitted.await.unwrap();
    let mut world = world.borrow_mut();
    let model = &mut world.zones[zone as usize];
    let model = match model.before.get_mut(generation) {
        Some(before) => before,
        None => model,
    };
    if model.finish.is_some() {
        model.finish = Some(true);
        model.floor = model.floor.max(model.tags.len());
    }
}

async fn read(volume: &Volume, world: &Shared, random: &mut Random, zone: u32) {
    let (submitted, expected, generation, start) = {
        let world = world.borrow();
        let model = &world.zones[zone as usize];
        if model.tags.is_empty() {
            return;
        }
        let start = random.below(model.tags.len() as u64) as usize;
        let count = 1 + random.below(20.min((model.tags.len() - start) as u64)) as usize;
        let at = ZoneAddress::new(ZoneId(zone), start as u32);
        let expected = model.tags[start..start + count].to_vec();
        let submitted = volume.read(at, BlockCount(count as u32));
        (submitted, expected, model.before.len(), start)
    };
    let read = submitted.await.unwrap();
    // A reset that overtook the read may show.
    if world.borrow().zones[zone as usize].before.len() == generation {
        let found = expected.iter().zip(read.iter_blocks());
        let wrong: Vec<_> = found
            .enumerate()
            .filter(|(_, (tag, found))| block(**tag) != *found)
            .map(|(at, (tag, found))| {
                let word = found[..8].try_into().expect("eight bytes");
                (at, *tag, u64::from_le_bytes(word))
            })
            .collect();
        let status = volume.status();
        assert!(
            wrong.is_empty(),
            "{status:?} zone {zone} from {start}: (at, tag, found) {wrong:?}"
        );
    }
}
