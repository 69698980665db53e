//! Bounds the writes in flight of segments that users fill at the same time.
//!
//! Drives that are hardly faster with larger writes ([`WritePolicy::even_blocks`]) get no more
//! writes than keep them busy. Further blocks wait in the queue that is common to all, and go to
//! the zone that is free first instead of one chosen early.
//!
//! A segment with nothing in flight is held back only while another segment accepts the same sizes
//! and lifetimes.
//!
//! [`WritePolicy::even_blocks`]: crate::log::WritePolicy::even_blocks

use crate::instrument::marks::{Mark, mark_if};
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::segment::table::{Cursor, Segment};
use crate::log::write::lane::Lane;

/// Stripes in flight that each segment may always have: one being written, and one behind it.
const STRIPES: u32 = 2;

/// Writes of the preferred size in flight, beyond [`STRIPES`], for all segments with chunks of one
/// size. In Exp#11, ten are too many for 8 KiB with Nl=4: the 99th percentile is 114 to 123 us, not
/// 105. Six are too few for the hybrid workload with Ns=3 Nl=1 (215 us, not 141). Counted over
/// segments of all sizes, eight cost 4 to 10 % of the throughput of 8 KiB with Ns=1 Nl=3.
const WRITES: u32 = 8;

/// Segments with chunks of one size that have writes in flight at a time. In the hybrid workload of
/// Exp#11 with Nl=2, six for small requests give the same throughput as four, but large requests
/// then own two of eight busy zones instead of two of six: 172 us, not 151. Three are as good
/// there, but too few for four segments without others (114 us, not 105).
const SEGMENTS: u32 = 4;

/// Writes in flight of users' segments with chunks of one size.
#[derive(Default)]
struct Beside {
    segments: u32,
    stripes: u32,
    busy: u32,
    /// Whether a busy one accepts everything that the segment in question would.
    instead: bool,
}

impl State {
    /// Whether other segments have enough writes in flight to keep the drives busy, so that this
    /// one has to wait.
    #[must_use]
    pub(in crate::log) fn is_enough_beside(&self, segment: &Segment) -> bool {
        let Some(even_blocks) = self.policy.even_blocks else { return false };
        if segment.stream != StreamKind::User || !segment.gathers {
            return false;
        }
        let found = self.beside(segment);
        let written = found.stripes * segment.geometry.chunk_blocks();
        let enough =
            found.segments > 1 && segment.in_flight >= STRIPES && written >= WRITES * even_blocks;
        let many = segment.in_flight == 0 && found.busy >= SEGMENTS && found.instead;
        mark_if(Mark::EnoughBeside, || enough);
        mark_if(Mark::ManyBeside, || many);
        enough || many
    }

    /// Figures for the segments of its chunk size, itself included.
    fn beside(&self, segment: &Segment) -> Beside {
        let size = |segment: &Segment| (segment.geometry.chunk_blocks(), segment.geometry.scheme());
        let open = |lane: &Lane| lane.open.map(|slot| (lane.class, &self.segments[slot]));
        let of_size = self.user.lanes().filter_map(|(_, lane)| open(lane));
        let of_size = of_size.filter(|(_, other)| size(other) == size(segment));
        let own = of_size.clone().find(|(_, other)| other.id == segment.id).map(|(class, _)| class);
        let mut found = Beside::default();
        for (class, other) in of_size {
            let busy = other.in_flight > 0;
            found.segments += 1;
            found.stripes += other.in_flight;
            found.busy += u32::from(busy);
            found.instead |=
                busy && own == Some(class) && other.cursor.as_ref().is_some_and(Cursor::has_rows);
        }
        found
    }
}
