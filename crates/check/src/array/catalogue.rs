//! The zones of each segment: docs/format.md section 5.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use crate::array::membership::{Member, Membership};
use crate::drive::{Block, Drive, ReadBlock};
use crate::format::blocks::{Header, IndexBlock, Oob, Place};
use crate::format::record::{MemberState, Seal};
use crate::report::{Findings, Location, Problem};

/// Blocks read of a zone with a damaged header, to find its generation.
const GENERATION_PROBES: u32 = 8;

/// A zone that holds a column of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) zone: u32,
    pub(crate) write_pointer: u32,
}

/// A live segment.
pub(crate) struct Segment {
    pub(crate) header: Header,
    /// By column of the array; `None` for missing columns.
    pub(crate) columns: Vec<Option<Column>>,
    pub(crate) seal: Option<Seal>,
}

/// A written zone, superblock zones excepted.
struct WrittenZone {
    slot: usize,
    column: Column,
    location: Location,
    /// Its own header, or the header of another column that lists the zone.
    header: Option<Header>,
    /// Whether its own header cannot be read, which is reported already.
    is_unreadable: bool,
}

/// Finds all live segments.
pub(crate) async fn read_segments(
    membership: &Membership,
    findings: &mut Findings,
) -> BTreeMap<u64, Segment> {
    let mut zones = read_headers(membership, findings).await;
    attribute_headless(membership, &mut zones, findings).await;
    let mut by_segment: BTreeMap<u64, Vec<WrittenZone>> = BTreeMap::new();
    for zone in zones {
        if let Some(header) = &zone.header {
            by_segment.entry(header.segment).or_default().push(zone);
        }
    }
    let mut segments = BTreeMap::new();
    for (id, zones) in by_segment {
        let mut headers = zones.iter().filter_map(|zone| zone.header.as_ref());
        if headers.any(|header| membership.is_dead(header)) {
            findings.report.counts.dead_segments += 1;
            continue;
        }
        let segment = assemble(membership, id, zones, findings).await;
        let former = segments.insert(id, segment);
        assert!(former.is_none(), "zones of a segment are assembled together");
    }
    membership.report_lost(&segments.keys().copied().collect(), findings);
    segments
}

/// Reads the first block of every written zone of every valid member.
async fn read_headers(membership: &Membership, findings: &mut Findings) -> Vec<WrittenZone> {
    let mut zones = Vec::new();
    for (slot, member) in membership.members.iter().enumerate() {
        let Some(member) = member else { continue };
        for info in member.drive.readable_zones() {
            let zone = info.zone.0;
            if member.superblock_zones.contains(&zone) {
                continue;
            }
            let location = Location::drive(member.drive.number).zone(zone);
            let write_pointer = info.write_pointer.0;
            if write_pointer == 0 {
                if info.state.is_active() {
                    findings.add(location, Problem::EmptyActiveZone);
                }
                continue;
            }
            let block = member.drive.read_one(zone, 0).await;
            let is_unreadable = block.is_err();
            let header = match block {
                Ok(block) => parse_header(membership, slot, zone, &block, location, findings),
                Err(status) => {
                    findings.add(location.offset(0), Problem::unreadable(status));
                    None
                }
            };
            zones.push(WrittenZone {
                slot,
                column: Column { zone, write_pointer },
                location,
                header,
                is_unreadable,
            });
        }
    }
    zones
}

fn parse_header(
    membership: &Membership,
    slot: usize,
    zone: u32,
    block: &Block,
    location: Location,
    findings: &mut Findings,
) -> Option<Header> {
    let shape = membership.config.shape;
    let header = Header::parse(membership.array, &block.data)?;
    let scheme = header.shape.scheme;
    let oob = Oob::parse(membership.array, &block.oob, &block.data, scheme.data_chunks)?;
    let fits = oob.place == Place::Header
        && oob.generation == header.generation
        && usize::from(oob.column) == slot
        && oob.absent == scheme.absent
        && shape.scheme.admits(&scheme)
        && header.shape.unit == shape.unit
        && header.zone_capacity == membership.config.zone_capacity
        && header.zones.get(slot) == Some(&Some(zone));
    if !fits {
        findings.add(location.offset(0), Problem::HeaderDiffers);
    }
    fits.then_some(header)
}

/// Assigns to each zone with a damaged header the header of another column that lists it.
async fn attribute_headless(
    membership: &Membership,
    zones: &mut [WrittenZone],
    findings: &mut Findings,
) {
    for at in (0..zones.len()).filter(|at| zones[*at].header.is_none()).collect::<Vec<_>>() {
        let (slot, column, location) = (zones[at].slot, zones[at].column, zones[at].location);
        let listed = |header: &&Header| header.zones[slot] == Some(column.zone);
        let has_own = |segment| {
            zones.iter().any(|other| {
                other.slot == slot && other.header.as_ref().is_some_and(|h| h.segment == segment)
            })
        };
        let mut claims: BTreeMap<u64, Header> = BTreeMap::new();
        for header in zones.iter().filter_map(|zone| zone.header.as_ref()).filter(listed) {
            if !has_own(header.segment) {
                claims.insert(header.segment, header.clone());
            }
        }
        let is_unreadable = zones[at].is_unreadable;
        let Some(member) = &membership.members[slot] else { continue };
        let carried = generations(membership, &member.drive, slot, column).await;
        if let Some(header) = membership.listed_at(slot, column.zone, most_of(&carried)) {
            if !is_unreadable {
                findings.add(location.offset(0), Problem::HeaderDamaged);
            }
            zones[at].header = Some(header.clone());
            continue;
        }
        let fits = |header: &Header| {
            column.write_pointer <= header.shape.unit || carried.contains_key(&header.generation)
        };
        let mut genuine: Vec<_> = claims.into_values().filter(fits).collect();
        let problem = match genuine.len() {
            0 if !carried.keys().any(|one| membership.dead.contains(one)) => Problem::OrphanZone,
            0 => Problem::HeaderDamaged,
            1 => Problem::HeaderDamaged,
            _ => Problem::ZoneClaimedTwice,
        };
        // One damaged block is one finding.
        if !is_unreadable || problem != Problem::HeaderDamaged {
            findings.add(location.offset(0), problem);
        }
        zones[at].header = genuine.pop();
    }
}

/// The generation in more than half of the blocks.
fn most_of(carried: &BTreeMap<u64, u32>) -> Option<u64> {
    let total: u32 = carried.values().sum();
    carried.iter().find(|(_, blocks)| **blocks * 2 > total).map(|(generation, _)| *generation)
}

/// The generations in the first blocks after the header of a zone, each with its number of blocks.
async fn generations(
    membership: &Membership,
    drive: &Drive,
    slot: usize,
    column: Column,
) -> BTreeMap<u64, u32> {
    let shape = &membership.config.shape;
    let count = column.write_pointer.saturating_sub(shape.unit).min(GENERATION_PROBES);
    if count == 0 {
        return BTreeMap::new();
    }
    let parity_chunks = shape.scheme.parity_chunks;
    let blocks = drive.read(column.zone, shape.unit, count).await.into_iter().flatten();
    let oobs = blocks.filter_map(|block| {
        Oob::parse_unknown(membership.array, &block.oob, &block.data, parity_chunks)
            .filter(|oob| usize::from(oob.column) == slot)
    });
    let mut carried = BTreeMap::new();
    oobs.for_each(|oob| *carried.entry(oob.generation).or_default() += 1);
    carried
}

/// Assigns the zones of one segment to columns.
async fn assemble(
    membership: &Membership,
    id: u64,
    zones: Vec<WrittenZone>,
    findings: &mut Findings,
) -> Segment {
    let headers: Vec<&Header> = zones.iter().filter_map(|zone| zone.header.as_ref()).collect();
    assert_eq!(headers.len(), zones.len(), "zones were grouped by their headers");
    // Headers of rebuilt columns have later epochs.
    let oldest = headers.iter().min_by_key(|header| header.epoch);
    let header: Header = (*oldest.expect("zones were grouped by their headers")).clone();
    if id >= membership.segment_ceiling {
        let ceiling = membership.segment_ceiling;
        findings.add(zones[0].location.segment(id), Problem::SegmentAboveCeiling { ceiling });
    }
    let mut columns: Vec<Option<Column>> = vec![None; membership.members.len()];
    for (at, zone) in zones.iter().enumerate() {
        let location = zone.location.segment(id);
        if !is_replica(headers[at], &header) {
            findings.add(location.offset(0), Problem::HeaderDiffers);
            continue;
        }
        let native = header.zones[zone.slot] == Some(zone.column.zone)
            && !is_copy(membership, zone, &header);
        if !native && !is_whole(membership, zone, &header).await {
            findings.add(location, Problem::RebuildUnfinished);
            continue;
        }
        if let Some(other) = columns[zone.slot] {
            let new = zone.column;
            match kept_of_two(membership, zone.slot, [other, new], &header).await {
                None => findings.add(location, Problem::ColumnTwice),
                Some(0) => findings.add(location, Problem::RebuildUnfinished),
                Some(_) => {
                    findings.add(location.zone(other.zone), Problem::RebuildUnfinished);
                    columns[zone.slot] = Some(new);
                }
            }
            continue;
        }
        columns[zone.slot] = Some(zone.column);
    }
    let segment =
        Segment { header, columns, seal: membership.seals.get(&id).map(|(_, seal)| seal.clone()) };
    segment.report_missing(membership, id, findings);
    segment
}

/// Whether a zone holds a copy at most: its member is being rebuilt, and the segment is older than
/// the membership of that member.
fn is_copy(membership: &Membership, zone: &WrittenZone, header: &Header) -> bool {
    membership.members[zone.slot].as_ref().is_some_and(|member| {
        member.state == MemberState::Rebuilding && header.epoch < member.since_epoch
    })
}

/// Whether a header is the oldest of its segment, or the header of a rebuilt column.
fn is_replica(header: &Header, oldest: &Header) -> bool {
    let same_zones = header.epoch != oldest.epoch || header.zones == oldest.zones;
    let (zones, epoch) = (header.zones.clone(), header.epoch);
    same_zones && *header == Header { zones, epoch, ..oldest.clone() }
}

/// Whether a rebuilt column is written to the segment's end. After a finished rebuild all are, and
/// a damaged last index block is damage to that block only.
async fn is_whole(membership: &Membership, zone: &WrittenZone, header: &Header) -> bool {
    let shape = &header.shape;
    let Some(member) = &membership.members[zone.slot] else { return false };
    if zone.column.write_pointer < shape.end() {
        return false;
    }
    member.state == MemberState::Online
        || has_last_list(member, membership, zone.column, header).await
}

/// The valid one of two zones with the same column. If the member is newer than the segment, one of
/// them may be a copy that a crash cut short, in a zone that can no longer be written or reset.
async fn kept_of_two(
    membership: &Membership,
    slot: usize,
    zones: [Column; 2],
    header: &Header,
) -> Option<usize> {
    let member = membership.members[slot].as_ref()?;
    if header.epoch >= member.since_epoch {
        return None;
    }
    let [first, second] = zones.map(|zone| has_last_list(member, membership, zone, header));
    match (first.await, second.await) {
        (true, false) => Some(0),
        (false, true) => Some(1),
        _ => None,
    }
}

/// Whether the last block of a column is its last index block.
async fn has_last_list(
    member: &Member,
    membership: &Membership,
    column: Column,
    header: &Header,
) -> bool {
    let shape = &header.shape;
    let Ok(block) = member.drive.read_one(column.zone, shape.last_index_block()).await else {
        return false;
    };
    let oob = Oob::parse(membership.array, &block.oob, &block.data, shape.scheme.data_chunks);
    let index = IndexBlock::parse(membership.array, &block.data);
    let is_its =
        |oob: &Oob| oob.generation == header.generation && oob.absent == shape.scheme.absent;
    oob.is_some_and(|oob| oob.place == Place::Index && is_its(&oob))
        && index.is_some_and(|index| index.segment == header.segment)
}

impl Segment {
    /// Reads the same blocks of every present column up to its write pointer, with the location of
    /// each column.
    pub(crate) async fn read_columns(
        &self,
        membership: &Membership,
        first: u32,
        blocks: u32,
    ) -> Vec<Option<(Location, Vec<ReadBlock>)>> {
        let columns = membership.members.iter().zip(&self.columns);
        let reads = columns.map(|(member, column)| async move {
            let (Some(member), Some(column)) = (member, column) else { return None };
            let written = column.write_pointer.saturating_sub(first).min(blocks);
            let location = Location::drive(member.drive.number).zone(column.zone);
            let blocks = member.drive.read(column.zone, first, written).await;
            Some((location.segment(self.header.segment), blocks))
        });
        join_all(reads).await
    }

    /// Whether any present column is written beyond an offset.
    pub(crate) fn written_beyond(&self, offset: u32) -> bool {
        self.columns.iter().flatten().any(|column| column.write_pointer > offset)
    }

    /// Whether the seal ends the segment before a row. Its zones may have been finished since, and
    /// then hold nothing from there on.
    pub(crate) fn ends_before(&self, row: u32) -> bool {
        let rows = self.header.shape.rows;
        self.seal.as_ref().is_some_and(|seal| seal.rows < rows.min(row))
    }

    /// Whether the columns written beyond an offset outnumber the columns whose write pointers may
    /// mislead: a drive may store an append twice, and read-only zones do not report a write
    /// pointer.
    pub(crate) fn surely_written_beyond(&self, offset: u32) -> bool {
        let scheme = self.header.shape.scheme;
        let columns = scheme.own_columns().count();
        let missing = columns - self.columns.iter().flatten().count();
        let parity = scheme.parity_chunks as usize;
        let wrong = parity.min((columns - 1) / 2).saturating_sub(missing);
        let beyond = |column: &&Column| column.write_pointer > offset;
        self.columns.iter().flatten().filter(beyond).count() > wrong
    }

    /// Whether every present column is written to the end.
    pub(crate) fn is_sealed(&self) -> bool {
        let end = self.header.shape.end();
        let mut present = self.columns.iter().flatten().peekable();
        present.peek().is_some() && present.all(|column| column.write_pointer >= end)
    }

    /// Reports columns that online members should hold.
    fn report_missing(&self, membership: &Membership, id: u64, findings: &mut Findings) {
        if !self.written_beyond(self.header.shape.unit) {
            return;
        }
        for (slot, member) in (0..).zip(&membership.members) {
            let Some(member) = member else { continue };
            let is_missing =
                self.columns[slot as usize].is_none() && self.header.shape.scheme.is_on(slot);
            if is_missing && member.state == MemberState::Online {
                let location = Location::drive(member.drive.number).segment(id);
                findings.add(location, Problem::ColumnMissing { column: slot });
            }
        }
    }
}
