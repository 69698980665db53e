//! A trace as it is read back: hostile until it is decoded.
//!
//! A frame is verified as a whole before its events are decoded. Memory is that of one frame.

use std::io::{self, ErrorKind, Read};

use thiserror::Error;
use zoneweave_runtime::Nanos;

use super::event::Event;
use super::frame::{FrameHeader, NoHeader, TRACE_VERSION, TraceHeader};
use super::varint::Fields;

/// An event and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedEvent {
    /// The time since recording began.
    pub at: Nanos,
    /// The event.
    pub event: Event,
}

/// How a trace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the end of its store.
    Closed,
    /// Between two frames: the process was killed, or the recording stopped early.
    Open,
    /// In the middle of a frame: as `Open`, while the frame was written.
    Torn,
}

/// Why a trace cannot be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The input fails.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("is no trace of a file store")]
    NoTrace,
    /// It is of another release.
    #[error("the trace has version {found}, this release reads version {TRACE_VERSION}")]
    Version {
        /// The version of the trace.
        found: u16,
    },
    /// The first bytes do not verify.
    #[error("the header of the trace is damaged")]
    Header,
    /// A frame does not verify, or is not the next one.
    #[error("frame {frame}, at byte {offset}, is damaged: record the trace again")]
    Damaged {
        /// Its number.
        frame: u64,
        /// Its first byte.
        offset: u64,
    },
    /// A frame verifies, and is none that a recorder writes.
    #[error("event {event} of frame {frame} has no meaning")]
    Malformed {
        /// The frame.
        frame: u64,
        /// The event in it, from 0.
        event: u32,
    },
    /// Something follows the end of the store.
    #[error("the trace goes on behind its end, at byte {offset}")]
    Trailing {
        /// The first byte behind the end.
        offset: u64,
    },
}

/// Reads a trace.
#[derive(Debug)]
pub struct TraceReader<R> {
    input: R,
    header: TraceHeader,
    /// The next frame, and its first byte.
    sequence: u64,
    offset: u64,
    payload: Vec<u8>,
    /// Bytes of the payload that were decoded.
    decoded: usize,
    events: u32,
    done: u32,
    /// Events that are missing in front of the next one.
    lost: u32,
    now: Nanos,
    ending: Option<Ending>,
}

impl<R: Read> TraceReader<R> {
    /// Reads the header of a trace.
    ///
    /// # Errors
    /// If the input fails, or is no trace of this version.
    pub fn open(mut input: R) -> Result<Self, TraceError> {
        let mut bytes = [0; TraceHeader::BYTES];
        if fill(&mut input, &mut bytes)? < bytes.len() {
            return Err(TraceError::NoTrace);
        }
        let header = TraceHeader::decode(&bytes).map_err(|refused| match refused {
            NoHeader::Magic => TraceError::NoTrace,
            NoHeader::Version(found) => TraceError::Version { found },
            NoHeader::Damaged => TraceError::Header,
        })?;
        Ok(Self {
            input,
            header,
            sequence: 0,
            offset: TraceHeader::BYTES as u64,
            payload: Vec::new(),
            decoded: 0,
            events: 0,
            done: 0,
            lost: 0,
            now: Nanos::ZERO,
            ending: None,
        })
    }

    /// What the trace was recorded from.
    #[must_use]
    pub const fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// How the trace ends, once its last event was read.
    #[must_use]
    pub const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Bytes of all frames that were read, with the header.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.offset
    }

    /// The next event; `None` at the end, where [`Event::End`] is not an event of its own. A frame
    /// in front of which events are missing begins with [`Event::Lost`].
    ///
    /// # Errors
    /// If the input fails, or is damaged here.
    pub fn read_event(&mut self) -> Result<Option<TimedEvent>, TraceError> {
        if self.ending.is_some() {
            return Ok(None);
        }
        if self.done == self.events && !self.read_frame()? {
            return Ok(None);
        }
        if self.lost > 0 {
            let events = u64::from(std::mem::take(&mut self.lost));
            return Ok(Some(TimedEvent { at: self.now, event: Event::Lost { events } }));
        }
        let event = self.decode()?;
        if event.event != Event::End {
            return Ok(Some(event));
        }
        self.check_end()?;
        self.ending = Some(Ending::Closed);
        Ok(None)
    }

    /// Reads the next frame; false at the end of the trace.
    fn read_frame(&mut self) -> Result<bool, TraceError> {
        let mut bytes = [0; FrameHeader::BYTES];
        let count = fill(&mut self.input, &mut bytes)?;
        if count < bytes.len() {
            self.ending = Some(if count == 0 { Ending::Open } else { Ending::Torn });
            return Ok(false);
        }
        let damaged = TraceError::Damaged { frame: self.sequence, offset: self.offset };
        let Some(header) = FrameHeader::decode(&bytes, self.sequence) else { return Err(damaged) };
        self.payload.resize(header.payload_bytes, 0);
        if fill(&mut self.input, &mut self.payload)? < header.payload_bytes {
            self.ending = Some(Ending::Torn);
            return Ok(false);
        }
        if !FrameHeader::verifies(&bytes, self.header.seed(), &self.payload) {
            return Err(damaged);
        }
        (self.decoded, self.events, self.done, self.lost) = (0, header.events, 0, header.lost);
        // A recorder's time runs forwards.
        self.now = self.now.max(header.begun);
        self.sequence += 1;
        self.offset += (bytes.len() + header.payload_bytes) as u64;
        assert!(self.events > 0, "a frame of no events");
        Ok(true)
    }

    fn decode(&mut self) -> Result<TimedEvent, TraceError> {
        assert!(self.done < self.events, "an event of the next frame");
        let mut fields = Fields::new(&self.payload[self.decoded..]);
        let decoded = fields.number().and_then(|span| Some((span, Event::decode(&mut fields)?)));
        let is_last = self.done + 1 == self.events;
        let malformed = TraceError::Malformed { frame: self.sequence - 1, event: self.done };
        // The first one has the time of the frame, and the last is where the payload ends.
        let is_first = self.done == 0;
        let decoded = decoded.filter(|(span, _)| !is_first || *span == 0);
        let Some((span, event)) = decoded.filter(|_| fields.is_empty() == is_last) else {
            return Err(malformed);
        };
        self.now += Nanos(span);
        self.decoded = self.payload.len() - fields.len();
        self.done += 1;
        Ok(TimedEvent { at: self.now, event })
    }

    /// # Errors
    /// If something follows.
    fn check_end(&mut self) -> Result<(), TraceError> {
        let mut next = [0];
        if self.done < self.events || fill(&mut self.input, &mut next)? > 0 {
            return Err(TraceError::Trailing { offset: self.offset });
        }
        Ok(())
    }
}

/// Reads until the buffer is full or the input ends; returns the bytes that were read.
fn fill(input: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match input.read(&mut into[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::BlockCount;

    use super::*;
    use crate::ids::FileId;
    use crate::trace::{Encoder, samples};

    const HEADER: TraceHeader = TraceHeader {
        id: [3; 16],
        has_reads: false,
        zones: 64,
        zone_capacity: BlockCount(512),
        buffer: BlockCount(16),
    };

    /// A trace of frames, each of these events.
    fn trace(frames: &[&[Event]]) -> Vec<u8> {
        let mut bytes = HEADER.encode().to_vec();
        let mut encoder = Encoder::new(&HEADER);
        let mut at = Nanos::ZERO;
        for events in frames {
            for event in *events {
                at += Nanos(100);
                assert!(encoder.push(at, event).is_none());
            }
            bytes.extend(encoder.take().unwrap().bytes);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(Vec<TimedEvent>, Option<Ending>), TraceError> {
        let mut reader = TraceReader::open(bytes)?;
        let mut events = Vec::new();
        while let Some(event) = reader.read_event()? {
            events.push(event);
        }
        Ok((events, reader.ending()))
    }

    const APPEND: Event = Event::Append { file: FileId(2), bytes: 70_000 };

    #[test]
    fn a_trace_leads_back_to_its_events_and_times() {
        let all = samples();
        let (_, before_end) = all.split_last().unwrap();
        let bytes = trace(&[before_end, &[APPEND], &[Event::End]]);
        let (events, ending) = read(&bytes).unwrap();
        let expected: Vec<_> = before_end.iter().chain([&APPEND]).copied().collect();
        assert_eq!(events.iter().map(|timed| timed.event).collect::<Vec<_>>(), expected);
        assert!((1..).zip(&events).all(|(number, timed)| timed.at == Nanos(100 * number)));
        assert_eq!(ending, Some(Ending::Closed));
    }

    #[test]
    fn a_trace_that_was_cut_ends_with_its_last_whole_frame() {
        let bytes = trace(&[&[APPEND, APPEND], &[APPEND], &[Event::End]]);
        let first = trace(&[&[APPEND, APPEND]]).len();
        let second = trace(&[&[APPEND, APPEND], &[APPEND]]).len();
        for end in TraceHeader::BYTES..bytes.len() {
            let (events, ending) = read(&bytes[..end]).unwrap();
            let expected = if end < first {
                0
            } else if end < second {
                2
            } else {
                3
            };
            assert_eq!(events.len(), expected, "{end} bytes");
            let is_between = [TraceHeader::BYTES, first, second].contains(&end);
            let expected = if is_between { Ending::Open } else { Ending::Torn };
            assert_eq!(ending, Some(expected), "{end} bytes");
        }
        assert!(matches!(read(&bytes[..40]), Err(TraceError::NoTrace)));
    }

    #[test]
    fn no_bit_of_a_frame_may_flip() {
        let bytes = trace(&[&[APPEND, Event::Sync { file: FileId(2) }], &[Event::End]]);
        for bit in TraceHeader::BYTES * 8..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match read(&flipped) {
                Err(TraceError::Damaged { .. }) => {}
                // A length that grew ends behind the trace.
                Ok((_, Some(Ending::Torn))) => {}
                other => panic!("bit {bit}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_follows_the_end_and_frames_out_of_order_are_refused() {
        let bytes = trace(&[&[Event::End], &[APPEND]]);
        assert!(matches!(read(&bytes), Err(TraceError::Trailing { .. })));
        let bytes = trace(&[&[Event::End, APPEND]]);
        assert!(matches!(read(&bytes), Err(TraceError::Trailing { .. })));
        let first = trace(&[&[APPEND]]).len();
        let mut bytes = trace(&[&[APPEND], &[APPEND]]);
        bytes.drain(TraceHeader::BYTES..first);
        let refused = read(&bytes).unwrap_err();
        assert!(matches!(refused, TraceError::Damaged { frame: 0, .. }), "{refused}");
    }

    #[test]
    fn frames_that_were_given_up_are_counted_in_front_of_the_next() {
        let mut bytes = HEADER.encode().to_vec();
        let mut encoder = Encoder::new(&HEADER);
        let mut given_up = 0;
        // A frame is full when the first event of the next one is there.
        while given_up < 2 {
            if let Some(frame) = encoder.push(Nanos(7), &APPEND) {
                encoder.give_up(&frame);
                given_up += 1;
            }
        }
        let third = encoder.take().unwrap();
        let missing = third.lost();
        bytes.extend(third.bytes);
        let (events, ending) = read(&bytes).unwrap();
        let [lost, append] = events[..] else { panic!("{} events", events.len()) };
        let Event::Lost { events } = lost.event else { panic!("{lost:?}") };
        assert!(events > 2 * 9000 && u64::from(missing) == events, "{events}");
        assert_eq!((lost.at, append), (Nanos(7), TimedEvent { at: Nanos(7), event: APPEND }));
        assert_eq!(ending, Some(Ending::Open));
    }

    #[test]
    fn a_frame_is_full_before_it_is_too_long() {
        let mut encoder = Encoder::new(&HEADER);
        let mut bytes = HEADER.encode().to_vec();
        let (mut count, mut frames) = (0, 0);
        while frames < 3 {
            count += 1;
            if let Some(frame) = encoder.push(Nanos(u64::MAX), &APPEND) {
                frames += 1;
                assert!(frame.bytes.len() > 60_000, "{}", frame.bytes.len());
                bytes.extend(frame.bytes);
            }
        }
        let (events, ending) = read(&bytes).unwrap();
        assert_eq!((events.len(), ending), (count - 1, Some(Ending::Open)));
    }
}
