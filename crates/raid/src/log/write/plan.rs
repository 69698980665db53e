//! The steps that a stream writer carries out, and the plan of a stripe.

use crate::array::stop::StopReason;
use crate::log::admit::pending::PendingBlock;
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::class::Class;
use crate::log::segment::lane::LaneId;
use crate::scheme::StripeId;

/// Most stripes in flight in one segment.
pub(in crate::log) const STRIPES_IN_FLIGHT: u32 = 64;

/// The next step of a stream's writer.
pub(super) enum Step {
    /// Wait for a change of state.
    Wait,
    /// Yield to other tasks: a partial stripe is about to be closed.
    Yield,
    Stripe(StripePlan),
    /// Prepare a lane for more stripes; the lane is busy until that is done.
    Run(LaneId, LaneTask),
    /// Fail all queued blocks: the volume takes no writes.
    FailQueue(StopReason),
}

/// The task that a lane needs before it takes more stripes.
pub(super) enum LaneTask {
    OpenSegment,
    /// Make its finished group durable, and go on to the next.
    EndGroup(SegmentSlot),
    /// Write the summary of its finished span.
    EndSpan(SegmentSlot, u32),
}

/// A stripe to be built and written.
pub(in crate::log) struct StripePlan {
    /// The segment that takes it.
    pub slot: SegmentSlot,
    /// The stripe, counted through the segment.
    pub stripe: StripeId,
    /// The queue that supplied the blocks.
    pub class: Class,
    /// The blocks, in order; the rest of the stripe is padding.
    pub blocks: Vec<PendingBlock>,
    /// Whether it has to be durable when it completes.
    pub fua: bool,
}
