//! Arrays on in-memory or file-backed drives, and their load.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hdrhistogram::Histogram;
use zoneweave_emulator::MemoryDrive;
use zoneweave_linux::FileDrive;
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::{
    Auto, Counters, CreateOptions, OfferedDrive, OpenOptions, Volume, WriteChoice, WriteCost,
    WriteProfile, create, open_array,
};
use zoneweave_raid::scheme::Scheme;
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, BlockDevice, BlockError, Command, Geometry, Lba, Payload,
    ZoneAddress, ZoneId, ZoneOffset, ZonedDevice,
};

use super::counters::{Counted, Counters as Counting};
use super::processor_time;
use crate::commands::array::create::GROUP_ROWS;
use crate::error::CliError;
use crate::format;
use crate::session::{Session, random_number, random_uuid};

/// Blocks of a zone: 2 MiB, so that there are hundreds of segments, and reserved ones hardly count.
pub(super) const ZONE_BLOCKS: u32 = 512;
/// Minimum number of zones: for the write layout of servers and garbage collection.
const ZONES_LEAST: u32 = 32;
/// Number of data buffers that requests use in turn.
const BUFFERS: usize = 64;
/// The largest request, in blocks.
const REQUEST_BLOCKS: u32 = 16;
/// Highest recorded latency: a minute.
pub(super) const LATENCY_MOST_NS: u64 = 60_000_000_000;
/// Write sizes measured for the profile, and zones for each of them.
const PROFILE_BLOCKS: [u32; 5] = [1, 2, 4, 8, 16];
const PROFILE_ZONES: usize = 4;
/// Requests of a fill in flight.
const FILL_DEPTH: usize = 8;

/// Drives, on which arrays are created one after the other.
pub(super) struct Bench {
    drives: Vec<Rc<dyn ZonedDevice>>,
    zones: u32,
    /// Write profile of the drives, if measured.
    profile: Option<WriteProfile>,
    buffers: Rc<Vec<Bytes>>,
    seeds: Cell<u64>,
    pub(super) session: Session,
}

/// An array that is running.
pub(super) struct Array<'a> {
    bench: &'a Bench,
    pub(super) volume: Volume,
    pub(super) blocks: u64,
}

/// The requests of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Requests {
    pub(super) write: bool,
    pub(super) blocks: u32,
    pub(super) depth: u32,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    pub(super) blocks_per_second: f64,
    pub(super) processor_ns_per_request: f64,
    /// Per block, if the CPU has counters.
    pub(super) counted: Option<Counted>,
    pub(super) latency_p50_ns: u64,
    pub(super) latency_p99_ns: u64,
    /// For writes: data blocks written, with padding, relocations and index, per block of user
    /// writes.
    pub(super) amplification: Option<f64>,
    /// For writes: the share of space that holds data, without open and reserved segments.
    pub(super) full: Option<f64>,
    pub(super) volume_blocks: u64,
}

impl Bench {
    /// In-memory drives with `zones` zones each.
    ///
    /// # Errors
    /// If such drives are impossible.
    pub(super) fn new(drives: usize, zones: u32) -> Result<Self, CliError> {
        let geometry = geometry(zones)?;
        let drive = |_| -> Rc<dyn ZonedDevice> {
            Rc::new(MemoryDrive::new(geometry.clone()).expect("a possible drive"))
        };
        let session = Session::new()?;
        let profile = profile_of_memory(&session)?;
        Ok(Self::of(session, (0..drives).map(drive).collect(), zones, Some(profile)))
    }

    /// File-backed drives in a directory.
    ///
    /// # Errors
    /// If such drives are impossible, or the files cannot be created.
    pub(super) fn in_files(folder: &Path, drives: usize, zones: u32) -> Result<Self, CliError> {
        let (geometry, session) = (geometry(zones)?, Session::new()?);
        let drive = |number| -> Result<Rc<dyn ZonedDevice>, CliError> {
            let path = folder.join(format!("drive{number}"));
            FileDrive::create(&path, geometry.clone(), random_uuid()?)?;
            Ok(Rc::new(FileDrive::open(&session.ring, &session.handle, &path)?))
        };
        let drives = (0..drives).map(drive).collect::<Result<_, _>>()?;
        Ok(Self::of(session, drives, zones, None))
    }

    fn of(
        session: Session,
        drives: Vec<Rc<dyn ZonedDevice>>,
        zones: u32,
        profile: Option<WriteProfile>,
    ) -> Self {
        Self {
            drives,
            zones,
            profile,
            buffers: Rc::new((0..BUFFERS).map(buffer).collect()),
            seeds: Cell::new(1),
            session,
        }
    }

    /// Data blocks of all zones of an array.
    pub(super) fn physical_blocks(&self, scheme: Scheme) -> u64 {
        u64::from(self.zones) * u64::from(ZONE_BLOCKS) * scheme.data() as u64
    }

    /// Creates an array on the first drives, with a volume of that share of all zones, or the
    /// largest possible one, and starts it as a server would.
    pub(super) fn array(&self, scheme: Scheme, percent: u64) -> Result<Array<'_>, CliError> {
        let drives = &self.drives[..scheme.columns()];
        let offer = |(number, drive): (u32, &Rc<dyn ZonedDevice>)| OfferedDrive {
            device: drive.clone(),
            label: format!("drive {number}"),
        };
        let offered: Vec<_> = (0..).zip(drives).map(offer).collect();
        let mut options = CreateOptions {
            name: "bench".to_owned(),
            scheme,
            volume_blocks: None,
            chunk_blocks: 1,
            group_rows: GROUP_ROWS,
            tabled: true,
            writethrough: None,
            array: ArrayUuid(random_uuid()?),
            members: Vec::new(),
            lineage: Lineage(random_number()?),
            // The earlier array.
            shard: Shard::WHOLE,
            wipe: true,
        };
        for _ in drives {
            options.members.push(MemberUuid(random_uuid()?));
        }
        let Session { executor, handle, .. } = &self.session;
        let largest = zoneweave_raid::log::create::plan(&offered, &options)?.log().volume_blocks;
        let blocks = largest.min(self.physical_blocks(scheme) * percent / 100);
        options.volume_blocks = Some(blocks);
        executor.run(create(&offered, &options))?;
        let writes = WriteChoice::Auto(Auto { profile: self.profile.clone(), ..Auto::default() });
        let opening = open_array(handle, offered, OpenOptions { writes, ..OpenOptions::default() });
        let (volume, _) = executor.run(opening)?;
        Ok(Array { bench: self, volume, blocks })
    }
}

impl Array<'_> {
    /// Writes every block once.
    pub(super) fn fill(&self) -> Result<(), CliError> {
        let step = u64::from(REQUEST_BLOCKS);
        let starts = (0..self.blocks / step).map(|request| Lba(request * step));
        let buffer = &self.bench.buffers[0];
        let writes = starts.map(|lba| self.volume.write(lba, vec![buffer.clone()], false));
        let mut writes = stream::iter(writes).buffer_unordered(FILL_DEPTH);
        self.bench.session.executor.run(async {
            while let Some(written) = writes.next().await {
                written?;
            }
            Ok::<_, CliError>(())
        })
    }

    /// Takes a drive out of service.
    pub(super) fn lose_drive(&self) -> Result<(), CliError> {
        Ok(self.volume.drive_lost(0, "taken out to be missed")?)
    }

    /// Random requests, until a time or a number of blocks is reached.
    pub(super) fn measure(
        &self,
        requests: Requests,
        seconds: f64,
        most_blocks: u64,
    ) -> Result<Measure, CliError> {
        self.measure_as(self.device(), requests, seconds, most_blocks)
    }

    /// Measures the volume of the array.
    pub(super) fn device(&self) -> Rc<dyn BlockDevice> {
        Rc::new(self.volume.clone())
    }

    /// Measures a volume that this array is a shard of.
    pub(super) fn measure_as(
        &self,
        volume: Rc<dyn BlockDevice>,
        requests: Requests,
        seconds: f64,
        most_blocks: u64,
    ) -> Result<Measure, CliError> {
        let Session { executor, handle, .. } = &self.bench.session;
        let before = self.volume.status().counters;
        let counters = Counting::start();
        let (started, processor) = (handle.now(), processor_time());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the argument is between 0.001 and 3600"
        )]
        let end = Nanos(started.0 + (seconds * 1e9) as u64);
        let volume_blocks = volume.info().blocks;
        let load = Rc::new(Load {
            volume,
            handle: handle.clone(),
            requests,
            places: volume_blocks / u64::from(requests.blocks),
            buffers: self.bench.buffers.clone(),
            end,
            left: Cell::new(most_blocks / u64::from(requests.blocks)),
            latencies_ns: RefCell::new(
                Histogram::new_with_max(LATENCY_MOST_NS, 3).expect("three digits"),
            ),
        });
        let worker = |_| {
            let seed = self.bench.seeds.replace(self.bench.seeds.get() + 1);
            handle.spawn("bench worker", load.clone().work(seed))
        };
        let workers: Vec<_> = (0..requests.depth).map(worker).collect();
        executor.run(async {
            for worker in workers {
                worker.await?;
            }
            Ok::<_, BlockError>(())
        })?;
        let seconds = handle.now().since(started).as_secs_f64();
        let processor = processor_time().saturating_sub(processor);
        let latencies = load.latencies_ns.borrow();
        let blocks = latencies.len() * u64::from(requests.blocks);
        let counted = counters.and_then(|counters| counters.stop(ratio(blocks, 1)));
        let status = self.volume.status();
        Ok(Measure {
            counted,
            blocks_per_second: ratio(blocks, 1) / seconds,
            processor_ns_per_request: processor.as_secs_f64() * 1e9 / ratio(latencies.len(), 1),
            latency_p50_ns: latencies.value_at_quantile(0.5),
            latency_p99_ns: latencies.value_at_quantile(0.99),
            amplification: requests.write.then(|| amplification(&before, &status.counters)),
            full: requests.write.then(|| 1.0 / status.amplification.room),
            volume_blocks,
        })
    }

    /// Shuts the volume down.
    pub(super) fn close(self) -> Result<(), CliError> {
        Ok(self.bench.session.executor.run(self.volume.close())?)
    }
}

/// All data blocks written.
fn written(counters: &Counters) -> u64 {
    let users = counters.user_blocks_written + counters.padding_blocks;
    users + counters.relocated_blocks + counters.checkpoint_blocks
}

/// Data blocks written per block of user writes.
fn amplification(before: &Counters, after: &Counters) -> f64 {
    let users = after.user_blocks_written - before.user_blocks_written;
    ratio(written(after) - written(before), users.max(1))
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(super) fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other as f64
}

struct Load {
    volume: Rc<dyn BlockDevice>,
    handle: Handle,
    requests: Requests,
    places: u64,
    buffers: Rc<Vec<Bytes>>,
    end: Nanos,
    /// Requests that may still begin.
    left: Cell<u64>,
    latencies_ns: RefCell<Histogram<u64>>,
}

impl Load {
    async fn work(self: Rc<Self>, seed: u64) -> Result<(), BlockError> {
        let mut random = Random::new(seed);
        let Requests { write, blocks, .. } = self.requests;
        let length = BlockCount(blocks).data_bytes();
        let mut turn = usize::try_from(seed).unwrap_or(0);
        let mut now = self.handle.now();
        // At least one each, however late it is.
        while self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            let lba = Lba(random.below(self.places) * u64::from(blocks));
            if write {
                turn += 1;
                let data = self.buffers[turn % BUFFERS].slice(..length);
                self.volume.write(lba, vec![data], false).await?;
            } else {
                self.volume.read(lba, blocks).await?;
            }
            let done = self.handle.now();
            self.latencies_ns.borrow_mut().saturating_record(done.since(now).0);
            now = done;
            if now >= self.end {
                break;
            }
            // Yields even after requests that completed at once.
            self.handle.yield_now().await;
        }
        Ok(())
    }
}

fn geometry(zones: u32) -> Result<Geometry, CliError> {
    let geometry = Geometry::new(zones, BlockCount(ZONE_BLOCKS));
    if zones < ZONES_LEAST || !MemoryDrive::fits(&geometry) {
        let (option, zone) = ("drive", format::bytes(u64::from(ZONE_BLOCKS) * 4096));
        let problem = format!(
            "drives have {zones} zones of {zone}, but need at least {ZONES_LEAST}, and less than 16 TiB"
        );
        return Err(CliError::Usage { option, problem });
    }
    Ok(geometry)
}

/// Measures sequential writes to a zone of an in-memory drive, in wall time.
fn profile_of_memory(session: &Session) -> Result<WriteProfile, CliError> {
    let drive = MemoryDrive::new(geometry(ZONES_LEAST)?).expect("a possible drive");
    let mut zones = (0..ZONES_LEAST).map(ZoneId);
    let mut writes = Vec::new();
    for blocks in PROFILE_BLOCKS {
        let oob = Bytes::from(vec![1; BlockCount(blocks).oob_bytes()]);
        let data = buffer(1).slice(..BlockCount(blocks).data_bytes());
        let payload = Payload::new(data, oob);
        let zones: Vec<_> = zones.by_ref().take(PROFILE_ZONES).collect();
        let offsets = || (0..ZONE_BLOCKS).step_by(blocks as usize).map(ZoneOffset);
        let places = || zones.iter().flat_map(|zone| offsets().map(|offset| (*zone, offset)));
        let started = session.handle.now();
        session.executor.run(async {
            for (zone, offset) in places() {
                let at = ZoneAddress { zone, offset };
                let write = Command::Write { at, payload: payload.clone(), fua: false };
                drive.submit(write).await.expect("a new drive takes writes");
            }
        });
        let nanos = session.handle.now().since(started).0 / places().count() as u64;
        writes.push(WriteCost { blocks, nanos });
    }
    Ok(WriteProfile { writes, appends: Vec::new() })
}

fn buffer(number: usize) -> Bytes {
    let mut buffer = AlignedBuffer::zeroed(BlockCount(REQUEST_BLOCKS));
    Random::new(number as u64).fill(buffer.as_mut());
    buffer.freeze()
}
