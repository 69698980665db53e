//! Images of RAM drives are drives in files, and the other way round.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;

use zoneweave_emulator::{EraseMode, Immediate, RamDrive, WearSettings};

use zoneweave_zoned::ZoneInfo;

use super::*;

fn save(drive: &RamDrive, bench: &Bench) {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).open(bench.path()).unwrap();
    drive.save(UUID, &mut file).unwrap();
}

fn crashed() -> RamDrive {
    let drive = RamDrive::new(geometry(), Immediate).unwrap();
    let wear = WearSettings { reset: EraseMode::Partial, ..WearSettings::new(6) };
    drive.set_wear(wear).unwrap();
    let bench = Bench::new();
    let device = drive.attach(&bench.executor.handle());
    bench.run(async {
        device.append(ZoneId(1), payload(1, 8), false).await.unwrap();
        device.manage(ZoneId(1), ZoneAction::Reset).await.unwrap();
        for tag in 2..5 {
            device.append(ZoneId(1), payload(tag, 8), false).await.unwrap();
            device.append(ZoneId(2), payload(tag, 2), false).await.unwrap();
        }
        device.manage(ZoneId(2), ZoneAction::Finish).await.unwrap();
    });
    drive.power_loss(1);
    drive.set_unreadable(ZoneAddress::new(ZoneId(1), 5), BlockCount(1));
    drive
}

#[test]
fn an_image_is_a_drive_in_a_file() {
    let (bench, ram) = (Bench::new(), crashed());
    save(&ram, &bench);
    let info = FileDrive::inspect(&bench.path()).unwrap();
    assert_eq!(info.uuid, UUID);
    let drive = bench.open();
    assert_eq!(drive.wear().unwrap().zones, ram.wear().unwrap().zones);
    assert_eq!(drive.wear().unwrap().zones[1].erase_counts, [1, 1, 0, 0, 0, 0]);
    bench.run(async {
        for (zone, info) in (0..).map(ZoneId).zip(drive.report().await.unwrap()) {
            let held = ram.zone(zone);
            // How far a full zone is written is not reported.
            let written = if info.state == ZoneState::Full { info } else { held };
            assert_eq!(info, ZoneInfo { write_pointer: written.write_pointer, ..held });
            for offset in 0..held.write_pointer.0 {
                let at = ZoneAddress::new(zone, offset);
                let read = drive.read(at, BlockCount(1)).await;
                if at == ZoneAddress::new(ZoneId(1), 5) {
                    assert_eq!(read, Err(Status::UnrecoveredRead));
                    continue;
                }
                let held = ram.peek(at, BlockCount(1));
                assert_eq!(read.unwrap(), held, "{at}");
            }
        }
        drive.manage(ZoneId(1), ZoneAction::Reset).await.unwrap();
        drive.append(ZoneId(1), payload(9, 8), true).await.unwrap();
        assert!(drive.read(ZoneAddress::new(ZoneId(1), 5), BlockCount(1)).await.is_ok());
    });
    let wear = drive.wear().unwrap();
    drop(drive);
    bench.settle();
    let again = RamDrive::open(&mut File::open(bench.path()).unwrap(), Immediate).unwrap();
    assert_eq!(again.wear().unwrap().zones, wear.zones);
    let held = again.peek(ZoneAddress::new(ZoneId(1), 0), BlockCount(8));
    assert_eq!(held.data.concat(), payload(9, 8).data.concat());
}

#[test]
fn an_image_takes_no_room_for_what_is_not_written() {
    let (bench, drive) = (Bench::new(), {
        let large = Geometry::new(256, BlockCount(65_536));
        RamDrive::new(large, Immediate).unwrap()
    });
    save(&drive, &bench);
    let status = bench.path().metadata().unwrap();
    assert!(status.len() > 64 << 30);
    assert!(status.blocks() * 512 < 1 << 20, "{} sectors", status.blocks());
}

#[test]
fn a_worn_zone_stays_worn_after_reopening() {
    let bench = Bench::new();
    let wear = WearSettings { endurance_cycles: Some(1), ..WearSettings::new(2) };
    FileDrive::create_with_wear(&bench.path(), geometry(), wear, UUID).unwrap();
    let drive = bench.open();
    bench.run(async {
        drive.append(ZoneId(0), payload(1, 1), false).await.unwrap();
        drive.manage(ZoneId(0), ZoneAction::Reset).await.unwrap();
        drive.append(ZoneId(0), payload(2, 1), false).await.unwrap();
        let refused = drive.manage(ZoneId(0), ZoneAction::Reset).await;
        assert_eq!(refused, Err(Status::WriteFault));
        assert_eq!(drive.report().await.unwrap()[0].state, ZoneState::ReadOnly);
    });
    drop(drive);
    let drive = bench.reopen();
    bench.run(async {
        assert_eq!(drive.report().await.unwrap()[0].state, ZoneState::ReadOnly);
        let held = drive.read(ZoneAddress::default(), BlockCount(1)).await.unwrap();
        assert_eq!(held.data.concat(), payload(2, 1).data.concat());
    });
}
