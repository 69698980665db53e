//! Closed-loop workloads directly on a drive's timing.
//!
//! Each stream has one request in flight, with as many streams per zone as the queue is deep. A
//! request is one command, or several at once if it exceeds the largest command. Before each
//! submission the host takes the time of a polling driver. Full zones are emptied at once and at no
//! cost, so that runs last as long as needed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use zoneweave_emulator::{CommandId, Preset, Request, Schedule, Timing};
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockCount, ZoneAction, ZoneAddress, ZoneId, ZoneSet};

/// The operation of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads at random aligned places of written zones.
    Read,
    /// Writes at the write pointer.
    Write,
    /// Appends.
    Append,
}

/// One job of a workload.
#[derive(Clone, Debug)]
pub struct Job {
    /// The operation.
    pub kind: Kind,
    /// Size of one command.
    pub command: BlockCount,
    /// Commands of one request, submitted together.
    pub commands: u32,
    /// The zones it uses.
    pub zones: std::ops::Range<u32>,
    /// Requests in flight for each zone.
    pub queue_depth: u32,
    /// Host time before each submission, not part of the latency.
    pub gap: Nanos,
    /// Time from one request of a stream to the next at least, if the rate is limited.
    pub interval: Option<Nanos>,
}

/// The rates and latencies of a job.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests a second.
    pub iops: f64,
    /// Throughput in MiB per second.
    pub mib_per_second: f64,
    /// Latencies of all requests in nanoseconds, sorted.
    pub latencies: Vec<u64>,
}

impl Outcome {
    /// The given percentile of the latencies, in microseconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "latencies are far below 53 bits")]
    pub fn percentile_us(&self, percent: usize) -> f64 {
        let rank = (self.latencies.len() * percent / 100).min(self.latencies.len().max(1) - 1);
        self.latencies.get(rank).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
    }

    /// The mean latency in microseconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sums of a run are below 53 bits")]
    pub fn mean_us(&self) -> f64 {
        let sum: u64 = self.latencies.iter().sum();
        sum as f64 / 1e3 / self.latencies.len() as f64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A stream submits its next request.
    Submit(usize),
    /// Zone management takes effect and completes.
    Managed(u64),
    /// A command of a stream completes.
    Complete(usize),
    /// The timing may know more about commands it keeps.
    Decide,
}

struct Stream {
    job: usize,
    zone: ZoneId,
    submitted: Nanos,
    outstanding: u32,
    due: Nanos,
}

/// A drive's timing with its zones, and the pending events.
pub struct ClosedLoop {
    timing: Box<dyn Timing>,
    zones: ZoneSet,
    now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    added: u64,
    decision: Option<Nanos>,
    /// Commands that the timing holds back, with their streams.
    kept: BTreeMap<u64, (Request, Option<usize>)>,
    commands: u64,
    random: Random,
    managed: Option<Nanos>,
}

impl ClosedLoop {
    /// A blank drive of the preset.
    ///
    /// # Panics
    ///
    /// If the preset's geometry is impossible, which [`Preset`] excludes.
    #[must_use]
    pub fn new(preset: &Preset, seed: u64) -> Self {
        let zones = ZoneSet::new(preset.geometry().clone()).expect("presets are checked");
        Self {
            timing: preset.timing(seed),
            zones,
            now: Nanos::ZERO,
            events: BinaryHeap::new(),
            added: 0,
            decision: None,
            kept: BTreeMap::new(),
            commands: 0,
            random: Random::new(seed),
            managed: None,
        }
    }

    /// Writes a zone up to a block, in no time.
    ///
    /// # Panics
    /// If the drive refuses.
    pub fn fill(&mut self, zone: ZoneId, to: BlockCount) {
        let largest = self.zones.geometry().max_transfer;
        while self.zones.record(zone).write_pointer.0 < to.0 {
            let offset = self.zones.record(zone).write_pointer;
            let blocks = BlockCount((to.0 - offset.0).min(largest.0));
            self.zones.write(ZoneAddress { zone, offset }, blocks).expect("the zone has room");
        }
    }

    /// Changes a zone in no time.
    ///
    /// # Panics
    /// If the drive refuses.
    pub fn set(&mut self, zone: ZoneId, action: ZoneAction) {
        self.zones.manage(zone, action).expect("the transition is allowed");
    }

    /// Latency of one zone management command by itself.
    ///
    /// # Panics
    ///
    /// If it never completes.
    #[must_use]
    pub fn manage(mut self, zone: ZoneId, action: ZoneAction) -> Nanos {
        let start = self.now;
        self.managed = None;
        self.submit(Request::Manage { zone, action }, None);
        loop {
            if let Some(end) = self.managed {
                return end.since(start);
            }
            assert!(self.step(Nanos(u64::MAX), &mut [], &[], &mut []), "the command completes");
        }
    }

    /// Latency of one write or append by itself.
    #[must_use]
    pub fn write(self, kind: Kind, zone: ZoneId, blocks: BlockCount) -> Nanos {
        let job = Job {
            kind,
            command: blocks,
            commands: 1,
            zones: zone.0..zone.0 + 1,
            queue_depth: 1,
            gap: Nanos::ZERO,
            interval: Some(Nanos::from_secs(1_000_000)),
        };
        let outcomes = self.run(&[job], Nanos::ZERO, Nanos::from_millis(1));
        Nanos(outcomes[0].latencies[0])
    }

    /// Runs jobs concurrently; returns the outcome of each after the warm-up.
    #[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 53 bits")]
    #[must_use]
    pub fn run(mut self, jobs: &[Job], warm_up: Nanos, duration: Nanos) -> Vec<Outcome> {
        let (from, end) = (self.now + warm_up, self.now + warm_up + duration);
        let mut streams = Vec::new();
        // Zone by zone, as a host starts one job after the other.
        for (index, job) in jobs.iter().enumerate() {
            for zone in job.zones.clone() {
                for _ in 0..job.queue_depth {
                    let start = self.now + Nanos(self.random.below(20_000));
                    let stream = Stream {
                        job: index,
                        zone: ZoneId(zone),
                        submitted: start,
                        outstanding: 0,
                        due: start,
                    };
                    self.at(start, Event::Submit(streams.len()));
                    streams.push(stream);
                }
            }
        }
        let mut latencies = vec![Vec::new(); jobs.len()];
        while self.step(end, &mut streams, jobs, &mut latencies) {}
        let span = duration.as_secs_f64();
        let outcome = |(job, done): (&Job, Vec<(Nanos, u64)>)| {
            let mut latencies: Vec<u64> =
                done.iter().filter(|(at, _)| *at >= from).map(|(_, latency)| *latency).collect();
            latencies.sort_unstable();
            let iops = latencies.len() as f64 / span;
            let request = f64::from(job.commands) * f64::from(job.command.0) / 256.0;
            Outcome { iops, mib_per_second: iops * request, latencies }
        };
        jobs.iter().zip(latencies).map(outcome).collect()
    }

    fn at(&mut self, when: Nanos, event: Event) {
        self.added += 1;
        self.events.push(Reverse((when, self.added, event)));
    }

    /// The next event before `end`; `false` if there is none.
    fn step(
        &mut self,
        end: Nanos,
        streams: &mut [Stream],
        jobs: &[Job],
        done: &mut [Vec<(Nanos, u64)>],
    ) -> bool {
        if self.events.peek().is_none_or(|next| next.0.0 >= end) {
            return false;
        }
        let Some(Reverse((now, _, event))) = self.events.pop() else { return false };
        self.now = now;
        match event {
            Event::Submit(index) => {
                let job = &jobs[streams[index].job];
                streams[index].submitted = now;
                streams[index].outstanding = job.commands;
                for _ in 0..job.commands {
                    let request = self.request(job, streams[index].zone);
                    self.submit(request, Some(index));
                }
            }
            Event::Complete(index) => {
                let stream = &mut streams[index];
                stream.outstanding -= 1;
                if stream.outstanding > 0 {
                    return true;
                }
                let job = &jobs[stream.job];
                done[stream.job].push((now, now.since(stream.submitted).0));
                let mut next = now + job.gap;
                if let Some(interval) = job.interval {
                    stream.due += interval;
                    next = next.max(stream.due);
                }
                self.at(next, Event::Submit(index));
            }
            Event::Managed(id) => {
                self.managed = Some(now);
                let (request, _) = self.kept.remove(&id).expect("kept until now");
                self.apply(&request);
            }
            Event::Decide => self.decide(),
        }
        true
    }

    fn request(&mut self, job: &Job, zone: ZoneId) -> Request {
        let blocks = job.command;
        match job.kind {
            Kind::Read => {
                let places = self.zones.record(zone).write_pointer.0 / blocks.0;
                let place = self.random.below(u64::from(places.max(1)));
                let offset = u32::try_from(place).expect("a zone's places fit") * blocks.0;
                Request::Read { at: ZoneAddress::new(zone, offset), blocks }
            }
            Kind::Write => {
                self.make_room(zone, blocks);
                let offset = self.zones.record(zone).write_pointer;
                Request::Write { at: ZoneAddress { zone, offset }, blocks, fua: false }
            }
            Kind::Append => {
                self.make_room(zone, blocks);
                Request::Append { zone, blocks, fua: false }
            }
        }
    }

    /// Resets a zone without room for a write.
    fn make_room(&mut self, zone: ZoneId, blocks: BlockCount) {
        let capacity = self.zones.geometry().zone_capacity.0;
        if self.zones.record(zone).write_pointer.0 + blocks.0 > capacity {
            self.set(zone, ZoneAction::Reset);
        }
    }

    fn submit(&mut self, request: Request, stream: Option<usize>) {
        let id = self.commands;
        self.commands += 1;
        match self.timing.schedule(CommandId(id), &request, &self.zones, self.now) {
            Some(schedule) => self.scheduled(id, request, stream, schedule),
            None => {
                self.kept.insert(id, (request, stream));
                self.decide_later();
            }
        }
    }

    fn scheduled(&mut self, id: u64, request: Request, stream: Option<usize>, plan: Schedule) {
        let Some(stream) = stream else {
            self.kept.insert(id, (request, None));
            self.at(plan.completed, Event::Managed(id));
            return;
        };
        assert!(plan.applied <= self.now, "reads and writes take effect when they are fetched");
        if let Request::Append { zone, blocks, .. } = request {
            self.make_room(zone, blocks);
        }
        self.apply(&request);
        self.at(plan.completed, Event::Complete(stream));
    }

    fn apply(&mut self, request: &Request) {
        let applied = match *request {
            Request::Write { at, blocks, .. } => self.zones.write(at, blocks),
            Request::Append { zone, blocks, .. } => self.zones.append(zone, blocks).map(|_| ()),
            Request::Manage { zone, action } => self.zones.manage(zone, action),
            _ => Ok(()),
        };
        applied.expect("the drive accepts what the workload issues");
    }

    fn decide(&mut self) {
        self.decision = None;
        while let Some((id, plan)) = self.timing.decide(&self.zones, self.now) {
            let (request, stream) = self.kept.remove(&id.0).expect("the timing keeps it");
            self.scheduled(id.0, request, stream, plan);
        }
        self.decide_later();
    }

    fn decide_later(&mut self) {
        let Some(next) = self.timing.next_decision() else { return };
        let next = next.max(self.now);
        if self.decision.is_none_or(|planned| next < planned) {
            self.decision = Some(next);
            self.at(next, Event::Decide);
        }
    }
}
