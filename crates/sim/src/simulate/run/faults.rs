//! Faults and scrubs that were on record before a crash are known after it, and those that were
//! cleared are not.

use std::cell::Cell;

use zoneweave_raid::log::{
    AdminError, Faults, LostRange, LostStatus, MemberErrors, ScrubResult, ScrubRun, Volume,
};
use zoneweave_raid::raizn;

/// A volume with faults and scrubs on record.
pub(crate) trait HasFaults {
    fn recorded(&self) -> Option<Faults>;

    /// The members by UUID with their errors, the lost ranges and the scrubs.
    fn known(&self) -> Known;

    async fn clear(&self) -> Result<(), AdminError>;

    async fn record(&self, run: ScrubRun) -> Result<(), AdminError>;
}

/// The past of a volume as it knows it.
pub(crate) struct Known {
    members: Vec<(String, MemberErrors)>,
    lost: Vec<LostStatus>,
    scrubs: Vec<ScrubRun>,
}

impl HasFaults for Volume {
    fn recorded(&self) -> Option<Faults> {
        self.recorded_faults()
    }

    fn known(&self) -> Known {
        let status = self.status();
        let members = status.members.into_iter().map(|member| (member.uuid, member.errors));
        Known { members: members.collect(), lost: status.lost, scrubs: status.scrubs }
    }

    async fn clear(&self) -> Result<(), AdminError> {
        self.clear_faults().await
    }

    async fn record(&self, run: ScrubRun) -> Result<(), AdminError> {
        self.record_scrub(run).await
    }
}

impl HasFaults for raizn::Volume {
    fn recorded(&self) -> Option<Faults> {
        self.recorded_faults()
    }

    fn known(&self) -> Known {
        let status = self.status();
        let members = status.members.into_iter().map(|member| (member.uuid, member.errors));
        Known { members: members.collect(), lost: status.lost, scrubs: status.scrubs }
    }

    async fn clear(&self) -> Result<(), AdminError> {
        self.clear_faults().await
    }

    async fn record(&self, run: ScrubRun) -> Result<(), AdminError> {
        self.record_scrub(run).await
    }
}

/// Orders about the record, and their answers.
#[derive(Default)]
pub(crate) struct Orders {
    /// Orders of this life to clear the faults that were not obeyed, or not yet.
    clearing: Cell<u32>,
    /// Scrubs that were to be recorded.
    scrubs: Cell<u64>,
    /// The newest scrub that is on record.
    recorded: Cell<Option<ScrubRun>>,
}

impl Orders {
    /// Clears the faults. The order may fail, and then some members may have taken it.
    pub(crate) async fn clear(&self, volume: &impl HasFaults) {
        self.clearing.set(self.clearing.get() + 1);
        if volume.clear().await.is_ok() {
            self.clearing.set(self.clearing.get() - 1);
        }
    }

    /// Records a scrub.
    pub(crate) async fn record_scrub(&self, volume: &impl HasFaults) {
        let number = self.scrubs.get() + 1;
        self.scrubs.set(number);
        let result = ScrubResult::Complete;
        let run = ScrubRun { ended_s: number, result, ..ScrubRun::begin(number) };
        let newest = self.recorded.get().map_or(0, |run| run.begun_s);
        if volume.record(run).await.is_ok() && number > newest {
            self.recorded.set(Some(run));
        }
    }

    /// Nothing is promised about the faults on record so far.
    pub(crate) fn forget(&self) {
        self.recorded.set(None);
    }
}

/// What a life had on record at its end.
pub(crate) struct Recorded {
    /// The members by UUID, with their errors on record.
    members: Vec<(String, MemberErrors)>,
    lost: Vec<LostRange>,
    /// The members with all of their errors.
    known: Vec<(String, MemberErrors)>,
    /// Whether an order to clear the faults was under way, or had failed.
    clearing: bool,
}

fn damaged(errors: &MemberErrors) -> u64 {
    errors.repaired + errors.unrepairable
}

impl Recorded {
    /// The record at the end of a life.
    pub(crate) fn of(volume: &impl HasFaults, orders: &Orders) -> Self {
        let known = volume.known().members;
        let faults = volume.recorded().unwrap_or_default();
        let uuids = known.iter().map(|(uuid, _)| uuid.clone());
        Self {
            members: uuids.zip(faults.errors).collect(),
            lost: faults.lost,
            known,
            clearing: orders.clearing.take() > 0,
        }
    }

    /// Checks that a volume that was started since knows them. A drive that is a member no more
    /// took its errors along.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn check(&self, volume: &impl HasFaults, orders: &Orders) {
        let Known { members, lost, scrubs } = volume.known();
        if let Some(run) = orders.recorded.get() {
            assert!(scrubs.contains(&run), "a restart forgot {run:?}, and knows {scrubs:?}");
        }
        if self.clearing {
            return;
        }
        for (uuid, before) in &self.members {
            let member = members.iter().find(|(now, _)| now == uuid);
            let Some((_, now)) = member else { continue };
            assert!(
                damaged(now) >= damaged(before) && now.unrepairable >= before.unrepairable,
                "a restart forgot errors on record: {before:?} are {now:?} now"
            );
        }
        for range in &self.lost {
            let is_listed = lost.iter().any(|now| {
                now.lba <= range.lba.0 && range.lba.0 + range.blocks <= now.lba + now.blocks
            });
            assert!(is_listed, "a restart forgot that {range:?} was lost");
        }
    }

    /// Checks that a volume knows no damage that was cleared before its start, which finds none by
    /// itself.
    ///
    /// # Panics
    /// If it does.
    pub(crate) fn check_cleared(&self, volume: &impl HasFaults) {
        let now = volume.known().members;
        for (uuid, before) in self.known.iter().filter(|_| !self.clearing) {
            let member = now.iter().find(|(now, _)| now == uuid);
            let Some((_, now)) = member else { continue };
            assert!(
                damaged(now) <= damaged(before),
                "a restart brought errors back: {before:?} are {now:?} now"
            );
        }
    }
}
