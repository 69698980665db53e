//! Narrow segments: a lone write is not padded to a stripe of all columns.
//!
//! A narrow segment has as few columns as give redundancy, with one data chunk per stripe. It takes
//! a slot like any other segment, and holds as many lone writes as a padded full-width segment
//! would. The bounds on free space therefore hold unchanged. It is beyond the segments that zones
//! are reserved for, and no request waits for it: it is opened only if space and active zones are
//! to spare.
//!
//! Two writes at a time would wait for each other in its zones, so it takes none while other writes
//! are in flight. The exception: if there is no room for another segment and none is open, it takes
//! every write.
//!
//! Fault model: of its drives, m may lose their parts, as in any segment. Fewer drives could report
//! it dead after losing it; the narrow list (`segment/narrow_list`) makes up for that.
//!
//! Relocating it frees no zone on drives without a part of it. If a drive has fewer free zones than
//! there are free slots, no narrow segment is opened. If a drive loses zones later, only the narrow
//! segments on that drive are relocated for space.

use std::cmp::Reverse;

use crate::array::member::Member;
use crate::log::engine::class::{ChunkClass, Class};
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::engine::state::State;
use crate::log::format::{ArrayConfig, StreamKind};
use crate::log::segment::lane::LaneId;
use crate::log::write::policy::lanes::{LaneOptions, WritePolicy, shape_of};
use crate::scheme::{ColumnSet, Scheme};

impl WritePolicy {
    /// The lane of narrow segments, with the smallest chunks, as each stripe holds one write.
    pub(super) fn narrow_lane(&self, config: &ArrayConfig) -> LaneOptions {
        self.user_lane(config, &LaneOptions::gathered(config.write_unit.0))
    }

    /// The shape of narrow segments, on any columns; `None` if the policy has none, or they would
    /// not be narrower.
    #[must_use]
    pub(super) fn narrow_shape(&self, config: &ArrayConfig) -> Option<SegmentGeometry> {
        shape_of(config, self.narrow_scheme(config)?, &self.narrow_lane(config))
    }

    /// Users' segments in which a crash may leave undecided stripes.
    pub(super) fn lanes_undecided(&self, config: &ArrayConfig) -> u32 {
        self.user_lanes() + u32::from(self.narrow_scheme(config).is_some())
    }

    /// The scheme of one data chunk on the first columns, if the array's scheme has more. `None`
    /// with a policy that fits only without narrow segments.
    fn narrow_scheme(&self, config: &ArrayConfig) -> Option<Scheme> {
        let columns = ColumnSet::all(1 + config.scheme.parity());
        let scheme =
            config.scheme.on(columns).filter(|narrow| narrow.data() < config.scheme.data());
        assert!(scheme.is_none_or(|narrow| narrow.parity() == config.scheme.parity()));
        scheme.filter(|_| self.narrow && self.holds_undecided(config, self.user_lanes() + 1))
    }
}

impl State {
    /// Whether users may open a narrow segment: nothing else needs the space, and its active zones
    /// are beyond those reserved for other segments.
    #[must_use]
    pub(in crate::log) fn may_open_narrow(&self) -> bool {
        let slots = self.segments.vacancies();
        // If slots are the scarce resource, relocating any segment frees space.
        let even = |member: &Member| member.writable().is_none() || member.pool.len() >= slots;
        self.may_open_another(StreamKind::User)
            && self.array.members.iter().all(even)
            && !self.narrow_columns().is_empty()
            && self.may_list_another()
    }

    /// Its columns: those with the most free zones, and of equal ones the least worn.
    #[must_use]
    pub(in crate::log) fn narrow_columns(&self) -> ColumnSet {
        let none = ColumnSet::default();
        let Some((_, lane)) = self.writes.user.narrow_lane() else { return none };
        let mut able: Vec<_> =
            self.array.scheme().iter().filter(|column| self.has_room_beside(*column)).collect();
        able.sort_by_key(|column| {
            (Reverse(self.array.members[column.index()].pool.len()), *column)
        });
        let wanted = lane.geometry.scheme().columns();
        able.get(..wanted).map_or(none, |columns| columns.iter().copied().collect())
    }

    /// Whether the pending blocks take less space in narrow stripes than in one padded stripe, and
    /// no other write is in flight, or they are the rest of such a write.
    pub(super) fn is_alone(
        &self,
        kind: StreamKind,
        class: Class,
        padded: &SegmentGeometry,
    ) -> bool {
        let stream = self.writes.stream(kind);
        let Some((_, narrow)) = stream.narrow_lane() else { return false };
        let whole = |geometry: &SegmentGeometry| {
            geometry.chunk_blocks() as usize * geometry.scheme().columns()
        };
        let waiting = stream.queue(class).len();
        let queued = stream.queued();
        assert!(waiting <= queued, "{waiting} blocks of a class wait, and {queued} of all");
        let stripes = waiting.div_ceil(narrow.geometry.stripe_blocks());
        let fits = class.chunk == ChunkClass::Small
            && stream.queued() == waiting
            && stripes * whole(&narrow.geometry) < whole(padded);
        let idle = || stream.open_segments().all(|slot| self.segments[slot].in_flight() == 0);
        fits && (stream.lone_left() == waiting || idle())
    }

    /// The narrow lane, if it accepts a stripe now.
    pub(super) fn narrow_lane(&self, kind: StreamKind) -> Option<LaneId> {
        let (id, lane) = self.writes.stream(kind).narrow_lane().filter(|(_, lane)| !lane.busy)?;
        lane.open.filter(|slot| self.takes_stripes(*slot)).map(|_| id)
    }

    /// The narrow lane, if it deserves a segment and there is room for one. No request waits for
    /// it.
    pub(super) fn narrow_wanted(&self, kind: StreamKind) -> Option<LaneId> {
        let stream = self.writes.stream(kind);
        let (id, _) = stream.narrow_lane().filter(|(_, lane)| !lane.is_taken())?;
        let wanted = stream.comes_alone() && self.recovering.is_none();
        (wanted && !self.array.membership_dirty && self.may_open_narrow()).then_some(id)
    }
}
