//! The CPU time of starting an array that another process left behind.
//!
//! The array is full. Its drives store a block of one repeated word as that word, so that the array
//! can be far larger than memory. They return index pages and footers (the summaries of segments)
//! without copying, except for 64 bytes of metadata per block.
//!
//! * `start`: all of the index from its newest checkpoint, as servers start.
//! * `start on demand`: the same, read in the background; until all of it is in memory.
//! * `start footers`: from the footers of all segments alone.
//! * `decode footers`: verify and decode blocks of footers, and drop them.

use std::hint::black_box;
use std::rc::Rc;

use serde::Serialize;
use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_raid::log::format::{
    ArrayUuid, ENTRIES_PER_INDEX_BLOCK, EntryKind, Generation, IndexBlock, IndexEntry, Lineage,
    MemberUuid, SegmentId, Sequence,
};
use zoneweave_raid::log::{
    CreateOptions, Lanes, OfferedDrive, OpenOptions, Volume, WriteChoice, WritePolicy, create,
    open_array,
};
use zoneweave_raid::scheme::{Column, Scheme};
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, Handle, Random, VirtualTime};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, BlockDevice, Geometry, Lba, ZonedDevice, zero_blocks,
};

use super::{processor_time, rate};
use crate::error::CliError;
use crate::format;
use crate::output::Output;
use crate::start::INDEX_PAGES;

/// The kind of a start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Checkpoint,
    OnDemand,
    Footers,
    Decode,
}

const KINDS: [(&str, Kind); 4] = [
    ("start", Kind::Checkpoint),
    ("start on demand", Kind::OnDemand),
    ("start footers", Kind::Footers),
    ("decode footers", Kind::Decode),
];

/// Blocks of a zone: 64 MiB, one span and its summary.
const ZONE_BLOCKS: u32 = 16_384;

/// Blocks of a request of the fill.
const REQUEST: usize = 64;

/// One block in 64 is overwritten at random, so that index pages refer to many segments.
const AGAIN: u64 = 64;

/// Blocks of footers that are decoded: 64 MiB.
const FOOTERS: u32 = 16_384;

/// The median of some runs.
#[derive(Serialize)]
pub(super) struct Start {
    array: &'static str,
    workload: &'static str,
    mapped_bytes: u64,
    /// Read from the drives, or decoded.
    read_bytes: u64,
    processor_ns: u64,
    /// CPU seconds per mapped TiB.
    processor_seconds_per_tib: f64,
    /// Per CPU second.
    read_bytes_per_second: f64,
}

/// The labels of all starts.
pub(super) fn labels() -> impl Iterator<Item = String> {
    KINDS.iter().map(|(name, _)| label(name))
}

fn label(name: &str) -> String {
    format!("{name} raid5 3+1")
}

/// Measures the chosen starts.
pub(super) fn measure(
    mapped_blocks: u64,
    runs: u32,
    chosen: impl Fn(&str) -> bool,
    output: &Output,
) -> Result<Vec<Start>, CliError> {
    let kinds: Vec<_> = KINDS.iter().filter(|(name, _)| chosen(&label(name))).collect();
    let mut left = None;
    let mut starts = Vec::new();
    for (name, kind) in kinds {
        let mut measured = Vec::new();
        for _ in 0..runs {
            measured.push(if *kind == Kind::Decode {
                decode()
            } else {
                let left = match &left {
                    Some(left) => left,
                    None => {
                        output.note("filling the array to start");
                        left.insert(Left::new(mapped_blocks)?)
                    }
                };
                left.start(*kind)?
            });
        }
        output.note(label(name));
        measured.sort_by_key(|run| run.processor_ns);
        let Run { processor_ns, read_bytes, mapped_blocks } = measured[measured.len() / 2];
        let seconds = as_f64(processor_ns.max(1)) / 1e9;
        starts.push(Start {
            array: "raid5 3+1",
            workload: name,
            mapped_bytes: mapped_blocks * BLOCK_BYTES as u64,
            read_bytes,
            processor_ns,
            processor_seconds_per_tib: seconds * as_f64(1 << 28) / as_f64(mapped_blocks),
            read_bytes_per_second: as_f64(read_bytes) / seconds,
        });
    }
    Ok(starts)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

#[derive(Clone, Copy)]
struct Run {
    processor_ns: u64,
    read_bytes: u64,
    mapped_blocks: u64,
}

/// Drives that a process left behind.
struct Left {
    drives: Vec<RamDrive>,
}

impl Left {
    /// An array with a full volume of `blocks` blocks.
    fn new(blocks: u64) -> Result<Self, CliError> {
        // A quarter more than the volume, and the zones that the array itself needs.
        let zones = u32::try_from(blocks / 3 / u64::from(ZONE_BLOCKS) * 5 / 4 + 24);
        let geometry = Geometry::new(zones.unwrap_or(u32::MAX), BlockCount(ZONE_BLOCKS));
        let drive = |_| RamDrive::new(geometry.clone(), Immediate).expect("a possible drive");
        let left = Self { drives: (0..4).map(drive).collect() };
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let offered = offer(&left.drives, &executor.handle());
        executor.run(create(&offered, &created(blocks)))?;
        left.live(options(), async |volume| {
            let starts = (0..blocks).step_by(REQUEST);
            write(volume, starts.map(|start| (start, blocks.min(start + REQUEST as u64)))).await?;
            begin_segment(volume).await
        })?;
        // As often as possible, so that little is written after the newest checkpoint.
        let often = OpenOptions { checkpoint_share: Some(1), ..options() };
        left.live(often, async |volume| {
            let mut random = Random::new(5);
            let places = (0..blocks / AGAIN).map(|_| random.below(blocks));
            write(volume, places.map(|place| (place, place + 1))).await?;
            begin_segment(volume).await
        })?;
        Ok(left)
    }

    /// A run of the array that ends like a killed process.
    fn live(
        &self,
        options: OpenOptions,
        work: impl AsyncFnOnce(&Volume) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let opening = open_array(&handle, offer(&self.drives, &handle), options);
        executor.run(async {
            let (volume, _) = opening.await?;
            work(&volume).await
        })?;
        drop(executor);
        self.drives.iter().for_each(|drive| drive.process_kill(1));
        Ok(())
    }

    /// Starts it from copies of the drives.
    fn start(&self, kind: Kind) -> Result<Run, CliError> {
        let options = match kind {
            Kind::OnDemand => OpenOptions { index_on_demand: Some(INDEX_PAGES), ..options() },
            Kind::Footers => OpenOptions { ignore_checkpoint: true, ..options() },
            _ => options(),
        };
        let drives: Vec<_> = self.drives.iter().map(|drive| drive.fork(Immediate)).collect();
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let offered = offer(&drives, &handle);
        let (read, processor) = (read_bytes(&drives), processor_time());
        let volume = executor.run(async {
            let (volume, report) = open_array(&handle, offered, options).await?;
            // The index must come from the expected source.
            assert_eq!(report.checkpoint.is_none(), kind == Kind::Footers, "{report:?}");
            while volume.status().absent_pages > 0 {
                // Polling takes time, too.
                for _ in 0..64 {
                    handle.yield_now().await;
                }
            }
            Ok::<_, CliError>(volume)
        })?;
        let processor = processor_time().saturating_sub(processor);
        Ok(Run {
            processor_ns: u64::try_from(processor.as_nanos()).unwrap_or(u64::MAX),
            read_bytes: read_bytes(&drives) - read,
            mapped_blocks: volume.status().mapped_bytes / BLOCK_BYTES as u64,
        })
    }
}

fn read_bytes(drives: &[RamDrive]) -> u64 {
    drives.iter().map(|drive| drive.counters().read_bytes()).sum()
}

fn offer(drives: &[RamDrive], handle: &Handle) -> Vec<OfferedDrive> {
    let offer = |drive: &RamDrive| {
        let device: Rc<dyn ZonedDevice> = drive.attach(handle);
        OfferedDrive { device, label: "a drive in memory".to_owned() }
    };
    drives.iter().map(offer).collect()
}

fn created(blocks: u64) -> CreateOptions {
    CreateOptions {
        name: "start".to_owned(),
        scheme: Scheme::new(3, 1).expect("a possible scheme"),
        volume_blocks: Some(blocks),
        chunk_blocks: 1,
        group_rows: 256,
        tabled: false,
        writethrough: None,
        array: ArrayUuid([7; 16]),
        members: (1..=4).map(|at| MemberUuid([at; 16])).collect(),
        lineage: Lineage(1),
        shard: Shard::WHOLE,
        wipe: false,
    }
}

fn options() -> OpenOptions {
    let lanes = Lanes { count: 1, chunk_blocks: 1 };
    OpenOptions {
        writes: WriteChoice::Policy(WritePolicy::adaptive(lanes, Lanes::default())),
        ..OpenOptions::default()
    }
}

/// Writes ranges of blocks in order: zeros, which the engine writes like other data.
async fn write(volume: &Volume, ranges: impl Iterator<Item = (u64, u64)>) -> Result<(), CliError> {
    let zeros = zero_blocks(BlockCount(1));
    for (first, end) in ranges {
        let blocks = Lba(end - first).index();
        volume.write(Lba(first), vec![zeros.clone(); blocks], false).await?;
    }
    Ok(())
}

/// Writes until a segment has just begun: a start verifies little of it.
async fn begin_segment(volume: &Volume) -> Result<(), CliError> {
    let before = volume.status().segments_free;
    while volume.status().segments_free >= before {
        write(volume, std::iter::once((0, REQUEST as u64))).await?;
    }
    Ok(volume.flush().await?)
}

/// Decodes blocks of footers, each with its checksum.
fn decode() -> Run {
    let array = ArrayUuid([7; 16]);
    let blocks: Vec<_> = (0..FOOTERS).map(|number| footer(number).encode(array)).collect();
    let processor = processor_time();
    for block in &blocks {
        let decoded = IndexBlock::decode(block, array).expect("as it was encoded");
        assert_eq!(decoded.entries.len(), ENTRIES_PER_INDEX_BLOCK as usize);
        black_box(decoded);
    }
    let processor = processor_time().saturating_sub(processor);
    Run {
        processor_ns: u64::try_from(processor.as_nanos()).unwrap_or(u64::MAX),
        read_bytes: u64::from(FOOTERS) * BLOCK_BYTES as u64,
        // One of four chunks is parity.
        mapped_blocks: u64::from(FOOTERS) * u64::from(ENTRIES_PER_INDEX_BLOCK) * 3 / 4,
    }
}

fn footer(number: u32) -> IndexBlock {
    let first = u64::from(number) * u64::from(ENTRIES_PER_INDEX_BLOCK);
    let entry = |at: u32| IndexEntry {
        sequence: Sequence(first + u64::from(at)),
        lba: Lba(first + u64::from(at)),
        kind: if at % 4 == 3 { EntryKind::Parity } else { EntryKind::Data },
        stripe_in_group: u16::try_from(at / 4).expect("at most 250 entries"),
    };
    IndexBlock {
        segment: SegmentId(1),
        generation: Generation(1),
        column: Column::of(0),
        span: 0,
        first: 0,
        entries: (0..ENTRIES_PER_INDEX_BLOCK).map(entry).collect(),
    }
}

/// A table of them, if there are any.
pub(super) fn tell(starts: &[Start], output: &Output) {
    let row = |start: &Start| {
        vec![
            start.array.to_owned(),
            start.workload.to_owned(),
            format::bytes(start.mapped_bytes),
            format::bytes(start.read_bytes),
            format!("{:.1}", as_f64(start.processor_ns) / 1e6),
            format!("{:.2}", start.processor_seconds_per_tib),
            rate(start.read_bytes_per_second),
        ]
    };
    let rows: Vec<_> = starts.iter().map(row).collect();
    if rows.is_empty() {
        return;
    }
    output.line("");
    let headings =
        ["ARRAY", "WORKLOAD", ">MAPPED", ">READ", ">CPU ms", ">CPU s/TiB", ">READ/CPU s"];
    format::table(&headings, &rows).iter().for_each(|line| output.line(line));
}
