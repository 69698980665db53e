//! Rebuilds from drives that do not return what they need: the new drive keeps its place.

use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Selector};
use zoneweave_raid::array::error::RebuildError;
use zoneweave_raid::array::format::record::MemberUuid;
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::raizn::{ReplaceError, Volume, create};
use zoneweave_raid::scheme::{Column, Scheme};
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{
    BlockCount, Geometry, OobKind, Status, ZoneAction, ZoneAddress, ZoneId, ZoneState,
    ZonedDeviceExt,
};

use crate::raizn::drives::{FIRST_COLUMN, UNIT, executor, offer, options, start, timing, write};
use crate::raizn::model::block;
use crate::support::life::assert_hit;

/// Zones of the volume.
const ZONES: u32 = 12;
/// Blocks of the first zone. The second one has as many.
const WRITTEN: u32 = 160;
/// The slot whose drive is replaced.
const SLOT: usize = 2;
/// The column offset of a block on the first drive, in the first zone, that the rebuild needs.
const AT: u32 = 9;

struct Bench {
    members: Vec<RamDrive>,
    blank: RamDrive,
}

impl Bench {
    /// Drives of a volume with two zones.
    fn new(scheme: Scheme, checksums: bool) -> Self {
        crate::support::instrument();
        let oob = if checksums { OobKind::Separate } else { OobKind::None };
        let geometry = Geometry::new(FIRST_COLUMN + ZONES, BlockCount(240));
        let geometry = Geometry { oob, ..geometry };
        let new = |seed| RamDrive::new(geometry.clone(), timing(seed)).unwrap();
        let members: Vec<_> = (0..scheme.columns() as u64).map(new).collect();
        let blank = new(99);
        let bench = Self { members, blank };
        let executor = executor();
        let handle = executor.handle();
        executor.run(async {
            let options = options(scheme, UNIT, checksums);
            create(&offer(&bench.members, &handle), &options).await.unwrap();
            let volume = start(&bench.members, &handle).await;
            for zone in [0, 1] {
                write(&volume, zone, 0, WRITTEN).await.unwrap();
            }
            volume.close().await;
        });
        bench
    }

    fn live(&self, test: impl AsyncFnOnce(&Volume, &Handle)) {
        let executor = executor();
        let handle = executor.handle();
        executor.run(async {
            let volume = start(&self.members, &handle).await;
            test(&volume, &handle).await;
            volume.close().await;
        });
    }

    async fn replace(&self, volume: &Volume, handle: &Handle) -> Result<(), ReplaceError> {
        volume.replace(Column::of(SLOT), self.blank.attach(handle), MemberUuid([9; 16])).await
    }

    /// The drives with the new one in its slot.
    fn replaced(mut self) -> Self {
        self.members[SLOT] = self.blank.clone();
        self
    }

    /// Has the first drive fail each read of a block, so many times.
    fn fail_reads(&self, status: Status, times: Option<u64>) {
        let reads = Selector::next(CommandKind::Read).in_zone(place().zone).touching(AT..AT + 1);
        let reads =
            times.map_or_else(|| reads.clone().always(), |times| reads.clone().times(times));
        self.members[0].inject(reads, FaultAction::Fail(status));
    }

    /// Checks that both zones can be read without one drive after the other.
    fn holds_without_each(&self) {
        for lost in 0..self.members.len() {
            let mut left: Vec<_> = self.members.iter().map(|drive| drive.fork(timing(3))).collect();
            left.remove(lost);
            let executor = executor();
            let handle = executor.handle();
            executor.run(async {
                let volume = start(&left, &handle).await;
                assert_eq!(lost_of(&volume, 0).await, [0; 0], "without drive {lost}");
                assert_eq!(lost_of(&volume, 1).await, [0; 0], "without drive {lost}");
            });
        }
    }
}

fn place() -> ZoneAddress {
    ZoneAddress::new(ZoneId(FIRST_COLUMN), AT)
}

fn raid5() -> Scheme {
    Scheme::new(2, 1).unwrap()
}

/// The blocks of a zone that cannot be read. All others are right.
async fn lost_of(volume: &Volume, zone: u32) -> Vec<u32> {
    let mut lost = Vec::new();
    for at in 0..WRITTEN {
        match volume.read(ZoneAddress::new(ZoneId(zone), at), BlockCount(1)).await {
            Ok(read) => assert_eq!(read.block(0), block(u64::from(at) + 1), "block {at}"),
            Err(status) => {
                assert_eq!(status, Status::UnrecoveredRead);
                lost.push(at);
            }
        }
    }
    lost
}

/// Checks that the new drive is in its place, and no drive is out.
fn assert_keeps_its_place(volume: &Volume) {
    let status = volume.status();
    assert!(status.stopped.is_none() && status.members[SLOT].rebuilding, "{status:?}");
    for (slot, member) in status.members.iter().enumerate() {
        assert!(slot == SLOT || member.online, "{status:?}");
        assert_eq!(member.failure, None);
    }
}

/// The new drive was expelled because another drive gave no answer about a block, and the other
/// drive was not named.
#[test]
fn a_drive_without_an_answer_is_named_and_costs_the_new_drive_nothing() {
    let bench = Bench::new(raid5(), true);
    bench.live(async |volume, handle| {
        bench.fail_reads(Status::InternalError, None);
        let begun = handle.now();
        let error = bench.replace(volume, handle).await.unwrap_err();
        let (slot, status) = (Column::of(0), Status::InternalError);
        assert_eq!(error, ReplaceError::Rebuild(RebuildError::SourceFailed { slot, status }));
        assert!(error.to_string().contains("slot 0"), "{error}");
        let took = handle.now().since(begun);
        assert!(took > Nanos::from_secs(20) && took < Nanos::from_secs(25), "it took {took}");
        assert_eq!(bench.blank.zone(place().zone).state, ZoneState::Empty, "no zone stays active");
        assert_keeps_its_place(volume);
        let status = volume.status();
        assert!(status.members[0].errors.read > 0, "{status:?}");
        assert_eq!(status.members[SLOT].errors.read, 0);
        assert_eq!(status.members[SLOT].zones_missing, 1, "the other zone is rebuilt");
        assert!(status.lost.is_empty(), "a drive without an answer loses nothing: {status:?}");
        // The volume may go on as well.
        bench.members[0].faults(|plan| plan.clear());
        volume.resume_rebuilds().await.unwrap();
        assert!(volume.status().members[SLOT].online);
    });
    bench.replaced().holds_without_each();
    assert_hit(&[Mark::RebuildSourceFailed]);
}

/// The next start goes on.
#[test]
fn a_rebuild_goes_on_after_a_restart_where_a_drive_gave_no_answer() {
    let bench = Bench::new(raid5(), true);
    bench.live(async |volume, handle| {
        bench.fail_reads(Status::Aborted, None);
        assert!(bench.replace(volume, handle).await.is_err());
        assert_keeps_its_place(volume);
    });
    let bench = bench.replaced();
    bench.members[0].faults(|plan| plan.clear());
    bench.live(async |volume, _| {
        assert_keeps_its_place(volume);
        volume.resume_rebuilds().await.unwrap();
    });
    bench.holds_without_each();
}

#[test]
fn a_drive_that_gives_no_answer_for_a_while_is_awaited() {
    let bench = Bench::new(raid5(), true);
    bench.live(async |volume, handle| {
        bench.fail_reads(Status::InternalError, Some(12));
        bench.replace(volume, handle).await.unwrap();
        assert!(volume.status().lost.is_empty());
    });
    bench.replaced().holds_without_each();
    assert_hit(&[Mark::RebuildSourceAwaited]);
}

/// The drive does not answer while users wait for the end of the zone's column.
#[test]
fn a_drive_without_an_answer_holds_no_zone_up() {
    let bench = Bench::new(raid5(), true);
    bench.live(async |volume, handle| {
        volume.manage(ZoneId(0), ZoneAction::Reset).await.unwrap();
        // Too little for a stripe, so that its zone is held for all of it.
        write(volume, 0, 0, UNIT + 1).await.unwrap();
        volume.manage(ZoneId(0), ZoneAction::Finish).await.unwrap();
        let reads = Selector::next(CommandKind::Read).in_zone(place().zone);
        bench.members[0].inject(reads.clone().times(6), FaultAction::Fail(Status::InternalError));
        bench.members[1].inject(reads.times(6), FaultAction::Fail(Status::InternalError));
        bench.replace(volume, handle).await.unwrap();
        assert!(volume.status().members[SLOT].online);
    });
}

/// The new drive was expelled for blocks that another one had lost.
#[test]
fn blocks_that_a_drive_has_lost_become_holes() {
    let bench = Bench::new(raid5(), true);
    let mut lost = Vec::new();
    bench.live(async |volume, handle| {
        // One with parity on the new drive, and one with data.
        for at in [AT, AT + UNIT, AT + 2 * UNIT] {
            bench.members[0].set_unreadable(ZoneAddress::new(place().zone, at), BlockCount(1));
        }
        bench.replace(volume, handle).await.unwrap();
        let status = volume.status();
        assert!(status.members.iter().all(|member| member.online), "{status:?}");
        assert!(status.members[0].errors.unrepairable > 0, "{status:?}");
        let listed: Vec<_> = status.lost.iter().flat_map(|of| of.lba..of.lba + of.blocks).collect();
        lost = lost_of(volume, 0).await;
        assert_eq!(listed, lost.iter().map(|at| u64::from(*at)).collect::<Vec<_>>());
        assert!(lost.len() > 3, "data of the new drive is lost, too: {lost:?}");
        assert_eq!(volume.status().members[SLOT].errors.checksum, 0, "a hole is no error");
        assert_eq!(lost_of(volume, 1).await, [0; 0]);
    });
    let bench = bench.replaced();
    bench.live(async |volume, _| {
        assert_eq!(lost_of(volume, 0).await, lost);
        let scrubbed = volume.scrub().await.unwrap();
        assert_eq!(scrubbed.mismatches, 0);
        // The zone goes on behind them.
        write(volume, 0, WRITTEN, 1).await.unwrap();
        volume.manage(ZoneId(0), ZoneAction::Reset).await.unwrap();
        assert!(volume.status().lost.is_empty());
        write(volume, 0, 0, WRITTEN).await.unwrap();
    });
    bench.holds_without_each();
    assert_hit(&[Mark::ZonedHoleWritten]);
}

/// Nothing would tell a hole from data.
#[test]
fn a_volume_without_checksums_gets_no_hole() {
    let bench = Bench::new(raid5(), false);
    bench.live(async |volume, handle| {
        bench.members[0].set_unreadable(place(), BlockCount(1));
        let error = bench.replace(volume, handle).await.unwrap_err();
        let (slot, status) = (Column::of(0), Status::UnrecoveredRead);
        assert_eq!(error, ReplaceError::Rebuild(RebuildError::SourceFailed { slot, status }));
        assert_keeps_its_place(volume);
        assert_eq!(volume.status().members[SLOT].zones_missing, 1);
        assert!(!volume.status().lost.is_empty(), "the drive has said so");
        volume.manage(ZoneId(0), ZoneAction::Reset).await.unwrap();
        volume.resume_rebuilds().await.unwrap();
        assert!(volume.status().members[SLOT].online);
    });
}

/// With a second parity unit, a rebuild goes on from the other drives.
#[test]
fn a_rebuild_needs_no_drive_that_another_can_stand_in_for() {
    for status in [Status::InternalError, Status::UnrecoveredRead, Status::DeviceGone] {
        let bench = Bench::new(Scheme::new(3, 2).unwrap(), true);
        bench.live(async |volume, handle| {
            bench.fail_reads(status, None);
            bench.replace(volume, handle).await.unwrap();
            let members = volume.status().members;
            assert!(members[SLOT].online, "{members:?}");
            assert_eq!(members[0].online, !status.is_fatal(), "{members:?}");
            assert!(members[0].errors.read > 0, "{members:?}");
            assert!(volume.status().lost.is_empty());
            assert_eq!(lost_of(volume, 0).await, [0; 0]);
        });
    }
}

/// Each drive that was asked had its block, and a hole was to be written that nothing could tell.
#[test]
fn a_zone_that_lacks_another_column_as_well_is_left_out() {
    let bench = Bench::new(raid5(), false);
    bench.members[0].set_read_only(place().zone);
    bench.live(async |volume, handle| {
        let error = bench.replace(volume, handle).await.unwrap_err();
        let (slot, status) = (Column::of(0), Status::ZoneReadOnly);
        assert_eq!(error, ReplaceError::Rebuild(RebuildError::SourceFailed { slot, status }));
        assert_keeps_its_place(volume);
        assert_eq!(volume.status().members[SLOT].zones_missing, 1);
        assert!(volume.status().lost.is_empty());
    });
}

/// The rebuild gave up after the eighth zone, and so did each later one.
#[test]
fn all_zones_are_rebuilt_that_can_be() {
    let bench = Bench::new(raid5(), false);
    bench.live(async |volume, handle| {
        for zone in 2..ZONES {
            write(volume, zone, 0, UNIT * 4).await.unwrap();
            volume.manage(ZoneId(zone), ZoneAction::Finish).await.unwrap();
        }
        for zone in 0..ZONES - 2 {
            bench.members[0]
                .set_unreadable(ZoneAddress::new(ZoneId(FIRST_COLUMN + zone), 3), BlockCount(1));
        }
        assert!(bench.replace(volume, handle).await.is_err());
        assert_eq!(volume.status().members[SLOT].zones_missing, ZONES - 2);
    });
}

/// One drive has lost its block, and another one does not answer: that one may have its own.
#[test]
fn a_block_of_a_drive_without_an_answer_is_not_lost() {
    let bench = Bench::new(raid5(), true);
    bench.live(async |volume, handle| {
        bench.members[0].set_unreadable(place(), BlockCount(1));
        let reads = Selector::next(CommandKind::Read).in_zone(place().zone).touching(AT..AT + 1);
        bench.members[1].inject(reads.always(), FaultAction::Fail(Status::InternalError));
        let error = bench.replace(volume, handle).await.unwrap_err();
        let (slot, status) = (Column::of(1), Status::InternalError);
        assert_eq!(error, ReplaceError::Rebuild(RebuildError::SourceFailed { slot, status }));
        assert!(volume.status().lost.is_empty());
        bench.members[1].faults(|plan| plan.clear());
        volume.resume_rebuilds().await.unwrap();
        assert!(!volume.status().lost.is_empty());
    });
}

/// Each block of a batch was asked for, one after the other.
#[test]
fn a_reset_does_not_wait_for_a_batch_of_lost_blocks() {
    let bench = Bench::new(raid5(), true);
    bench.live(async |volume, handle| {
        bench.members[0].set_unreadable(ZoneAddress::new(place().zone, 0), BlockCount(28));
        let reads = Selector::next(CommandKind::Read).in_zone(place().zone).always();
        bench.members[1].inject(reads, FaultAction::Slow(Nanos::from_secs(1)));
        let (inside, device) = (volume.clone(), bench.blank.attach(handle));
        let replacing = handle.spawn("replace", async move {
            inside.replace(Column::of(SLOT), device, MemberUuid([9; 16])).await
        });
        handle.sleep(Nanos::from_secs(5)).await;
        let begun = handle.now();
        volume.manage(ZoneId(0), ZoneAction::Reset).await.unwrap();
        let took = handle.now().since(begun);
        assert!(took < Nanos::from_secs(4), "it took {took}");
        replacing.await.unwrap();
        assert!(volume.status().members[SLOT].online);
    });
}

/// What an interrupted rebuild has written of a zone keeps no active zone of the drive.
#[test]
fn a_start_empties_what_a_rebuild_has_begun() {
    let bench = Bench::new(raid5(), true);
    let copied = || bench.blank.zone(place().zone);
    let executor = executor();
    let handle = executor.handle();
    let slow = Selector::next(CommandKind::Write).in_zone(place().zone).always();
    bench.blank.inject(slow, FaultAction::Slow(Nanos(10_000)));
    let replacing = async {
        let volume = start(&bench.members, &handle).await;
        bench.replace(&volume, &handle).await
    };
    assert!(executor.run_until(replacing, || copied().write_pointer.0 > 0).is_none());
    drop(executor);
    let bench = bench.replaced();
    for drive in &bench.members {
        drive.process_kill(1);
        drive.faults(|plan| plan.clear());
    }
    bench.live(async |volume, _| {
        assert!(volume.status().members[SLOT].rebuilding);
        assert_eq!(bench.members[SLOT].zone(place().zone).state, ZoneState::Empty);
        volume.resume_rebuilds().await.unwrap();
    });
    assert_hit(&[Mark::ZonedUncountedEmptied]);
    bench.holds_without_each();
}
