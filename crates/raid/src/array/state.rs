//! The members of the array and their membership, as the running volume knows them.
//!
//! Synchronous: eviction, quorum and the choice of columns to read decide from this part of the
//! state alone. Nothing here does I/O.
//!
//! Invariant: the membership is dirty from a change until a commit has put it on every member in
//! service.

use std::rc::Rc;

use zoneweave_journal::Seed;
use zoneweave_zoned::ZonedDevice;

use crate::array::attachment::Membership;
use crate::array::format::config::{ArrayConfig, VolumeKind};
use crate::array::format::errors::MemberErrors;
use crate::array::format::faults::Faults;
use crate::array::format::numbers::{Epoch, Lineage};
use crate::array::format::record::{MemberState, MemberUuid};
use crate::array::format::scrubs::Scrubs;
use crate::array::latency::hedge::{Hedge, Hedging};
use crate::array::member::Member;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::scheme::{Column, ColumnSet, Scheme};

/// Placeholder for the epoch of a change that is not on media yet.
pub(crate) const UNRECORDED: Epoch = Epoch(u64::MAX);

/// The version of the membership in superblock records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// Number of membership changes.
    pub epoch: Epoch,
    /// Distinguishes two changes with the same count.
    pub tag: u64,
    /// Distinguishes histories started apart.
    pub lineage: Lineage,
}

/// The array under the volume.
pub(crate) struct Array {
    /// Configuration of the array.
    pub(crate) config: ArrayConfig,
    /// The seed of its checksums.
    pub(crate) seed: Seed,
    /// Its members, by slot.
    pub(crate) members: Vec<Member>,
    /// Former memberships of replaced drives with commands in flight.
    pub(crate) former: Vec<Membership>,
    /// The version of the membership.
    pub(crate) version: Version,
    /// An eviction is not on media yet: no new segment until it is.
    pub(crate) membership_dirty: bool,
    /// Changes of membership are recorded with the first change that users make, not by themselves.
    pub(crate) defers_records: bool,
    /// Whether half of the members are enough to write, by the user's decision.
    pub(crate) forced: bool,
    /// Why writes are refused, if they are.
    pub(crate) stopped: Option<StopReason>,
    /// Whether some member may lose completed writes at power loss.
    pub(crate) volatile: bool,
    /// Whether each chunk write is made durable by itself.
    pub(crate) fua_always: bool,
    /// Budgets of hedged reads.
    pub(crate) hedge: Hedge,
    /// Lost ranges of the volume. The errors of members are with them.
    pub(crate) lost: Faults,
    /// The newest faults on media, if there ever were any.
    pub(crate) recorded_faults: Option<Faults>,
    /// The newest scrubs.
    pub(crate) scrubs: Scrubs,
}

impl Array {
    /// The array of these members. `is_recorded`: whether every member carries `version` with these
    /// states; if not, the next commit replaces it. Writes are stopped if too few members are left.
    pub(crate) fn assembled(
        config: ArrayConfig,
        members: Vec<Member>,
        version: Version,
        is_recorded: bool,
        forced: bool,
    ) -> Self {
        let (count, columns) = (members.len(), config.scheme.columns());
        assert!(count == columns, "{count} members for {columns} columns");
        let devices = || members.iter().filter_map(|member| member.device.as_ref());
        let volatile = devices().any(|device| device.geometry().volatile_cache);
        let writethrough = match &config.volume {
            VolumeKind::Log(log) => log.writethrough,
            VolumeKind::Zoned(_) => None,
        };
        let writethrough = writethrough.unwrap_or(!volatile);
        let mut array = Self {
            seed: Seed::of(config.array),
            config,
            members,
            former: Vec::new(),
            version,
            membership_dirty: !is_recorded,
            defers_records: false,
            forced,
            stopped: None,
            volatile,
            fua_always: writethrough && volatile,
            hedge: Hedge::new(Hedging::OFF),
            lost: Faults::default(),
            recorded_faults: None,
            scrubs: Scrubs::default(),
        };
        array.stop_if_too_few();
        array
    }
}

impl Array {
    #[must_use]
    pub(crate) fn scheme(&self) -> Scheme {
        self.config.scheme
    }

    /// Faults since they were last cleared.
    #[must_use]
    pub(crate) fn faults(&self) -> Faults {
        let errors = self.members.iter().map(|member| member.errors).collect();
        Faults { errors, ..self.lost.clone() }
    }

    /// Continues with the faults that a start found on media.
    pub(crate) fn take_faults(&mut self, faults: Faults) {
        assert!(faults.errors.len() == self.members.len(), "errors of another array");
        for (member, errors) in self.members.iter_mut().zip(&faults.errors) {
            member.errors = *errors;
        }
        self.recorded_faults = Some(faults.clone());
        self.lost = Faults { errors: Vec::new(), ..faults };
    }

    /// Forgets faults that the members with these UUIDs had. A lost range that has grown since
    /// stays.
    pub(crate) fn forget_faults(&mut self, seen: &Faults, uuids: &[MemberUuid]) {
        let errors = seen.errors.iter().zip(uuids);
        for (member, (errors, uuid)) in self.members.iter_mut().zip(errors) {
            if member.entry.uuid == *uuid {
                member.errors = member.errors.since(errors);
            }
        }
        self.lost.lost.retain(|range| !seen.lost.contains(range));
        self.lost.joined &= !self.lost.lost.is_empty();
    }

    /// Members that take part in new stripes, with their drives.
    #[must_use]
    pub(crate) fn writable_members(&self) -> Vec<(Column, Rc<dyn ZonedDevice>)> {
        let members = self.scheme().iter().zip(&self.members);
        members.filter_map(|(column, member)| Some((column, member.writable()?))).collect()
    }

    /// The members without valid contents.
    #[must_use]
    pub(crate) fn lost_members(&self) -> ColumnSet {
        let lost = |member: &Member| {
            member.device.is_none()
                || member.entry.state != MemberState::Online
                    && !mutant(Mutant::RebuildingMemberCounts)
        };
        let members = self.scheme().iter().zip(&self.members);
        members.filter(|(_, member)| lost(member)).map(|(column, _)| column).collect()
    }

    /// Attaches another member to a slot.
    pub(crate) fn put_member(&mut self, column: Column, member: Member) {
        let before = std::mem::replace(&mut self.members[column.index()], member);
        assert!(before.device.is_none(), "{column} gets a drive, and has one in service");
        // The errors on record are of the drive before.
        if let Some(recorded) = &mut self.recorded_faults {
            recorded.errors[column.index()] = MemberErrors::default();
        }
        self.former.extend(before.membership);
        self.former.retain(|membership| !membership.has_ended());
    }

    /// The ended memberships of a drive with commands in flight.
    #[must_use]
    pub(crate) fn former_of(&self, device: &Rc<dyn ZonedDevice>) -> Vec<Membership> {
        let out = self.members.iter().filter(|member| member.device.is_none());
        let memberships = out.filter_map(|member| member.membership.as_ref()).chain(&self.former);
        memberships.filter(|membership| membership.is_of(device)).cloned().collect()
    }

    /// The slot in which a drive is in service.
    #[must_use]
    pub(crate) fn slot_of(&self, device: &Rc<dyn ZonedDevice>) -> Option<Column> {
        let in_service = |member: &Member| {
            let membership = member.membership.as_ref().filter(|_| member.device.is_some());
            membership.is_some_and(|membership| membership.is_of(device))
        };
        let mut members = self.scheme().iter().zip(&self.members);
        members.find(|(_, member)| in_service(member)).map(|(column, _)| column)
    }

    /// Whether everything can be read without the lost members and this one.
    #[must_use]
    pub(crate) fn survives_without(&self, column: Column) -> bool {
        self.scheme().survives(self.lost_members().with(column))
    }

    /// Stops writes if too few members are left for them to be safe.
    pub(crate) fn stop_if_too_few(&mut self) {
        let covered = self.scheme().survives(self.lost_members());
        let left = self.members.iter().filter(|member| member.writable().is_some()).count();
        if !covered && !mutant(Mutant::WritesNotStopped) {
            mark(Mark::StoppedBeyondRedundancy);
            self.stopped = Some(StopReason::BeyondRedundancy);
        } else if left * 2 <= self.scheme().columns() && !self.forced {
            mark(Mark::StoppedWithoutMajority);
            self.stopped = Some(StopReason::WithoutMajority);
        }
    }
}
