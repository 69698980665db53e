//! Reconstructs blocks from the other chunks of their stripes.
//!
//! Adjacent blocks of a source are read with one command, as on the drive that they replace:
//! reconstructing a chunk takes as long as reading it. Every block is verified by itself.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{AlignedBuffer, BlockCount, ZoneAddress, ZoneId};

use crate::array::health::Members;
use crate::array::repair::faults::RecordsFaults;
use crate::array::repair::source::FailedSource;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::core::Core;
use crate::log::engine::geometry::{Row, SegmentGeometry};
use crate::log::engine::state::State;
use crate::log::format::{BlockIdentity, CODED_BYTES, Oob};
use crate::log::read::batch::{Gathered, Spot, gather, spot_of};
use crate::log::segment::table::{DamagedBlock, Fate};
use crate::log::segment::verify::verify;
use crate::scheme::{Column, ColumnSet, Role, StripeId};

/// A block reconstructed from its stripe.
#[derive(Clone, Debug)]
pub(in crate::log) struct Rebuilt {
    /// Contents of the block.
    pub data: Bytes,
    /// Coded part of its metadata.
    pub coded: [u8; CODED_BYTES],
}

/// A block read and verified.
#[derive(Clone, Debug)]
struct Verified {
    data: Bytes,
    oob: Oob,
}

/// A chunk that supplies blocks for reconstruction.
#[derive(Clone)]
struct Source {
    column: Column,
    role: Role,
    zone: ZoneId,
    row: Row,
}

/// The sources of a block.
#[derive(Clone)]
pub(super) struct Plan {
    place: BlockPlace,
    geometry: SegmentGeometry,
    stripe: StripeId,
    role: Role,
    sources: Vec<Source>,
}

impl Plan {
    /// Whether enough other columns are present.
    fn has_enough_sources(&self) -> bool {
        let enough = self.sources.len() >= self.geometry.scheme().sources_needed();
        mark_if(Mark::TooFewSources, || !enough);
        enough
    }

    /// The blocks that it reads.
    pub(super) fn spots(&self) -> impl Iterator<Item = Spot> {
        self.sources.iter().map(|source| self.spot(source))
    }

    fn spot(&self, source: &Source) -> Spot {
        let (_, within) = self.geometry.row_of(self.place.block);
        let offset = self.geometry.offset_of(self.geometry.block_of(source.row, within));
        Spot { column: source.column, at: ZoneAddress { zone: source.zone, offset } }
    }
}

/// Reconstructs the block at `place` without reading it; `None` if too few other chunks are intact.
pub(in crate::log) async fn rebuild_block(core: &Rc<Core>, place: BlockPlace) -> Option<Rebuilt> {
    rebuild_blocks(core, &[place]).await.pop().expect("one result a place")
}

/// Reconstructs blocks without reading them; `None` for each with too few intact other chunks.
pub(in crate::log) async fn rebuild_blocks(
    core: &Rc<Core>,
    places: &[BlockPlace],
) -> Vec<Option<Rebuilt>> {
    let plans = plan_all(core, places, ColumnSet::default());
    let spots = plans.iter().flatten().flat_map(Plan::spots).collect();
    let gathered = gather(core, spots).await;
    plans.iter().map(|plan| rebuild_from(core, plan.as_ref()?, &gathered, true)).collect()
}

/// As [`rebuild_block`].
///
/// # Errors
/// A drive that has said nothing of its block, if the block is not reconstructed without.
pub(in crate::log) async fn rebuild_or_name(
    core: &Rc<Core>,
    place: BlockPlace,
) -> Result<Option<Rebuilt>, FailedSource> {
    let plan = plan(&core.state.borrow(), place, ColumnSet::default(), &mut 0);
    let Some(plan) = plan.filter(Plan::has_enough_sources) else { return Ok(None) };
    let gathered = gather(core, plan.spots().collect()).await;
    if let Some(rebuilt) = rebuild_from(core, &plan, &gathered, true) {
        return Ok(Some(rebuilt));
    }
    let failed = plan.spots().filter_map(|spot| {
        let status = gathered.get(spot)?.err()?;
        Some(FailedSource { slot: spot.column, status })
    });
    let silent: Vec<_> = failed.filter(|source| source.may_answer()).collect();
    let intact = intact_sources(core, &plan, &gathered, true).len();
    let may_be_made = intact + silent.len() >= plan.geometry.scheme().sources_needed();
    match silent.first() {
        Some(source) if may_be_made => Err(*source),
        _ => Ok(None),
    }
}

/// What becomes of a block that was not reconstructed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// A drive gave no answer about its block, or was not asked, and may do so yet.
    Open,
    /// A drive that is out of service may return with what is missing.
    Awaited,
    /// Drives that failed to read said something of their blocks, not of themselves.
    Lost,
}

/// As [`rebuild_block`]; also returns what becomes of the block without the result.
pub(super) async fn rebuild_or_judge(
    core: &Rc<Core>,
    place: BlockPlace,
) -> (Option<Rebuilt>, Outlook) {
    let (plan, out) = {
        let state = core.state.borrow();
        (plan(&state, place, ColumnSet::default(), &mut 0), state.out_of_service())
    };
    let Some(plan) = plan else { return (None, Outlook::Lost) };
    let of = |may_return| if may_return { Outlook::Awaited } else { Outlook::Lost };
    let own_may = || core.device(place.column).is_none();
    let present = plan.sources.len();
    if !plan.has_enough_sources() {
        return (None, of(own_may() || may_return(core, &plan, present)));
    }
    let gathered = gather(core, plan.spots().collect()).await;
    let rebuilt = rebuild_from(core, &plan, &gathered, true);
    if rebuilt.is_some() {
        return (rebuilt, Outlook::Open);
    }
    let intact = intact_sources(core, &plan, &gathered, true);
    if own_may() || may_return(core, &plan, intact.len()) {
        count_damaged(core, &plan, &gathered, &intact);
        return (None, Outlook::Awaited);
    }
    // A drive that joined meanwhile was not asked.
    let is_answer =
        gathered.are_answers(plan.spots()) && out == core.state.borrow().out_of_service();
    (None, if is_answer { Outlook::Lost } else { Outlook::Open })
}

/// Counts the damaged sources of a block. It stays as it is, so nothing else counts them.
fn count_damaged(core: &Core, plan: &Plan, gathered: &Gathered, intact: &[(Role, Verified)]) {
    let damaged = plan.sources.iter().filter(|source| {
        let is_intact = intact.iter().any(|(role, _)| *role == source.role);
        !is_intact && gathered.are_answers([plan.spot(source)])
    });
    let mut state = core.state.borrow_mut();
    for source in damaged {
        let spot = plan.spot(source);
        // The drive may have been lost or replaced meanwhile.
        let zone = state.segments[plan.place.slot].zones[source.column.index()];
        if zone.is_none_or(|zone| zone.zone != source.zone) {
            continue;
        }
        let is_readable = gathered.get(spot).is_some_and(|read| read.is_ok());
        let block = DamagedBlock { column: source.column, offset: spot.at.offset, is_readable };
        state.count_damage(plan.place.slot, block, Fate::Found);
    }
    drop(state);
    core.schedule_fault_record();
}

/// Whether a block that can be neither read nor reconstructed now may be once drives that are out
/// of service have returned. What it says holds until the caller waits for something else.
pub(in crate::log) async fn may_yet_return(core: &Rc<Core>, place: BlockPlace) -> bool {
    let plan = plan(&core.state.borrow(), place, ColumnSet::default(), &mut 0);
    let Some(plan) = plan else { return false };
    let gathered = gather(core, plan.spots().collect()).await;
    let intact = intact_sources(core, &plan, &gathered, true).len();
    // A drive in service that has said nothing may have its block too.
    let silent = plan.spots().filter(|spot| !gathered.are_answers([*spot])).count();
    core.device(place.column).is_none() || may_return(core, &plan, intact + silent)
}

/// Whether drives that are out of service may return with enough to reconstruct a block, together
/// with its intact sources.
fn may_return(core: &Core, plan: &Plan, intact: usize) -> bool {
    let state = core.state.borrow();
    let scheme = plan.geometry.scheme();
    let is_here = |column| plan.sources.iter().any(|source| source.column == column);
    let is_out = |column: Column| state.array.members[column.index()].device.is_none();
    let away = scheme.sources_of(plan.place.column);
    let away = away.filter(|column| !is_here(*column) && is_out(*column)).count();
    let may_return = away > 0 && intact + away >= scheme.sources_needed();
    mark_if(Mark::BlockMayReturn, || may_return);
    may_return
}

/// A plan for each place without some columns; `None` if too few other columns are present. A
/// stripe table lookup for one block of a chunk serves the others.
pub(super) fn plan_all(core: &Core, places: &[BlockPlace], except: ColumnSet) -> Vec<Option<Plan>> {
    let mut state = core.state.borrow_mut();
    let mut rows_searched = 0;
    let mut plans: Vec<Option<Plan>> = Vec::with_capacity(places.len());
    for place in places {
        let before = plans.last().and_then(Option::as_ref);
        let same = before.filter(|before| are_of_one_chunk(&state, before.place, *place));
        let plan = match same {
            Some(before) => Some(Plan { place: *place, ..before.clone() }),
            None => plan(&state, *place, except, &mut rows_searched),
        };
        plans.push(plan.filter(Plan::has_enough_sources));
    }
    assert!(plans.len() == places.len(), "{} plans for {} blocks", plans.len(), places.len());
    state.counters.table_rows_searched += rows_searched;
    plans
}

/// The blocks at some places, and the corresponding blocks of their stripes, on all present
/// members.
pub(super) fn spots_of_stripes(state: &State, places: &[BlockPlace]) -> Vec<Spot> {
    let mut spots = Vec::new();
    for place in places {
        spots.extend(spot_of(state, *place));
        let plan = plan(state, *place, ColumnSet::default(), &mut 0);
        spots.extend(plan.iter().flat_map(Plan::spots));
    }
    spots
}

fn are_of_one_chunk(state: &State, one: BlockPlace, other: BlockPlace) -> bool {
    let Some(segment) = state.segments.get(one.slot) else { return false };
    let row = |place: BlockPlace| segment.geometry.row_of(place.block).0;
    one.slot == other.slot && one.column == other.column && row(one) == row(other)
}

fn plan(
    state: &State,
    place: BlockPlace,
    except: ColumnSet,
    rows_searched: &mut u64,
) -> Option<Plan> {
    let segment = state.segments.get(place.slot)?;
    let geometry = &segment.geometry;
    let (row, _) = geometry.row_of(place.block);
    let stripe = segment.stripe_of(place.column, row);
    let sources = geometry.scheme().sources_of(place.column);
    let sources = sources.filter(|column| !except.contains(*column));
    let group = geometry.group_of(row);
    let sources = sources.filter_map(|column| {
        let zone = segment.zones[column.index()]?.zone;
        let row: Row = segment.row_of_stripe(column, stripe)?;
        if segment.table.is_some() {
            *rows_searched += u64::from(row.0 - group.start) + 1;
        }
        Some(Source { column, role: geometry.scheme().role_of(column, stripe), zone, row })
    });
    let sources = sources.collect();
    let role = geometry.scheme().role_of(place.column, stripe);
    Some(Plan { place, geometry: *geometry, stripe, role, sources })
}

/// Reconstructs a block from blocks that were read, each of which is verified first (except under a
/// mutant).
pub(super) fn rebuild_from(
    core: &Core,
    plan: &Plan,
    gathered: &Gathered,
    verifies: bool,
) -> Option<Rebuilt> {
    let found = intact_sources(core, plan, gathered, verifies);
    if found.len() < plan.geometry.scheme().sources_needed() {
        mark(Mark::TooFewIntact);
        return None;
    }
    decode(core, plan, &found, verifies)
}

/// The blocks among those that were read that are what a plan needs.
fn intact_sources(
    core: &Core,
    plan: &Plan,
    gathered: &Gathered,
    verifies: bool,
) -> Vec<(Role, Verified)> {
    let state = core.state.borrow();
    let verified = plan.sources.iter().filter_map(|source| {
        let raw = gathered.get(plan.spot(source))?.ok()?;
        let (data, oob) = (raw.data(), raw.oob());
        let verified = verify(&state, plan.place, source.column, &data, oob);
        let oob = if verifies { verified } else { verified.or_else(|| Oob::parse(oob)) }?;
        let ours = oob.stripe == plan.stripe && oob.role == source.role;
        ours.then_some((source.role, Verified { data, oob }))
    });
    verified.collect()
}

fn decode(core: &Core, plan: &Plan, found: &[(Role, Verified)], verifies: bool) -> Option<Rebuilt> {
    let scheme = plan.geometry.scheme();
    let (code, total) = (core.code(scheme), scheme.columns());
    let mut data: Vec<Option<&[u8]>> = vec![None; total];
    let mut coded: Vec<Option<&[u8]>> = vec![None; total];
    for (role, verified) in found {
        assert!(data[role.index()].is_none(), "two chunks of role {} at {:?}", role.0, plan.place);
        data[role.index()] = Some(&verified.data);
        coded[role.index()] = Some(&verified.oob.coded);
    }
    let mirrored = scheme.is_mirrored();
    let two_missing = !mirrored && found.len() + 2 <= total;
    mark_if(Mark::TwoMissing, || two_missing);
    mark_if(Mark::RebuiltFromTwin, || mirrored);
    if two_missing && mutant(Mutant::WrongCoefficients) {
        swap_two(&mut data[..scheme.data()]);
    }
    let mut block = AlignedBuffer::zeroed(BlockCount(1));
    let mut identity = [0; CODED_BYTES];
    let wanted = plan.role.index();
    assert!(data[wanted].is_none(), "role {wanted} at {:?} is its own source", plan.place);
    code.reconstruct(&data, &mut [(wanted, block.as_mut())]).ok()?;
    code.reconstruct(&coded, &mut [(wanted, &mut identity[..])]).ok()?;
    let data = block.freeze();
    if wanted < scheme.data() && verifies {
        let seed = core.state.borrow().array.seed;
        BlockIdentity::decode(&identity).filter(|identity| identity.verifies(seed, &data))?;
    }
    Some(Rebuilt { data, coded: identity })
}

/// Exchanges two present chunks; for [`Mutant::WrongCoefficients`].
fn swap_two(data: &mut [Option<&[u8]>]) {
    let first = data.iter().position(Option::is_some);
    let last = data.iter().rposition(Option::is_some);
    if let (Some(first), Some(last)) = (first, last) {
        data.swap(first, last);
    }
}
