//! How much segments have under way that users fill beside others.
//!
//! Of drives that are hardly faster with larger writes ([`WritePolicy::even_blocks`]) no more is
//! asked at a time than keeps them busy. What else waits does so where all wait alike, and goes to
//! the zone that is the first to be done, not to one that was chosen before.
//!
//! A segment that has nothing under way is held up only while another one takes what it would: the
//! same sizes and lifetimes.
//!
//! [`WritePolicy::even_blocks`]: crate::log::WritePolicy::even_blocks

use crate::instrument::marks::{Mark, mark_if};
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::segment::table::{Cursor, Segment};
use crate::log::write::stream::Lane;

/// Each segment may have so many stripes under way: one that is being written, and one behind it.
const STRIPES: u32 = 2;

/// Writes that suit drives which segments with chunks of a size may have under way together beyond
/// that. (Of Exp#11, ten are too many for 8 KiB with Nl=4, a 99th percentile of 114 to 123 us for
/// one of 105, and six too few for the hybrid workload with Ns=3 Nl=1, 215 us for 141. Counted over
/// segments of all sizes eight take 4 to 10 % of the throughput of 8 KiB with Ns=1 Nl=3.)
const WRITES: u32 = 8;

/// Segments with chunks of a size that have something under way at a time. (The hybrid workload of
/// Exp#11 with Nl=2 has as much throughput with six for small requests as with four, but large ones
/// come to two zones of eight then, not of six: 172 us for 151. Three are as good there, but too
/// few for four without others, 114 us for 105.)
const SEGMENTS: u32 = 4;

/// What segments have under way that users fill with chunks of a size.
#[derive(Default)]
struct Beside {
    segments: u32,
    stripes: u32,
    busy: u32,
    /// Whether one that is busy takes whatever the segment in question would.
    instead: bool,
}

impl State {
    /// Whether segments that are filled beside one have as much under way as keeps drives busy.
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

    /// What there is of its size, itself included.
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
