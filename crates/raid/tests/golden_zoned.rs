//! A zoned volume as an early release left it, in `golden/zoned-3.bin`: it must start and read as
//! it did, for ever. It was made by crashing in the middle of work, so that it has a partial stripe
//! with logged parity, junk and relocated blocks, a full zone, a finished one, and one that was
//! reset and written again.
//!
//! `REGENERATE_GOLDEN=zoned cargo test -p zoneweave-raid --test main golden_zoned` makes another.
//! That is right only for a new format version, beside the old file.

use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::{Jitter, RamDrive};
use zoneweave_raid::array::format::envelope::ArrayUuid;
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::log::OfferedDrive;
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::raizn::{CreateOptions, OpenOptions, Volume, create, open};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, Command, Geometry, Payload, ZoneAction, ZoneAddress, ZoneId,
    ZoneState, ZonedDevice, ZonedDeviceExt,
};

use crate::golden_image::Image;

const DRIVES: usize = 3;
/// Of the volume.
const ZONES: u32 = 6;
const ZONE_BLOCKS: u32 = 176;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/zoned-3.bin")
}

fn executor() -> Executor {
    Executor::new(Rc::new(VirtualTime::new()))
}

fn offer(drives: &[RamDrive], handle: &Handle, without: Option<usize>) -> Vec<OfferedDrive> {
    let kept = drives.iter().enumerate().filter(|(at, _)| Some(*at) != without);
    let offer = |(at, drive): (usize, &RamDrive)| OfferedDrive {
        device: drive.attach(handle),
        label: format!("drive {at}"),
    };
    kept.map(offer).collect()
}

/// A block whose words are all the same.
fn block(word: u64) -> Bytes {
    word.to_le_bytes().repeat(BLOCK_BYTES / 8).into()
}

async fn start(handle: &Handle, drives: &[RamDrive], without: Option<usize>) -> Volume {
    open(handle, offer(drives, handle, without), OpenOptions::default()).await.unwrap().0
}

/// The word of every block of the volume; 0 behind the write pointers.
async fn read_all(volume: &Volume) -> Vec<u64> {
    let mut all = Vec::new();
    for zone in (0..ZONES).map(ZoneId) {
        let read = volume.read_in_pieces(ZoneAddress::new(zone, 0), BlockCount(ZONE_BLOCKS)).await;
        for data in read.unwrap().iter_blocks() {
            let word = u64::from_le_bytes(data[..8].try_into().unwrap());
            assert!(data == block(word), "a block of {zone} is not of one word");
            all.push(word);
        }
    }
    all
}

fn write(zone: u32, start: u32, blocks: u32, word: u64) -> Command {
    let data = (0..u64::from(blocks)).map(|at| block(word + at)).collect();
    let payload = Payload { data, oob: Bytes::new() };
    Command::Write { at: ZoneAddress::new(ZoneId(zone), start), payload, fua: false }
}

fn manage(zone: u32, action: ZoneAction) -> Command {
    Command::Manage { zone: ZoneId(zone), action }
}

/// Lets the power go in the middle of commands, once the first of them are done.
fn interrupted(drives: &[RamDrive], done: Vec<Command>, cut: Vec<Command>, seed: u64) {
    let executor = executor();
    let handle = executor.handle();
    let work = async {
        let volume = start(&handle, drives, None).await;
        for command in done {
            volume.submit(command).await.unwrap();
        }
        volume.flush().await.unwrap();
        let cut: Vec<_> = cut.into_iter().map(|command| volume.submit(command)).collect();
        handle.sleep(Nanos(2_000 + seed * 700 % 20_000)).await;
        drop(cut);
    };
    executor.run(work);
    drop(executor);
    drives.iter().for_each(|drive| drive.power_loss(seed));
}

/// The first history that leaves relocated blocks.
fn make() -> Image {
    (0..400).find_map(make_with).unwrap()
}

fn make_with(salt: u64) -> Option<Image> {
    let geometry =
        Geometry { volatile_cache: true, ..Geometry::new(7 + ZONES, BlockCount(ZONE_BLOCKS / 2)) };
    let timing = |seed| Jitter::new(seed + 100 * salt, Nanos(10_000));
    let drives: Vec<_> =
        (0..3).map(|seed| RamDrive::new(geometry.clone(), timing(seed)).unwrap()).collect();
    let executor = executor();
    let options = CreateOptions {
        array: ArrayUuid([7; 16]),
        name: "golden".to_owned(),
        members: (1..=3).map(|at| MemberUuid([at; 16])).collect(),
        lineage: Lineage(1),
        scheme: Scheme::new(2, 1).unwrap(),
        unit: BlockCount(2),
        checksums: true,
        wipe: false,
    };
    executor.run(create(&offer(&drives, &executor.handle(), None), &options)).unwrap();
    drop(executor);
    let first = vec![
        write(0, 0, ZONE_BLOCKS, 100),
        write(1, 0, 33, 1000),
        write(2, 0, 21, 2000),
        manage(2, ZoneAction::Finish),
        write(3, 0, 50, 3000),
        manage(3, ZoneAction::Reset),
        write(3, 0, 5, 3500),
    ];
    let cut = (0..5).map(|at| write(4, 4 * at, 4, 4000 + 10 * u64::from(at))).collect();
    interrupted(&drives, first, cut, 3);
    for seed in (4..8).map(|seed| seed + 10 * salt) {
        // Where it ends is known after a start.
        let executor = self::executor();
        let handle = executor.handle();
        let (end, is_full) = executor.run(async {
            let volume = start(&handle, &drives, None).await;
            let zone = volume.report().await.unwrap()[4];
            (zone.write_pointer.0, zone.state == ZoneState::Full)
        });
        // Too much was torn.
        if is_full {
            return None;
        }
        drop(executor);
        drives.iter().for_each(|drive| drive.process_kill(seed));
        let word = 5000 + 1000 * seed;
        let next = vec![write(4, end, 3, word)];
        let cut = (0..4).map(|at| write(4, end + 3 + 4 * at, 4, word + 10 * u64::from(at)));
        interrupted(&drives, next, cut.collect(), seed);
    }
    // The last blocks are acknowledged: they are there without any member.
    let executor = self::executor();
    let handle = executor.handle();
    let written = executor.run(async {
        let volume = start(&handle, &drives, None).await;
        let end = volume.report().await.unwrap()[4].write_pointer.0;
        let written = volume.submit(write(4, end, 1, 9000)).await;
        volume.flush().await.unwrap();
        written
    });
    written.ok()?;
    drop(executor);
    drives.iter().for_each(|drive| drive.process_kill(1));
    let forks: Vec<_> = drives.iter().map(|drive| drive.fork(timing(9))).collect();
    let executor = self::executor();
    let handle = executor.handle();
    let (holds, relocated) = executor.run(async {
        let volume = start(&handle, &forks, None).await;
        (read_all(&volume).await, volume.status().relocated_blocks)
    });
    (relocated > 0).then_some(Image { drives, holds })
}

#[test]
fn an_old_zoned_volume_starts_and_reads_as_it_did() {
    if std::env::var("REGENERATE_GOLDEN").is_ok_and(|what| what == "zoned") {
        std::fs::write(path(), make().encode()).unwrap();
    }
    for without in std::iter::once(None).chain((0..DRIVES).map(Some)) {
        let image = Image::decode(&std::fs::read(path()).unwrap());
        let executor = executor();
        let handle = executor.handle();
        let found = executor.run(async {
            let volume = start(&handle, &image.drives, without).await;
            let found = read_all(&volume).await;
            let report = volume.scrub().await.unwrap();
            assert_eq!((report.damaged, report.mismatches), (0, 0), "{report:?}");
            found
        });
        assert!(found == image.holds, "without {without:?}");
    }
}
