//! A framed drive without metadata behaves like a drive with metadata, except for its own rules.

use std::sync::Arc;

use futures_util::FutureExt;
use zoneweave_emulator::{BlockPart, Damage, Immediate, RamDrive};
use zoneweave_runtime::{Executor, Nanos, Random, VirtualTime};

use super::*;

const ZONES: u32 = 3;
/// Six frames of four blocks, and three blocks that are no frame.
const CAPACITY: u32 = 27;
const UNIT: u32 = 3;

fn raw_drive(volatile_cache: bool) -> RamDrive {
    let geometry = Geometry {
        oob: OobKind::None,
        volatile_cache,
        max_transfer: BlockCount(16),
        ..Geometry::new(ZONES, BlockCount(CAPACITY))
    };
    RamDrive::new(geometry, Immediate).unwrap()
}

fn framed(drive: &RamDrive, handle: &Handle) -> InlineDrive {
    let shape = FrameShape::of_exponent(2).unwrap();
    InlineDrive::new(handle, drive.attach(handle), shape).unwrap()
}

fn with<R>(drive: &RamDrive, work: impl AsyncFnOnce(&InlineDrive) -> R) -> R {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let framed = framed(drive, &executor.handle());
    executor.run(work(&framed))
}

fn blocks(count: u32, stamp: u64) -> Payload {
    let count = BlockCount(count);
    let mut random = Random::new(stamp);
    let mut bytes = |length: usize| -> Bytes {
        (0..length / 8).flat_map(|_| (random.next() | 1).to_le_bytes()).collect::<Vec<_>>().into()
    };
    Payload { data: vec![bytes(count.data_bytes())], oob: bytes(count.oob_bytes()) }
}

fn at(zone: u32, offset: u32) -> ZoneAddress {
    ZoneAddress::new(ZoneId(zone), offset)
}

async fn read(drive: &InlineDrive, zone: u32, offset: u32, count: u32) -> Payload {
    drive.read(at(zone, offset), BlockCount(count)).await.unwrap()
}

#[test]
fn it_says_what_it_is() {
    with(&raw_drive(false), async |drive| {
        let geometry = drive.geometry();
        assert_eq!(geometry.oob, OobKind::Separate);
        assert_eq!((geometry.zone_capacity.0, geometry.write_unit.0), (18, 3));
        assert_eq!((geometry.max_transfer.0, geometry.append_limit.0), (9, 0));
    });
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let geometry = Geometry { max_transfer: BlockCount(15), ..Geometry::new(2, BlockCount(64)) };
    let small = RamDrive::new(geometry, Immediate).unwrap().attach(&executor.handle());
    let refused = InlineDrive::new(&executor.handle(), small, FrameShape::default()).err();
    assert!(matches!(refused, Some(InlineError::TooSmall { .. })));
}

/// Counts the buffers of a drive's answers that are still held.
struct Lends {
    device: Rc<dyn ZonedDevice>,
    lent: Arc<()>,
}

struct Lent(Bytes, #[expect(dead_code, reason = "counted")] Arc<()>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl ZonedDevice for Lends {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&self, command: Command) -> Completion {
        let outcome = self.device.submit(command).now_or_never().expect("drives are immediate");
        let lend = |data| Bytes::from_owner(Lent(data, self.lent.clone()));
        Completion::ready(outcome.map(|reply| match reply {
            Reply::Read(Payload { data, oob }) => {
                Reply::Read(Payload { data: data.into_iter().map(lend).collect(), oob })
            }
            other => other,
        }))
    }
}

#[test]
fn who_keeps_a_block_does_not_keep_the_frame() {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let (drive, lent) = (raw_drive(false), Arc::new(()));
    let lends = Lends { device: drive.attach(&handle), lent: lent.clone() };
    let shape = FrameShape::of_exponent(2).unwrap();
    let framed = InlineDrive::new(&handle, Rc::new(lends), shape).unwrap();
    executor.run(async {
        let written = blocks(UNIT, 1);
        framed.write(at(0, 0), written.clone(), false).await.unwrap();
        let kept = read(&framed, 0, UNIT - 1, 1).await;
        assert_eq!((kept.block(0), kept.block_oob(0)), (written.block(2), written.block_oob(2)));
        assert_eq!(Arc::strong_count(&lent), 2, "only the drive counts");
        // Most of the buffer is used, so it is not copied.
        let _kept = read(&framed, 0, 0, UNIT).await;
        assert!(Arc::strong_count(&lent) > 2);
    });
}

#[test]
fn random_commands_come_back_as_written() {
    for seed in 0..40 {
        let drive = raw_drive(seed % 2 == 0);
        with(&drive, async |drive| random_commands(drive, seed).await);
    }
}

/// Compares the drive with a list of the blocks in each zone.
async fn random_commands(drive: &InlineDrive, seed: u64) {
    let mut random = Random::new(seed);
    let mut below = |count: u32| u32::try_from(random.below(count.into())).unwrap();
    let mut model: Vec<Vec<(Bytes, Bytes)>> = vec![Vec::new(); ZONES as usize];
    for step in 0..200 {
        let zone = below(ZONES);
        let held = &mut model[zone as usize];
        let next = u32::try_from(held.len()).unwrap();
        match below(8) {
            0 => {
                drive.manage(ZoneId(zone), ZoneAction::Reset).await.unwrap();
                held.clear();
            }
            1..=3 if next < 18 => {
                let count = 1 + below((18 - next).min(9));
                let payload = blocks(count, seed << 32 | step);
                assert_eq!(
                    drive.write(at(zone, next), payload.clone(), false).await,
                    Ok(at(zone, next))
                );
                held.extend((0..count as usize).map(|i| (payload.block(i), payload.block_oob(i))));
                let filled = (zero_blocks(BlockCount(1)), Bytes::from_static(&[0xFF; OOB_BYTES]));
                held.resize(held.len().next_multiple_of(UNIT as usize), filled);
            }
            _ => {
                let first = below(18);
                let count = 1 + below((18 - first).min(9));
                let read = read(drive, zone, first, count).await;
                for block in 0..count as usize {
                    let blank = (zero_blocks(BlockCount(1)), Bytes::from_static(&[0; OOB_BYTES]));
                    let expected = held.get(first as usize + block).unwrap_or(&blank);
                    assert_eq!(
                        (&read.block(block), &read.block_oob(block)),
                        (&expected.0, &expected.1)
                    );
                }
            }
        }
        let info = drive.report().await.unwrap()[zone as usize];
        assert_eq!(info.write_pointer.index(), model[zone as usize].len());
        let full = model[zone as usize].len() == 18;
        assert_eq!(
            info.state == ZoneState::Full,
            full,
            "what is behind the last frame is written with it"
        );
    }
}

#[test]
fn writes_begin_with_a_frame() {
    with(&raw_drive(false), async |drive| {
        drive.write(at(0, 0), blocks(1, 1), false).await.unwrap();
        let off = drive.write(at(0, 1), blocks(1, 2), false).await;
        assert_eq!(off, Err(Status::ZoneInvalidWrite));
        drive.write(at(0, 3), blocks(4, 2), false).await.unwrap();
        assert_eq!(drive.write(at(0, 6), blocks(1, 3), false).await, Err(Status::ZoneInvalidWrite));
        assert_eq!(drive.append(ZoneId(1), blocks(3, 4), false).await, Err(Status::InvalidField));
        assert_eq!(drive.read(at(0, 12), BlockCount(7)).await, Err(Status::ZoneBoundary));
        assert_eq!(drive.read(at(0, 0), BlockCount(10)).await, Err(Status::InvalidField));
        assert_eq!(drive.read(at(3, 0), BlockCount(1)).await, Err(Status::LbaOutOfRange));
    });
}

#[test]
fn a_damaged_header_takes_its_frame_and_no_other() {
    let drive = raw_drive(false);
    with(&drive, async |drive| drive.write(at(0, 0), blocks(9, 1), false).await.unwrap());
    drive.corrupt(at(0, 4), Damage::Garbage { part: BlockPart::Data, seed: 1 });
    with(&drive, async |drive| {
        assert_eq!(drive.read(at(0, 0), BlockCount(9)).await, Err(Status::UnrecoveredRead));
        for block in 0..9 {
            let read = drive.read(at(0, block), BlockCount(1)).await;
            assert_eq!(read.is_err(), (3..6).contains(&block), "block {block}");
        }
    });
}

#[test]
fn an_unreadable_block_is_one_block() {
    let drive = raw_drive(false);
    with(&drive, async |drive| drive.write(at(0, 0), blocks(3, 1), false).await.unwrap());
    drive.set_unreadable(at(0, 2), BlockCount(1));
    with(&drive, async |drive| {
        for block in 0..3 {
            let read = drive.read(at(0, block), BlockCount(1)).await;
            assert_eq!(read.is_err(), block == 1, "block {block}");
        }
    });
}

#[test]
fn what_is_behind_a_torn_write_is_blank() {
    for seed in 0..60 {
        let drive = raw_drive(true);
        with(&drive, async |drive| drive.write(at(0, 0), blocks(9, seed), false).await.unwrap());
        drive.power_loss(seed);
        let kept = drive.zone(ZoneId(0)).write_pointer.0;
        with(&drive, async |framed| {
            let info = framed.report().await.unwrap()[0];
            assert_eq!(info.write_pointer.0, kept / 4 * 3 + (kept % 4).saturating_sub(1));
            let written = blocks(9, seed);
            for block in 0..9 {
                let there = block / 3 * 4 + 1 + block % 3;
                let read = read(framed, 0, block, 1).await;
                let same = read.block_oob(0) == written.block_oob(block as usize);
                assert_eq!(same, there < kept, "metadata of block {block}, {kept} kept");
                let data = read.block(0) == written.block(block as usize);
                assert_eq!(data, there < kept, "data of block {block}, {kept} kept");
                let blank = read.block_oob(0).iter().all(|byte| *byte == 0);
                assert_eq!(blank, there >= kept, "block {block}, {kept} kept");
            }
        });
    }
}

#[test]
fn a_drive_that_refuses_to_read_blank_blocks_says_which_are_lost() {
    let geometry = Geometry {
        oob: OobKind::None,
        unwritten_read_error: true,
        volatile_cache: true,
        ..Geometry::new(2, BlockCount(16))
    };
    let drive = RamDrive::new(geometry, Immediate).unwrap();
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = drive.attach(&executor.handle());
    // A frame with a header and one block written.
    let header = FrameShape::of_exponent(2).unwrap();
    let header = header.encode(Frame { zone: ZoneId(0), number: 0 }, &[5; 3 * OOB_BYTES]);
    let torn = Payload { data: vec![header, blocks(1, 1).data[0].clone()], oob: Bytes::new() };
    executor.run(device.write(at(0, 0), torn, true)).unwrap();
    with(&drive, async |drive| {
        let statuses =
            [(0, None), (1, Some(Status::UnrecoveredRead)), (3, Some(Status::Deallocated))];
        for (block, status) in statuses {
            assert_eq!(
                drive.read(at(0, block), BlockCount(1)).await.err(),
                status,
                "block {block}"
            );
        }
    });
}

/// A drive that delays reports of all zones, like drives that need several commands for one.
struct LateReports {
    drive: Rc<dyn ZonedDevice>,
    handle: Handle,
}

impl ZonedDevice for LateReports {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn submit(&self, command: Command) -> Completion {
        let late = matches!(command, Command::Report { count, .. } if count > 1);
        let outcome = self.drive.submit(command);
        if !late {
            return outcome;
        }
        let (responder, answer): (Responder, Completion) = completion();
        let handle = self.handle.clone();
        self.handle.spawn("late", async move {
            let outcome = outcome.await;
            handle.sleep(Nanos::from_millis(10)).await;
            responder.complete(outcome);
        });
        answer
    }
}

/// A torn zone is reset and written again while an older report is in flight.
#[test]
fn a_report_of_the_time_before_a_reset_hides_nothing() {
    let drive = raw_drive(false);
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let (handle, shape) = (executor.handle(), FrameShape::of_exponent(2).unwrap());
    let header =
        shape.encode(Frame { zone: ZoneId(0), number: 0 }, &[5; UNIT as usize * OOB_BYTES]);
    let torn = Payload { data: vec![header, zero_blocks(BlockCount(1))], oob: Bytes::new() };
    executor.run(drive.attach(&handle).write(at(0, 0), torn, true)).unwrap();
    let late = LateReports { drive: drive.attach(&handle), handle: handle.clone() };
    let framed = InlineDrive::new(&handle, Rc::new(late), shape).unwrap();
    executor.run(async {
        framed.report().await.unwrap();
        let report = framed.report();
        framed.manage(ZoneId(0), ZoneAction::Reset).await.unwrap();
        assert!(report.await.unwrap()[0].state.is_active(), "as it was before");
        let written = blocks(3 * UNIT, 77);
        framed.write(at(0, 0), written.clone(), true).await.unwrap();
        assert_eq!(read(&framed, 0, 0, 3 * UNIT).await.oob, written.oob);
    });
}
