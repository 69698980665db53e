//! A volume on drives in memory, and load on it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use serde::Serialize;
use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_raid::layout::Scheme;
use zoneweave_raid::log::format::{ArrayUuid, MemberUuid};
use zoneweave_raid::log::{CreateOptions, OfferedDrive, OpenOptions, Volume, create, open_array};
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{AlignedBuffer, BlockCount, BlockDevice, BlockError, Geometry, Lba};

use crate::commands::array::create::GROUP_ROWS;
use crate::error::CliError;
use crate::format;
use crate::session::{Session, random_number, random_uuid};

const DRIVES: usize = 4;
const ZONES: u32 = 40;
/// 8 MiB: 1.25 GiB of media in all.
const ZONE_BLOCKS: u32 = 2048;
/// A chunk of one block: no write is padded to more than a stripe of 12 KiB.
const CHUNK_BLOCKS: u32 = 1;
/// The part of the largest volume that is used, in percent: the rest keeps reclaiming cheap.
const USED_PERCENT: u64 = 75;
/// Data of requests, in turn.
const BUFFERS: usize = 64;
/// The largest request, in blocks.
const REQUEST_BLOCKS: u32 = 16;

/// What is measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Configuration {
    drives: &'static str,
    scheme: String,
    chunk_bytes: u64,
    group_rows: u32,
    mode: &'static str,
    zone_bytes: u64,
    zones: u32,
    volume_bytes: u64,
    /// Data capacity against the size of the volume.
    physical_to_logical: f64,
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} zones of {}; {} {} chunks, {} groups of {} rows; volume {}, \
             physical/logical {:.2}",
            self.drives,
            self.zones,
            format::bytes(self.zone_bytes),
            self.scheme,
            format::bytes(self.chunk_bytes),
            self.mode,
            self.group_rows,
            format::bytes(self.volume_bytes),
            self.physical_to_logical
        )
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    pub blocks_per_second: f64,
    pub latency_p50_ns: u64,
    pub latency_p99_ns: u64,
}

/// A running volume.
pub(super) struct Bench {
    volume: Volume,
    scheme: Scheme,
    blocks: u64,
    buffers: Rc<Vec<Bytes>>,
    seeds: Cell<u64>,
    session: Session,
}

impl Bench {
    pub(super) fn new() -> Result<Self, CliError> {
        let session = Session::new()?;
        let geometry = Geometry::new(ZONES, BlockCount(ZONE_BLOCKS));
        let mut offered = Vec::new();
        for number in 0..DRIVES {
            let drive = RamDrive::new(geometry.clone(), Immediate).expect("a possible drive");
            let label = format!("memory {number}");
            offered.push(OfferedDrive { device: drive.attach(&session.handle), label });
        }
        let scheme = Scheme::new(DRIVES - 1, 1).expect("a possible scheme");
        let mut options = CreateOptions {
            name: "bench".to_owned(),
            scheme,
            volume_blocks: None,
            chunk_blocks: CHUNK_BLOCKS,
            group_rows: GROUP_ROWS,
            tabled: true,
            writethrough: None,
            array: ArrayUuid(random_uuid()?),
            members: Vec::new(),
            lineage: random_number()?,
            wipe: false,
        };
        for _ in 0..DRIVES {
            options.members.push(MemberUuid(random_uuid()?));
        }
        let largest = zoneweave_raid::log::create::plan(&offered, &options)?.volume_blocks;
        let blocks = largest * USED_PERCENT / 100;
        options.volume_blocks = Some(blocks);
        session.executor.run(create(&offered, &options))?;
        let opening = open_array(&session.handle, offered, OpenOptions::default());
        let (volume, _) = session.executor.run(opening)?;
        let buffers = Rc::new((0..BUFFERS).map(buffer).collect());
        Ok(Self { volume, scheme, blocks, buffers, seeds: Cell::new(1), session })
    }

    pub(super) fn configuration(&self) -> Configuration {
        let physical = u64::from(ZONES) * u64::from(ZONE_BLOCKS) * self.scheme.data() as u64;
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let physical_to_logical = physical as f64 / self.blocks as f64;
        Configuration {
            drives: "4 drives in memory (instant)",
            scheme: self.scheme.to_string(),
            chunk_bytes: u64::from(CHUNK_BLOCKS) * 4096,
            group_rows: GROUP_ROWS,
            mode: "zone-append",
            zone_bytes: u64::from(ZONE_BLOCKS) * 4096,
            zones: ZONES,
            volume_bytes: self.blocks * 4096,
            physical_to_logical,
        }
    }

    /// Writes every block once.
    pub(super) fn fill(&self) -> Result<(), CliError> {
        let step = u64::from(REQUEST_BLOCKS);
        self.session.executor.run(async {
            for first in (0..self.blocks / step * step).step_by(REQUEST_BLOCKS as usize) {
                self.volume.write(Lba(first), vec![self.buffers[0].clone()], false).await?;
            }
            Ok::<_, CliError>(())
        })
    }

    /// Random requests of a size at a depth, for some time.
    pub(super) fn measure(
        &self,
        write: bool,
        blocks: u32,
        depth: u32,
        seconds: f64,
    ) -> Result<Measure, CliError> {
        let handle = &self.session.handle;
        let started = handle.now();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the argument is between 0.001 and 3600"
        )]
        let end = Nanos(started.0 + (seconds * 1e9) as u64);
        let load = Rc::new(Load {
            volume: self.volume.clone(),
            handle: handle.clone(),
            write,
            blocks,
            places: self.blocks / u64::from(blocks),
            buffers: self.buffers.clone(),
            end,
            latencies_ns: RefCell::default(),
        });
        let workers: Vec<_> = (0..depth)
            .map(|_| {
                let seed = self.seeds.replace(self.seeds.get() + 1);
                handle.spawn("bench worker", load.clone().work(seed))
            })
            .collect();
        self.session.executor.run(async {
            for worker in workers {
                worker.await?;
            }
            Ok::<_, BlockError>(())
        })?;
        let elapsed = handle.now().since(started).as_secs_f64();
        let mut latencies = load.latencies_ns.take();
        latencies.sort_unstable();
        let at = |percent: usize| {
            latencies
                .get((latencies.len() * percent / 100).min(latencies.len().saturating_sub(1)))
                .copied()
        };
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let requests = latencies.len() as f64;
        Ok(Measure {
            blocks_per_second: requests * f64::from(blocks) / elapsed,
            latency_p50_ns: at(50).unwrap_or(0),
            latency_p99_ns: at(99).unwrap_or(0),
        })
    }
}

struct Load {
    volume: Volume,
    handle: zoneweave_runtime::Handle,
    write: bool,
    blocks: u32,
    places: u64,
    buffers: Rc<Vec<Bytes>>,
    end: Nanos,
    latencies_ns: RefCell<Vec<u64>>,
}

impl Load {
    async fn work(self: Rc<Self>, seed: u64) -> Result<(), BlockError> {
        let mut random = Random::new(seed);
        let length = BlockCount(self.blocks).data_bytes();
        let mut turn = usize::try_from(seed).unwrap_or(0);
        let mut now = self.handle.now();
        while now < self.end {
            let lba = Lba(random.below(self.places) * u64::from(self.blocks));
            if self.write {
                turn += 1;
                let data = self.buffers[turn % BUFFERS].slice(..length);
                self.volume.write(lba, vec![data], false).await?;
            } else {
                self.volume.read(lba, self.blocks).await?;
            }
            let done = self.handle.now();
            self.latencies_ns.borrow_mut().push(done.since(now).0);
            now = done;
            // Ready at once, or not: others get their turn.
            self.handle.yield_now().await;
        }
        Ok(())
    }
}

fn buffer(number: usize) -> Bytes {
    let mut buffer = AlignedBuffer::zeroed(BlockCount(REQUEST_BLOCKS));
    Random::new(number as u64).fill(buffer.as_mut());
    buffer.freeze()
}
