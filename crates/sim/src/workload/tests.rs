//! Jobs on drives whose every command takes ten microseconds.

use std::rc::Rc;

use zoneweave_emulator::{
    CommandId, CommandKind, FaultAction, Immediate, RamDrive, Request, Schedule, Selector, Timing,
};
use zoneweave_runtime::{Executor, Handle, Nanos, VirtualTime};
use zoneweave_zoned::{BlockCount, Geometry, Status, ZoneId, ZoneSet, ZoneState, ZonedDevice};

use super::*;

const LATENCY: Nanos = Nanos::from_micros(10);

struct Constant;

impl Timing for Constant {
    fn schedule(
        &mut self,
        _id: CommandId,
        _request: &Request,
        _zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        Some(Schedule { applied: now + LATENCY, completed: now + LATENCY })
    }
}

fn pace(queue_depth: u32, host: Host) -> Pace {
    let length = Length::lasting(Nanos::from_millis(1), Nanos::from_millis(10));
    Pace { queue_depth, host, rate_bytes_per_second: None, length, seed: 1 }
}

fn job(operation: Operation, streams: u32, pace: Pace) -> Job {
    Job {
        operation,
        request: BlockCount(1),
        streams,
        zones: (0..12).map(ZoneId).collect(),
        written: BlockCount(64),
        refill: Refill::Stop,
        pace,
    }
}

fn measure(
    timing: impl Timing + 'static,
    job: Job,
) -> (Result<Measurement, WorkloadError>, RamDrive) {
    let drive = RamDrive::new(Geometry::new(16, BlockCount(1024)), timing).unwrap();
    let measured = on(&drive, |handle, device| async move { job.run(&handle, &device).await });
    (measured, drive)
}

fn on<T, F: Future<Output = T>>(
    drive: &RamDrive,
    work: impl FnOnce(Handle, Rc<dyn ZonedDevice>) -> F,
) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = drive.attach(&executor.handle());
    executor.run(work(executor.handle(), device))
}

fn assert_close(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 0.01, "{value} is not {expected}");
}

#[test]
fn a_closed_loop_is_as_fast_as_the_drive() {
    for (streams, queue_depth) in [(1, 1), (1, 8), (4, 1), (3, 2)] {
        let job = job(Operation::Append, streams, pace(queue_depth, Host::NONE));
        let figures = measure(Constant, job).0.unwrap().figures;
        assert_close(figures.iops, f64::from(streams * queue_depth) * 1e5);
        assert_close(figures.mean_us, 10.0);
        assert_close(figures.seconds, 0.01);
    }
}

#[test]
fn the_hosts_gap_is_outside_and_its_overhead_inside_the_latency() {
    let spdk = measure(Constant, job(Operation::Write, 1, pace(1, Host::SPDK))).0.unwrap().figures;
    assert_close(spdk.mean_us, 10.5);
    assert_close(spdk.iops, 1e6 / 10.95);
    let ring = job(Operation::Write, 1, pace(1, Host::IO_URING));
    assert_close(measure(Constant, ring).0.unwrap().figures.mean_us, 11.8);
}

#[test]
fn one_thread_submits_no_faster_than_its_gap_allows() {
    let job = job(Operation::RandomRead, 1, pace(256, Host::SPDK));
    assert_close(measure(Constant, job).0.unwrap().figures.iops, 1e9 / 950.0);
}

#[test]
fn writes_that_wait_for_their_zone_are_merged_by_half_the_queue_depth() {
    let (measured, drive) = measure(Constant, job(Operation::Write, 1, pace(8, Host::MQ_DEADLINE)));
    let measured = measured.unwrap();
    assert!((measured.commands_per_request - 0.25).abs() < 0.01);
    // A write of four requests costs 10 us in the drive and 5.9 + 4 x 0.85 us in the host.
    assert_close(measured.figures.iops, 4e6 / 19.3);
    assert!(drive.counters().writes > 0);
}

#[test]
fn a_rate_is_kept_whatever_the_drive_could_do() {
    let mut job = job(Operation::Write, 4, pace(1, Host::NONE));
    job.pace.rate_bytes_per_second = Some(64 << 20);
    assert_close(measure(Constant, job).0.unwrap().figures.mib_per_second, 64.0);
}

#[test]
fn a_job_ends_when_its_zones_are_full() {
    let mut job = job(Operation::Append, 2, pace(4, Host::NONE));
    job.request = BlockCount(24);
    job.pace.length = Length::endless();
    let (measured, drive) = measure(Constant, job);
    let figures = measured.unwrap().figures;
    // The stream that finds no zone ends the job; the zone of the other stream may be partly
    // written.
    let blocks = figures.mib_per_second * figures.seconds * 256.0;
    assert_close(blocks, drive.counters().written_blocks as f64);
    assert_eq!(
        (0..12).filter(|zone| drive.zone(ZoneId(*zone)).state == ZoneState::Full).count(),
        11
    );
}

#[test]
fn zones_are_reset_and_written_again_on_demand() {
    let mut job = job(Operation::Append, 2, pace(4, Host::NONE));
    job.zones.truncate(6);
    job.request = BlockCount(32);
    job.refill = Refill::Reset;
    let (measured, drive) = measure(Constant, job);
    assert_close(measured.unwrap().figures.iops, 8e5);
    assert!(drive.counters().resets > 10);
}

#[test]
fn a_running_job_can_be_watched_and_stopped() {
    let drive = RamDrive::new(Geometry::new(16, BlockCount(1024)), Constant).unwrap();
    let figures = on(&drive, |handle, device| async move {
        let mut job = job(Operation::RandomRead, 1, pace(1, Host::NONE));
        job.pace.length = Length::endless();
        let running = job.start(&handle, &device).unwrap();
        handle.sleep(Nanos::from_millis(2)).await;
        assert!(running.operations() >= 199);
        running.stop();
        running.finish().await.unwrap().figures
    });
    assert_close(figures.iops, 1e5);
    assert_close(figures.seconds, 0.002);
}

#[test]
fn a_failed_command_is_an_error_that_names_it() {
    let drive = RamDrive::new(Geometry::new(16, BlockCount(1024)), Immediate).unwrap();
    drive.inject(Selector::next(CommandKind::Write), FaultAction::Fail(Status::WriteFault));
    let mut job = job(Operation::Write, 1, pace(2, Host::IO_URING));
    job.pace.length = Length::counting(10);
    let error = on(&drive, |handle, device| async move { job.run(&handle, &device).await });
    let expected =
        WorkloadError::Drive { operation: "a write", zone: ZoneId(0), status: Status::WriteFault };
    assert_eq!(error, Err(expected));
}

#[test]
fn jobs_that_do_not_fit_are_refused() {
    let mut large = job(Operation::Append, 1, pace(1, Host::NONE));
    large.request = BlockCount(64);
    let many = job(Operation::Write, 13, pace(1, Host::NONE));
    let merged = job(Operation::RandomRead, 1, pace(1, Host::MQ_DEADLINE));
    for job in [large, many, merged] {
        assert!(matches!(measure(Constant, job).0, Err(WorkloadError::Impossible(_))));
    }
}
