//! Fuzz target body, here so that libFuzzer, the stable driver and unit tests run the same code.
//!
//! Two connections of a host share a target. The first byte chooses the cuts of the input; then
//! come pieces, each with a byte that chooses its connection and two bytes of length. It panics if
//! an invariant breaks:
//! * no input panics the target, or makes it hold more than it states;
//! * how the input is cut into pieces changes nothing;
//! * every request lies within its namespace.

mod seeds;

use bytes::Bytes;

pub use seeds::session_seeds;

use crate::{
    BLOCK_BYTES, Connection, Done, End, HostData, Hosts, Namespace, Operation, QUEUE_ENTRIES_MAX,
    Request, Step, Subsystem, Target, Zones, deallocate_ranges,
};

/// Blocks of each namespace, and of the zones of the second.
const BLOCKS: u64 = 1000;
const ZONE_BLOCKS: u64 = 100;
/// One answer has at most the data of one command, its completion, and their headers.
const ANSWER_BYTES_MAX: usize = crate::TRANSFER_BYTES_MAX + 1024;

/// The subsystem under test.
fn target() -> Target {
    let blocks = Namespace {
        blocks: BLOCKS,
        read_only: false,
        volatile_cache: true,
        uuid: [0x5A; 16],
        optimal_blocks: 12,
        zones: None,
    };
    let zones = Zones {
        size: ZONE_BLOCKS,
        max_open: Some(3),
        max_active: None,
        append_blocks: 16,
        reads_across: false,
    };
    let zoned = Namespace { uuid: [0xA5; 16], zones: Some(zones), ..blocks.clone() };
    let subsystem = Subsystem {
        nqn: "nqn.2014-08.org.nvmexpress:uuid:fuzz".to_owned(),
        serial: "1".to_owned(),
        model: "Zoneweave".to_owned(),
        firmware: "0".to_owned(),
        namespaces: vec![blocks, zoned],
    };
    Target::new(subsystem, Hosts::Any, 2)
}

/// Runs the connections over the input, whole and in pieces.
pub fn session(data: &[u8]) {
    let Some((&cuts, rest)) = data.split_first() else { return };
    let whole = run(rest, usize::MAX);
    let pieces = run(rest, usize::from(cuts) % 40 + 1);
    assert_eq!(whole, pieces, "cutting the input changed the output");
}

/// All output of both connections, and how they ended.
fn run(mut data: &[u8], cut: usize) -> [(Sent, Option<End>); 2] {
    let mut target = target();
    let mut lanes = [(); 2].map(|()| Lane {
        connection: Connection::new(([127, 0, 0, 1], 4420).into()),
        sent: Sent::default(),
        end: None,
    });
    let mut now_ms = 0;
    while let Some((&[lane, low, high], rest)) = data.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        data = rest;
        now_ms += u64::from(lane >> 1);
        target.expire(now_ms);
        let lane = &mut lanes[usize::from(lane & 1)];
        piece.chunks(cut).for_each(|piece| lane.feed(&mut target, now_ms, piece));
        lane.settle(&mut target);
    }
    lanes.map(|lane| (lane.sent, lane.end))
}

/// Length and checksum of all output: a host may read far more than it sends.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sent {
    bytes: usize,
    checksum: u32,
}

struct Lane {
    connection: Connection,
    sent: Sent,
    end: Option<End>,
}

impl Lane {
    fn feed(&mut self, target: &mut Target, now_ms: u64, mut piece: &[u8]) {
        while self.end.is_none() {
            let step = self.connection.receive(target, now_ms, &mut piece);
            assert!(self.connection.output_bytes() <= ANSWER_BYTES_MAX, "an answer is too long");
            assert!(self.connection.in_flight() <= QUEUE_ENTRIES_MAX.into(), "too many requests");
            match step {
                Ok(Step::NeedsInput) => break,
                Ok(Step::Answered) => {}
                Ok(Step::ShutDown(shutdown)) => target.shut_down(shutdown),
                Ok(Step::Data(_, None)) => {}
                Ok(Step::Data(tag, Some(data))) => {
                    assert!(!data.is_empty());
                    self.connection.complete(target, tag, Ok(Done::Plain));
                }
                Ok(Step::Request(request)) => self.answer(target, request),
                Err(end) => {
                    self.end = Some(end);
                    self.connection.close(target);
                }
            }
            self.take_output();
        }
    }

    /// Answers a request, unless its data has to come first.
    fn answer(&mut self, target: &mut Target, request: Request) {
        let Request { tag, operation, data, .. } = request;
        let in_range = |lba: u64, blocks: u32| assert!(lba + u64::from(blocks) <= BLOCKS);
        let result = match operation {
            Operation::Read { lba, blocks } => {
                in_range(lba, blocks);
                Done::Data(vec![Bytes::from(vec![0xAB; blocks as usize * BLOCK_BYTES])])
            }
            Operation::Append { zone_start, blocks, .. } => {
                in_range(zone_start, blocks);
                assert!(zone_start.is_multiple_of(ZONE_BLOCKS));
                Done::At(zone_start + 1)
            }
            Operation::ManageZone { zone_start, .. } => {
                assert!(zone_start.unwrap_or(0).is_multiple_of(ZONE_BLOCKS));
                Done::Plain
            }
            Operation::ReportZones { lba, bytes, filter, .. } => {
                in_range(lba, 1);
                assert!(filter <= 7);
                Done::Data(vec![Bytes::from(vec![0xCD; bytes])])
            }
            Operation::Write { lba, blocks, .. } | Operation::WriteZeroes { lba, blocks, .. } => {
                in_range(lba, blocks);
                Done::Plain
            }
            Operation::Deallocate { ranges, .. } => {
                if let HostData::Here(data) = &data {
                    let found = deallocate_ranges(data, BLOCKS).unwrap_or_default();
                    assert!(found.len() <= usize::from(ranges));
                }
                Done::Plain
            }
            Operation::Flush => Done::Plain,
        };
        match data {
            HostData::Remote(_) => self.connection.fetch(tag),
            HostData::None | HostData::Here(_) => self.connection.complete(target, tag, Ok(result)),
        }
    }

    /// Ends a connection whose controller is gone, as servers do between steps.
    fn settle(&mut self, target: &mut Target) {
        if self.end.is_none() && self.connection.is_stale(target) {
            self.end = Some(End::Stale);
            self.connection.close(target);
        }
    }

    fn take_output(&mut self) {
        for piece in self.connection.take_output() {
            self.sent.bytes += piece.len();
            self.sent.checksum = crc32c::crc32c_append(self.sent.checksum, &piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seeds are worth mutating: they get through to the end.
    #[test]
    fn seeds_are_answered() {
        for seed in session_seeds() {
            session(&seed);
            let [(admin, admin_end), (io, io_end)] = run(&seed[1..], usize::MAX);
            assert!(admin.bytes > 4096 + 3072, "structures are sent");
            assert!(matches!(admin_end, None | Some(End::Terminated)), "{admin_end:?}");
            if admin_end.is_none() {
                assert!(io.bytes > 4096, "a block is sent");
                assert_eq!(io_end, Some(End::Disconnected));
            }
        }
    }
}
