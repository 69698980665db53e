//! The members of the array and their membership, as the running volume knows them.
//!
//! Synchronous: eviction, quorum and the choice of columns to read decide from this part of the
//! state alone. Nothing here does I/O.
//!
//! Invariant: the membership is dirty from a change until a commit has put it on every member in
//! service.

use crate::log::engine::stop::StopReason;
use crate::log::format::{ArrayConfig, Seed};
use crate::log::members::attachment::Membership;
use crate::log::members::hedge::{Hedge, Hedging};
use crate::log::members::member::Member;

/// Placeholder for the epoch of a change that is not on media yet.
pub(in crate::log) const UNRECORDED: u64 = u64::MAX;

/// The version of the membership in superblock records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct Epoch {
    /// Number of membership changes.
    pub number: u64,
    /// Distinguishes two changes with the same count.
    pub tag: u64,
    /// Distinguishes histories started apart.
    pub lineage: u64,
}

/// The array under the volume.
pub(in crate::log) struct Array {
    /// Configuration of the array.
    pub(in crate::log) config: ArrayConfig,
    /// The seed of its checksums.
    pub(in crate::log) seed: Seed,
    /// Its members, by slot.
    pub(in crate::log) members: Vec<Member>,
    /// Former memberships of replaced drives with commands in flight.
    pub(in crate::log) former: Vec<Membership>,
    /// The version of the membership.
    pub(in crate::log) epoch: Epoch,
    /// An eviction is not on media yet: no new segment until it is.
    pub(in crate::log) membership_dirty: bool,
    /// Whether half of the members are enough to write, by the user's decision.
    pub(in crate::log) forced: bool,
    /// Why writes are refused, if they are.
    pub(in crate::log) stopped: Option<StopReason>,
    /// Whether some member may lose completed writes at power loss.
    pub(in crate::log) volatile: bool,
    /// Whether each chunk write is made durable by itself.
    pub(in crate::log) fua_always: bool,
    /// Budgets of hedged reads.
    pub(in crate::log) hedge: Hedge,
}

impl Array {
    /// The array of these members. `is_recorded`: whether every member carries `epoch` with these
    /// states; if not, the next commit replaces it. Writes are stopped if too few members are left.
    pub(in crate::log) fn assembled(
        config: ArrayConfig,
        members: Vec<Member>,
        epoch: Epoch,
        is_recorded: bool,
        forced: bool,
    ) -> Self {
        let devices = || members.iter().filter_map(|member| member.device.as_ref());
        let volatile = devices().any(|device| device.geometry().volatile_cache);
        let writethrough = config.log().writethrough.unwrap_or(!volatile);
        let mut array = Self {
            seed: Seed::of(config.array),
            config,
            members,
            former: Vec::new(),
            epoch,
            membership_dirty: !is_recorded,
            forced,
            stopped: None,
            volatile,
            fua_always: writethrough && volatile,
            hedge: Hedge::new(Hedging::OFF),
        };
        array.stop_if_too_few();
        array
    }
}
