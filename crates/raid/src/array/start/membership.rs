//! The membership in a superblock record, without the part of the volume.

use crate::array::format::config::ArrayConfig;
use crate::array::format::numbers::{Epoch, Lineage};
use crate::array::format::record::{MemberEntry, MemberUuid, SuperblockRecord, VolumeBody};
use crate::scheme::Column;

/// The membership in a superblock record, whatever volume is on the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipRecord {
    /// Configuration of the array.
    pub config: ArrayConfig,
    /// Version of the membership.
    pub epoch: Epoch,
    /// Distinguishes two changes of the membership with the same version.
    pub epoch_tag: u64,
    /// Distinguishes histories started apart.
    pub lineage: Lineage,
    /// Number of the record, increasing through the array.
    pub record_sequence: u64,
    /// Whether the array is being destroyed.
    pub is_destroyed: bool,
    /// The member that carries the record.
    pub member: MemberUuid,
    /// Its slot.
    pub slot: Column,
    /// All members, by slot.
    pub members: Vec<MemberEntry>,
}

impl MembershipRecord {
    /// The membership in a record.
    #[must_use]
    pub fn of<B: VolumeBody>(record: &SuperblockRecord<B>) -> Self {
        Self {
            config: record.config.clone(),
            epoch: record.epoch,
            epoch_tag: record.epoch_tag,
            lineage: record.lineage,
            record_sequence: record.record_sequence,
            is_destroyed: record.body.is_destroyed(),
            member: record.member,
            slot: record.slot,
            members: record.members.clone(),
        }
    }
}
