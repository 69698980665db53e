//! Judging a segment that a crash left unfinished: which stripes count.
//!
//! Groups are made durable one after the other, so every group before the last one touched is
//! complete. For those, only block metadata is read, as their span has no summary yet; data is not
//! verified. In the last group each stripe is judged by the chunks that verify. A stripe with too
//! few of them is discarded.
//!
//! A discarded stripe may have been acknowledged if every drive has written its chunk, or blocks
//! that may be the chunk. Then the damage exceeds redundancy, and serving the older contents would
//! be wrong. Rows displaced by a torn append ([`torn_appends`](super::find::torn_appends)) are no
//! such blocks.
//!
//! The judgement is recorded before anything is served, and is never revised: losing a drive later
//! must not change data that was already read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join;
use zoneweave_zoned::ZoneOffset;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{BlockPlace, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::engine::geometry::{ChunkBlock, Row, SegmentGeometry};
use crate::log::format::{EntryKind, IndexEntry, SealRecord, Sequence};
use crate::log::recover::find::torn_appends::{Displaced, find_displaced};
use crate::log::segment::resolve::{columns_with_chunks, resolve_group};
use crate::log::segment::scan::{Depth, scan_groups, scan_rows};
use crate::log::segment::scanned::{FoundSegment, ScannedRows, WeakBlock};
use crate::log::segment::table::Phase;
use crate::scheme::{Column, ColumnSet, Scheme, StripeId};

/// The judgement of one segment.
pub(in crate::log) struct Judgement {
    /// The decision to be recorded, unless it was recorded before.
    pub(in crate::log) new_seal: Option<SealRecord>,
    pub(in crate::log) weak: Vec<WeakBlock>,
    pub(in crate::log) weak_stripes: u64,
    pub(in crate::log) discarded_stripes: u64,
}

impl Judgement {
    /// Stripes that this start discards: those of a known seal were discarded before.
    pub(super) fn newly_discarded(&self) -> u64 {
        if self.new_seal.is_some() { self.discarded_stripes } else { 0 }
    }
}

/// Judges one segment and enters the valid blocks of its last span.
pub(super) async fn judge(core: &Rc<Core>, found: &FoundSegment) -> Judgement {
    let slot = found.slot;
    let (geometry, known) = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        assert!(
            segment.phase() == Phase::Leftover,
            "segment {} is {} and judged",
            segment.id,
            segment.phase()
        );
        (segment.geometry, state.registry.seals.get(&segment.id).cloned())
    };
    let rows = known.as_ref().map_or_else(
        || last_group(&geometry, &found.written),
        |seal| {
            (seal.rows < geometry.rows() && !seal.valid.is_empty())
                .then(|| geometry.group_of(Row(seal.rows)))
        },
    );
    let whole = match &known {
        Some(seal) => seal.rows,
        None => rows.as_ref().map_or(0, |last| last.start),
    };
    find_short(core, found, &geometry, whole);
    let Some(last) = rows else { return empty(core, slot, known.is_some()) };
    let span = geometry.span_of(Row(last.start));
    let earlier = geometry.rows_of_span(span).start..last.start;
    begin_span(core, slot, span, &geometry);
    mark_if(Mark::EarlierGroupsWhole, || !earlier.is_empty());
    let earlier = scan_groups(core, slot, earlier);
    let (mut entries, scans) =
        join(earlier, scan_rows(core, slot, last.clone(), Depth::Data)).await;
    let scans: Vec<_> = scans.iter().map(|scan| scan.rows(&last)).collect();
    let chunks = columns_with_chunks(&last, &scans);
    let verdicts = verdicts(core, found, &chunks, known.as_ref());
    assert!(verdicts.len() == last.len(), "{} verdicts for rows {last:?}", verdicts.len());
    let group =
        LastGroup { found, rows: &last, scans: &scans, chunks: &chunks, verdicts: &verdicts };
    if known.is_none()
        && let Some(lacking) = group.lacking_if_counted(core).await
    {
        mark(Mark::DiscardedMayHaveCounted);
        core.state.borrow_mut().record_unaccounted(slot, lacking);
    }
    let counts: Vec<bool> = verdicts.iter().map(|verdict| *verdict != Verdict::Discarded).collect();
    let resolved = resolve_group(core, slot, last.clone(), &scans, &counts).await;
    let weak = take_weak(slot, &geometry, &last, resolved, &verdicts, &mut entries);
    enter(core, slot, &entries);
    {
        let oldest = weak.iter().map(|block| block.entry.sequence).min().unwrap_or(Sequence::MAX);
        core.state.borrow_mut().segments[slot].holds_from(oldest);
    }
    let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count() as u64;
    Judgement {
        new_seal: known.is_none().then(|| seal(core, slot, last.start, &verdicts)),
        weak,
        weak_stripes: count(Verdict::Weak),
        discarded_stripes: touched_stripes(&chunks, &verdicts),
    }
}

/// Finds the columns that end before the rows that are complete elsewhere: a crash leaves no such
/// column, but a drive with older contents has some.
fn find_short(core: &Core, found: &FoundSegment, geometry: &SegmentGeometry, whole: u32) {
    let is_short = |column: &Column| {
        let written = found.written[column.index()];
        written.is_some_and(|wp| geometry.rows_below(wp) < whole.min(geometry.rows()))
    };
    let short: ColumnSet = found.expected.iter().copied().filter(is_short).collect();
    mark_if(Mark::ColumnShort, || !short.is_empty());
    core.state.borrow_mut().segments[found.slot].short = short;
}

/// The last group that counts, if there is one. More columns have touched it than may report a
/// wrong write pointer. The groups before it are therefore complete, and a later group touched by
/// fewer columns has no acknowledged stripe. (A drive that stores an append twice is in the next
/// group too soon, and a zone that has become read-only may report no write pointer.)
fn last_group(geometry: &SegmentGeometry, written: &[Option<ZoneOffset>]) -> Option<Range<u32>> {
    let mut rows: Vec<_> = written.iter().flatten().map(|wp| geometry.rows_below(*wp)).collect();
    rows.sort_unstable_by(|one, other| other.cmp(one));
    let columns = geometry.scheme().columns();
    // The scheme's limit is for all columns; missing columns count against it.
    let wrong = geometry.scheme().parity().min((columns - 1) / 2);
    let wrong = wrong.saturating_sub(columns - rows.len());
    let group = |rows: u32| rows.checked_sub(1).map(|last| geometry.group_of(Row(last)));
    let last = group(*rows.get(wrong).or(rows.last())?);
    mark_if(Mark::GroupOfFewIgnored, || group(rows[0]) != last);
    last
}

/// A segment without any row, or one whose seal says that nothing counts.
fn empty(core: &Core, slot: SegmentSlot, sealed: bool) -> Judgement {
    mark(Mark::EmptyLeftover);
    let new_seal = (!sealed).then(|| seal(core, slot, 0, &[]));
    Judgement { new_seal, weak: Vec::new(), weak_stripes: 0, discarded_stripes: 0 }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Complete,
    Weak,
    Discarded,
}

fn verdicts(
    core: &Core,
    found: &FoundSegment,
    chunks: &[ColumnSet],
    known: Option<&SealRecord>,
) -> Vec<Verdict> {
    if let Some(seal) = known {
        mark_seal(core, found, chunks, seal);
        let listed = seal.valid.iter().copied().chain(std::iter::repeat(false));
        let verdict = |valid| if valid { Verdict::Complete } else { Verdict::Discarded };
        return listed.take(chunks.len()).map(verdict).collect();
    }
    let scheme = core.state.borrow().segments[found.slot].geometry.scheme();
    let all = scheme.columns();
    let enough = |columns: ColumnSet| {
        columns.len() >= all
            || is_readable(scheme, columns) && !mutant(Mutant::RecoveryDemandsAllChunks)
    };
    let weak = || match () {
        () if mutant(Mutant::WeakStripeDropped) => Verdict::Discarded,
        () if mutant(Mutant::WeakStripeServedAsIs) => Verdict::Complete,
        () => Verdict::Weak,
    };
    let judge = |columns: ColumnSet| {
        if enough(columns) && columns.len() >= found.expected.len() {
            mark_if(Mark::DegradedStripeComplete, || columns.len() < all);
            Verdict::Complete
        } else if enough(columns) {
            mark(Mark::WeakStripe);
            weak()
        } else {
            mark_if(Mark::DiscardedStripe, || !columns.is_empty());
            mark_if(Mark::TwinsDiscarded, || columns.len() >= scheme.data());
            Verdict::Discarded
        }
    };
    chunks.iter().copied().map(judge).collect()
}

/// The last group of a segment, as it was judged.
struct LastGroup<'a> {
    found: &'a FoundSegment,
    rows: &'a Range<u32>,
    scans: &'a [ScannedRows<'a>],
    chunks: &'a [ColumnSet],
    verdicts: &'a [Verdict],
}

impl LastGroup<'_> {
    /// The user blocks that columns do not return of discarded stripes whose chunks may all have
    /// been written; `None` without such a stripe. Only if there seems to be one are the rows
    /// without a chunk examined again, and only in segments with a stripe table: a torn write in
    /// place has nothing behind it.
    async fn lacking_if_counted(&self, core: &Rc<Core>) -> Option<BTreeMap<Column, u64>> {
        let mut displaced: Vec<_> = self.scans.iter().map(|_| Displaced::default()).collect();
        self.lacking_of_any(core, &displaced)?;
        let slot = self.found.slot;
        let (geometry, tabled) = {
            let state = core.state.borrow();
            let segment = &state.segments[slot];
            (segment.geometry, segment.table.is_some())
        };
        for column in self.found.expected.iter().copied().filter(|_| tabled) {
            let rows = self.rows.start..self.written(&geometry, column);
            let stripes = &self.scans[column.index()].stripes[..rows.len()];
            displaced[column.index()] = find_displaced(core, slot, column, rows, stripes).await;
        }
        mark_if(Mark::DisplacedRows, || displaced.iter().any(|displaced| displaced.rows > 0));
        self.lacking_of_any(core, &displaced)
    }

    /// As [`lacking_if_counted`](Self::lacking_if_counted), with so many rows displaced in each
    /// column. A drive reports how far a zone is written, but not for a lost zone. In a group with
    /// a stripe table, a chunk that does not verify may belong to any stripe. It is assigned to
    /// readable stripes first, and only then to unreadable ones.
    fn lacking_of_any(
        &self,
        core: &Core,
        displaced: &[Displaced],
    ) -> Option<BTreeMap<Column, u64>> {
        let state = core.state.borrow();
        let segment = &state.segments[self.found.slot];
        let stripes = || self.chunks.iter().zip(self.verdicts).zip(self.rows.clone());
        let written = |column: Column| self.written(&segment.geometry, column);
        let lacks = |columns: &ColumnSet, column: Column| !columns.contains(column);
        // Chunks of a column that do not verify, beyond the ones that readable stripes lack.
        let spare = |column: Column| {
            let displaced = &displaced[column.index()];
            let verified = self.scans[column.index()].stripes.iter().flatten().count();
            let read = stripes().filter(|((columns, verdict), stripe)| {
                let told = displaced.stripes.contains(&StripeId(*stripe));
                **verdict != Verdict::Discarded && lacks(columns, column) && !told
            });
            let rows = (written(column) - self.rows.start) as usize;
            rows > verified + displaced.rows + read.count()
        };
        let may_have = |row: u32, column: Column| match segment.table {
            None => written(column) > row,
            Some(_) => spare(column),
        };
        let lacking = |columns: &ColumnSet| {
            let expected = self.found.expected.iter().copied();
            expected.filter(|column| lacks(columns, *column)).collect::<Vec<_>>()
        };
        let discarded = stripes().filter(|((_, verdict), _)| **verdict == Verdict::Discarded);
        let mut counted = discarded
            .map(|((columns, _), row)| (row, lacking(columns)))
            .filter(|(row, columns)| columns.iter().all(|column| may_have(*row, *column)))
            .peekable();
        counted.peek()?;
        let (scheme, chunk) = (segment.geometry.scheme(), segment.geometry.chunk_blocks());
        let mut blocks = BTreeMap::new();
        for (row, columns) in counted {
            for column in columns {
                let is_data = scheme.is_data(scheme.role_of(column, StripeId(row)));
                *blocks.entry(column).or_default() += if is_data { chunk.into() } else { 0 };
            }
        }
        Some(blocks)
    }

    /// Up to which of its rows a column is written.
    fn written(&self, geometry: &SegmentGeometry, column: Column) -> u32 {
        let rows = self.found.written[column.index()].map(|wp| geometry.rows_below(wp));
        rows.map_or(self.rows.end, |rows| rows.clamp(self.rows.start, self.rows.end))
    }
}

/// Whether a stripe can be read from the chunks in these columns. With mirrors the chunks may all
/// be copies of the same ones.
fn is_readable(scheme: Scheme, columns: ColumnSet) -> bool {
    scheme.is_readable_from(columns)
        || columns.len() >= scheme.data() && mutant(Mutant::MirrorsCounted)
}

/// Marks where a seal decides otherwise than the chunks would by themselves.
fn mark_seal(core: &Core, found: &FoundSegment, chunks: &[ColumnSet], seal: &SealRecord) {
    mark(Mark::SealDecides);
    let scheme = core.state.borrow().segments[found.slot].geometry.scheme();
    let enough = |columns: ColumnSet| {
        scheme.is_readable_from(columns) && columns.len() >= found.expected.len()
    };
    let valid = seal.valid.iter().copied().chain(std::iter::repeat(false));
    for (columns, valid) in chunks.iter().copied().zip(valid) {
        mark_if(Mark::SealOverruledChunks, || !valid && enough(columns));
        mark_if(Mark::SealKeptStripe, || valid && !enough(columns));
    }
}

/// How many stripes have some chunk but do not count.
fn touched_stripes(chunks: &[ColumnSet], verdicts: &[Verdict]) -> u64 {
    let discarded = chunks.iter().zip(verdicts);
    discarded
        .filter(|(columns, verdict)| !columns.is_empty() && **verdict == Verdict::Discarded)
        .count() as u64
}

fn seal(core: &Core, slot: SegmentSlot, rows: u32, verdicts: &[Verdict]) -> SealRecord {
    let state = core.state.borrow();
    let segment = &state.segments[slot];
    SealRecord {
        segment: segment.id,
        generation: segment.generation,
        rows,
        valid: verdicts.iter().map(|verdict| *verdict == Verdict::Complete).collect(),
    }
}

/// Everything before the span is covered by summaries; the span itself by entries in memory.
fn begin_span(core: &Core, slot: SegmentSlot, span: u32, geometry: &SegmentGeometry) {
    core.state.borrow_mut().segments[slot].entries.begin_at(span, geometry);
}

/// Adds the last group's entries, without those of weak stripes, which come back separately.
fn take_weak(
    slot: SegmentSlot,
    geometry: &SegmentGeometry,
    last: &Range<u32>,
    resolved: Vec<Vec<IndexEntry>>,
    verdicts: &[Verdict],
    entries: &mut [Vec<IndexEntry>],
) -> Vec<WeakBlock> {
    let first = geometry.block_of(Row(last.start), 0);
    assert!(
        resolved.len() == entries.len(),
        "{} columns are resolved, and {} scanned",
        resolved.len(),
        entries.len()
    );
    let mut weak = Vec::new();
    for (column, blocks) in resolved.into_iter().enumerate() {
        for (at, mut entry) in (0..).zip(blocks) {
            if verdicts[usize::from(entry.stripe_in_group)] == Verdict::Weak {
                let block = ChunkBlock(first.0 + at);
                let place = BlockPlace { slot, column: Column::of(column), block };
                if matches!(entry.kind, EntryKind::Data | EntryKind::Lost | EntryKind::Tombstone) {
                    weak.push(WeakBlock { place, entry });
                }
                entry.kind = EntryKind::Parity;
            }
            entries[column].push(entry);
        }
    }
    weak
}

fn enter(core: &Core, slot: SegmentSlot, entries: &[Vec<IndexEntry>]) {
    let mut state = core.state.borrow_mut();
    let segment = &mut state.segments[slot];
    for (column, entries) in entries.iter().enumerate() {
        for (at, entry) in (segment.entries.first().0..).zip(entries) {
            segment.enter(Column::of(column), ChunkBlock(at), &[*entry]);
        }
    }
}
