//! Files that are missing, damaged, in use, or change under an open drive.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

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

/// The file of a drive in service was overwritten, by `dd` or `mkfs`, and nothing told. Nothing is
/// written to it either: it may be another user's by now.
#[test]
fn an_overwritten_header_is_told_and_left_alone() {
    let bench = Bench::new();
    let drive = bench.create();
    let file = OpenOptions::new().read(true).write(true).open(bench.path()).unwrap();
    let mut header = vec![0; 4096];
    file.read_exact_at(&mut header, 0).unwrap();
    bench.run(async {
        drive.append(ZoneId(0), payload(1, 3), false).await.unwrap();
        drive.drive.look_at_header().await;
        assert!(!drive.header_lost(), "nothing was overwritten");
        file.write_all_at(&[0xa5; 4096], 0).unwrap();
        drive.drive.look_at_header().await;
        assert!(drive.header_lost());
        assert!(drive.failure().is_none());
        // Its blocks can be read and written.
        drive.append(ZoneId(0), payload(2, 1), false).await.unwrap();
        let read = drive.read(ZoneAddress::new(ZoneId(0), 0), BlockCount(3)).await.unwrap();
        assert_eq!(read, payload(1, 3));
        let mut found = vec![0; 4096];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, [0xa5; 4096]);
        file.write_all_at(&header, 0).unwrap();
        drive.drive.look_at_header().await;
        assert!(!drive.header_lost(), "it was put back");
    });
    drop(drive);
    drop(bench.reopen());
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
        while !drive.header_lost() {
            bench.executor.handle().sleep(Nanos::from_millis(1)).await;
        }
    });
}

#[test]
fn the_header_of_another_drive_ends_this_one() {
    let bench = Bench::new();
    let drive = bench.create();
    let other = bench.directory.path().join("other");
    FileDrive::create(&other, geometry(), [9; 16]).unwrap();
    bench.run(async {
        fs::copy(&other, bench.path()).unwrap();
        drive.drive.look_at_header().await;
        let failure = drive.failure().unwrap();
        assert_eq!(failure.to_string(), "the drive's file was overwritten with another drive");
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
