//! Faults that were on record before a crash are known after it.

use zoneweave_raid::log::{LostRange, MemberErrors, Volume};

/// What a life had on record at its end.
pub(crate) struct Recorded {
    /// The members by UUID, with their errors.
    members: Vec<(String, MemberErrors)>,
    lost: Vec<LostRange>,
}

impl Recorded {
    pub(crate) fn of(volume: &Volume) -> Option<Self> {
        let faults = volume.recorded_faults()?;
        let uuids = volume.status().members.into_iter().map(|member| member.uuid);
        Some(Self { members: uuids.zip(faults.errors).collect(), lost: faults.lost })
    }

    /// Checks that a volume that was started since knows them. A drive that is a member no more
    /// took its errors along.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn check(&self, volume: &Volume) {
        let status = volume.status();
        for (uuid, before) in &self.members {
            let member = status.members.iter().find(|member| member.uuid == *uuid);
            let Some(now) = member.map(|member| member.errors) else { continue };
            let count = |errors: &MemberErrors| errors.repaired + errors.unrepairable;
            assert!(
                count(&now) >= count(before) && now.unrepairable >= before.unrepairable,
                "a restart forgot errors on record: {before:?} are {now:?} now"
            );
        }
        for range in &self.lost {
            let is_listed = status.lost.iter().any(|now| {
                now.lba <= range.lba.0 && range.lba.0 + range.blocks <= now.lba + now.blocks
            });
            assert!(is_listed, "a restart forgot that {range:?} was lost");
        }
    }
}
