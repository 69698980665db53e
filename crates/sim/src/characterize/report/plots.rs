//! Which charts are drawn, from which samples.

use super::plot::{Line, Plot};
use crate::characterize::{Action, Results, Sample, Table};

/// The charts that have samples.
pub(super) fn plots(results: &Results) -> Vec<Plot> {
    let mut plots = vec![
        request_size(results),
        intra_zone(results),
        inter_zone(results),
        append_grid(results),
        bandwidth(results),
        reset(results),
        finish(results),
        interference(results),
        read_under_write(results),
        stability(results, false),
        stability(results, true),
    ];
    for plot in &mut plots {
        plot.lines.retain(|line| !line.points.is_empty());
    }
    plots.retain(|plot| !plot.lines.is_empty());
    plots
}

/// The line of the samples that `choose` takes.
fn line<'a>(
    name: impl Into<String>,
    samples: impl Iterator<Item = &'a Sample>,
    point: impl Fn(&Sample) -> (f64, f64),
) -> Line {
    let measured = samples.filter(|sample| sample.figures.operations > 0);
    Line { name: name.into(), points: measured.map(point).collect() }
}

const OPERATIONS: [(Action, &str); 4] = [
    (Action::Write, "write"),
    (Action::Append, "append"),
    (Action::RandomRead, "random read"),
    (Action::SequentialRead, "sequential read"),
];

fn request_size(results: &Results) -> Plot {
    let of = |(action, name): (Action, &str)| {
        line(name, results.of(Table::RequestSize, action), |sample| {
            (kib(sample), sample.figures.iops / 1e3)
        })
    };
    Plot {
        name: "request-size",
        title: "One request in flight (paper: Fig. 3)".into(),
        x: "request size, KiB",
        y: "KIOPS",
        doubling: true,
        lines: OPERATIONS.map(of).into(),
    }
}

fn intra_zone(results: &Results) -> Plot {
    let of = |(action, name): (Action, &str)| {
        let name = if action == Action::Write { "write, merged" } else { name };
        line(name, results.of(Table::IntraZone, action), |sample| {
            (f64::from(sample.queue_depth), sample.figures.iops / 1e3)
        })
    };
    Plot {
        name: "intra-zone",
        title: "4 KiB requests to one zone (paper: Fig. 4a)".into(),
        x: "requests in flight",
        y: "KIOPS",
        doubling: true,
        lines: OPERATIONS.map(of).into(),
    }
}

fn inter_zone(results: &Results) -> Plot {
    let of = |(action, name): (Action, &str)| {
        line(name, results.of(Table::InterZone, action), |sample| {
            (f64::from(sample.zones), sample.figures.iops / 1e3)
        })
    };
    Plot {
        name: "inter-zone",
        title: "4 KiB requests, one in flight in each zone (paper: Fig. 4b)".into(),
        x: "zones",
        y: "KIOPS",
        doubling: true,
        lines: OPERATIONS.map(of).into(),
    }
}

fn append_grid(results: &Results) -> Plot {
    let mut zones: Vec<u32> =
        results.of(Table::AppendGrid, Action::Append).map(|sample| sample.zones).collect();
    zones.dedup();
    let of = |zones: u32| {
        let samples = results.of(Table::AppendGrid, Action::Append);
        let name = if zones == 1 { "1 zone".to_owned() } else { format!("{zones} zones") };
        line(name, samples.filter(move |sample| sample.zones == zones), |sample| {
            (f64::from(sample.queue_depth), sample.figures.iops / 1e3)
        })
    };
    Plot {
        name: "append-grid",
        title: "4 KiB appends".into(),
        x: "requests in flight in each zone",
        y: "KIOPS",
        doubling: true,
        lines: zones.into_iter().map(of).collect(),
    }
}

fn bandwidth(results: &Results) -> Plot {
    let mut lines = Vec::new();
    for size in [4, 8, 16] {
        for (action, how) in
            [(Action::Write, "writes over zones"), (Action::Append, "appends in one")]
        {
            let samples = results.of(Table::Bandwidth, action).filter(move |sample| {
                sample.request_bytes == size << 10 && (action == Action::Write || sample.zones == 1)
            });
            lines.push(line(format!("{size} KiB {how}"), samples, |sample| {
                (f64::from(sample.concurrency()), sample.figures.mib_per_second)
            }));
        }
    }
    Plot {
        name: "bandwidth",
        title: "Bandwidth by request size (paper: Fig. 4c)".into(),
        x: "requests in flight",
        y: "MiB/s",
        doubling: true,
        lines,
    }
}

fn reset(results: &Results) -> Plot {
    let of = |(finished, name): (bool, &str)| {
        let samples = results.of(Table::Reset, Action::Reset);
        line(name, samples.filter(move |sample| sample.finished == Some(finished)), |sample| {
            (sample.occupancy_percent.unwrap_or(0.0), sample.figures.mean_us / 1e3)
        })
    };
    Plot {
        name: "reset",
        title: "Resets by what the zone holds (paper: Fig. 5a)".into(),
        x: "occupancy, %",
        y: "ms",
        doubling: false,
        lines: [(false, "partly written"), (true, "finished")].map(of).into(),
    }
}

fn finish(results: &Results) -> Plot {
    let samples = results.of(Table::Finish, Action::Finish);
    let written = samples.filter(|sample| sample.occupancy_percent.is_some_and(|held| held > 0.0));
    Plot {
        name: "finish",
        title: "Finishes by what the zone holds (paper: Fig. 5b)".into(),
        x: "occupancy, %",
        y: "ms",
        doubling: false,
        lines: vec![line("finish", written, |sample| {
            (sample.occupancy_percent.unwrap_or(0.0), sample.figures.mean_us / 1e3)
        })],
    }
}

/// Resets of full zones alone and with one concurrent request, by percentile.
fn interference(results: &Results) -> Plot {
    let mut lines = Vec::new();
    for sample in results.of(Table::Interference, Action::Reset) {
        if sample.concurrency() > 1 || sample.figures.operations == 0 {
            continue;
        }
        let name = sample.beside.map_or_else(
            || "alone".to_owned(),
            |beside| format!("beside {}s", beside.action.name()),
        );
        let figures = &sample.figures;
        let points = [(50.0, figures.p50_us), (95.0, figures.p95_us), (99.0, figures.p99_us)];
        lines.push(Line { name, points: points.map(|(at, us)| (at, us / 1e3)).into() });
    }
    Plot {
        name: "interference",
        title: "Resets of full zones (paper: Fig. 7)".into(),
        x: "percentile",
        y: "ms",
        doubling: false,
        lines,
    }
}

fn read_under_write(results: &Results) -> Plot {
    let of = |(depth, p99): (u32, bool)| {
        let samples = results.of(Table::ReadUnderWrite, Action::RandomRead);
        let name = format!("{depth} in flight, {}", if p99 { "p99" } else { "mean" });
        line(name, samples.filter(move |sample| sample.queue_depth == depth), move |sample| {
            let rate = sample.beside.and_then(|beside| beside.mib_per_second).unwrap_or(0.0);
            (rate, if p99 { sample.figures.p99_us } else { sample.figures.mean_us })
        })
    };
    Plot {
        name: "read-under-write",
        title: "4 KiB reads beside writes".into(),
        x: "writes, MiB/s",
        y: "µs",
        doubling: false,
        lines: [(1, false), (1, true), (16, false), (16, true)].map(of).into(),
    }
}

fn stability(results: &Results, reads: bool) -> Plot {
    let chosen = results
        .series
        .iter()
        .filter(|series| series.read_depth == 32 && (series.action == Action::RandomRead) == reads);
    let lines = chosen.map(|series| {
        let points = (0_u32..).zip(&series.mib_per_second);
        Line {
            name: series.drive.name().to_owned(),
            points: points.map(|(second, rate)| (f64::from(second), *rate)).collect(),
        }
    });
    let (name, title) = if reads {
        ("stability-reads", "4 KiB reads, 32 in flight, beside saturating writes (paper: Fig. 6b)")
    } else {
        ("stability-writes", "Saturating writes beside 32 reads in flight (paper: Fig. 6a)")
    };
    Plot {
        name,
        title: title.into(),
        x: "seconds",
        y: "MiB/s",
        doubling: false,
        lines: lines.collect(),
    }
}

fn kib(sample: &Sample) -> f64 {
    let kib = u32::try_from(sample.request_bytes >> 10).unwrap_or(u32::MAX);
    f64::from(kib)
}
