//! How much segments have under way that users fill beside others.
//!
//! Of drives that are hardly faster with larger writes ([`WritePolicy::even_blocks`]) no more is asked at a time than keeps them busy.
//! What else waits does so where all wait alike, and goes to the zone that is the first to be done, not to one that was chosen before.
//!
//! A segment that has nothing under way, while no other one for blocks of its lifetime has, is never held up. So whatever waits
//! has a segment that takes it sooner or later.
//!
//! [`WritePolicy::even_blocks`]: crate::log::WritePolicy::even_blocks

use crate::log::format::StreamKind;
use crate::log::segment::Segment;
use crate::log::state::State;
use crate::marks::{Mark, mark_if};

/// Each segment may have so many stripes under way: one that is being written, and one behind it.
const STRIPES: u32 = 2;

/// Writes that suit drives which segments with chunks of a size may have under way together beyond that. (Of Exp#11, ten are too
/// many for 8 KiB with Nl=4, a 99th percentile of 114 to 123 us for one of 105,
/// and six too few for the hybrid workload with Ns=3 Nl=1, 215 us for 141. Counted over segments of all sizes eight take
/// 4 to 10 % of the throughput of 8 KiB with Ns=1 Nl=3.)
const WRITES: u32 = 8;

/// Segments with chunks of a size that have something under way at a time. (The hybrid workload of Exp#11 with Nl=2 has as much
/// throughput with six for small requests as with four, but large ones come to two zones of eight then, not of six: 172 us
/// for 151. Three are as good there, but too few for four without others, 114 us for 105.)
const SEGMENTS: u32 = 4;

/// What segments have under way that users fill with chunks of a size.
#[derive(Default)]
struct Beside {
    segments: u32,
    stripes: u32,
    busy: u32,
    /// Those for blocks of one lifetime.
    busy_alike: u32,
}

impl State {
    /// Whether segments that are filled beside one have as much under way as keeps drives busy.
    #[must_use]
    pub(super) fn is_enough_beside(&self, segment: &Segment) -> bool {
        let Some(even_blocks) = self.policy.even_blocks else { return false };
        if segment.stream != StreamKind::User || !segment.gathers {
            return false;
        }
        let found = self.beside(segment);
        let written = found.stripes * segment.geometry.chunk_blocks();
        let enough =
            found.segments > 1 && segment.in_flight >= STRIPES && written >= WRITES * even_blocks;
        let many = segment.in_flight == 0 && found.busy >= SEGMENTS && found.busy_alike > 0;
        mark_if(Mark::EnoughBeside, || enough);
        mark_if(Mark::ManyBeside, || many);
        enough || many
    }

    /// What there is of its size, itself included.
    fn beside(&self, segment: &Segment) -> Beside {
        let shape =
            |segment: &Segment| (segment.geometry.chunk_blocks(), segment.geometry.scheme());
        let open = self.user.open_segments().map(|slot| &self.segments[slot]);
        let mut found = Beside::default();
        for other in open.filter(|other| shape(other) == shape(segment)) {
            let busy = u32::from(other.in_flight > 0);
            found.segments += 1;
            found.stripes += other.in_flight;
            found.busy += busy;
            found.busy_alike += if other.lifetime == segment.lifetime { busy } else { 0 };
        }
        found
    }
}
