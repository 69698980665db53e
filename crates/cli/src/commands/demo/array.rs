//! The array of the demo, and the steps on it.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use zoneweave_check::{Newest, Options, check};
use zoneweave_emulator::{Jitter, RamDrive};
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::{
    CreateOptions, Health, OfferedDrive, OpenOptions, OpenReport, Volume, create, open_array,
};
use zoneweave_raid::scheme::Scheme;
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, Handle, Nanos, Random, Semaphore, VirtualTime};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, BlockDevice, Geometry, Lba, ZonedDevice};

use super::model::{Model, contents};
use crate::format::bytes;

/// Zones of a drive, and blocks of a zone: small, so that zones are reclaimed all the time.
const ZONES: u32 = 24;
const ZONE_BLOCKS: u32 = 256;

/// Requests in flight.
const DEPTH: u64 = 32;

/// The longest request, in blocks.
const REQUEST_BLOCKS: u64 = 24;

/// The longest latency of a drive.
const LATENCY: Nanos = Nanos::from_micros(200);

/// The array, its drives and its expected contents.
pub(super) struct Array {
    random: Random,
    /// By slot, then the spare.
    drives: Vec<RamDrive>,
    executor: Executor,
    volume: Option<Volume>,
    model: Model,
}

type Done = Result<String, String>;

impl Array {
    /// Blank drives.
    pub(super) fn new(seed: u64) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let geometry =
            Geometry { volatile_cache: true, ..Geometry::new(ZONES, BlockCount(ZONE_BLOCKS)) };
        let drive = |_| RamDrive::new(geometry.clone(), Jitter::new(random.next(), LATENCY));
        let drives = (0..5).map(drive).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        Ok(Self { random, drives, executor, volume: None, model: Model::new(0) })
    }

    pub(super) fn create(&mut self) -> Done {
        let options = CreateOptions {
            name: "demo".to_owned(),
            scheme: Scheme::new(3, 1).map_err(|error| error.to_string())?,
            volume_blocks: None,
            chunk_blocks: 2,
            group_rows: 16,
            tabled: true,
            writethrough: None,
            array: ArrayUuid(self.draw_uuid()),
            members: (0..4).map(|_| MemberUuid(self.draw_uuid())).collect(),
            lineage: Lineage(self.random.next()),
            shard: Shard::WHOLE,
            wipe: false,
        };
        let offered = self.offer(0..4);
        let config =
            self.executor.run(create(&offered, &options)).map_err(|error| error.to_string())?;
        self.model = Model::new(config.log().volume_blocks);
        self.start()?;
        Ok(format!(
            "raid5 3+1, a volume of {} on drives of {}",
            size(config.log().volume_blocks),
            size(u64::from(ZONES * ZONE_BLOCKS))
        ))
    }

    pub(super) fn write_and_verify(&mut self) -> Done {
        let written = self.write_much(3)?;
        self.flush()?;
        let read = self.verify()?;
        let counters = self.volume().status().counters;
        Ok(format!(
            "wrote {}, with {} segments reclaimed meanwhile; read {} back without a difference",
            size(written),
            counters.segments_reclaimed,
            size(read)
        ))
    }

    pub(super) fn lose_drive(&mut self) -> Done {
        self.drives[1].set_gone(true);
        let written = self.write_much(1)?;
        self.flush()?;
        let read = self.verify()?;
        self.expect_health(Health::Degraded)?;
        let rebuilt = self.volume().status().counters.degraded_reads;
        Ok(format!(
            "drive 1 is gone; wrote {} and read {} back, {rebuilt} blocks computed from the other \
             drives",
            size(written),
            size(read)
        ))
    }

    pub(super) fn replace(&mut self) -> Done {
        // The spare takes the place of the lost drive, which never comes back.
        self.drives.swap_remove(1);
        let device = self.drives[1].attach(&self.executor.handle());
        let uuid = MemberUuid(self.draw_uuid());
        let volume = self.volume();
        let rebuild = self
            .executor
            .handle()
            .spawn("rebuild", async move { volume.replace(1, device, uuid).await });
        let written = self.write_much(1)?;
        self.executor.run(rebuild).map_err(|error| error.to_string())?;
        self.flush()?;
        self.expect_health(Health::Healthy)?;
        let read = self.verify()?;
        Ok(format!(
            "rebuilt onto the spare while {} were written; read {} back without a difference",
            size(written),
            size(read)
        ))
    }

    pub(super) fn power_loss(&mut self) -> Done {
        let mut reports = Vec::new();
        for _ in 0..8 {
            self.flush()?;
            let steps = 200 + self.random.below(6000);
            let (handle, volume) = (self.executor.handle(), self.volume());
            let seed = self.random.next();
            let mut step = 0;
            let work = write_random(&handle, &volume, &mut self.model, seed, u64::MAX);
            let finished = self.executor.run_until(work, || {
                step += 1;
                step >= steps
            });
            if let Some(outcome) = finished {
                outcome?;
            }
            self.cut_power();
            reports.push(self.start()?);
            self.accept_all()?;
        }
        let sum = |part: fn(&OpenReport) -> u64| reports.iter().map(part).sum::<u64>();
        let read = self.verify()?;
        Ok(format!(
            "{} power failures, each with {DEPTH} requests in flight: {} unfinished segments, {} \
             stripes rescued, {} unacknowledged ones discarded; read {} back without a difference",
            reports.len(),
            sum(|report| report.leftover_segments),
            sum(|report| report.rescued_stripes),
            sum(|report| report.discarded_stripes),
            size(read)
        ))
    }

    pub(super) fn lose_another(&mut self) -> Done {
        self.expect_health(Health::Healthy)?;
        self.drives[2].set_gone(true);
        let read = self.verify()?;
        let written = self.write_much(1)?;
        self.flush()?;
        self.verify()?;
        self.expect_health(Health::Degraded)?;
        Ok(format!(
            "drive 2 is gone; read {} back from the other drives, wrote {}, read everything again",
            size(read),
            size(written)
        ))
    }

    pub(super) fn check(&mut self) -> Done {
        let volume = self.volume();
        self.executor.run(volume.close()).map_err(|error| error.to_string())?;
        self.drives[2].set_gone(false);
        self.restart_drives();
        let handle = self.executor.handle();
        let devices = self.drives.iter().map(|drive| Some(drive.attach(&handle)));
        let checked = self.executor.run(check(devices.collect(), Options::default()));
        let report = &checked.report;
        if !report.clean {
            let findings = report.findings.iter().map(|finding| finding.text.clone());
            return Err(findings.collect::<Vec<_>>().join("; "));
        }
        let contents = checked.contents.ok_or("the checker found no array")?;
        for at in 0..self.model.blocks() {
            let data = match contents.newest(at) {
                Newest::Data { .. } => match self.executor.run(contents.read(at)) {
                    Ok(Some(data)) => data,
                    _ => return Err(format!("the checker cannot read block {at}")),
                },
                _ if self.model.is_zero(at) => continue,
                other => return Err(format!("the checker says block {at} is {other:?}")),
            };
            if !self.model.is_newest(at, &data) {
                return Err(format!("the checker reads different data from block {at}"));
            }
        }
        Ok(format!(
            "{} segments, {} stripes and {} blocks verified on three drives and a stale one",
            report.counts.segments, report.counts.stripes, report.counts.verified_blocks
        ))
    }

    fn draw_uuid(&mut self) -> [u8; 16] {
        let mut uuid = [0; 16];
        self.random.fill(&mut uuid);
        uuid
    }

    fn volume(&self) -> Volume {
        self.volume.clone().expect("the array was started")
    }

    fn offer(&self, slots: Range<usize>) -> Vec<OfferedDrive> {
        let handle = self.executor.handle();
        let offered = |slot: usize| OfferedDrive {
            device: self.drives[slot].attach(&handle) as Rc<dyn ZonedDevice>,
            label: format!("drive {slot}"),
        };
        slots.map(offered).collect()
    }

    fn start(&mut self) -> Result<OpenReport, String> {
        let offered = self.offer(0..4);
        let handle = self.executor.handle();
        let opened = self.executor.run(open_array(&handle, offered, OpenOptions::default()));
        let (volume, report) = opened.map_err(|error| error.to_string())?;
        self.volume = Some(volume);
        Ok(report)
    }

    /// Ends the process and the power of every drive at this very moment.
    fn cut_power(&mut self) {
        for drive in &self.drives {
            drive.power_loss(self.random.next());
        }
        self.volume = None;
        self.executor = Executor::new(Rc::new(VirtualTime::new()));
    }

    /// Ends the process in good order.
    fn restart_drives(&mut self) {
        self.volume = None;
        self.executor = Executor::new(Rc::new(VirtualTime::new()));
    }

    /// Writes as much as the volume holds, `times` times over.
    fn write_much(&mut self, times: u64) -> Result<u64, String> {
        let (handle, volume) = (self.executor.handle(), self.volume());
        let (seed, blocks) = (self.random.next(), times * self.model.blocks());
        self.executor.run(write_random(&handle, &volume, &mut self.model, seed, blocks))
    }

    fn flush(&mut self) -> Result<(), String> {
        let volume = self.volume();
        self.executor.run(volume.flush()).map_err(|error| error.to_string())?;
        self.model.settle();
        Ok(())
    }

    /// Reads everything; the newest version must be there.
    fn verify(&mut self) -> Result<u64, String> {
        let volume = self.volume();
        for at in 0..self.model.blocks() {
            let data = self.executor.run(read_block(&volume, at))?;
            if !self.model.is_newest(at, &data) {
                return Err(format!("block {at} does not contain the data written"));
            }
        }
        Ok(self.model.blocks())
    }

    /// Reads everything after a power failure; any version not older than the last flush will do.
    fn accept_all(&mut self) -> Result<(), String> {
        let volume = self.volume();
        for at in 0..self.model.blocks() {
            let data = self.executor.run(read_block(&volume, at))?;
            if !self.model.accept(at, &data) {
                return Err(format!(
                    "block {at} lost data that was flushed before the power failure"
                ));
            }
        }
        Ok(())
    }

    fn expect_health(&self, expected: Health) -> Result<(), String> {
        let found = self.volume().status().health;
        if found == expected {
            return Ok(());
        }
        Err(format!("the array is {found:?}, not {expected:?}"))
    }
}

fn size(blocks: u64) -> String {
    bytes(blocks * BLOCK_BYTES as u64)
}

async fn read_block(volume: &Volume, at: u64) -> Result<bytes::Bytes, String> {
    let pieces = volume.read(Lba(at), 1).await.map_err(|error| error.to_string())?;
    pieces.into_iter().next().ok_or_else(|| format!("the read of block {at} returned no data"))
}

/// Writes and trims at random, [`DEPTH`] requests at a time, until `blocks` blocks were written;
/// returns their number.
async fn write_random(
    handle: &Handle,
    volume: &Volume,
    model: &mut Model,
    seed: u64,
    blocks: u64,
) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let places = Semaphore::new(DEPTH);
    // Requests in flight do not overlap: the order of overlapping requests is undefined.
    let busy: Rc<RefCell<Vec<Range<u64>>>> = Rc::default();
    let failed: Rc<RefCell<Option<String>>> = Rc::default();
    let mut written = 0;
    while written < blocks {
        let place = places.acquire().await;
        if let Some(problem) = failed.take() {
            return Err(problem);
        }
        let range = draw_range(&mut random, model.blocks(), &busy.borrow());
        busy.borrow_mut().push(range.clone());
        let (first, count) = (range.start, range.end - range.start);
        let trim = random.per_mille(50);
        let version = if trim { 0 } else { model.draw() };
        model.write(first, count, version);
        let request = if trim {
            volume.trim(Lba(first), count, false)
        } else {
            volume.write(Lba(first), vec![contents(version, first, count)], false)
        };
        let (failed, busy) = (failed.clone(), busy.clone());
        handle.spawn("demo request", async move {
            if let Err(error) = request.await {
                failed.replace(Some(error.to_string()));
            }
            busy.borrow_mut().retain(|other| *other != range);
            drop(place);
        });
        written += count;
    }
    drop(places.acquire_many(DEPTH).await);
    failed.take().map_or(Ok(written), Err)
}

/// A range of the volume that no request in flight touches.
fn draw_range(random: &mut Random, blocks: u64, busy: &[Range<u64>]) -> Range<u64> {
    loop {
        let first = random.below(blocks);
        let range = first..blocks.min(first + 1 + random.below(REQUEST_BLOCKS));
        if busy.iter().all(|other| other.end <= range.start || range.end <= other.start) {
            return range;
        }
    }
}
