//! The parity logs of members: docs/format.md section Z2.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::array::membership::Membership;
use crate::drive::Drive;
use crate::format::fields::Array;
use crate::format::zoned::{LogHeader, LogKind};
use crate::zoned::decisions::Decisions;
use crate::zoned::layout::{LOG_ZONES, Layout};

/// Blocks of a parity log that are read at a time.
const READ_BLOCKS: u32 = 256;

/// A block with its data checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) data: Bytes,
    pub(crate) sum: u32,
}

/// Where partial parity belongs: zone, generation, stripe, block of the unit, data units included.
pub(crate) type Included = (u32, u64, u32, u32, u32);

/// A place in a zone of a generation: column, column offset.
type Moved = (u32, u64, usize, u32);

/// What parity logs hold of the published mount.
#[derive(Default)]
pub(crate) struct Logs {
    /// By their place.
    pub(crate) relocated: BTreeMap<Moved, Sealed>,
    /// By the number of the parity unit.
    pub(crate) parity: BTreeMap<Included, BTreeMap<u32, Sealed>>,
}

impl Logs {
    pub(crate) async fn read(
        membership: &Membership,
        layout: &Layout,
        decisions: &Decisions,
        published: u64,
    ) -> Self {
        let mut logs = Self::default();
        for (column, member) in membership.members.iter().enumerate() {
            let Some(member) = member else { continue };
            for zone in LOG_ZONES {
                let blocks = read_zone(&member.drive, zone).await;
                let records = valid_records(membership.array, layout, &blocks);
                let count = |header: &LogHeader| {
                    let generation = decisions.zone(header.zone).generation;
                    header.mount == published && header.generation == generation
                };
                for (header, blocks) in records.into_iter().filter(|(header, _)| count(header)) {
                    logs.enter(layout, column, &header, blocks);
                }
            }
        }
        logs
    }

    fn enter(&mut self, layout: &Layout, column: usize, header: &LogHeader, blocks: Vec<Sealed>) {
        let (zone, generation) = (header.zone, header.generation);
        match header.kind {
            LogKind::Relocated { at } => {
                let places = (at..).map(|at| (zone, generation, column, at));
                self.relocated.extend(places.zip(blocks));
            }
            LogKind::Parity { parity, end, within } => {
                let stripe = end / layout.stripe_blocks();
                if layout.column_of(zone, stripe, layout.data + parity) != column {
                    return;
                }
                let rest = end - stripe * layout.stripe_blocks();
                for (within, block) in (within..).zip(blocks) {
                    let units = layout.units_with(within, rest);
                    let included = (zone, generation, stripe, within, units);
                    self.parity.entry(included).or_default().insert(parity, block);
                }
            }
        }
    }
}

/// The records among the blocks of a zone whose headers and blocks verify.
fn valid_records(
    array: Array,
    layout: &Layout,
    blocks: &[Option<Bytes>],
) -> Vec<(LogHeader, Vec<Sealed>)> {
    let (mut records, mut at) = (Vec::new(), 0);
    while at < blocks.len() {
        let header = blocks[at].as_ref().and_then(|block| LogHeader::parse(array, block));
        at += 1;
        let Some(header) = header.filter(|header| has_places(layout, header)) else { continue };
        let Some(behind) = blocks.get(at..at + header.sums.len()) else { break };
        let sealed = behind.iter().zip(&header.sums).map(|(block, (own, sum))| {
            let data = block.clone().filter(|data| array.checksum(&[data]) == *own)?;
            Some(Sealed { data, sum: *sum })
        });
        if let Some(sealed) = sealed.collect::<Option<Vec<_>>>() {
            at += sealed.len();
            records.push((header, sealed));
        }
    }
    records
}

/// Whether the places that a header names exist.
fn has_places(layout: &Layout, header: &LogHeader) -> bool {
    let blocks = u32::try_from(header.sums.len()).unwrap_or(u32::MAX);
    let fits = |at: u32, most: u32| at.checked_add(blocks).is_some_and(|end| end <= most);
    header.zone < layout.zones
        && match header.kind {
            LogKind::Relocated { at } => fits(at, layout.stripes * layout.unit),
            LogKind::Parity { parity, end, within } => {
                parity < layout.columns - layout.data
                    && end < layout.zone_blocks()
                    && !end.is_multiple_of(layout.stripe_blocks())
                    && fits(within, layout.unit)
            }
        }
}

/// The blocks of a zone; `None` for unreadable ones.
async fn read_zone(drive: &Drive, zone: u32) -> Vec<Option<Bytes>> {
    let info = drive.readable_zones().find(|info| info.zone.0 == zone);
    let written = info.map_or(0, |info| info.write_pointer.0);
    let mut blocks = Vec::new();
    for first in (0..written).step_by(READ_BLOCKS as usize) {
        let read = drive.read(zone, first, READ_BLOCKS.min(written - first)).await;
        blocks.extend(read.into_iter().map(|block| block.ok().map(|block| block.data)));
    }
    blocks
}
