//! Files that are missing, damaged, in use, or change under an open drive.

use std::fs::{self, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use zoneweave_zoned::ZoneInfo;

use super::*;

fn open_error(bench: &Bench) -> String {
    let opened = FileDrive::open(&bench.ring, &bench.executor.handle(), &bench.path());
    let message = opened.err().expect("it must not open").to_string();
    assert!(message.starts_with(&bench.path().display().to_string()), "{message}");
    message
}

fn created(bench: &Bench) -> fs::File {
    FileDrive::create(&bench.path(), geometry(), UUID).unwrap();
    OpenOptions::new().read(true).write(true).open(bench.path()).unwrap()
}

#[test]
fn existing_files_are_never_overwritten_and_missing_ones_are_named() {
    let bench = Bench::new();
    assert!(open_error(&bench).contains("create the drive first"));
    let directory = bench.directory.path();
    let opened = FileDrive::open(&bench.ring, &bench.executor.handle(), directory);
    assert!(matches!(opened.err(), Some(FileDriveError::Directory { .. })));
    let opened = FileDrive::open_read_only(&bench.ring, &bench.executor.handle(), directory);
    assert!(matches!(opened.err(), Some(FileDriveError::Directory { .. })));
    fs::write(bench.path(), "precious").unwrap();
    let refused = FileDrive::create(&bench.path(), geometry(), UUID);
    assert!(matches!(refused, Err(FileDriveError::Exists { .. })));
    assert_eq!(fs::read(bench.path()).unwrap(), b"precious");
    // It was said to be truncated, and to be restored.
    assert!(open_error(&bench).contains("is not a drive (it is too short, 8 bytes)"));
    let impossible = Geometry { zones: 0, ..geometry() };
    let other = bench.directory.path().join("other");
    let refused = FileDrive::create(&other, impossible, UUID);
    assert!(matches!(refused, Err(FileDriveError::Format { .. })));
    assert!(!other.exists());
}

#[test]
fn what_is_no_file_is_refused_without_waiting_for_anybody() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let bench = Bench::new();
    let handle = bench.executor.handle();
    for (kind, what) in [(FileType::Fifo, "is a pipe"), (FileType::Socket, "is a socket")] {
        mknodat(CWD, bench.path(), kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(open_error(&bench).contains(what));
        let looked = FileDrive::open_read_only(&bench.ring, &handle, &bench.path());
        assert!(matches!(looked.err(), Some(FileDriveError::NotAFile { .. })));
        assert!(matches!(FileDrive::inspect(&bench.path()), Err(FileDriveError::NotAFile { .. })));
        fs::remove_file(bench.path()).unwrap();
    }
}

#[test]
fn every_flipped_header_byte_is_noticed() {
    let bench = Bench::new();
    let file = created(&bench);
    for at in (0..64).chain([1000, 4095]) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        open_error(&bench);
        file.write_all_at(&byte, at).unwrap();
    }
    drop(bench.open());
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let bench = Bench::new();
    let file = created(&bench);
    let length = file.metadata().unwrap().len();
    for length in [length - 1, 5000, 4096, 100] {
        file.set_len(length).unwrap();
        assert!(open_error(&bench).contains("truncated"));
    }
    file.set_len(0).unwrap();
    assert!(open_error(&bench).contains("is not a drive"));
}

#[test]
fn damaged_zone_records_are_named() {
    let bench = Bench::new();
    let file = created(&bench);
    // The record of zone 5, of which a new drive has one copy.
    file.write_all_at(&[0xff; 8], 4096 + 5 * 64).unwrap();
    assert!(open_error(&bench).contains("zone 5"));
}

#[test]
fn a_drive_in_use_can_be_inspected_but_not_opened() {
    let bench = Bench::new();
    let drive = bench.create();
    assert!(open_error(&bench).contains("in use by another process"));
    assert_eq!(FileDrive::inspect(&bench.path()).unwrap().zones.len(), 8);
    bench.run(async {
        drive.append(ZoneId(0), payload(9, 1), false).await.unwrap();
        let handle = bench.executor.handle();
        let reader = FileDrive::open_read_only(&bench.ring, &handle, &bench.path()).unwrap();
        let at = ZoneAddress::new(ZoneId(0), 0);
        assert_eq!(reader.read(at, BlockCount(1)).await.unwrap(), payload(9, 1));
        let refused = reader.append(ZoneId(0), payload(9, 1), false).await;
        assert_eq!(refused, Err(Status::ZoneReadOnly));
        assert_eq!(reader.manage(ZoneId(0), ZoneAction::Reset).await, Err(Status::ZoneReadOnly));
    });
}

#[test]
fn removing_the_file_pulls_the_drive_out() {
    let bench = Bench::new();
    let drive = bench.create();
    bench.run(async {
        drive.append(ZoneId(0), payload(1, 1), false).await.unwrap();
        fs::remove_file(bench.path()).unwrap();
        assert_eq!(drive.flush().await, Err(Status::DeviceGone));
        let at = ZoneAddress::new(ZoneId(0), 0);
        assert_eq!(drive.read(at, BlockCount(1)).await, Err(Status::DeviceGone));
        assert_eq!(drive.failure().unwrap().to_string(), "the drive's file was removed");
    });
}

#[test]
fn cutting_the_file_off_is_noticed_within_a_second_or_so() {
    let bench = Bench::new();
    let drive = bench.create();
    bench.run(async {
        let append = drive.append(ZoneId(0), payload(1, 1), false);
        append.await.unwrap();
        OpenOptions::new().write(true).open(bench.path()).unwrap().set_len(8192).unwrap();
        let handle = bench.executor.handle();
        handle.sleep(WATCH_PERIOD + Nanos::from_millis(100)).await;
        let failure = drive.failure().expect("the watch has seen it");
        assert!(matches!(*failure, DriveFailure::Truncated { found_bytes: 8192, .. }));
        assert_eq!(drive.append(ZoneId(0), payload(1, 1), false).await, Err(Status::DeviceGone));
    });
}

/// The file of a drive in service was overwritten at its front, by `dd` or `mkfs`: nobody noticed,
/// and the drive could not be opened any more.
#[test]
fn an_overwritten_front_is_restored_from_memory() {
    let bench = Bench::new();
    let drive = bench.create();
    let file = OpenOptions::new().write(true).open(bench.path()).unwrap();
    let front = drive.drive.layout.zone(ZoneId(0)).start;
    let wipe = |bytes: Range<u64>| {
        let length = usize::try_from(bytes.end - bytes.start).unwrap();
        file.write_all_at(&vec![0; length], bytes.start).unwrap();
    };
    let before = bench.run(async {
        drive.append(ZoneId(0), payload(1, 3), false).await.unwrap();
        drive.append(ZoneId(5), payload(3, 1), false).await.unwrap();
        drive.manage(ZoneId(5), ZoneAction::Finish).await.unwrap();
        drive.drive.look_at_front().await;
        assert_eq!(drive.header_repairs(), HeaderRepairs::default(), "nothing was overwritten");
        wipe(0..4096);
        drive.drive.look_at_front().await;
        assert!(drive.header_repairs().restored >= 1);
        // Who wiped the header is not done: the records follow.
        wipe(4096..front);
        drive.drive.look_at_front().await;
        drive.append(ZoneId(0), payload(2, 1), false).await.unwrap();
        drive.report().await.unwrap()
    });
    assert_eq!(drive.header_repairs().failure, None);
    assert!(drive.failure().is_none());
    drop(drive);
    let drive = bench.reopen();
    bench.run(async {
        let after = drive.report().await.unwrap();
        let pointers = |zones: &[ZoneInfo]| -> Vec<_> {
            zones.iter().map(|zone| (zone.write_pointer, zone.state == ZoneState::Full)).collect()
        };
        assert_eq!(pointers(&after), pointers(&before));
        let read = drive.read(ZoneAddress::new(ZoneId(0), 0), BlockCount(3)).await.unwrap();
        assert_eq!(read, payload(1, 3));
    });
}

#[test]
fn an_overwritten_header_is_noticed_within_a_second_or_so() {
    let bench = Bench::new();
    let drive = bench.create();
    bench.run(async {
        let file = OpenOptions::new().write(true).open(bench.path()).unwrap();
        file.write_all_at(&[0xa5; 512], 0).unwrap();
        bench.executor.handle().sleep(WATCH_PERIOD + Nanos::from_millis(100)).await;
        // The look goes through the ring: it may be on its way.
        while drive.header_repairs().restored == 0 {
            bench.executor.handle().sleep(Nanos::from_millis(1)).await;
        }
    });
    drop(drive);
    drop(bench.reopen());
}

/// An extension of a zone and erase counts are in the front too.
#[test]
fn the_whole_front_of_a_drive_with_wear_and_extensions_is_restored() {
    let bench = Bench::new();
    let geometry = Geometry { descriptor_extension_bytes: 64, ..geometry() };
    let wear = WearSettings::new(2);
    FileDrive::create_with_wear(&bench.path(), geometry, wear, UUID).unwrap();
    let drive = bench.open();
    let front = usize::try_from(drive.drive.layout.zone(ZoneId(0)).start).unwrap();
    let whole = bench.run(async {
        for _ in 0..3 {
            drive.append(ZoneId(2), payload(1, 1), false).await.unwrap();
            drive.manage(ZoneId(2), ZoneAction::Reset).await.unwrap();
        }
        let extension = Bytes::from(vec![7; 64]);
        let zone = ZoneId(3);
        drive.submit(Command::SetExtension { zone, extension }).await.unwrap();
        let whole = drive.wear().unwrap();
        let file = OpenOptions::new().write(true).open(bench.path()).unwrap();
        file.write_all_at(&vec![0x5a; front], 0).unwrap();
        drive.drive.look_at_front().await;
        whole
    });
    drop(drive);
    let drive = bench.reopen();
    assert_eq!(drive.wear().unwrap().zones, whole.zones);
    let controller = drive.drive.controller.borrow();
    assert_eq!(controller.zones().extension(ZoneId(3)), vec![7; 64]);
}

#[test]
fn the_header_of_another_drive_ends_this_one() {
    let bench = Bench::new();
    let drive = bench.create();
    let other = bench.directory.path().join("other");
    FileDrive::create(&other, geometry(), [9; 16]).unwrap();
    bench.run(async {
        fs::copy(&other, bench.path()).unwrap();
        drive.drive.look_at_front().await;
        let failure = drive.failure().unwrap();
        assert_eq!(failure.to_string(), "the drive's file was overwritten with another drive");
        assert_eq!(drive.header_repairs().restored, 0);
        assert_eq!(drive.append(ZoneId(0), payload(1, 1), false).await, Err(Status::DeviceGone));
    });
    assert_eq!(FileDrive::inspect(&bench.path()).unwrap().uuid, [9; 16]);
}

#[test]
fn a_short_read_of_a_cut_off_file_is_a_lost_drive() {
    let bench = Bench::new();
    let drive = bench.create();
    bench.run(async {
        drive.append(ZoneId(7), payload(1, 1), false).await.unwrap();
        OpenOptions::new().write(true).open(bench.path()).unwrap().set_len(8192).unwrap();
        let at = ZoneAddress::new(ZoneId(7), 0);
        assert_eq!(drive.read(at, BlockCount(1)).await, Err(Status::DeviceGone));
    });
}

#[test]
fn a_drive_pulled_out_answers_what_is_under_way() {
    let bench = Bench::new();
    let drive = bench.create();
    bench.run(async {
        let appends: Vec<_> =
            (0..10).map(|tag| drive.append(ZoneId(0), payload(tag, 1), true)).collect();
        let reset = drive.manage(ZoneId(0), ZoneAction::Reset);
        drive.pull_out();
        for append in appends {
            assert_eq!(append.await, Err(Status::DeviceGone));
        }
        assert_eq!(reset.await, Err(Status::DeviceGone));
    });
    drop(drive);
    bench.settle();
    drop(bench.open());
}
