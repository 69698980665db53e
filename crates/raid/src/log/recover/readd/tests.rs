//! A column that was reset while its drive returned, because its segment was busy.
//!
//! No order of requests makes a segment busy for just so long, so the test claims it by hand.

use bytes::Bytes;
use futures_util::future::join;
use zoneweave_emulator::{CommandKind, FaultAction, Jitter, RamDrive, Selector};
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, BlockDevice, Geometry, Lba, ZoneAction, ZoneId, ZoneState,
};

use super::*;
use crate::array::format::envelope::ArrayUuid;
use crate::array::offered::OfferedDrive;
use crate::log::format::Lineage;
use crate::log::segment::table::Work;
use crate::log::{CreateOptions, OpenOptions, Volume, create, open_array};
use crate::scheme::Scheme;
use crate::shards::Shard;

const BLOCKS: u64 = 400;

/// The slot of the drive that returns.
const BACK: Column = Column(1);

fn offer(drives: &[RamDrive], handle: &Handle) -> Vec<OfferedDrive> {
    let offer = |drive: &RamDrive| OfferedDrive { device: drive.attach(handle), label: "d".into() };
    drives.iter().map(offer).collect()
}

fn contents(lba: u64, version: u64) -> Bytes {
    Bytes::from((lba << 8 | version).to_le_bytes().repeat(BLOCK_BYTES / 8))
}

async fn put(volume: &Volume, blocks: u64, version: u64) {
    for lba in 0..blocks {
        volume.write(Lba(lba), vec![contents(lba, version)], false).await.unwrap();
    }
    volume.flush().await.unwrap();
}

async fn new_volume(drives: &[RamDrive], handle: &Handle) -> Volume {
    let options = CreateOptions {
        name: "readd".to_owned(),
        scheme: Scheme::new(3, 1).unwrap(),
        volume_blocks: Some(BLOCKS),
        chunk_blocks: 1,
        group_rows: 4,
        tabled: false,
        writethrough: None,
        array: ArrayUuid([1; 16]),
        members: (0..4).map(|slot| MemberUuid([slot; 16])).collect(),
        lineage: Lineage(1),
        shard: Shard::WHOLE,
        wipe: false,
    };
    create(&offer(drives, handle), &options).await.unwrap();
    open_array(handle, offer(drives, handle), OpenOptions::default()).await.unwrap().0
}

/// A segment of which the drive has a whole column, and the zone of that.
fn of_drive(core: &Core, drive: &RamDrive) -> (SegmentSlot, ZoneId) {
    let state = core.state.borrow();
    let is_one = |segment: &Segment| {
        let zone = segment.listed[BACK.index()]?;
        let is_idle = segment.phase() == Phase::Sealed && !segment.is_busy();
        let is_whole = drive.zone(zone).state == ZoneState::Full;
        (is_idle && segment.lacks(BACK) && segment.valid() > 0 && is_whole).then_some(zone)
    };
    let mut found = state.segments.iter();
    found.find_map(|(slot, segment)| Some((slot, is_one(segment)?))).expect("a column is kept")
}

/// A zone was reset while its segment was being freed, and joined all the same if the segment was
/// idle again by then: a blank column counted.
#[test]
fn a_column_that_was_reset_is_not_kept_though_its_segment_lives_on() {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let drive = |seed| {
        let geometry = Geometry::new(40, BlockCount(24));
        RamDrive::new(geometry, Jitter::new(seed, Nanos::from_micros(100))).unwrap()
    };
    let drives: Vec<_> = (0..4).map(drive).collect();
    executor.run(async {
        let volume = new_volume(&drives, &handle).await;
        let (core, back) = (volume.core(), &drives[BACK.index()]);
        put(&volume, BLOCKS, 1).await;
        back.set_gone(true);
        put(&volume, 30, 2).await;
        back.set_gone(false);
        let reset = Selector::next(CommandKind::Manage(ZoneAction::Reset));
        back.inject(reset, FaultAction::Slow(Nanos::from_secs(10)));
        let moving = async {
            // Its zones have been read, and one is being reset.
            handle.sleep(Nanos::from_secs(1)).await;
            let (slot, zone) = of_drive(core, back);
            let work = Work::Reset;
            core.state.borrow_mut().segments[slot].life.claim(work);
            while back.zone(zone).state != ZoneState::Empty {
                handle.sleep(Nanos::from_micros(1)).await;
            }
            let state = core.state.borrow().array.members[BACK.index()].entry.state;
            assert_eq!(state, MemberState::Failed, "the drive joins later");
            core.state.borrow_mut().segments[slot].life.release(|of| of == work);
        };
        let uuid = MemberUuid([9; 16]);
        let (done, ()) = join(volume.readd(1, back.attach(&handle), uuid), moving).await;
        done.unwrap();
        drives[3].set_gone(true);
        for lba in 0..BLOCKS {
            let read = volume.read(Lba(lba), 1).await.unwrap();
            assert!(read[0] == contents(lba, if lba < 30 { 2 } else { 1 }), "block {lba} differs");
        }
    });
}
