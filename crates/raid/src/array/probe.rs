//! A record that every member has to take before an eviction is recorded.
//!
//! A drive may answer reads and take no write: an image file on a full file system, or an NVMe
//! drive that has become read-only. If the others put an eviction on record first, and cannot do
//! without this drive as well, no start has both drives any more. So each member first repeats its
//! last record. Members that refuse are evicted in memory, and the array stops if they are too
//! many.
//!
//! Invariant: a probe decides nothing. It repeats the version of the membership that each member
//! has on record, with a body that means the same behind the records there.

use std::cell::OnceCell;
use std::rc::Rc;

use futures_util::future::join_all;

use crate::array::format::record::{MemberEntry, SuperblockRecord, VolumeBody};
use crate::array::start::assemble::Drive;
use crate::array::state::{Array, Version};
use crate::array::stop::StopReason;
use crate::array::superblock::{Commit, MemberTable, Refused};
use crate::array::superblock_logs::SuperblockLog;
use crate::array::volume::ArrayVolume;
use crate::instrument::marks::{Mark, mark};

/// The membership that all members in service have on record.
#[derive(Clone, Debug)]
pub(crate) struct Probe<B> {
    version: Version,
    members: Vec<MemberEntry>,
    body: B,
}

impl<B: VolumeBody> Probe<B> {
    /// The membership that a start has chosen, with a body that changes nothing. `None` if a member
    /// has another version on record, or may have: it would not be repeated.
    pub(crate) fn of(
        chosen: &SuperblockRecord<B>,
        drives: &[Option<Drive<B>>],
        slots: &[Option<usize>],
        array: &Array,
        body: B,
    ) -> Option<Self> {
        let (placed, members) = (slots.len(), chosen.members.len());
        assert!(placed == members, "{placed} slots of {members} members");
        let version =
            Version { epoch: chosen.epoch, tag: chosen.epoch_tag, lineage: chosen.lineage };
        let mut placed = slots.iter().flatten().filter_map(|at| drives[*at].as_ref());
        let is_repeated = |drive: &Drive<B>| {
            let newest = drive.records.newest();
            !drive.records.scan.may_hide_newer()
                && newest.is_some_and(|own| {
                    (own.epoch, own.epoch_tag, own.lineage)
                        == (version.epoch, version.tag, version.lineage)
                })
        };
        let is_on_record = array.version == version && placed.all(is_repeated);
        is_on_record.then(|| Self { version, members: chosen.members.clone(), body })
    }
}

impl SuperblockLog {
    /// Has every member in service repeat its record, and evicts a member that does not. The
    /// eviction is not recorded here.
    pub(crate) async fn probe<V: ArrayVolume>(&self, volume: &Rc<V>, probe: &Probe<V::Body>) {
        let _one_at_a_time = self.lock.acquire().await;
        let members = volume.array().writable_members();
        let Probe { version, members: listed, body } = probe;
        assert!(listed.len() == volume.array().members.len(), "a probe of another array");
        let table = MemberTable { version: *version, members: listed.clone(), is_new: false };
        let commit = Commit { table, body, switch: false, snapshot: OnceCell::new() };
        let writes = members.iter().map(|(column, device)| async {
            (*column, self.write_member(volume, &commit, *column, device).await)
        });
        let (mut switched, mut is_taken) = (Vec::new(), true);
        for (column, result) in join_all(writes).await {
            match result {
                Ok(old) => switched.extend(old.map(|zone| (column, zone))),
                Err(refused) => {
                    mark(Mark::ProbeRefused);
                    is_taken = false;
                    match refused {
                        Refused::ByDrive(status) => _ = volume.evict(column, &status.to_string()),
                        Refused::TooManyRecords => {
                            let reason = StopReason::SuperblockZoneTooSmall;
                            volume.array_mut().stopped.get_or_insert(reason);
                        }
                    }
                }
            }
        }
        volume.changed().open();
        // Otherwise the old zones stay until the next switch.
        if is_taken {
            self.reset_old_zones(volume, switched).await;
        }
    }
}
