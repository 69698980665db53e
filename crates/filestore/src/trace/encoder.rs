//! Events to frames, without I/O.

use zoneweave_journal::Seed;
use zoneweave_runtime::Nanos;

use super::event::{EVENT_BYTES_MAX, Event};
use super::frame::{FrameHeader, PAYLOAD_BYTES_MAX, TraceHeader};
use super::varint::put;

/// Collects events and makes frames of them.
#[derive(Debug)]
pub struct Encoder {
    seed: Seed,
    sequence: u64,
    payload: Vec<u8>,
    events: u32,
    begun: Nanos,
    last: Nanos,
    /// Events that are missing in front of the frame to come.
    lost: u32,
}

/// Whole events, to be written behind the frame before.
#[derive(Debug)]
pub struct Frame {
    /// What is written.
    pub bytes: Vec<u8>,
    sequence: u64,
    /// Events that are missing without it, `lost` included.
    events: u32,
    lost: u32,
}

impl Frame {
    /// Events that it says are missing in front of it.
    #[must_use]
    pub const fn lost(&self) -> u32 {
        self.lost
    }
}

impl Encoder {
    /// An encoder of a trace that has nothing but its header.
    #[must_use]
    pub fn new(header: &TraceHeader) -> Self {
        Self {
            seed: header.seed(),
            sequence: 0,
            payload: Vec::new(),
            events: 0,
            begun: Nanos::ZERO,
            last: Nanos::ZERO,
            lost: 0,
        }
    }

    /// Adds an event; returns the frame before it if that is full. Time runs forwards: an event
    /// that is earlier than the one before gets its time. [`Event::Lost`] ends the frame before it,
    /// and is in the header of the next one.
    pub fn push(&mut self, at: Nanos, event: &Event) -> Option<Frame> {
        if let Event::Lost { events } = event {
            let before = self.take();
            let events = u32::try_from(*events).unwrap_or(u32::MAX);
            self.lost = self.lost.saturating_add(events);
            return before;
        }
        let is_full = self.payload.len() + EVENT_BYTES_MAX > PAYLOAD_BYTES_MAX;
        let full = if is_full { self.take() } else { None };
        let at = at.max(self.last);
        if self.payload.is_empty() {
            (self.begun, self.last) = (at, at);
        }
        put(&mut self.payload, at.since(self.last).0);
        event.encode(&mut self.payload);
        self.last = at;
        self.events += 1;
        assert!(self.payload.len() <= PAYLOAD_BYTES_MAX, "an event is below its bound");
        full
    }

    /// The frame of the events so far, if there are any. Frames before it are written or given up
    /// by now, so that its header counts all that is missing in front of it.
    pub fn take(&mut self) -> Option<Frame> {
        if self.payload.is_empty() {
            return None;
        }
        let payload = std::mem::take(&mut self.payload);
        let (events, lost) = (std::mem::take(&mut self.events), std::mem::take(&mut self.lost));
        let (sequence, begun) = (self.sequence, self.begun);
        let header = FrameHeader { payload_bytes: payload.len(), events, lost, sequence, begun };
        let mut bytes = Vec::with_capacity(FrameHeader::BYTES + payload.len());
        bytes.extend(header.encode(self.seed, &payload));
        bytes.extend(payload);
        self.sequence += 1;
        Some(Frame { bytes, sequence, events: events.saturating_add(lost), lost })
    }

    /// Gives up the last frame that was made: the next one tells how many events are missing in
    /// front of it. No other frame may have been made since.
    pub fn give_up(&mut self, frame: &Frame) {
        assert!(frame.sequence + 1 == self.sequence, "another frame was made since");
        self.sequence = frame.sequence;
        self.lost = self.lost.saturating_add(frame.events);
    }

    /// The time of the first event that is in no frame yet.
    #[must_use]
    pub fn waiting_since(&self) -> Option<Nanos> {
        (!self.payload.is_empty()).then_some(self.begun)
    }
}
