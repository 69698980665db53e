//! Images hold the contents after a crash, and hostile images are refused.

use std::io::Cursor;
use std::rc::Rc;

use proptest::prelude::*;
use zoneweave_runtime::{Executor, Nanos, Random, VirtualTime};
use zoneweave_zoned::{BLOCK_BYTES, GeometryError, OOB_BYTES, Status, ZoneAction, ZonedDeviceExt};

use super::*;
use crate::{EraseMode, Immediate, Jitter, WearSettings};

const UUID: [u8; 16] = [9; 16];
const ZONES: u32 = 6;

fn geometry() -> Geometry {
    Geometry { volatile_cache: true, ..Geometry::new(ZONES, BlockCount(300)) }
}

fn saved(drive: &RamDrive) -> Vec<u8> {
    let mut image = Cursor::new(Vec::new());
    drive.save(UUID, &mut image).unwrap();
    image.into_inner()
}

fn opened(image: &[u8]) -> Result<RamDrive, ImageError> {
    RamDrive::open(&mut Cursor::new(image), Immediate)
}

/// Blocks of which about half repeat eight bytes, and half have metadata.
fn payload(random: &mut Random, blocks: u32) -> Payload {
    let (mut data, mut oob) = (Vec::new(), Vec::new());
    for _ in 0..blocks {
        let word = random.next().to_le_bytes();
        data.extend(word.into_iter().cycle().take(BLOCK_BYTES));
        if random.per_mille(500) {
            let end = data.len();
            data[end - 1] ^= 1;
        }
        oob.extend([word[0]; OOB_BYTES]);
    }
    Payload::new(data.into(), if random.per_mille(500) { oob.into() } else { Bytes::new() })
}

/// A drive whose power failed in the middle of appends, resets and finishes.
fn crashed(seed: u64) -> RamDrive {
    let mut random = Random::new(seed);
    let timing = Jitter::new(random.next(), Nanos(1000));
    let drive = RamDrive::new(geometry(), timing).unwrap();
    if random.per_mille(500) {
        let reset = if random.per_mille(500) { EraseMode::Partial } else { EraseMode::Full };
        drive.set_wear(WearSettings { reset, ..WearSettings::new(7) }).unwrap();
    }
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = drive.attach(&executor.handle());
    for _ in 0..random.below(60) {
        let zone = ZoneId(u32::try_from(random.below(ZONES.into())).unwrap());
        match random.below(12) {
            0 => drop(device.manage(zone, ZoneAction::Reset)),
            1 => drop(device.manage(zone, ZoneAction::Finish)),
            2 => drop(device.flush()),
            _ => {
                let blocks = 1 + u32::try_from(random.below(32)).unwrap();
                drop(device.append(zone, payload(&mut random, blocks), false));
            }
        }
        let handle = executor.handle();
        executor.run(handle.sleep(Nanos(random.below(400))));
    }
    drop(executor);
    drive.power_loss(random.next());
    for _ in 0..random.below(3) {
        drive.set_unreadable(ZoneAddress::new(ZoneId(1), 3), BlockCount(2));
    }
    drive
}

#[test]
fn an_image_holds_what_a_crash_left() {
    let mut blocks = 0;
    for seed in 0..60 {
        let drive = crashed(seed);
        let image = saved(&drive);
        let again = opened(&image).unwrap();
        assert_eq!(saved(&again), image, "saved again, it is the same");
        for zone in (0..ZONES).map(ZoneId) {
            assert_eq!(drive.zone(zone), again.zone(zone));
            let all = |drive: &RamDrive| {
                let found = drive.peek(ZoneAddress::new(zone, 0), BlockCount(300));
                (found.data.concat(), found.oob)
            };
            assert_eq!(all(&drive), all(&again));
            blocks += drive.zone(zone).write_pointer.0;
        }
        let counts = |drive: &RamDrive| drive.wear().map(|wear| wear.zones);
        assert_eq!(counts(&drive), counts(&again));
        again.power_loss(seed);
        assert_eq!(saved(&again), image, "all of it is durable");
    }
    assert!(blocks > 5_000, "only {blocks} blocks were ever stored");
}

#[test]
fn what_was_unreadable_is_so_again_until_a_reset() {
    let drive = RamDrive::new(geometry(), Immediate).unwrap();
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = drive.attach(&executor.handle());
    let zone = ZoneId(2);
    let blocks = payload(&mut Random::new(1), 5);
    executor.run(device.append(zone, blocks.clone(), true)).unwrap();
    drive.set_unreadable(ZoneAddress::new(zone, 3), BlockCount(1));
    let again = opened(&saved(&drive)).unwrap();
    let device = again.attach(&executor.handle());
    let read = |at| executor.run(device.read(ZoneAddress::new(zone, at), BlockCount(1)));
    assert!(read(2).is_ok());
    assert_eq!(read(3), Err(Status::UnrecoveredRead));
    executor.run(device.manage(zone, ZoneAction::Reset)).unwrap();
    executor.run(device.append(zone, blocks, true)).unwrap();
    assert!(read(3).is_ok());
    again.set_unreadable(ZoneAddress::new(zone, 0), BlockCount(300));
    let error = again.save(UUID, &mut Cursor::new(Vec::new())).unwrap_err();
    assert!(matches!(error, ImageError::TooManyUnreadable { found: 300 }), "{error}");
}

#[test]
fn what_is_no_image_is_refused() {
    let image = saved(&crashed(3));
    assert!(matches!(opened(&[]), Err(ImageError::Format(FormatError::TooShort { .. }))));
    let cut = opened(&image[..image.len() - 1]);
    assert!(matches!(cut, Err(ImageError::Format(FormatError::Truncated { .. }))));
    let mut damaged = image.clone();
    damaged[0] ^= 1;
    assert!(matches!(opened(&damaged), Err(ImageError::Format(FormatError::NotADrive))));
    let mut damaged = image;
    damaged[4096] ^= 1;
    assert!(matches!(opened(&damaged), Err(ImageError::Format(FormatError::RecordDamaged { .. }))));
    let error = RamDrive::new(Geometry { zones: 0, ..geometry() }, Immediate).err();
    assert_eq!(error, Some(GeometryError::Empty));
}

/// A small drive with wear and an unreadable block.
fn small() -> Vec<u8> {
    let drive = RamDrive::new(Geometry::new(4, BlockCount(8)), Immediate).unwrap();
    drive.set_wear(WearSettings { endurance_cycles: Some(3), ..WearSettings::new(4) }).unwrap();
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = drive.attach(&executor.handle());
    for zone in [1, 2] {
        let append = device.append(ZoneId(zone), payload(&mut Random::new(2), 6), true);
        executor.run(append).unwrap();
        executor.run(device.manage(ZoneId(1), ZoneAction::Reset)).unwrap();
    }
    drive.set_unreadable(ZoneAddress::new(ZoneId(2), 5), BlockCount(1));
    saved(&drive)
}

proptest! {
    #[test]
    fn hostile_images_are_refused_or_are_drives(
        bytes in prop::collection::vec((0..24_576_usize, any::<u8>()), 0..4),
        fields in prop::collection::vec((7..20_usize, prop_oneof![0_u32..9, any::<u32>()]), 0..3),
    ) {
        let mut image = small();
        for (at, byte) in bytes {
            image[at] = byte;
        }
        for (field, value) in fields {
            image[4 * field..4 * field + 4].copy_from_slice(&value.to_le_bytes());
            let checksum = crc32c::crc32c(&image[..4092]);
            image[4092..4096].copy_from_slice(&checksum.to_le_bytes());
        }
        if let Ok(drive) = opened(&image) {
            let executor = Executor::new(Rc::new(VirtualTime::new()));
            let device = drive.attach(&executor.handle());
            for zone in (0..drive.geometry().zones).map(ZoneId) {
                let blocks = BlockCount(drive.zone(zone).write_pointer.0);
                prop_assert_eq!(drive.peek(ZoneAddress::new(zone, 0), blocks).blocks(), blocks);
                // Worn zones and offline ones refuse.
                let _ = executor.run(device.manage(zone, ZoneAction::Reset));
            }
            drive.power_loss(1);
            prop_assert!(opened(&saved(&drive)).is_ok());
        }
    }
}
