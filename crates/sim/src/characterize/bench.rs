//! The drive under measurement: its empty zones, its readable zones, and the samples so far.
//!
//! Invariant: between two measurements every zone of the subject is empty, except readable zones.
//! So a measurement may use any number of zones and leave them as they are: [`Bench::tidy_up`]
//! finds them by the drive's report.

use std::rc::Rc;

use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{
    BlockCount, Payload, ZoneAction, ZoneAddress, ZoneId, ZoneInfo, ZoneState, ZonedDevice,
    ZonedDeviceExt, zero_blocks,
};

use super::{CharacterizeError, Plan, Results, Sample, Subject, Subsystem};
use crate::workload::{
    Host, Job, Length, Measurement, Operation, Pace, Recorder, Refill, WorkloadError,
};

/// The fewest zones of a run: two to read, three for writes that wrap.
const ZONES_MIN: usize = 8;

/// Written part of a readable zone: enough to touch every die of a drive often.
const READABLE_BLOCKS: u32 = 64 * 1024;

pub(super) struct Bench<'a> {
    pub handle: Handle,
    pub subject: &'a Subject,
    pub plan: &'a Plan,
    pub drive: Zones,
    pub results: Results,
}

/// A zoned drive and its zones in use.
pub(super) struct Zones {
    pub device: Rc<dyn ZonedDevice>,
    handle: Handle,
    /// Empty between measurements.
    empty: Vec<ZoneId>,
    /// Finished after `readable_blocks` were written.
    readable: Vec<ZoneId>,
    pub readable_blocks: BlockCount,
    /// Time of the host for each submission, part of the latency.
    submission: Nanos,
}

impl<'a> Bench<'a> {
    pub(super) async fn new(
        handle: &Handle,
        subject: &'a Subject,
        plan: &'a Plan,
    ) -> Result<Self, CharacterizeError> {
        let drive =
            Zones::new(handle, subject, subject.zoned.clone(), subject.zones.clone()).await?;
        let max_open = subject.zoned.geometry().max_open;
        let results = Results { max_open, ..Results::default() };
        Ok(Self { handle: handle.clone(), subject, plan, drive, results })
    }

    /// Numbers of zones to measure: those of the plan that the drive can keep open.
    pub(super) fn zone_counts(&self) -> Vec<u32> {
        let most = self.drive.streams_max();
        let mut counts: Vec<u32> = self.plan.zones.iter().map(|count| (*count).min(most)).collect();
        counts.dedup();
        counts
    }

    /// The pace of one job.
    pub(super) fn pace(&self, queue_depth: u32, host: Host) -> Pace {
        let seed = self.plan.seed;
        Pace { queue_depth, host, rate_bytes_per_second: None, length: self.plan.length, seed }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, sample: Sample) {
        self.results.samples.push(sample);
    }

    /// Runs a job on empty or readable zones, and restores the invariant.
    pub(super) async fn run(
        &mut self,
        operation: Operation,
        request: BlockCount,
        streams: u32,
        pace: Pace,
    ) -> Result<Measurement, CharacterizeError> {
        let job = self.drive.job(operation, request, streams, pace)?;
        let measured = job.run(&self.handle, &self.drive.device).await?;
        self.tidy_up().await?;
        Ok(measured)
    }

    /// Resets the zones of the last measurement, and lets the drive come to rest.
    pub(super) async fn tidy_up(&mut self) -> Result<(), CharacterizeError> {
        self.drive.tidy_up().await?;
        self.handle.sleep(self.plan.pause).await;
        Ok(())
    }

    /// Leaves every zone empty.
    pub(super) async fn clean_up(mut self) -> Result<Results, CharacterizeError> {
        self.drive.forget_readable();
        self.drive.tidy_up().await?;
        Ok(self.results)
    }
}

impl Zones {
    pub(super) async fn new(
        handle: &Handle,
        subject: &Subject,
        device: Rc<dyn ZonedDevice>,
        zones: Vec<ZoneId>,
    ) -> Result<Self, CharacterizeError> {
        if zones.len() < ZONES_MIN {
            return Err(CharacterizeError::TooFewZones { have: zones.len(), need: ZONES_MIN });
        }
        let readable_blocks = BlockCount(device.geometry().zone_capacity.0.min(READABLE_BLOCKS));
        let handle = handle.clone();
        let submission = subject.stacks.direct.submission;
        let readable = Vec::new();
        let mut drive =
            Self { device, handle, empty: zones, readable, readable_blocks, submission };
        drive.tidy_up().await?;
        Ok(drive)
    }

    /// Streams of writes, leaving the zones through which they wrap.
    pub(super) fn streams_max(&self) -> u32 {
        let geometry = self.device.geometry();
        let limits = [geometry.max_open, geometry.max_active].into_iter().flatten().min();
        let third = u32::try_from(self.empty.len() / 3).unwrap_or(u32::MAX);
        limits.unwrap_or(u32::MAX).min(third).max(1)
    }

    /// A job on empty zones, or on readable ones.
    pub(super) fn job(
        &self,
        operation: Operation,
        request: BlockCount,
        streams: u32,
        pace: Pace,
    ) -> Result<Job, CharacterizeError> {
        let reads = matches!(operation, Operation::RandomRead | Operation::SequentialRead);
        let zones = if reads { &self.readable } else { &self.empty };
        let need = if reads { streams as usize } else { 3 * streams as usize };
        if zones.len() < need {
            return Err(CharacterizeError::TooFewZones { have: zones.len(), need });
        }
        let zones = zones.clone();
        let written = self.readable_blocks;
        Ok(Job { operation, request, streams, zones, written, refill: Refill::Reset, pace })
    }

    /// Makes so many zones readable.
    pub(super) async fn prepare_reads(&mut self, zones: u32) -> Result<(), CharacterizeError> {
        while self.readable.len() < zones as usize {
            let zone = self.take()?;
            self.fill(zone, self.readable_blocks).await?;
            if self.readable_blocks < self.device.geometry().zone_capacity {
                self.manage(zone, ZoneAction::Finish).await?;
            }
            self.readable.push(zone);
        }
        Ok(())
    }

    /// An empty zone, which the caller returns empty.
    pub(super) fn take(&mut self) -> Result<ZoneId, CharacterizeError> {
        self.empty.pop().ok_or(CharacterizeError::TooFewZones { have: 0, need: 1 })
    }

    pub(super) fn put_back(&mut self, zone: ZoneId) {
        assert!(!self.empty.contains(&zone), "a zone is put back once");
        self.empty.push(zone);
    }

    /// Zones that can be taken.
    pub(super) fn free(&self) -> usize {
        self.empty.len()
    }

    /// Writes an empty zone up to so many blocks, in the largest requests.
    pub(super) async fn fill(
        &self,
        zone: ZoneId,
        blocks: BlockCount,
    ) -> Result<(), CharacterizeError> {
        let largest = self.device.geometry().max_transfer.0;
        assert!(blocks <= self.device.geometry().zone_capacity, "a zone holds the blocks");
        let mut offset = 0;
        while offset < blocks.0 {
            let count = largest.min(blocks.0 - offset);
            self.write(ZoneAddress::new(zone, offset), BlockCount(count)).await?;
            offset += count;
        }
        Ok(())
    }

    /// Writes zeros; returns the latency.
    pub(super) async fn write(
        &self,
        at: ZoneAddress,
        blocks: BlockCount,
    ) -> Result<Nanos, CharacterizeError> {
        let started = self.submit().await;
        let payload = Payload { data: vec![zero_blocks(blocks)], oob: bytes::Bytes::new() };
        let failed = |status| WorkloadError::Drive { operation: "a write", zone: at.zone, status };
        self.device.write(at, payload, false).await.map_err(failed)?;
        Ok(self.handle.now().since(started))
    }

    /// Appends a block of zeros; returns the latency.
    pub(super) async fn append(&self, zone: ZoneId) -> Result<Nanos, CharacterizeError> {
        let started = self.submit().await;
        let payload = Payload { data: vec![zero_blocks(BlockCount(1))], oob: bytes::Bytes::new() };
        let failed = |status| WorkloadError::Drive { operation: "an append", zone, status };
        self.device.append(zone, payload, false).await.map_err(failed)?;
        Ok(self.handle.now().since(started))
    }

    /// Changes the state of a zone; returns the latency.
    pub(super) async fn manage(
        &self,
        zone: ZoneId,
        action: ZoneAction,
    ) -> Result<Nanos, CharacterizeError> {
        let started = self.submit().await;
        let name = action_name(action);
        let failed = |status| CharacterizeError::Zone { action: name, zone, status };
        self.device.manage(zone, action).await.map_err(failed)?;
        Ok(self.handle.now().since(started))
    }

    /// Charges the host's submission time; returns the time before it.
    async fn submit(&self) -> Nanos {
        let started = self.handle.now();
        if self.submission > Nanos::ZERO {
            self.handle.sleep(self.submission).await;
        }
        started
    }

    fn forget_readable(&mut self) {
        self.empty.append(&mut self.readable);
    }

    /// Resets every zone outside the readable ones that is not empty; retires failed zones.
    pub(super) async fn tidy_up(&mut self) -> Result<(), CharacterizeError> {
        let report = self.device.report().await.map_err(CharacterizeError::Report)?;
        let of = |zone: ZoneId| -> Option<&ZoneInfo> { report.get(zone.index()) };
        self.empty.retain(|zone| {
            of(*zone)
                .is_some_and(|info| !matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline))
        });
        for zone in &self.empty {
            if of(*zone).is_some_and(|info| info.state != ZoneState::Empty) {
                self.manage(*zone, ZoneAction::Reset).await?;
            }
        }
        Ok(())
    }
}

/// The name for error messages.
pub(super) fn action_name(action: ZoneAction) -> &'static str {
    match action {
        ZoneAction::Close => "a close",
        ZoneAction::Finish => "a finish",
        ZoneAction::Open => "an open",
        ZoneAction::Reset => "a reset",
        ZoneAction::Offline => "an offline",
        _ => "another change",
    }
}

/// Latencies of lone commands; their sum is the measured time.
pub(super) struct Latencies {
    recorder: Recorder,
    total: Nanos,
}

impl Latencies {
    pub(super) fn new() -> Self {
        Self { recorder: Recorder::new(), total: Nanos::ZERO }
    }

    pub(super) fn add(&mut self, latency: Nanos) {
        self.recorder.record(latency, 0);
        self.total += latency;
    }

    pub(super) fn sample(&self, table: super::Table, action: super::Action) -> Sample {
        Sample::new(table, action, self.recorder.figures(self.total))
    }
}

/// The sample of a job.
pub(super) fn sample_of(
    table: super::Table,
    action: super::Action,
    job: (BlockCount, u32, u32),
    measured: &Measurement,
) -> Sample {
    let (request, zones, queue_depth) = job;
    Sample {
        drive: Subsystem::Zoned,
        request_bytes: request.data_bytes() as u64,
        zones,
        queue_depth,
        commands_per_request: measured.commands_per_request,
        ..Sample::new(table, action, measured.figures)
    }
}

/// An endless variant of a pace, for background loads.
pub(super) fn endless(pace: Pace) -> Pace {
    Pace { length: Length::endless(), ..pace }
}
