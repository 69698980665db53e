//! The state of a zoned volume, for users.

use serde::{Deserialize, Serialize};
use zoneweave_zoned::ZoneState;

use crate::array::format::errors::MemberErrors;
use crate::array::format::faults::LostStatus;
use crate::array::format::numbers::Epoch;
use crate::array::format::record::MemberState;
use crate::array::format::scrubs::ScrubRun;
use crate::array::repair::rebuild::Progress;
use crate::array::repair::scrub::JobState;
use crate::array::state::UNRECORDED;
use crate::raizn::core::Core;

/// The state of a zoned volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VolumeStatus {
    /// Name of the array.
    pub name: String,
    /// Version of its membership.
    pub epoch: Epoch,
    /// Level, data and parity units, such as `raid5 4+1`.
    pub scheme: String,
    /// Bytes of a stripe unit.
    pub unit_bytes: u64,
    /// Whether reads are verified.
    pub checksums: bool,
    /// Whether a write is durable only after a flush, or with FUA.
    pub volatile_cache: bool,
    /// Logical zones.
    pub zones: ZoneCounts,
    /// The members, by slot.
    pub members: Vec<MemberStatus>,
    /// Blocks that are in parity logs because a crash left something in their places.
    pub relocated_blocks: u64,
    /// The rebuild, while one runs.
    pub rebuild: Option<Progress>,
    /// Progress of the scrub, if there is one: zones.
    pub scrub: Option<Progress>,
    /// State of the scrub, if there is one.
    pub scrub_state: Option<JobState>,
    /// Why writes are refused, if they are.
    pub stopped: Option<String>,
    /// Lost ranges of the volume since they were last cleared.
    pub lost: Vec<LostStatus>,
    /// Whether ranges were joined, with blocks between them that are not lost.
    pub lost_joined: bool,
    /// The newest scrubs on record, in the order of their begin.
    pub scrubs: Vec<ScrubRun>,
}

/// Logical zones by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneCounts {
    /// Nothing written.
    pub empty: u32,
    /// Open, implicitly or explicitly.
    pub open: u32,
    /// Partly written and closed.
    pub closed: u32,
    /// Written to the end, or finished.
    pub full: u32,
    /// Never written again.
    pub read_only: u32,
    /// Lost.
    pub offline: u32,
}

/// A member of the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberStatus {
    /// Its slot.
    pub slot: u8,
    /// Its UUID as a member.
    pub uuid: String,
    /// Whether it has its column of every zone.
    pub online: bool,
    /// Whether it is being rebuilt.
    pub rebuilding: bool,
    /// Whether it was missing at the start and has missed nothing: it is taken out of service with
    /// the first change.
    pub missing: bool,
    /// Zones that lack its column.
    pub zones_missing: u32,
    /// Zones that its drive leaves active, as it finds fault with the command to finish them.
    pub zones_unfinished: u32,
    /// Why it is out of service, if it is.
    pub failure: Option<String>,
    /// Errors since they were last cleared, or since it became a member.
    pub errors: MemberErrors,
    /// Nanoseconds since its last answer.
    pub seen_ns_ago: u64,
    /// Usual latency of its smallest reads that were not answered at once, in ns.
    pub read_latency_ns: Option<u64>,
}

impl VolumeStatus {
    pub(crate) fn of(core: &Core) -> Self {
        let state = core.state.borrow();
        let now = core.handle.now();
        let is_untouched = core.is_unpublished() && !core.is_publishing();
        let mut zones = ZoneCounts::default();
        for record in state.zones.export() {
            let count = match record.state {
                ZoneState::Empty => &mut zones.empty,
                ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen => &mut zones.open,
                ZoneState::Closed => &mut zones.closed,
                ZoneState::Full => &mut zones.full,
                ZoneState::ReadOnly => &mut zones.read_only,
                ZoneState::Offline => &mut zones.offline,
            };
            *count += 1;
        }
        let members = state.array.scheme().iter().zip(&state.array.members);
        let members = members.map(|(column, member)| {
            let lacks = |zone: &&crate::raizn::zone::LogicalZone| zone.absent.contains(column);
            MemberStatus {
                slot: column.0,
                uuid: member.entry.uuid.to_string(),
                online: member.is_in_full_service(),
                rebuilding: member.entry.state == MemberState::Rebuilding
                    && member.device.is_some(),
                missing: is_untouched && member.entry.since_epoch == UNRECORDED,
                zones_missing: count_of(state.logical.iter().filter(lacks).count()),
                zones_unfinished: count_of(member.unfinished.len()),
                failure: member.failure.clone(),
                errors: member.errors,
                seen_ns_ago: now.since(member.seen).0,
                read_latency_ns: member.pace.usual_ns(&state.array.hedge.hedging),
            }
        });
        let columns = || state.logical.iter().flat_map(|zone| &zone.columns);
        Self {
            name: state.array.config.name.clone(),
            epoch: state.array.version.epoch,
            scheme: state.array.scheme().to_string(),
            unit_bytes: u64::from(core.layout.unit()) * zoneweave_zoned::BLOCK_BYTES as u64,
            volatile_cache: state.array.volatile,
            checksums: core.checksums != crate::array::format::config::Checksums::None,
            zones,
            members: members.collect(),
            relocated_blocks: columns().map(|column| column.relocated.len() as u64).sum(),
            rebuild: core.rebuild.progress.get(),
            scrub: core.scrub.job().map(|(_, progress)| progress),
            scrub_state: core.scrub.job().map(|(state, _)| state),
            stopped: state.array.stopped.map(|reason| reason.to_string()),
            lost: state.array.lost.lost.iter().copied().map(LostStatus::from).collect(),
            lost_joined: state.array.lost.joined,
            scrubs: state.array.scrubs.0.clone(),
        }
    }
}

fn count_of(zones: usize) -> u32 {
    u32::try_from(zones).expect("a volume has fewer zones")
}
