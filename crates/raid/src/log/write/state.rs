//! The write path's part of the state: streams, requests in flight and sequences.
//!
//! Invariant: every assigned sequence is below the ceiling on media.

use std::collections::VecDeque;

use crate::log::admit::inflight::InFlight;
use crate::log::format::{SegmentId, Sequence};
use crate::log::write::in_flight::ChunkUnderWay;
use crate::log::write::policy::auto::Chosen;
use crate::log::write::policy::lanes::{PolicyError, WritePolicy};
use crate::log::write::stream::Stream;
use crate::log::write::zone::pacing::Drain;
use crate::log::write::zone::queue::ZoneQueue;
use crate::log::write::zone::queues::ZoneQueues;
use crate::scheme::Column;

/// Sequences that must be left when a request is admitted: more than the requests admitted at a
/// time.
const SEQUENCE_MARGIN: u64 = 1 << 18;

/// Writes that wait or are in flight.
pub(in crate::log) struct Writes {
    /// The write policy of this start.
    pub(in crate::log) policy: WritePolicy,
    /// Why policies that suit the drives better do not fit.
    pub(in crate::log) refused: Vec<PolicyError>,
    /// Blocks that wait for user segments.
    pub(in crate::log) user: Stream,
    /// Blocks that wait for relocation segments.
    pub(in crate::log) relocation: Stream,
    /// Pending chunks of the zones that are being filled.
    pub(in crate::log) queues: ZoneQueues,
    /// Requests in flight.
    pub(in crate::log) inflight: InFlight,
    /// Chunks that will not be written, as their drive was evicted: their stripes have yet to be
    /// notified.
    pub(in crate::log) aborted: VecDeque<ChunkUnderWay>,
    /// The next sequence to be assigned.
    pub(in crate::log) next_sequence: Sequence,
    /// The ceiling on media.
    pub(in crate::log) sequence_ceiling: Sequence,
    /// The ceilings in the next records: on media, or about to be.
    pub(in crate::log) ceilings_to_record: (Sequence, SegmentId),
    /// Write pacing: the drain rate of the drives' buffers.
    pub(in crate::log) drain: Drain,
}

impl Writes {
    /// Nothing written yet by this start, whose ceilings are on media.
    pub(in crate::log) fn new(
        Chosen { policy, refused }: Chosen,
        (user, relocation): (Stream, Stream),
        sequence_ceiling: Sequence,
        segment_ceiling: SegmentId,
    ) -> Self {
        Self {
            policy,
            refused,
            user,
            relocation,
            queues: ZoneQueues::default(),
            inflight: InFlight::default(),
            aborted: VecDeque::new(),
            // The record that voids the checkpoint has the number of the ceiling.
            next_sequence: sequence_ceiling.next(),
            sequence_ceiling,
            ceilings_to_record: (sequence_ceiling, segment_ceiling),
            drain: Drain::default(),
        }
    }

    /// Ends the writes to a drive: its pending chunks are aborted.
    pub(in crate::log) fn break_off(&mut self, column: Column) {
        self.aborted.extend(self.queues.of_column(column).flat_map(ZoneQueue::break_off));
    }

    /// Whether sequences have to be reserved before more are assigned.
    pub(in crate::log) fn has_few_sequences(&self) -> bool {
        self.next_sequence.plus(SEQUENCE_MARGIN) > self.sequence_ceiling
    }
}
