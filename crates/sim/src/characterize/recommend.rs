//! Recommendations for users of the drive.
//!
//! Each one is computed from samples, and left out if those are missing.

use serde::Serialize;

use super::observations::Lookup;
use super::observations::lookup::{iops, mean, rate, ratio, time};
use super::{Action, Results, Sample, Stack, Table, Verdict};

/// Advice and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recommendation {
    /// The question it answers.
    pub question: &'static str,
    /// The advice.
    pub advice: String,
    /// The numbers behind it.
    pub reason: String,
}

/// Part of the best value that counts as reaching it.
const NEARLY: f64 = 0.95;

/// The recommendations of a run.
#[must_use]
pub fn recommendations(results: &Results) -> Vec<Recommendation> {
    let all = [
        write_or_append(results),
        zones(results),
        request_size(results),
        append_depth(results),
        finish(results),
        resets(results),
        opening(results),
        reads(results),
        format(results),
    ];
    all.into_iter().flatten().collect()
}

fn write_or_append(results: &Results) -> Option<Recommendation> {
    let single = |action| Lookup::new(results, Table::RequestSize, action).kib(4).alone().map(mean);
    let (write, append) = (single(Action::Write)?, single(Action::Append)?);
    let most = |table, action| Lookup::new(results, table, action).stack(Stack::Direct).most(iops);
    let writes = most(Table::InterZone, Action::Write)?;
    let appends = most(Table::AppendGrid, Action::Append)?;
    let faster = ratio(writes, appends)?;
    let advice = match (write < append * 0.98, faster) {
        (true, faster) if faster > 1.02 => "write, one request in flight in each of several zones",
        (false, faster) if faster < 0.98 => "append",
        (true, _) => "write where latency counts; for throughput appends are as good or better",
        (false, faster) if faster > 1.02 => {
            "append for latency, write to several zones for throughput"
        }
        (false, _) => "either: appends save the host from ordering writes",
    };
    Some(Recommendation {
        question: "Append or write?",
        advice: advice.to_owned(),
        reason: format!(
            "4 KiB one in flight: writes {}, appends {}; at best {:.0} and {:.0} KIOPS",
            time(write),
            time(append),
            writes / 1e3,
            appends / 1e3
        ),
    })
}

/// The fewest zones in which writes of a size nearly reach their best throughput.
fn zones(results: &Results) -> Option<Recommendation> {
    let of = |kib| Lookup::new(results, Table::Bandwidth, Action::Write).kib(kib);
    let fewest = |kib| -> Option<(u32, f64)> {
        let best = of(kib).most(rate)?;
        let reaches = |sample: &&Sample| sample.figures.mib_per_second >= best * NEARLY;
        let least = of(kib).all().filter(reaches).map(|sample| sample.zones).min()?;
        Some((least, best))
    };
    let sizes = Lookup::new(results, Table::Bandwidth, Action::Write).all();
    let mut sizes: Vec<u64> = sizes.map(|sample| sample.request_bytes >> 10).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let points: Vec<(u64, u32, f64)> = sizes
        .iter()
        .filter_map(|kib| fewest(*kib).map(|(zones, best)| (*kib, zones, best)))
        .collect();
    let (small, large) = (points.first()?, points.last()?);
    let reason: Vec<String> = points
        .iter()
        .map(|(kib, zones, best)| format!("{kib} KiB: {best:.0} MiB/s with {zones}"))
        .collect();
    Some(Recommendation {
        question: "How many zones at once?",
        advice: format!(
            "{} for writes of {} KiB, {} for {} KiB",
            small.1, small.0, large.1, large.0
        ),
        reason: reason.join("; "),
    })
}

fn request_size(results: &Results) -> Option<Recommendation> {
    let of = Lookup::new(results, Table::Bandwidth, Action::Write);
    let best = of.most(rate)?;
    let reaches = |sample: &&Sample| sample.figures.mib_per_second >= best * NEARLY;
    let order =
        |a: &&Sample, b: &&Sample| (a.request_bytes, a.zones).cmp(&(b.request_bytes, b.zones));
    let least = of.all().filter(reaches).min_by(order)?;
    let single = Lookup::new(results, Table::RequestSize, Action::Write);
    let alone = single.all().filter(reaches).map(|sample| sample.request_bytes >> 10).min();
    let alone = alone.map_or_else(
        || "with one write in flight no size gets there".to_owned(),
        |kib| format!("with one write in flight from {kib} KiB on"),
    );
    Some(Recommendation {
        question: "How large should writes be?",
        advice: format!("{} KiB or more", least.request_bytes >> 10),
        reason: format!(
            "{:.0} of {best:.0} MiB/s with {} zones; {alone}",
            least.figures.mib_per_second, least.zones
        ),
    })
}

fn append_depth(results: &Results) -> Option<Recommendation> {
    let grid = Lookup::new(results, Table::AppendGrid, Action::Append);
    let best = grid.most(iops)?;
    let peak = grid.all().max_by(|a, b| a.figures.iops.total_cmp(&b.figures.iops))?;
    let reaches = |sample: &&Sample| sample.figures.iops >= best * NEARLY;
    let order =
        |a: &&Sample, b: &&Sample| (a.concurrency(), a.zones).cmp(&(b.concurrency(), b.zones));
    let least = grid.all().filter(reaches).min_by(order)?;
    Some(Recommendation {
        question: "How many appends in flight?",
        advice: format!("{} in each of {} zones", least.queue_depth, least.zones),
        reason: format!(
            "{:.0} KIOPS; the best is {:.0} at {} zones × {}; more in flight only wait longer",
            least.figures.iops / 1e3,
            best / 1e3,
            peak.zones,
            peak.queue_depth
        ),
    })
}

fn finish(results: &Results) -> Option<Recommendation> {
    let held = |sample: &&Sample| sample.occupancy_percent.is_some_and(|percent| percent > 0.0);
    let finishes = || Lookup::new(results, Table::Finish, Action::Finish).all().filter(held);
    let order = |a: &&Sample, b: &&Sample| {
        a.occupancy_percent.unwrap_or(0.0).total_cmp(&b.occupancy_percent.unwrap_or(0.0))
    };
    let (emptiest, fullest) = (finishes().min_by(order)?, finishes().max_by(order)?);
    let (slow, fast) = (emptiest.figures.mean_us, fullest.figures.mean_us);
    let write = Lookup::new(results, Table::RequestSize, Action::Write).kib(4).alone()?.mean_us;
    let advice = if slow <= 10.0 * write {
        "whenever it helps: it costs no more than a few writes"
    } else if fast <= slow / 2.0 {
        "only zones that are nearly full: the rest of the zone is paid for; reset or fill the others"
    } else {
        "rarely: it is slow whatever the zone holds"
    };
    Some(Recommendation {
        question: "When to finish a zone?",
        advice: advice.to_owned(),
        reason: format!("{} for a zone with one block, {} for a full one", time(slow), time(fast)),
    })
}

fn resets(results: &Results) -> Option<Recommendation> {
    let observations = super::observations(results);
    let verdict = |number: u8| observations.iter().find(|o| o.number == number).map(|o| o.verdict);
    let (spared, slowed) = (verdict(12)?, verdict(13)?);
    if spared == Verdict::CannotBeMeasured {
        return None;
    }
    let advice = match (spared == Verdict::Holds, slowed == Verdict::Holds) {
        (true, false) => "any time: I/O and resets do not mind each other",
        (true, true) => "any time, early enough: I/O does not mind, but slows them",
        (false, _) => "when the drive is idle: I/O waits for them",
    };
    let full = Lookup::new(results, Table::Interference, Action::Reset).alone()?.mean_us;
    Some(Recommendation {
        question: "When to reset zones?",
        advice: advice.to_owned(),
        reason: format!("{} for a full zone", time(full)),
    })
}

fn opening(results: &Results) -> Option<Recommendation> {
    let of = |action| Lookup::new(results, Table::OpenClose, action);
    let open = of(Action::Open).most(mean)?;
    let first = of(Action::FirstWrite).most(mean)?;
    let later = of(Action::Write).all().find(|s| s.explicit == Some(false))?.figures.mean_us;
    let advice = if first - later <= open { "no: the first write does it for less" } else { "yes" };
    Some(Recommendation {
        question: "Open zones explicitly?",
        advice: advice.to_owned(),
        reason: format!("{} against {} more for the first write", time(open), time(first - later)),
    })
}

fn reads(results: &Results) -> Option<Recommendation> {
    let points = || {
        let of = Lookup::new(results, Table::ReadUnderWrite, Action::RandomRead).depth(1).all();
        of.filter_map(|sample| Some((sample.beside?.mib_per_second?, sample.figures.mean_us)))
    };
    let idle = points().find(|(rate, _)| *rate == 0.0)?.1;
    let order = |a: &(f64, f64), b: &(f64, f64)| a.0.total_cmp(&b.0);
    let calm = points().filter(|(_, latency)| *latency <= 2.0 * idle).max_by(order)?;
    let most = points().max_by(order)?;
    let advice = if calm.0 >= most.0 {
        format!("writes of {:.0} MiB/s do not double their latency", most.0)
    } else {
        format!("keep writes at or below {:.0} MiB/s", calm.0)
    };
    let saturated =
        Lookup::new(results, Table::Saturation, Action::RandomRead).depth(1).alone_or_beside();
    let worst = saturated.map_or_else(String::new, |us| format!("; {} when saturated", time(us)));
    Some(Recommendation {
        question: "How to keep reads fast?",
        advice,
        reason: format!(
            "mean of a 4 KiB read: {} idle, {} beside {:.0} MiB/s, {} beside {:.0} MiB/s{worst}",
            time(idle),
            time(calm.1),
            calm.0,
            time(most.1),
            most.0
        ),
    })
}

fn format(results: &Results) -> Option<Recommendation> {
    let own = Lookup::new(results, Table::RequestSize, Action::Write).kib(4).alone()?.mean_us;
    let others = || Lookup::new(results, Table::Format, Action::Write).kib(4).all();
    let best = others().min_by(|a, b| a.figures.mean_us.total_cmp(&b.figures.mean_us))?;
    let (format_bytes, latency) = if best.figures.mean_us < own {
        (best.format_bytes, best.figures.mean_us)
    } else {
        (4096, own)
    };
    Some(Recommendation {
        question: "Which LBA format?",
        advice: format!("{format_bytes} B"),
        reason: format!("a write of 4 KiB takes {}", time(latency)),
    })
}
