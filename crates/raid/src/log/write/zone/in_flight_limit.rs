//! Applies the bound on writes in flight ([`Coalescing`]) to the segments that users fill.

use crate::log::engine::address::SegmentSlot;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::segment::lane::Lane;
use crate::log::segment::table::{Cursor, Segment};
use crate::log::write::zone::coalescing::{Coalescing, SegmentLoad};

impl State {
    /// Whether other segments have enough writes in flight to keep the drives busy, so that this
    /// one has to wait.
    #[must_use]
    pub(in crate::log) fn reaches_in_flight_limit(&self, slot: SegmentSlot) -> bool {
        let Some(even_blocks) = self.writes.policy.even_blocks else { return false };
        let segment = &self.segments[slot];
        if segment.stream != StreamKind::User || !self.writes.queues.coalesces(slot) {
            return false;
        }
        Coalescing::new(even_blocks).holds_back(self.load_of(segment))
    }

    /// Figures for the segments of its chunk size, itself included.
    fn load_of(&self, segment: &Segment) -> SegmentLoad {
        let size = |segment: &Segment| (segment.geometry.chunk_blocks(), segment.geometry.scheme());
        let open = |lane: &Lane| lane.open.map(|slot| (lane.class, &self.segments[slot]));
        let of_size = self.writes.user.lanes().filter_map(|(_, lane)| open(lane));
        let of_size = of_size.filter(|(_, other)| size(other) == size(segment));
        let own = of_size.clone().find(|(_, other)| other.id == segment.id).map(|(class, _)| class);
        let mut load = SegmentLoad {
            chunk_blocks: segment.geometry.chunk_blocks(),
            in_flight: segment.in_flight(),
            segments: 0,
            stripes: 0,
            busy: 0,
            instead: false,
        };
        for (class, other) in of_size {
            let busy = other.in_flight() > 0;
            load.segments += 1;
            load.stripes += other.in_flight();
            load.busy += u32::from(busy);
            load.instead |=
                busy && own == Some(class) && other.life.cursor().is_some_and(Cursor::has_rows);
        }
        load
    }
}
