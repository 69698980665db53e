//! Observations 5 to 8: more requests in flight, in one zone or over several.

use super::Lookup;
use super::lookup::{iops, kiops, rate, ratio};
use crate::characterize::claim::{Artefact, Claim, Found, FoundOfTwo};
use crate::characterize::{Action, Observation, Results, Sample, Stack, Table};

pub(super) fn intra_against_inter(results: &Results) -> Observation {
    let claims = vec![
        Claim::new(
            "reads of one zone scale better than reads over zones",
            "IOPS ≥ 1.05 × those over zones, at the highest equal concurrency up to 8",
        )
        .known("higher", "98.6 against 98.9 KIOPS at 8: equal within 0.3 %")
        .disputed(
            Artefact {
                cause: "at equal concurrency the data set has no difference; the paper's points of \
                    14 zones are limited by 14 threads on 10 cores",
                rule: "at most 5 % apart",
            },
            intra_inter(results, Action::RandomRead),
        ),
        Claim::new(
            "writes to one zone scale better than writes over zones",
            "write commands the drive completes in one zone ≥ 1.05 × those over zones, best of each",
        )
        .known("293 against 186 KIOPS", "293 KIOPS are 18 thousand merged commands; over zones 186")
        .disputed(
            Artefact {
                cause: "the host's scheduler merges writes to one zone: the drive sees fewer, larger \
                    ones",
                rule: "the host's requests in one zone ≥ 1.05 × those over zones, though not commands",
            },
            write_commands(results),
        ),
        Claim::new("the drive limits the zones that are open", "it reports a limit")
            .known("14", "14")
            .aside()
            .found(results.max_open.map(|limit| (limit.to_string(), true))),
    ];
    Observation::new(5, "Parallelism within a zone beats parallelism over zones", claims)
}

fn intra_inter(results: &Results, action: Action) -> FoundOfTwo {
    let (intra, inter, concurrency) =
        pairs(results, action).filter(|pair| pair.2 <= 8 && pair.2 > 1).last()?;
    let quotient = ratio(intra, inter)?;
    let shown = format!("{} against {} at {concurrency}", kiops(intra), kiops(inter));
    Some((shown, quotient >= 1.05, (0.95..1.05).contains(&quotient)))
}

/// IOPS in one zone and over zones at equal concurrency, by concurrency.
fn pairs(results: &Results, action: Action) -> impl Iterator<Item = (f64, f64, u32)> {
    let inter = Lookup::new(results, Table::InterZone, action).stack(Stack::Direct);
    let intra = Lookup::new(results, Table::IntraZone, action).stack(Stack::Direct);
    inter.all().filter_map(move |sample| {
        let same = intra.depth(sample.zones).alone()?;
        Some((same.iops, sample.figures.iops, sample.zones))
    })
}

fn write_commands(results: &Results) -> FoundOfTwo {
    let merged = Lookup::new(results, Table::IntraZone, Action::Write).stack(Stack::Scheduler);
    let best = merged.all().max_by(|a, b| a.figures.iops.total_cmp(&b.figures.iops))?;
    let commands = best.figures.iops * best.commands_per_request;
    let inter = Lookup::new(results, Table::InterZone, Action::Write).most(iops)?;
    let shown = format!(
        "{} in one zone, as {} commands; {} over zones",
        kiops(best.figures.iops),
        kiops(commands),
        kiops(inter)
    );
    let ahead = |iops| Some(ratio(iops, inter)? >= 1.05);
    Some((shown, ahead(commands)?, ahead(best.figures.iops)?))
}

pub(super) fn append_is_agnostic(results: &Results) -> Observation {
    let claims = vec![
        Claim::new(
            "appends are as fast in one zone as over zones",
            "IOPS differ by at most 10 % at every equal concurrency",
        )
        .known("similar throughput", "at most 4 % apart at 1, 2, 4 and 8")
        .found(append_edges(results)),
        Claim::new(
            "appends do not mind how zones and queue depths are combined",
            "highest and lowest IOPS of all cells with at least 4 in flight differ by at most 5 %",
        )
        .known(
            "about 132 KIOPS from concurrency 4 on",
            "143.0 KIOPS at 2 zones × 4; 131–138 beyond",
        )
        .disputed(
            Artefact {
                cause: "the paper looks along two edges of the grid; inside it is a peak at two zones",
                rule: "the highest is at two zones, by at most 12 %",
            },
            append_spread(results),
        ),
        Claim::new(
            "appends gain nothing beyond four in flight",
            "best IOPS beyond ≤ 1.05 × those at 4 in one zone",
        )
        .known("none", "132.2 KIOPS at 4, 132.3 at 8")
        .aside()
        .found(append_plateau(results)),
    ];
    Observation::new(6, "Append throughput is agnostic to zones or queue depth", claims)
}

fn append_edges(results: &Results) -> Found {
    let apart = pairs(results, Action::Append)
        .filter_map(|(intra, inter, _)| Some(ratio(intra.max(inter), intra.min(inter))? - 1.0));
    let most = apart.max_by(f64::total_cmp)?;
    Some((format!("at most {:.1} % apart", most * 100.0), most <= 0.10))
}

fn append_spread(results: &Results) -> FoundOfTwo {
    let grid = Lookup::new(results, Table::AppendGrid, Action::Append);
    let cells = || grid.all().filter(|sample| sample.concurrency() >= 4);
    let order = |a: &&Sample, b: &&Sample| a.figures.iops.total_cmp(&b.figures.iops);
    let (best, worst) = (cells().max_by(order)?, cells().min_by(order)?);
    let spread = ratio(best.figures.iops, worst.figures.iops)?;
    let at = |sample: &Sample| {
        format!("{} at {} × {}", kiops(sample.figures.iops), sample.zones, sample.queue_depth)
    };
    let peak = best.zones == 2 && spread <= 1.12;
    (cells().count() > 1).then(|| (format!("{}, {}", at(best), at(worst)), spread <= 1.05, peak))
}

fn append_plateau(results: &Results) -> Found {
    let intra = Lookup::new(results, Table::IntraZone, Action::Append);
    let at_four = intra.depth(4).alone()?.iops;
    let beyond = intra.all().filter(|sample| sample.queue_depth > 4);
    let best = beyond.map(|sample| sample.figures.iops).max_by(f64::total_cmp)?;
    Some((format!("{} at 4, {} beyond", kiops(at_four), kiops(best)), best <= at_four * 1.05))
}

pub(super) fn single_zone_ranking(results: &Results) -> Observation {
    let of = |action| Lookup::new(results, Table::IntraZone, action);
    let ranking = || -> Found {
        let reads = of(Action::RandomRead).most(iops)?;
        let writes = of(Action::Write).stack(Stack::Scheduler).most(iops)?;
        let appends = of(Action::Append).most(iops)?;
        let shown =
            format!("reads {}, writes {}, appends {}", kiops(reads), kiops(writes), kiops(appends));
        Some((shown, reads > writes && writes > appends))
    };
    let early = || -> Found {
        let writes = of(Action::Write).stack(Stack::Scheduler).depth(4).alone()?.iops;
        let appends = of(Action::Append).depth(4).alone()?.iops;
        Some((format!("{} against {} at 4", kiops(appends), kiops(writes)), appends > writes))
    };
    let merged = || -> FoundOfTwo {
        let sample = of(Action::Write).stack(Stack::Scheduler).depth(16).all().next()?;
        let share = 1.0 - sample.commands_per_request;
        Some((format!("{:.1} %", share * 100.0), share >= 0.9, share >= 0.85))
    };
    let claims = vec![
        Claim::new(
            "in one zone reads scale best, then merged writes, then appends",
            "the best IOPS are in this order",
        )
        .known("424, 293 and 132 KIOPS", "437, 294 and 132 KIOPS")
        .found(ranking()),
        Claim::new(
            "up to four in flight, appends are ahead of merged writes",
            "IOPS of appends at 4 above those of writes",
        )
        .known("ahead", "132 against 106 KIOPS at 4")
        .found(early()),
        Claim::new(
            "more than nine of ten writes are merged at 16",
            "share of merged writes ≥ 90 %",
        )
        .known("92.35 %", "87.5 %")
        .aside()
        .disputed(
            Artefact {
                cause: "the text has another figure than the data set",
                rule: "share of merged writes ≥ 85 %",
            },
            merged(),
        ),
    ];
    Observation::new(7, "In one zone reads scale best, then writes, then appends", claims)
}

pub(super) fn device_limit(results: &Results) -> Observation {
    let of = |action| Lookup::new(results, Table::Bandwidth, action);
    let limit = [of(Action::Write).most(rate), of(Action::Append).most(rate)];
    let limit = limit.into_iter().flatten().max_by(f64::total_cmp);
    let small = || -> Found {
        let (small, limit) = (of(Action::Write).kib(4).most(rate)?, limit?);
        Some((format!("{small:.0} of {limit:.0} MiB/s"), ratio(small, limit)? < 0.9))
    };
    let large = || -> Found {
        let limit = limit?;
        let mut worst = f64::INFINITY;
        for action in [Action::Write, Action::Append] {
            for kib in of(action).all().map(|sample| sample.request_bytes >> 10) {
                if kib >= 8 {
                    worst = worst.min(of(action).kib(kib).most(rate)?);
                }
            }
        }
        let met = ratio(worst, limit)? >= 0.95;
        Some((format!("at least {worst:.0} of {limit:.0} MiB/s at every size"), met))
    };
    let sooner = || -> Found {
        let limit = limit?;
        let reach = |action| {
            let fast = move |sample: &&Sample| sample.figures.mib_per_second >= limit * 0.95;
            of(action).kib(8).all().filter(fast).map(Sample::concurrency).min()
        };
        let (writes, appends) = (reach(Action::Write)?, reach(Action::Append)?);
        Some((format!("writes with {writes}, appends with {appends} in flight"), writes <= appends))
    };
    let claims = vec![
        Claim::new("requests of 4 KiB do not reach the drive's limit", "best < 90 % of the limit")
            .known("726.74 MiB/s of 1.2 GiB/s", "726 of 1155 MiB/s")
            .found(small()),
        Claim::new(
            "requests of 8 KiB and more do",
            "best of writes and of appends ≥ 95 % of the limit at every size from 8 KiB on",
        )
        .known("with 2–4 zones", "1146–1155 MiB/s")
        .found(large()),
        Claim::new(
            "writes get there with fewer in flight than appends",
            "concurrency at which 8 KiB reach 95 % of the limit: writes ≤ appends",
        )
        .known("fewer", "2 against 4")
        .found(sooner()),
    ];
    Observation::new(8, "Larger requests reach the drive's limit sooner", claims)
}
