//! Groups zones into segments by their headers.
//!
//! A zone is erased only in these cases:
//! * a record says that its segment is dead;
//! * it can hold nothing but a header;
//! * it is the incomplete copy of a column under rebuild;
//! * more drives than may be wrong hold nothing of its segment, so its own drive acknowledged a
//!   reset without doing it.
//!
//! An unexplained zone is left alone and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use zoneweave_zoned::{
    BlockCount, Payload, ZoneAddress, ZoneId, ZoneInfo, ZoneOffset, ZoneState, ZonedDeviceExt,
};

use crate::array::health::Members;
use crate::array::io::{MemberIo, is_blank};
use crate::array::state::Array;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::{
    Generation, IndexBlock, MemberState, Oob, Place, SegmentHeader, SegmentId,
};
use crate::log::recover::OpenError;
use crate::log::recover::dead::keep_deaths;
use crate::log::recover::find::claims::{Claim, Sorted, is_untouched};
use crate::log::recover::find::header_votes::{Witnesses, ask_witnesses, read_stubbornly};
use crate::log::recover::find::missing_columns::{MissingColumns, missing_columns, partly_reset};
use crate::log::recover::find::{narrow, orphans};
use crate::log::segment::active_zones::finish_ends;
use crate::log::segment::dead::Unclear;
use crate::log::segment::scanned::FoundSegment;
use crate::log::segment::table::{ColumnZone, Segment};
use crate::scheme::{Column, ColumnSet};

/// Zones of a member that are examined at a time.
const ZONES_AT_A_TIME: usize = 32;

/// Finds every segment and enters it into the state; fills the pools with the empty zones. If the
/// loss is accepted, segments without any readable header are given up.
pub(in crate::log) async fn find(
    core: &Rc<Core>,
    accepts_loss: bool,
) -> Result<Vec<FoundSegment>, OpenError> {
    let columns: Vec<_> = core.state.borrow().array.scheme().iter().collect();
    let mut sorted = Sorted::default();
    let mut to_reset = Vec::new();
    let looks = columns.iter().map(|column| look_at_zones(core, *column));
    for (column, looked) in columns.iter().zip(join_all(looks).await) {
        sort_zones(&mut sorted, *column, looked?);
    }
    narrow::adopt(&core.state.borrow(), &mut sorted);
    adopt_headerless(&core.state.borrow(), &mut sorted);
    record_hidden(&mut core.state.borrow_mut(), &sorted, accepts_loss);
    let unaccounted = sorted.unaccounted();
    let mut unclear = Unclear::default();
    unclear.taken.extend(sorted.by_header);
    let mut still_dead = Vec::new();
    let unit = core.state.borrow().array.config.write_unit;
    for (column, info, witnesses) in sorted.unclaimed {
        let dead = witnesses.told().filter(|(generation, absent)| {
            core.state.borrow().registry.is_told_dead(*generation, *absent)
        });
        if let Some((generation, _)) = dead {
            mark(Mark::DeadZoneWithoutHeader);
            mark_unlisted(core, generation);
            still_dead.push((generation, column, info.zone));
            to_reset.push((column, info));
        // Chunks start behind the header: a zone that ends there holds nothing.
        } else if info.write_pointer.0 <= unit.0 && info.state.is_active() {
            mark(Mark::HeaderlessZoneReset);
            to_reset.push((column, info));
        } else {
            if info.write_pointer.0 > 0 {
                unclear.zones.insert((column, info.zone));
            }
            leave_alone(core, column, &info);
        }
    }
    let mut found = Vec::new();
    for columns in sorted.claims.into_values() {
        let dead = told_by(&columns).filter(|(generation, absent)| {
            core.state.borrow().registry.is_told_dead(*generation, *absent)
        });
        if let Some((generation, _)) = dead {
            mark(Mark::DeadSegmentResetAgain);
            mark_unlisted(core, generation);
            mark_if(Mark::PartialResetFinished, || partly_reset(core, &columns));
            for (column, info) in zones_of(columns) {
                still_dead.push((generation, column, info.zone));
                to_reset.push((column, info));
            }
            continue;
        }
        let missing = missing_columns(core, &columns, &sorted.told, &unaccounted);
        if missing == MissingColumns::LeftBehind {
            mark(Mark::LeftBehindSegmentReset);
            to_reset.extend(zones_of(columns));
            continue;
        }
        let (segment, extra) = enter(core, columns).await?;
        if let Some(found) = segment.as_ref().filter(|_| missing == MissingColumns::Doubtful) {
            mark(Mark::DoubtfulSegment);
            core.state.borrow_mut().segments[found.slot].suspect = true;
        }
        found.extend(segment);
        to_reset.extend(extra);
    }
    let mut state = core.state.borrow_mut();
    keep_deaths(&mut state, unclear, &still_dead);
    let alive: BTreeSet<SegmentId> = state.segments.iter().map(|(_, segment)| segment.id).collect();
    let entered = state.segments.iter().count();
    assert!(alive.len() == entered, "{entered} segments have {} numbers", alive.len());
    state.registry.seals.retain(|id, _| alive.contains(id));
    let generations = state.segments.iter().map(|(_, segment)| segment.generation).collect();
    state.registry.narrow.keep(&generations);
    state.registry.zones_to_reset =
        to_reset.into_iter().map(|(column, info)| (column, info.zone, info.resets)).collect();
    raise_counters(&mut state);
    for column in columns {
        if state.fail_if_worn_out(column) {
            found.iter_mut().for_each(|segment| segment.expected.retain(|one| *one != column));
        }
    }
    Ok(found)
}

/// Records segments of which only zones without a header may remain. If their loss is accepted they
/// are dead from then on: the data read in their place must not change when a header becomes
/// readable again.
fn record_hidden(state: &mut State, sorted: &Sorted, accepted: bool) {
    let unit = state.array.config.write_unit;
    let known = sorted.claims.values().filter_map(told_by).map(|(known, _)| known).collect();
    let zones = sorted.unclaimed.iter().filter(|(_, info, _)| info.write_pointer.0 > unit.0);
    let zones = zones.map(|(column, info, witnesses)| (*column, info.zone, witnesses));
    let hidden = orphans::find(state, zones, &known);
    mark_if(Mark::HiddenSegment, || !hidden.is_empty());
    state.registry.hidden_segments = hidden.len() + narrow::lost(state, sorted);
    let columns = state.array.scheme().columns();
    for (generation, zones) in hidden.into_iter().filter(|_| accepted) {
        for (column, zone) in zones {
            state.registry.dead.find(generation, columns, column, zone);
        }
    }
}

/// Counts a zone that is written and useless, but must not be erased.
fn leave_alone(core: &Core, column: Column, info: &ZoneInfo) {
    let member = &mut core.state.borrow_mut().array.members[column.index()];
    if info.state == ZoneState::ReadOnly {
        member.lost_zones += 1;
    } else {
        mark(Mark::OrphanZoneLeftAlone);
        member.orphan_zones += 1;
        member.active_zones += u32::from(info.state.is_active());
    }
}

/// Every zone that may be of a segment.
fn zones_of(columns: BTreeMap<Column, Vec<Claim>>) -> impl Iterator<Item = (Column, ZoneInfo)> {
    let of_column = |(column, claims): (Column, Vec<Claim>)| {
        claims.into_iter().map(move |claim| (column, claim.info))
    };
    columns.into_iter().flat_map(of_column)
}

/// The generation in a segment's headers, and the columns that the segment is not on.
fn told_by(columns: &BTreeMap<Column, Vec<Claim>>) -> Option<(Generation, ColumnSet)> {
    let mut headers = columns.values().flatten().filter_map(|claim| claim.header.as_ref());
    headers.next().map(|header| (header.generation, header.geometry.scheme().absent()))
}

/// Marks a dead segment whose death follows only from its absence in the narrow list.
fn mark_unlisted(core: &Core, generation: Generation) {
    mark_if(Mark::UnlistedReset, || !core.state.borrow().registry.dead.contains(generation));
}

/// A number seen on media is never assigned again, even above the recorded ceiling.
fn raise_counters(state: &mut State) {
    for (_, segment) in state.segments.iter() {
        state.registry.next_segment = state.registry.next_segment.max(segment.id.next());
        let next = segment.generation.sequence().next();
        state.writes.next_sequence = state.writes.next_sequence.max(next);
    }
    let step = crate::log::segment::open::sequence_step(state);
    state.writes.ceilings_to_record = (
        state.writes.next_sequence.plus(step),
        state.registry.next_segment.plus(crate::log::segment::open::SEGMENT_STEP),
    );
    let highest = state.segments.iter().map(|(_, segment)| segment.id).max();
    let next = state.registry.next_segment;
    assert!(highest.is_none_or(|id| id < next), "segment {next} would be opened a second time");
}

/// A zone in use, and the contents of its first blocks.
struct Looked {
    info: ZoneInfo,
    header: Option<SegmentHeader>,
    /// Votes of the blocks in a zone without a valid header.
    witnesses: Option<Witnesses>,
}

/// Sorts the zones of a member.
fn sort_zones(sorted: &mut Sorted, column: Column, looked: Vec<Looked>) {
    for Looked { info, header, witnesses } in looked {
        match (header, witnesses) {
            (Some(header), _) => {
                sorted.told.insert((column, info.zone));
                let columns = sorted.claims.entry(header.segment).or_default();
                let claim = Claim { info, header: Some(header) };
                columns.entry(column).or_default().push(claim);
            }
            (None, Some(witnesses)) => {
                if is_untouched(&info) {
                    mark(Mark::UntouchedZone);
                    sorted.told.insert((column, info.zone));
                }
                sorted.unclaimed.push((column, info, witnesses));
            }
            // Empty.
            (None, None) => {
                sorted.told.insert((column, info.zone));
            }
        }
    }
}

/// Examines the zones of a member, several at a time; empty ones go to its pool.
async fn look_at_zones(core: &Rc<Core>, column: Column) -> Result<Vec<Looked>, OpenError> {
    let Some(device) = core.device(column) else { return Ok(Vec::new()) };
    let zones = match device.report().await {
        Ok(zones) => zones,
        Err(status) => {
            mark(Mark::MemberWithoutReport);
            core.state.borrow_mut().fail_member(column, &status.to_string());
            let stopped = core.state.borrow().array.stopped;
            return stopped.map_or(Ok(Vec::new()), |why| Err(OpenError::Stopped(why)));
        }
    };
    let superblocks = core.superblock.zones(column).unwrap_or_default();
    let mut looks = Vec::new();
    for info in zones {
        let in_use = superblocks.contains(&info.zone);
        if info.state == ZoneState::Offline {
            mark(Mark::OfflineZoneLeftOut);
            core.state.borrow_mut().array.members[column.index()].lost_zones += 1;
            continue;
        }
        if in_use {
            continue;
        }
        if info.state == ZoneState::Empty {
            core.state.borrow_mut().array.members[column.index()].pool.add(info.zone, info.resets);
        }
        looks.push(look_at_zone(core, column, info));
    }
    Ok(stream::iter(looks).buffered(ZONES_AT_A_TIME).collect().await)
}

async fn look_at_zone(core: &Rc<Core>, column: Column, info: ZoneInfo) -> Looked {
    let info = match info.state {
        ZoneState::Empty => return Looked { info, header: None, witnesses: None },
        ZoneState::ReadOnly => probed(core, column, info).await,
        _ => info,
    };
    let header = match info.write_pointer.0 {
        0 => None,
        _ => read_header(core, column, info.zone).await.ok(),
    };
    let witnesses = match header {
        Some(_) => None,
        None => Some(ask_witnesses(core, column, info).await),
    };
    Looked { info, header, witnesses }
}

/// A read-only zone with its written length, which drives do not report.
async fn probed(core: &Rc<Core>, column: Column, info: ZoneInfo) -> ZoneInfo {
    mark(Mark::ReadOnlyZoneProbed);
    let (mut written, mut end) = (0, info.capacity.0);
    while written < end {
        let middle = written + (end - written) / 2;
        let read = core.read_zone(column, ZoneAddress::new(info.zone, middle), BlockCount(1)).await;
        if is_blank(&read) {
            end = middle;
        } else {
            written = middle + 1;
        }
    }
    let capacity = info.capacity.0;
    assert!(written <= capacity, "{written} of {capacity} blocks of {} are written", info.zone);
    ZoneInfo { write_pointer: ZoneOffset(written), ..info }
}

/// Why a zone has no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum NoHeader {
    /// The drive does not return the block.
    Unreadable,
    /// The block is damaged, or of no segment of this array.
    Damaged,
}

/// The header of a zone, if it is intact and describes a segment of this array.
pub(in crate::log) async fn read_header(
    core: &Rc<Core>,
    column: Column,
    zone: ZoneId,
) -> Result<SegmentHeader, NoHeader> {
    let at = ZoneAddress::new(zone, 0);
    let payload = read_stubbornly(core, column, at).await.ok_or(NoHeader::Unreadable)?;
    let header = header_of(&core.state.borrow().array, column, zone, &payload);
    header.ok_or(NoHeader::Damaged)
}

/// The header in the first block of a zone, if it is intact and describes a segment of this array.
pub(in crate::log) fn header_of(
    array: &Array,
    column: Column,
    zone: ZoneId,
    payload: &Payload,
) -> Option<SegmentHeader> {
    let block = payload.block(0);
    let oob = Oob::verify_other(array.seed, &payload.block_oob(0), &block, Place::Header)?;
    let header = SegmentHeader::decode(&block, array.config.array).ok()?;
    let ours = oob.column == column
        && oob.generation == header.generation
        && array.config.scheme.admits(header.geometry.scheme())
        && header.zone_capacity == array.config.zone_capacity
        && header.geometry.unit() == array.config.write_unit
        && header.zone(column) == Some(zone);
    ours.then_some(header)
}

/// Assigns zones without a valid header to the segment that most blocks name, or to the newest
/// segment whose other headers list them. Older headers may list a zone of a drive that was
/// replaced since. Headers of a dead segment therefore assign nothing: the zone may hold a column
/// of a live segment.
fn adopt_headerless(state: &State, sorted: &mut Sorted) {
    let Sorted { claims, unclaimed, by_header, .. } = sorted;
    unclaimed.retain(|(column, info, witnesses)| {
        let lacks = |columns: &BTreeMap<Column, Vec<Claim>>| !columns.contains_key(column);
        let lists = |columns: &BTreeMap<Column, Vec<Claim>>| {
            let mut headers = columns.values().flatten().filter_map(|claim| claim.header.as_ref());
            headers.any(|header| header.zone(*column) == Some(info.zone))
        };
        let listing = || {
            let dead = |columns| {
                told_by(columns).is_some_and(|(generation, absent)| {
                    state.registry.is_told_dead(generation, absent)
                })
            };
            let fits = |columns| lacks(columns) && lists(columns) && !dead(columns);
            let mut newest_first = claims.iter().rev();
            newest_first.find(|(_, columns)| fits(columns)).map(|(segment, _)| *segment)
        };
        let of_generation = |generation: Generation| {
            let is_of = |(told, _)| told == generation;
            let fits = |columns| lacks(columns) && told_by(columns).is_some_and(is_of);
            let mut segments = claims.iter();
            segments.find(|(_, columns)| fits(columns)).map(|(segment, _)| *segment)
        };
        let by_generation = witnesses.majority().and_then(of_generation);
        let segment = by_generation.or_else(listing);
        let Some(columns) = segment.and_then(|segment| claims.get_mut(&segment)) else {
            return true;
        };
        let by_generation = by_generation.is_some();
        mark(if by_generation { Mark::AdoptedByGeneration } else { Mark::AdoptedByHeader });
        let since = state.array.members[column.index()].entry.since_epoch;
        let mut headers = columns.values().flatten().filter_map(|claim| claim.header.as_ref());
        let is_sure =
            headers.any(|header| header.epoch >= since && header.zone(*column) == Some(info.zone));
        if !by_generation && !is_sure {
            by_header.push((*column, info.zone));
        }
        columns.entry(*column).or_default().push(Claim { info: *info, header: None });
        false
    });
}

type Entered = (Option<FoundSegment>, Vec<(Column, ZoneInfo)>);

/// Enters one segment. Returns zones that are incomplete copies of a column under rebuild.
async fn enter(
    core: &Rc<Core>,
    columns: BTreeMap<Column, Vec<Claim>>,
) -> Result<Entered, OpenError> {
    let headers = || columns.values().flatten().filter_map(|claim| claim.header.as_ref());
    let Some(oldest) = headers().min_by_key(|header| header.epoch) else {
        return Ok((None, Vec::new()));
    };
    let newest = headers().max_by_key(|header| header.epoch);
    let newest = newest.filter(|header| header.epoch > oldest.epoch);
    let mut base =
        newest.filter(|_| mutant(Mutant::NewestHeaderBelieved)).unwrap_or(oldest).clone();
    mark_shape(&core.state.borrow(), &mut base);
    if columns.len() < base.zones.iter().flatten().count() && mutant(Mutant::PartialSegmentReset) {
        return Ok((None, zones_of(columns).collect()));
    }
    let end = base.geometry.end();
    let is_full = |claim: &Claim| claim.info.state == ZoneState::Full;
    let some_full = columns.values().flatten().any(is_full);
    let mut zones: Vec<Option<ColumnZone>> = vec![None; base.zones.len()];
    let mut written: Vec<Option<ZoneOffset>> = vec![None; base.zones.len()];
    let (mut extra, mut unfinished) = (Vec::new(), BTreeMap::new());
    let mut ends_missing = BTreeSet::new();
    // A zone that claims to hold a column outside its segment is useless, and is not believed.
    let is_on = |(column, _): &(Column, _)| base.geometry.scheme().contains(*column);
    let (columns, elsewhere): (BTreeMap<_, _>, _) = columns.into_iter().partition(is_on);
    for (column, info) in zones_of(elsewhere) {
        leave_alone(core, column, &info);
    }
    for (column, claims) in columns {
        let mut whole: Option<ZoneInfo> = None;
        for claim in claims {
            let native =
                base.zone(column) == Some(claim.info.zone) && !is_copy(core, &base, column);
            let complete = claim.info.write_pointer >= end
                && (native
                    || is_online(core, column)
                    || is_complete_copy(core, &base, column, claim.info.zone).await);
            let trusted = !native && !complete && mutant(Mutant::UnfinishedColumnTrusted);
            if complete || trusted || (native && zones[column.index()].is_none()) {
                mark_if(Mark::RebuiltColumnCounts, || !native && !is_online(core, column));
                // An incomplete copy comes first if it happens to be in the zone number of the
                // former drive's copy.
                extra.extend(unfinished.remove(&column).map(|info| (column, info)));
                // Of two complete copies one counts, and the other must not outlive the segment.
                extra.extend(whole.take().map(|info| (column, info)));
                whole = complete.then_some(claim.info);
                if claim.info.write_pointer < end {
                    unfinished.insert(column, claim.info);
                }
                zones[column.index()] =
                    Some(ColumnZone { zone: claim.info.zone, resets: claim.info.resets });
                if complete && claim.info.state.is_active() {
                    ends_missing.insert((column, claim.info.zone));
                }
                let end = if trusted { end } else { claim.info.write_pointer };
                written[column.index()] = Some(end);
            } else {
                mark(Mark::UnfinishedCopyDropped);
                extra.push((column, claim.info));
            }
        }
    }
    let sealed_by_record = core.state.borrow().registry.seals.contains_key(&base.segment);
    mark_if(Mark::FullLeftoverKnownBySeal, || sealed_by_record && some_full);
    let found = insert(&mut core.state.borrow_mut(), &base, zones, written)?;
    if !found.leftover {
        finish_ends(core, found.slot, &ends_missing).await;
    }
    Ok((Some(found), extra))
}

/// Enters a segment with these zones and their write pointers.
fn insert(
    state: &mut State,
    base: &SegmentHeader,
    mut zones: Vec<Option<ColumnZone>>,
    mut written: Vec<Option<ZoneOffset>>,
) -> Result<FoundSegment, OpenError> {
    // A member that failed since its zones were examined has none: its replacement gets them by
    // rebuild.
    for (column, member) in state.array.members.iter().enumerate() {
        if member.device.is_none() {
            (zones[column], written[column]) = (None, None);
        }
    }
    let (columns, zoned) = (state.array.members.len(), zones.len());
    assert!(zoned == columns && written.len() == columns, "{zoned} zones for {columns} members");
    let expected = expected_columns(state, base, &zones);
    let end = base.geometry.end();
    let complete = |column: &Column| written[column.index()].is_some_and(|wp| wp >= end);
    // A seal exists because the segment is incomplete.
    let sealed_by_record = state.registry.seals.contains_key(&base.segment);
    let whole = expected.iter().all(complete);
    let leftover = sealed_by_record || !whole;
    let slot =
        state.segments.vacant().ok_or(OpenError::Stopped(StopReason::MoreSegmentsThanZones))?;
    let mut segment = match leftover {
        true => Segment::leftover(base, zones.clone()),
        false => Segment::sealed(base, zones.clone()),
    };
    let narrow = base.geometry.scheme().is_narrow();
    mark_if(Mark::NarrowFound, || narrow);
    mark_if(Mark::NarrowLeftover, || narrow && leftover);
    // A member in full service has every column that its segments place on it: a missing one was
    // lost.
    let in_service = |column: &Column| state.array.members[column.index()].is_in_full_service();
    if state.array.scheme().iter().filter(in_service).any(|column| segment.lacks(column)) {
        mark(Mark::ColumnLost);
        segment.mark_damaged();
    }
    state.segments.insert(slot, segment);
    state.registry.narrow.enter(base);
    for (member, zone) in state.array.members.iter_mut().zip(&zones) {
        member.active_zones += u32::from(leftover && zone.is_some());
    }
    Ok(FoundSegment { slot, written, expected, leftover })
}

/// Whether a member's zone of a segment can only be a copy made by its rebuild, finished or not:
/// the segment is older than the drive's membership. If rebuilt columns are all that remains of a
/// segment, their headers may list a zone of a drive that was replaced since.
fn is_copy(core: &Core, base: &SegmentHeader, column: Column) -> bool {
    let entry = core.state.borrow().array.members[column.index()].entry;
    entry.state == MemberState::Rebuilding && base.epoch < entry.since_epoch
}

/// The columns that should have a chunk of every stripe: those in the segment's header or rebuilt
/// since, with members in service.
fn expected_columns(
    state: &State,
    base: &SegmentHeader,
    zones: &[Option<ColumnZone>],
) -> Vec<Column> {
    let made_with = |column: &Column| {
        let member = &state.array.members[column.index()];
        let same_drive =
            base.epoch >= member.entry.since_epoch || member.entry.state == MemberState::Online;
        base.zone(*column).is_some() && member.writable().is_some() && same_drive
    };
    let scheme = base.geometry.scheme();
    scheme.iter().filter(|c| zones[c.index()].is_some() || made_with(c)).collect()
}

/// Whether a member's rebuild is finished, so that each of its columns is known to be complete.
/// Without this, a damaged last summary block would discard the rest of the column.
fn is_online(core: &Core, column: Column) -> bool {
    core.state.borrow().array.members[column.index()].entry.state == MemberState::Online
}

/// Whether a rebuilt column is complete: its last summary block is the last thing written to it.
async fn is_complete_copy(
    core: &Rc<Core>,
    base: &SegmentHeader,
    column: Column,
    zone: ZoneId,
) -> bool {
    let last = ZoneAddress { zone, offset: base.geometry.last_index_block() };
    let Some(payload) = read_stubbornly(core, column, last).await else { return false };
    ends_column(&core.state.borrow().array, base.generation, &payload)
}

/// Whether a block is a summary block of this generation. The last of a column is the last thing
/// written to it.
pub(in crate::log) fn ends_column(
    array: &Array,
    generation: Generation,
    payload: &Payload,
) -> bool {
    let block = payload.block(0);
    let oob = Oob::verify_other(array.seed, &payload.block_oob(0), &block, Place::Index);
    let index = IndexBlock::decode(&block, array.config.array);
    oob.is_some_and(|oob| oob.generation == generation)
        && index.is_ok_and(|index| index.generation == generation)
}

/// Marks a segment of another shape; for [`Mutant::SegmentShapeIgnored`], gives it that of the
/// array.
fn mark_shape(state: &State, header: &mut SegmentHeader) {
    if header.geometry != state.geometry {
        mark(Mark::SegmentOfOtherShape);
        if mutant(Mutant::SegmentShapeIgnored) {
            header.geometry = state.geometry;
        }
    }
}
