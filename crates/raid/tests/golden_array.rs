//! A whole array as an early release left it, in `golden/array-3.bin`: it must start and read as it
//! did, for ever. It was made by crashing in the middle of work twice, so that it has sealed
//! segments, segments that a crash left over, seals, trims and superblock snapshots.
//!
//! `REGENERATE_GOLDEN=array cargo test -p zoneweave-raid --test main golden_array` makes another.
//! That is right only for a new format version, beside the old files: `golden/array-1.bin` and
//! `golden/array-2.bin` are of versions 1 and 2, which must be refused by their names.

use std::path::PathBuf;
use std::rc::Rc;

use crate::golden_image::Image;
use bytes::Bytes;
use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::{
    AssemblyError, CreateOptions, DriveRole, OfferedDrive, OpenError, OpenOptions, Volume, create,
    open_array, survey,
};
use zoneweave_raid::scheme::Scheme;
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, Handle, Random, VirtualTime};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, BlockDevice, Geometry, Lba};

const DRIVES: usize = 4;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/array-3.bin")
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

async fn open(handle: &Handle, drives: &[RamDrive], without: Option<usize>) -> Volume {
    let offered = offer(drives, handle, without);
    open_array(handle, offered, OpenOptions::default()).await.unwrap().0
}

/// The word of every block of the volume.
async fn read_all(volume: &Volume, blocks: u64) -> Vec<u64> {
    let mut all = Vec::new();
    for lba in 0..blocks {
        let data = volume.read(Lba(lba), 1).await.unwrap().remove(0);
        let word = u64::from_le_bytes(data[..8].try_into().unwrap());
        assert!(data == block(word), "LBA {lba} is not of one word");
        all.push(word);
    }
    all
}

async fn write_at_random(volume: &Volume, blocks: u64, random: &mut Random, requests: u32) {
    for _ in 0..requests {
        let lba = random.below(blocks);
        let length = (1 + random.below(4)).min(blocks - lba);
        if random.per_mille(150) {
            volume.trim(Lba(lba), length, false).await.unwrap();
        } else {
            let data = (0..length).map(|_| block(random.next())).collect();
            volume.write(Lba(lba), data, false).await.unwrap();
        }
    }
}

fn make() -> Image {
    let mut random = Random::new(1);
    let drive = || RamDrive::new(Geometry::new(6, BlockCount(16)), Immediate).unwrap();
    let drives: Vec<_> = (0..DRIVES).map(|_| drive()).collect();
    let first = executor();
    let options = CreateOptions {
        name: "golden".to_owned(),
        scheme: Scheme::new(3, 1).unwrap(),
        volume_blocks: None,
        chunk_blocks: 1,
        group_rows: 4,
        tabled: true,
        writethrough: None,
        array: ArrayUuid([0x60; 16]),
        members: (0x61..0x65).map(|byte| MemberUuid([byte; 16])).collect(),
        lineage: Lineage(0x6060_6060),
        shard: Shard::WHOLE,
        wipe: false,
    };
    let config = first.run(create(&offer(&drives, &first.handle(), None), &options)).unwrap();
    let blocks = config.log().volume_blocks;
    for requests in [60, 45] {
        let life = executor();
        let handle = life.handle();
        life.run(async {
            let volume = open(&handle, &drives, None).await;
            write_at_random(&volume, blocks, &mut random, requests).await;
        });
        drives.iter().for_each(|drive| drive.power_loss(0));
    }
    let forks: Vec<_> = drives.iter().map(|drive| drive.fork(Immediate)).collect();
    let last = executor();
    let handle = last.handle();
    let holds = last.run(async { read_all(&open(&handle, &forks, None).await, blocks).await });
    Image { drives, holds }
}

fn golden() -> Image {
    if std::env::var("REGENERATE_GOLDEN").is_ok_and(|what| what == "array") {
        std::fs::write(path(), make().encode()).unwrap();
    }
    Image::decode(&std::fs::read(path()).unwrap())
}

#[test]
fn the_golden_array_starts_and_reads_as_it_did_with_any_drive_missing() {
    let missing = std::iter::once(None).chain((0..DRIVES).map(Some));
    for without in missing {
        let image = golden();
        let executor = executor();
        let handle = executor.handle();
        let held = executor.run(async {
            let volume = open(&handle, &image.drives, without).await;
            let held = read_all(&volume, image.holds.len() as u64).await;
            volume.assert_consistent();
            held
        });
        assert_eq!(held, image.holds, "without {without:?}");
    }
}

#[test]
fn the_golden_array_can_be_written() {
    let image = golden();
    let executor = executor();
    let handle = executor.handle();
    let blocks = image.holds.len() as u64;
    executor.run(async {
        let volume = open(&handle, &image.drives, None).await;
        write_at_random(&volume, blocks, &mut Random::new(2), 300).await;
        volume.write(Lba(0), vec![block(7)], true).await.unwrap();
        volume.close().await.unwrap();
    });
    let held =
        executor.run(async { read_all(&open(&handle, &image.drives, None).await, blocks).await });
    assert_eq!(held[0], 7);
}

#[test]
fn arrays_of_other_format_versions_are_refused_by_their_names() {
    crate::support::report_marks::report_marks();
    for version in [1, 2] {
        let old = path().with_file_name(format!("array-{version}.bin"));
        let image = Image::decode(&std::fs::read(old).unwrap());
        let executor = executor();
        let handle = executor.handle();
        let survey = executor.run(survey(offer(&image.drives, &handle, None)));
        assert!(survey.drives.iter().all(|d| d.role == DriveRole::OtherVersion { version }));
        let offered = offer(&image.drives, &handle, Some(0));
        let refused = executor.run(open_array(&handle, offered, OpenOptions::default()));
        let refused = refused.err().unwrap();
        assert!(
            matches!(refused, OpenError::Array(AssemblyError::OtherVersion { version: found }) if found == version)
        );
        let message = refused.to_string();
        assert!(message.contains(&format!("version {version}")), "{message}");
    }
}
