//! Each observation on tables in which it holds, and on the same tables with one number changed.

use crate::characterize::{
    Action, Beside, Results, Sample, Series, Stack, Subsystem, Table, Verdict, observations,
    recommendations,
};
use crate::workload::Figures;

/// Figures of requests of 4 KiB with that latency, one in flight.
fn taking(mean_us: f64) -> Figures {
    rated(1e6 / mean_us, 4.0, mean_us)
}

fn rated(iops: f64, kib: f64, mean_us: f64) -> Figures {
    Figures {
        operations: 1000,
        seconds: 1.0,
        iops,
        mib_per_second: iops * kib / 1024.0,
        mean_us,
        p50_us: mean_us,
        p95_us: mean_us * 1.1,
        ..Figures::default()
    }
}

fn sized(table: Table, action: Action, kib: u64, figures: Figures) -> Sample {
    Sample { request_bytes: kib << 10, ..Sample::new(table, action, figures) }
}

fn scaled(table: Table, action: Action, zones: u32, depth: u32, kiops: f64) -> Sample {
    let sample = sized(table, action, 4, rated(kiops * 1e3, 4.0, 10.0));
    Sample { zones, queue_depth: depth, ..sample }
}

/// The verdict on an observation, given samples.
fn verdict(number: usize, samples: Vec<Sample>) -> Verdict {
    let results = Results { samples, ..Results::default() };
    observations(&results)[number - 1].verdict
}

#[test]
fn nothing_is_decided_without_samples() {
    let observations = observations(&Results::default());
    assert_eq!(observations.len(), 13);
    for (number, observation) in (1..).zip(&observations) {
        assert_eq!(observation.number, number);
        assert_eq!(observation.verdict, Verdict::CannotBeMeasured, "{number}");
    }
    assert!(recommendations(&Results::default()).is_empty());
}

#[test]
fn observation_1_follows_the_slowest_other_format() {
    let run = |other: f64| {
        let own = sized(Table::RequestSize, Action::Write, 4, taking(11.4));
        let small = sized(Table::Format, Action::Write, 4, taking(other));
        vec![own, Sample { format_bytes: 512, ..small }]
    };
    assert_eq!(verdict(1, run(19.8)), Verdict::Holds);
    assert_eq!(verdict(1, run(11.6)), Verdict::DoesNotHold);
}

#[test]
fn observation_2_wants_each_stack_slower_than_the_one_before() {
    let run = |latencies: [f64; 3]| {
        let stacks = [Stack::Direct, Stack::Kernel, Stack::Scheduler];
        let sample = |(stack, mean): (Stack, f64)| Sample {
            stack,
            ..sized(Table::Stack, Action::Write, 4, taking(mean))
        };
        stacks.into_iter().zip(latencies).map(sample).collect::<Vec<_>>()
    };
    assert_eq!(verdict(2, run([11.4, 12.6, 14.5])), Verdict::Holds);
    assert_eq!(verdict(2, run([12.6, 12.6, 14.5])), Verdict::DoesNotHold);
    assert_eq!(verdict(2, run([11.4, 12.6, 14.5])[..1].to_vec()), Verdict::CannotBeMeasured);
}

#[test]
fn observation_3_wants_large_requests_to_carry_more() {
    let run = |kiops_at_128: f64| {
        let small = sized(Table::RequestSize, Action::Write, 4, rated(85e3, 4.0, 11.4));
        let large = rated(kiops_at_128 * 1e3, 128.0, 106.0);
        vec![small, sized(Table::RequestSize, Action::Write, 128, large)]
    };
    assert_eq!(verdict(3, run(9.0)), Verdict::Holds);
    assert_eq!(verdict(3, run(3.0)), Verdict::DoesNotHold);
}

#[test]
fn observation_4_compares_writes_with_appends_of_their_size() {
    let run = |append: f64| {
        let sample = |action, mean| sized(Table::RequestSize, action, 4, taking(mean));
        vec![sample(Action::Write, 11.4), sample(Action::Append, append)]
    };
    assert_eq!(verdict(4, run(14.8)), Verdict::Holds);
    assert_eq!(verdict(4, run(11.4)), Verdict::DoesNotHold);
}

#[test]
fn observation_5_holds_only_where_the_drive_itself_is_faster_in_one_zone() {
    let run = |intra_reads: f64, commands_per_request: f64| {
        let merged = scaled(Table::IntraZone, Action::Write, 1, 32, 293.0);
        vec![
            scaled(Table::IntraZone, Action::RandomRead, 1, 8, intra_reads),
            scaled(Table::InterZone, Action::RandomRead, 8, 1, 98.9),
            Sample { stack: Stack::Scheduler, commands_per_request, ..merged },
            scaled(Table::InterZone, Action::Write, 8, 1, 186.0),
        ]
    };
    assert_eq!(verdict(5, run(98.6, 0.0625)), Verdict::Artefact);
    assert_eq!(verdict(5, run(130.0, 0.0625)), Verdict::Artefact);
    assert_eq!(verdict(5, run(130.0, 1.0)), Verdict::Holds);
    assert_eq!(verdict(5, run(70.0, 0.0625)), Verdict::DoesNotHold);
}

#[test]
fn observation_6_looks_inside_the_grid() {
    let run = |inter: f64, peak: f64| {
        vec![
            scaled(Table::IntraZone, Action::Append, 1, 4, 132.0),
            scaled(Table::InterZone, Action::Append, 4, 1, inter),
            scaled(Table::AppendGrid, Action::Append, 1, 4, 132.0),
            scaled(Table::AppendGrid, Action::Append, 2, 4, peak),
        ]
    };
    assert_eq!(verdict(6, run(137.0, 133.0)), Verdict::Holds);
    assert_eq!(verdict(6, run(137.0, 143.0)), Verdict::Artefact);
    assert_eq!(verdict(6, run(137.0, 160.0)), Verdict::DoesNotHold);
    assert_eq!(verdict(6, run(137.0, 120.0)), Verdict::DoesNotHold);
    assert_eq!(verdict(6, run(170.0, 133.0)), Verdict::DoesNotHold);
}

#[test]
fn observation_7_wants_reads_before_writes_before_appends() {
    let run = |reads: f64, early_writes: f64| {
        let write = |depth, kiops| {
            let sample = scaled(Table::IntraZone, Action::Write, 1, depth, kiops);
            Sample { stack: Stack::Scheduler, ..sample }
        };
        vec![
            scaled(Table::IntraZone, Action::RandomRead, 1, 128, reads),
            write(4, early_writes),
            write(32, 293.0),
            scaled(Table::IntraZone, Action::Append, 1, 4, 132.0),
        ]
    };
    assert_eq!(verdict(7, run(424.0, 106.0)), Verdict::Holds);
    assert_eq!(verdict(7, run(200.0, 106.0)), Verdict::DoesNotHold);
    assert_eq!(verdict(7, run(424.0, 150.0)), Verdict::DoesNotHold);
}

#[test]
fn observation_8_wants_small_requests_below_the_limit_and_large_ones_at_it() {
    let run = |small_mib: f64, append_mib: f64| {
        let sample = |action, kib: u64, zones, queue_depth, mib: f64| {
            let figures = Figures { operations: 1, mib_per_second: mib, ..Figures::default() };
            Sample { zones, queue_depth, ..sized(Table::Bandwidth, action, kib, figures) }
        };
        vec![
            sample(Action::Write, 4, 8, 1, small_mib),
            sample(Action::Write, 8, 2, 1, 1133.0),
            sample(Action::Append, 8, 1, 4, append_mib),
        ]
    };
    assert_eq!(verdict(8, run(726.0, 1144.0)), Verdict::Holds);
    assert_eq!(verdict(8, run(1130.0, 1144.0)), Verdict::DoesNotHold);
    assert_eq!(verdict(8, run(726.0, 900.0)), Verdict::DoesNotHold);
}

#[test]
fn observation_9_wants_opens_and_closes_as_cheap_as_writes() {
    let run = |open: f64, first: f64| {
        let sample = |action, explicit, mean| {
            let sample = Sample::new(Table::OpenClose, action, taking(mean));
            Sample { explicit: Some(explicit), ..sample }
        };
        vec![
            sample(Action::Open, true, open),
            sample(Action::Close, true, 11.0),
            sample(Action::Write, true, 11.5),
            sample(Action::Write, false, 11.6),
            sample(Action::FirstWrite, false, first),
        ]
    };
    assert_eq!(verdict(9, run(9.5, 13.6)), Verdict::Holds);
    assert_eq!(verdict(9, run(95.0, 13.6)), Verdict::DoesNotHold);
    assert_eq!(verdict(9, run(9.5, 23.6)), Verdict::DoesNotHold);
}

fn occupied(table: Table, finished: Option<bool>, points: &[(f64, f64)]) -> Vec<Sample> {
    let action = if table == Table::Reset { Action::Reset } else { Action::Finish };
    let sample = |(percent, millis): &(f64, f64)| Sample {
        occupancy_percent: Some(*percent),
        finished,
        ..Sample::new(table, action, taking(millis * 1e3))
    };
    points.iter().map(sample).collect()
}

#[test]
fn observation_10_wants_resets_to_grow_and_finishes_to_shrink() {
    let run = |full_reset: f64, late_finish: f64| {
        let resets = [(0.0, 1.61), (0.0004, 1.68), (50.0, 11.6), (100.0, full_reset)];
        let mut samples = occupied(Table::Reset, Some(false), &resets);
        let finishes = [(0.0, 0.0135), (0.0004, 907.0), (50.0, 457.0), (99.9996, late_finish)];
        samples.extend(occupied(Table::Finish, None, &finishes));
        samples
    };
    assert_eq!(verdict(10, run(16.2, 3.1)), Verdict::Holds);
    assert_eq!(verdict(10, run(1.7, 3.1)), Verdict::DoesNotHold);
    assert_eq!(verdict(10, run(16.2, 907.0)), Verdict::DoesNotHold);
    let results = Results { samples: run(16.2, 3.1), ..Results::default() };
    let empty = &observations(&results)[9].claims[4];
    assert_eq!(empty.verdict, Verdict::Artefact, "{}", empty.drive);
}

#[test]
fn observation_11_needs_a_conventional_drive_and_compares_with_it() {
    let run = |zoned: [f64; 3], conventional: Option<[f64; 3]>| {
        let mut results = Results::default();
        let mut add = |drive, write, rates: [f64; 3]| {
            for action in [write, Action::RandomRead] {
                let mib_per_second = rates.to_vec();
                results.series.push(Series { drive, action, read_depth: 32, mib_per_second });
            }
        };
        add(Subsystem::Zoned, Action::Append, zoned);
        if let Some(rates) = conventional {
            add(Subsystem::Conventional, Action::RandomWrite, rates);
        }
        observations(&results)[10].verdict
    };
    assert_eq!(run([100.0, 101.0, 99.0], Some([50.0, 150.0, 100.0])), Verdict::Holds);
    assert_eq!(run([100.0, 150.0, 50.0], Some([50.0, 150.0, 100.0])), Verdict::DoesNotHold);
    assert_eq!(run([100.0, 101.0, 99.0], None), Verdict::CannotBeMeasured);
}

#[test]
fn observations_12_and_13_compare_with_what_happened_alone() {
    let run = |io_beside: f64, reset_beside: f64| {
        let next_to = |sample: Sample, action| Sample {
            beside: Some(Beside { action, asked_mib_per_second: None, mib_per_second: None }),
            ..sample
        };
        let io = |mean| Sample::new(Table::Interference, Action::Write, taking(mean));
        let reset =
            |millis: f64| Sample::new(Table::Interference, Action::Reset, taking(millis * 1e3));
        vec![
            reset(15.4),
            io(11.6),
            next_to(io(io_beside), Action::Reset),
            next_to(reset(reset_beside), Action::Write),
        ]
    };
    assert_eq!(verdict(12, run(11.7, 17.2)), Verdict::Holds);
    assert_eq!(verdict(12, run(23.0, 17.2)), Verdict::DoesNotHold);
    assert_eq!(verdict(13, run(11.7, 17.2)), Verdict::Artefact);
    assert_eq!(verdict(13, run(11.7, 31.0)), Verdict::Holds);
    assert_eq!(verdict(13, run(11.7, 19.5)), Verdict::DoesNotHold);
}

#[test]
fn advice_on_appends_follows_the_numbers() {
    let advice = |append_us: f64, append_kiops: f64| {
        let samples = vec![
            sized(Table::RequestSize, Action::Write, 4, taking(11.4)),
            sized(Table::RequestSize, Action::Append, 4, taking(append_us)),
            scaled(Table::InterZone, Action::Write, 8, 1, 186.0),
            scaled(Table::AppendGrid, Action::Append, 2, 4, append_kiops),
        ];
        let results = Results { samples, ..Results::default() };
        let all = recommendations(&results);
        all.iter().find(|r| r.question == "Append or write?").unwrap().advice.clone()
    };
    assert!(advice(14.8, 143.0).starts_with("write"));
    assert_eq!(advice(10.0, 300.0), "append");
}
