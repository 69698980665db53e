//! A disk that is full, where the machine lets the tests mount a small one.

use std::path::Path;
use std::process::Command as Process;

use super::*;

/// A mounted file system of 1 MiB.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["-t", "tmpfs", "-o", "size=1m", "none"];
        let mounted = Process::new("mount").args(arguments).arg(directory.path()).output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        mounted.then_some(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the ring may still have the drive open.
        let _ = Process::new("umount").arg("-l").arg(self.path()).output();
    }
}

#[test]
fn a_full_disk_costs_the_write_but_neither_zone_nor_drive() {
    let Some(disk) = SmallDisk::new() else {
        eprintln!("SKIPPED: MOUNTING A SMALL FILE SYSTEM NEEDS ROOT");
        return;
    };
    let bench = Bench::new();
    let path = disk.path().join("drive");
    let geometry = Geometry { max_transfer: BlockCount(64), ..Geometry::new(8, BlockCount(64)) };
    FileDrive::create(&path, geometry, UUID).unwrap();
    let drive = FileDrive::open(&bench.ring, &bench.executor.handle(), &path).unwrap();
    bench.run(async {
        let write = |zone, offset, tag| {
            drive.write(ZoneAddress::new(ZoneId(zone), offset), payload(tag, 32), false)
        };
        // Seven halves of a zone fit 1 MiB beside the records, the eighth does not.
        let mut writes = Vec::new();
        for zone in 0..4 {
            writes.extend([write(zone, 0, 1), write(zone, 32, 2)]);
        }
        let mut outcomes = Vec::new();
        for write in writes {
            outcomes.push(write.await);
        }
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert!((1..=4).contains(&failed), "{outcomes:?}");
        assert!(outcomes.iter().all(|o| o.is_ok() || *o == Err(Status::CapacityExceeded)));
        let zones = drive.report().await.unwrap();
        for (zone, pair) in zones.iter().zip(outcomes.chunks(2)) {
            let stored: u32 = pair.iter().map(|outcome| if outcome.is_ok() { 32 } else { 0 }).sum();
            assert_eq!(zone.write_pointer, ZoneOffset(stored), "{zone:?}");
            let read = drive.read(ZoneAddress::new(zone.zone, 0), BlockCount(stored.max(1))).await;
            assert_eq!(read.unwrap().block(0)[0], u8::from(stored > 0));
        }
        // Freeing a zone makes room, and the write is repeated where it failed.
        let lost = zones.iter().find(|zone| zone.write_pointer.0 == 32).unwrap();
        let kept = zones.iter().find(|zone| zone.state == ZoneState::Full).unwrap();
        drive.manage(kept.zone, ZoneAction::Reset).await.unwrap();
        write(lost.zone.0, 32, 3).await.unwrap();
        drive.flush().await.unwrap();
    });
}
