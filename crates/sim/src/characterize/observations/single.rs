//! Observations 1 to 4: one request in flight.

use super::Lookup;
use super::lookup::{iops, kiops, mean, rate, ratio, time};
use crate::characterize::claim::{Claim, Found};
use crate::characterize::{Action, Observation, Results, Stack, Table};

pub(super) fn lba_format(results: &Results) -> Observation {
    let claim = |action, statement, data_set| {
        Claim::new(
            statement,
            "mean of 4 KiB in the slowest other format ≥ 1.2 × in the 4 KiB format",
        )
        .known("up to 2 ×", data_set)
        .found(other_format(results, action))
    };
    let claims = vec![
        claim(
            Action::Write,
            "writes of 4 KiB are slower in a format of smaller blocks",
            "19.79 µs at 512 B, 11.36 µs at 4 KiB: 1.74 ×",
        ),
        claim(
            Action::Append,
            "appends of 4 KiB are slower in a format of smaller blocks",
            "24.33 µs at 512 B, 14.83 µs at 4 KiB: 1.64 ×",
        ),
    ];
    Observation::new(1, "The LBA format has a significant impact on latencies", claims)
}

fn other_format(results: &Results, action: Action) -> Found {
    let own = Lookup::new(results, Table::RequestSize, action).kib(4).alone()?.mean_us;
    let other = Lookup::new(results, Table::Format, action).kib(4).all();
    let slowest = other.max_by(|a, b| a.figures.mean_us.total_cmp(&b.figures.mean_us))?;
    let factor = ratio(slowest.figures.mean_us, own)?;
    let (format, other) = (slowest.format_bytes, time(slowest.figures.mean_us));
    Some((format!("{other} at {format} B, {} at 4 KiB: {factor:.2} ×", time(own)), factor >= 1.2))
}

pub(super) fn host_software(results: &Results) -> Observation {
    let stack =
        |stack| Lookup::new(results, Table::Stack, Action::Write).stack(stack).alone().map(mean);
    let pair = |fast: Option<f64>, slow: Option<f64>| -> Found {
        let (fast, slow) = (fast?, slow?);
        let cost = ratio(slow - fast, slow)?;
        Some((format!("{} against {}: {:.1} %", time(fast), time(slow), cost * 100.0), cost > 0.01))
    };
    let (direct, kernel, scheduler) =
        (stack(Stack::Direct), stack(Stack::Kernel), stack(Stack::Scheduler));
    let claims = vec![
        Claim::new("a polling driver is faster than the kernel", "mean lower by more than 1 %")
            .known("11.36 against 12.62 µs: 9.98 %", "11.36 against 12.62 µs: 10.0 %")
            .found(pair(direct, kernel)),
        Claim::new("a scheduler costs latency", "mean without it lower by more than 1 %")
            .known("12.62 against 14.47 µs: 12.81 %", "12.62 against 14.47 µs: 12.8 %")
            .found(pair(kernel, scheduler)),
    ];
    Observation::new(2, "SPDK has the lowest latencies", claims)
}

pub(super) fn request_size(results: &Results) -> Observation {
    let of = |action| Lookup::new(results, Table::RequestSize, action);
    let claim = |action, statement, data_set| {
        Claim::new(statement, "IOPS of the best size ≥ 1.5 × those of the worst")
            .known("85 (writes), 66–69 (appends) KIOPS at 4–8 KiB", data_set)
            .found(size_matters(of(action)))
    };
    let claims = vec![
        claim(
            Action::Write,
            "write throughput depends on the request size",
            "85.4 KIOPS at 8 KiB, 9.2 at 128 KiB",
        ),
        claim(
            Action::Append,
            "append throughput depends on the request size",
            "69.0 KIOPS at 8 KiB, 9.2 at 128 KiB",
        ),
        Claim::new(
            "bytes a second are highest with large requests",
            "the best of ≥ 32 KiB ≥ 1.5 × 4 KiB, and within 1 % of the best of all (writes)",
        )
        .known("≥ 32 KiB", "333 MiB/s at 4 KiB, 1145–1147 at ≥ 32 KiB")
        .found(large_is_fast(of(Action::Write))),
    ];
    Observation::new(3, "Throughput depends on the request size", claims)
}

fn size_matters(samples: Lookup<'_>) -> Found {
    let by_iops = |a: &&crate::characterize::Sample, b: &&crate::characterize::Sample| {
        a.figures.iops.total_cmp(&b.figures.iops)
    };
    let (best, worst) = (samples.all().max_by(by_iops)?, samples.all().min_by(by_iops)?);
    let factor = ratio(best.figures.iops, worst.figures.iops)?;
    let shown = |sample: &crate::characterize::Sample| {
        format!("{} at {} KiB", kiops(sample.figures.iops), sample.request_bytes / 1024)
    };
    Some((format!("{}, {}", shown(best), shown(worst)), factor >= 1.5))
}

fn large_is_fast(samples: Lookup<'_>) -> Found {
    let small = samples.kib(4).alone().map(rate)?;
    let large = samples.all().filter(|sample| sample.request_bytes >= 32 << 10);
    let large = large.map(|sample| sample.figures.mib_per_second).max_by(f64::total_cmp)?;
    let best = samples.most(rate)?;
    let met = ratio(large, small)? >= 1.5 && ratio(large, best)? >= 0.99;
    Some((format!("{small:.0} MiB/s at 4 KiB, {large:.0} at ≥ 32 KiB"), met))
}

pub(super) fn write_against_append(results: &Results) -> Observation {
    let at = |action, kib| Lookup::new(results, Table::RequestSize, action).kib(kib).alone();
    let compare = |kib| -> Found {
        let (write, append) = (at(Action::Write, kib)?.mean_us, at(Action::Append, kib)?.mean_us);
        let lower = ratio(append - write, append)?;
        let shown = format!("{} against {}: {:.1} %", time(write), time(append), lower * 100.0);
        Some((shown, lower >= 0.02))
    };
    let throughput = || -> Found {
        let (write, append) = (at(Action::Write, 4).map(iops)?, at(Action::Append, 4).map(iops)?);
        Some((format!("{} against {}", kiops(write), kiops(append)), write > append * 1.02))
    };
    let claims = vec![
        Claim::new("writes of 4 KiB are faster than appends", "mean lower by at least 2 %")
            .known("23.42 % lower", "11.36 against 14.83 µs: 23.4 %")
            .found(compare(4)),
        Claim::new("writes of 8 KiB are faster than appends", "mean lower by at least 2 %")
            .known("19 % (4 KiB writes against 8 KiB appends)", "11.24 against 14.02 µs: 19.8 %")
            .found(compare(8)),
        Claim::new(
            "and so is their throughput",
            "IOPS of writes more than 1.02 × those of appends",
        )
        .known("85 against 66 KIOPS", "85.1 against 65.7 KIOPS")
        .aside()
        .found(throughput()),
    ];
    Observation::new(4, "Writes have lower latencies than appends", claims)
}
