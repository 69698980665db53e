//! Narrow segments: what comes one write at a time is not padded to a stripe of all columns.
//!
//! A narrow segment is on as few columns as are redundant, of one data chunk a stripe. It takes a
//! slot like any other and holds as many writes that come alone as others would, padded: so nothing
//! that is argued about room changes. It is one more than the segments that zones are kept for, and
//! nobody waits for it: it is opened only where room and active zones are to spare.
//!
//! Two writes at a time would wait for each other in its zones, so nothing goes there while other
//! writes are under way; but where there is no room for a segment, and no other one is open,
//! whatever comes does.
//!
//! Fault model: of the drives that it is on, m may lose what they have, as of others. That fewer
//! drives tell of it, and would say that it is dead, is made up for by the roster (`roster.rs`).
//!
//! Moving it out frees no zone of drives that it is not on. Where a drive has fewer zones left than
//! there are free slots none is opened; where one loses zones later only those on it are moved out
//! for room.

use std::cmp::Reverse;

use crate::log::engine::geometry::SegmentGeometry;
use crate::log::engine::state::State;
use crate::log::format::{ArrayConfig, StreamKind};
use crate::log::members::member::Member;
use crate::log::write::policy::lanes::{LaneOptions, WritePolicy, shape_of};
use crate::log::write::stream::{ChunkClass, Class, LaneId};
use crate::scheme::{ColumnSet, Scheme};

impl WritePolicy {
    /// The lane of narrow segments: chunks as small as can be, as each stripe is of one write.
    pub(in crate::log) fn narrow_lane(&self, config: &ArrayConfig) -> LaneOptions {
        self.user_lane(config, &LaneOptions::gathered(config.write_unit.0))
    }

    /// The shape of narrow segments, whichever columns they are on; `None` where there are none, or
    /// none would be narrower.
    #[must_use]
    pub(in crate::log) fn narrow_shape(&self, config: &ArrayConfig) -> Option<SegmentGeometry> {
        shape_of(config, self.narrow_scheme(config)?, &self.narrow_lane(config))
    }

    /// Segments for users that a crash may find with stripes of which it is not known whether they
    /// count.
    pub(in crate::log) fn lanes_undecided(&self, config: &ArrayConfig) -> u32 {
        self.user_lanes() + u32::from(self.narrow_scheme(config).is_some())
    }

    /// The scheme of one data chunk on the first columns, where the array's has more of them. A
    /// policy that fits without narrow segments alone has none.
    fn narrow_scheme(&self, config: &ArrayConfig) -> Option<Scheme> {
        let columns = ColumnSet::all(1 + config.scheme.parity());
        let scheme =
            config.scheme.on(columns).filter(|narrow| narrow.data() < config.scheme.data());
        scheme.filter(|_| self.narrow && self.holds_undecided(config, self.user_lanes() + 1))
    }
}

impl State {
    /// Whether users may have a segment of narrow stripes: nobody needs the room, and where drives
    /// bound how many zones are active it is one more than they are kept for.
    #[must_use]
    pub(in crate::log) fn may_open_narrow(&self) -> bool {
        let slots = self.segments.vacancies();
        // Where slots are what is scarce any segment that is moved out makes room.
        let even = |member: &Member| member.writable().is_none() || member.pool.len() >= slots;
        self.may_open_beside(StreamKind::User)
            && self.members.iter().all(even)
            && !self.narrow_columns().is_empty()
            && self.may_list_another()
    }

    /// The columns for it: those with most free zones, of which as many wear least.
    #[must_use]
    pub(in crate::log) fn narrow_columns(&self) -> ColumnSet {
        let none = ColumnSet::default();
        let Some((_, lane)) = self.user.narrow_lane() else { return none };
        let mut able: Vec<_> =
            self.scheme().iter().filter(|column| self.has_room_beside(*column)).collect();
        able.sort_by_key(|column| (Reverse(self.members[column.index()].pool.len()), *column));
        let wanted = lane.geometry.scheme().columns();
        able.get(..wanted).map_or(none, |columns| columns.iter().copied().collect())
    }

    /// Whether what waits takes less in narrow stripes than in one that is padded, and nothing is
    /// under way beside it, or it is what is left of such a write.
    pub(in crate::log) fn is_alone(
        &self,
        kind: StreamKind,
        class: Class,
        padded: &SegmentGeometry,
    ) -> bool {
        let stream = self.stream(kind);
        let Some((_, narrow)) = stream.narrow_lane() else { return false };
        let whole = |geometry: &SegmentGeometry| {
            geometry.chunk_blocks() as usize * geometry.scheme().columns()
        };
        let waiting = stream.queue(class).len();
        let stripes = waiting.div_ceil(narrow.geometry.stripe_blocks());
        let fits = class.chunk == ChunkClass::Small
            && stream.queued() == waiting
            && stripes * whole(&narrow.geometry) < whole(padded);
        let idle = || stream.open_segments().all(|slot| self.segments[slot].in_flight == 0);
        fits && (stream.lone_left() == waiting || idle())
    }

    /// The lane of narrow stripes, if it takes one now.
    pub(in crate::log) fn narrow_lane(&self, kind: StreamKind) -> Option<LaneId> {
        let (id, lane) = self.stream(kind).narrow_lane().filter(|(_, lane)| !lane.busy)?;
        lane.open.filter(|slot| self.takes_stripes(*slot)).map(|_| id)
    }

    /// The lane of narrow stripes if it is worth a segment, and there is room for one. Nobody waits
    /// for it.
    pub(in crate::log) fn narrow_wanted(&self, kind: StreamKind) -> Option<LaneId> {
        let stream = self.stream(kind);
        let (id, _) = stream.narrow_lane().filter(|(_, lane)| !lane.is_taken())?;
        let wanted = stream.comes_alone() && self.recovering.is_none();
        (wanted && !self.membership_dirty && self.may_open_narrow()).then_some(id)
    }
}
