//! Zoned volumes: docs/format.md sections Z1 to Z4.
//!
//! `decisions` collects the states of zones from superblock records, `log` reads the parity logs,
//! `layout` computes places, `column` reads a member's blocks of a zone, and `walk` verifies the
//! stripes of a zone and finds its end.

pub(crate) mod column;
pub(crate) mod decisions;
pub(crate) mod layout;
pub(crate) mod log;
pub(crate) mod walk;

use bytes::Bytes;

use crate::array::membership::Membership;
use crate::format::parity::Code;
use crate::format::zoned::ZonedConfig;
use crate::report::{Findings, Location, Problem};
use decisions::Decisions;
use layout::Layout;
use log::Logs;
use walk::Walk;

/// A logical zone as the next start would find it, without the members that are missing now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneContents {
    /// Its length in blocks.
    pub blocks: u32,
    /// Blocks of these that cannot be read.
    pub lost: u32,
    /// Whether the zone is finished, or written to its end.
    pub is_full: bool,
    /// The blocks, if the options ask for them, up to the last one of which a drive holds
    /// something. Unreadable ones are zeros.
    pub data: Vec<Bytes>,
}

/// Checks all zones.
pub(crate) async fn check_zones(
    membership: &Membership,
    zoned: ZonedConfig,
    keep: bool,
    findings: &mut Findings,
) -> Vec<ZoneContents> {
    let Some(layout) = Layout::new(&membership.config, zoned) else {
        findings.add(Location::default(), Problem::ImpossibleVolume);
        return Vec::new();
    };
    let members = || membership.members.iter().flatten();
    let decisions = Decisions::of(members().map(|member| &member.records[..]));
    let published = decisions.published.unwrap_or(0);
    let logs = Logs::read(membership, &layout, &decisions, published).await;
    let code = Code::new(membership.config.shape.scheme);
    let mut zones = Vec::new();
    for zone in 0..layout.zones {
        let state = decisions.zone(zone);
        let walk = Walk { membership, layout, zoned, state, decisions: &decisions, logs: &logs };
        zones.push(walk.run(&code, keep, findings).await);
    }
    list_recorded(membership, &layout, findings);
    zones
}

/// Lists the ranges that are on record as lost.
fn list_recorded(membership: &Membership, layout: &Layout, findings: &mut Findings) {
    let size = u64::from(layout.zone_blocks().next_power_of_two());
    let small = |number: u64| u32::try_from(number).expect("a zone of the volume, or its block");
    let (ranges, joined) = membership.lost_on_record();
    for (lba, blocks) in ranges {
        let (zone, block) = (small(lba / size), small(lba % size));
        findings.add(Location::default(), Problem::LostOnRecord { zone, block, blocks, joined });
    }
}
