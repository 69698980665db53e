//! Creates an array: a superblock on every drive, nothing else. The volume decides about the
//! configuration.

use zoneweave_journal::TwinLog;
use zoneweave_zoned::{Status, ZoneId, ZoneInfo, ZonedDeviceExt};

use crate::array::format::config::ArrayConfig;
use crate::array::format::numbers::{Epoch, Lineage, SegmentId, Sequence};
use crate::array::format::record::{
    MemberEntry, MemberState, MemberUuid, SuperblockRecord, VolumeBody,
};
use crate::array::offered::OfferedDrive;
use crate::array::repair::fit::{empty_drive, holds_something, superblock_zones};
use crate::array::superblock_logs::mark_event;
use crate::scheme::Column;

/// Why a drive cannot become a member of a new array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It has contents, which may not be erased.
    NotEmpty,
    /// It has no two writable zones for its superblock.
    NoSuperblockZones,
    /// A command failed.
    Failed(Status),
}

impl From<Status> for Unusable {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

/// A drive's zones, if it is empty or may be erased.
pub(crate) async fn look(drive: &OfferedDrive, wipe: bool) -> Result<Vec<ZoneInfo>, Unusable> {
    let zones = drive.device.report().await?;
    match zones.iter().any(holds_something) && !wipe {
        true => Err(Unusable::NotEmpty),
        false => Ok(zones),
    }
}

/// Erases a drive with contents; returns its superblock zones.
pub(crate) async fn prepare(
    drive: &OfferedDrive,
    zones: &[ZoneInfo],
) -> Result<[ZoneId; 2], Unusable> {
    if zones.iter().any(holds_something) {
        empty_drive(&drive.device, zones).await?;
    }
    superblock_zones(zones).ok_or(Unusable::NoSuperblockZones)
}

/// A new array: its first records.
pub(crate) struct NewArray<'a> {
    pub(crate) config: &'a ArrayConfig,
    /// Distinguishes this history from others: random.
    pub(crate) lineage: Lineage,
    /// The members' identities, by slot: random.
    pub(crate) members: &'a [MemberUuid],
}

impl NewArray<'_> {
    /// Writes the first records to the drive of a slot, durably.
    pub(crate) async fn write_to<B: VolumeBody>(
        &self,
        slot: Column,
        drive: &OfferedDrive,
        superblocks: [ZoneId; 2],
    ) -> Result<(), Unusable> {
        assert!(self.members.len() == self.config.scheme.columns(), "a UUID for each member");
        let bodies = [B::CREATED, B::snapshot_end(1)];
        let payload = |index: u32| {
            self.record(slot, u64::from(index) + 1, bodies[index as usize].clone()).sealed()
        };
        let mut log = TwinLog::begin(superblocks, mark_event);
        log.switch(&*drive.device, 2, payload).await?;
        Ok(())
    }

    fn record<B>(&self, slot: Column, record_sequence: u64, body: B) -> SuperblockRecord<B> {
        let entry = |uuid: &MemberUuid| MemberEntry {
            uuid: *uuid,
            state: MemberState::Online,
            since_epoch: Epoch::FIRST,
        };
        SuperblockRecord {
            config: self.config.clone(),
            lineage: self.lineage,
            epoch: Epoch::FIRST,
            epoch_tag: self.lineage.0,
            record_sequence,
            slot,
            member: self.members[slot.index()],
            members: self.members.iter().map(entry).collect(),
            sequence_ceiling: Sequence::FIRST,
            segment_ceiling: SegmentId::FIRST,
            body,
        }
    }
}
