//! The body of a fuzz target: traces as hostile input.
//!
//! Invariants for any input: nothing panics; time runs forwards; events that were read are the same
//! once they are recorded and read again.

use zoneweave_journal::Seed;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::BlockCount;

use super::encoder::Encoder;
use super::event::{Event, samples};
use super::frame::{FrameHeader, TraceHeader};
use super::reader::{TimedEvent, TraceReader};
use super::summary::Summary;

const HEADER: TraceHeader = TraceHeader {
    id: [0x5C; 16],
    has_reads: true,
    zones: 64,
    zone_capacity: BlockCount(512),
    buffer: BlockCount(256),
};

/// Reads a trace as it is, and the input as the events of a frame whose checksum is right.
///
/// # Panics
/// If an invariant is violated.
pub fn trace(input: &[u8]) {
    check(input);
    let Some((events, payload)) = input.split_first_chunk::<4>() else { return };
    if payload.is_empty() {
        return;
    }
    let payload = &payload[..payload.len().min(1 << 16)];
    let header = FrameHeader {
        payload_bytes: payload.len(),
        events: u32::from_le_bytes(*events) & 0xFFFF,
        lost: u32::from_le_bytes(*events) >> 16,
        sequence: 0,
        begun: Nanos::ZERO,
    };
    let frame = header.encode(Seed::of(HEADER.id), payload);
    check(&[&HEADER.encode(), &frame[..], payload].concat());
}

fn check(bytes: &[u8]) {
    let Ok(mut reader) = TraceReader::open(bytes) else { return };
    let (mut events, mut summary) = (Vec::<TimedEvent>::new(), Summary::default());
    while let Ok(Some(timed)) = reader.read_event() {
        assert!(events.last().is_none_or(|last| last.at <= timed.at), "time runs backwards");
        summary.add(&timed);
        events.push(timed);
    }
    // A note in front of an event that cannot be read.
    if events.last().is_some_and(|last| matches!(last.event, Event::Lost { .. })) {
        events.pop();
    }
    let mut encoder = Encoder::new(&HEADER);
    let mut again = HEADER.encode().to_vec();
    for timed in &events {
        again.extend(encoder.push(timed.at, &timed.event).into_iter().flat_map(|full| full.bytes));
    }
    again.extend(encoder.take().into_iter().flat_map(|last| last.bytes));
    let mut reader = TraceReader::open(&again[..]).expect("a header of ours");
    for timed in &events {
        let read = reader.read_event().expect("a trace of ours");
        assert_eq!(read, Some(*timed), "an event changes when it is recorded again");
    }
}

/// A trace with every kind of event, and the events alone.
#[must_use]
pub fn trace_seeds() -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(&HEADER);
    let events = samples();
    for event in &events {
        encoder.push(Nanos(1), event);
    }
    let frame = encoder.take().map(|frame| frame.bytes).unwrap_or_default();
    let number = u32::try_from(events.len()).expect("a few").to_le_bytes();
    let alone = [&number[..], &frame[FrameHeader::BYTES..]].concat();
    vec![[&HEADER.encode()[..], &frame].concat(), alone]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_and_mutated_ones_break_nothing() {
        for seed in trace_seeds() {
            trace(&seed);
            for at in 0..seed.len() {
                for flip in [1, 0x80, 0xFF] {
                    let mut bytes = seed.clone();
                    bytes[at] ^= flip;
                    trace(&bytes);
                }
                trace(&seed[..at]);
            }
        }
        let seeds = trace_seeds();
        let mut reader = TraceReader::open(&seeds[0][..]).unwrap();
        let mut count = 0;
        while let Some(timed) = reader.read_event().unwrap() {
            assert_ne!(timed.event, Event::End);
            count += 1;
        }
        assert_eq!(count + 1, samples().len());
    }
}
