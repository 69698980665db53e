//! Observations 11 to 13: interference between operations.

use super::Lookup;
use super::lookup::{rate, ratio, time};
use crate::characterize::claim::{Artefact, Claim, Found, FoundOfTwo};
use crate::characterize::{Action, Observation, Results, Subsystem, Table};

/// Reads in flight of Fig. 6.
const DEPTH: u32 = 32;

/// Mean and relative deviation by second of the first of these actions that was measured.
fn variation(results: &Results, drive: Subsystem, actions: &[Action]) -> Option<(f64, f64)> {
    actions.iter().find_map(|action| results.series(drive, *action, DEPTH)?.variation())
}

pub(super) fn stability(results: &Results) -> Observation {
    let writes = [Action::Append, Action::Write, Action::RandomWrite];
    let steadier = |actions: &[Action]| -> Found {
        let ours = variation(results, Subsystem::Zoned, actions)?.1;
        let other = variation(results, Subsystem::Conventional, actions)?.1;
        let shown = format!("± {:.1} % against ± {:.1} %", ours * 100.0, other * 100.0);
        Some((shown, ours <= other / 2.0))
    };
    let reads = || -> FoundOfTwo {
        let of = Lookup::new(results, Table::Saturation, Action::RandomRead).depth(DEPTH);
        let (ours, other) = (of.most(rate)?, of.conventional().most(rate)?);
        let factor = ratio(ours, other)?;
        let shown = format!("{ours:.2} against {other:.2} MiB/s: {factor:.1} ×");
        Some((shown, factor >= 3.0, factor >= 1.5))
    };
    let tail = || -> Found {
        let of = Lookup::new(results, Table::Saturation, Action::RandomRead).depth(1);
        let ours = of.most(|figures| figures.p95_us)?;
        let other = of.conventional().most(|figures| figures.p95_us)?;
        Some((format!("{} against {}", time(ours), time(other)), ours < other))
    };
    let alone = || -> Found {
        let (mean, spread) = variation(results, Subsystem::Zoned, &writes)?;
        Some((format!("{mean:.0} MiB/s ± {:.1} %", spread * 100.0), spread <= 0.05))
    };
    let claims = vec![
        Claim::new(
            "writes are steadier than on a conventional drive",
            "deviation of MiB/s by second, in parts of the mean, at most half (reads at 32 beside)",
        )
        .known("few MiB/s to 1200 MiB/s against a flat line", "Fig. 6a, one-second averages")
        .found(steadier(&writes)),
        Claim::new(
            "reads beside them are steadier, too",
            "deviation of MiB/s by second, in parts of the mean, at most half (32 in flight)",
        )
        .known("fluctuates against a flat line", "Fig. 6b, one-second averages")
        .found(steadier(&[Action::RandomRead])),
        Claim::new("the slowest reads are faster", "95th percentile lower, one read in flight")
            .known("98.04 against 299.89 ms", "98.04 against 299.89 ms")
            .found(tail()),
        Claim::new("reads are at least three times as fast", "MiB/s ≥ 3 ×, 32 in flight")
            .known("≥ 3 ×", "2.2 × over the run, 3.1 × in its last five minutes")
            .aside()
            .disputed(
                Artefact {
                    cause: "the factor is that of the end of the run, not of the run",
                    rule: "MiB/s ≥ 1.5 ×",
                },
                reads(),
            ),
        Claim::new("the drive by itself writes steadily", "deviation by second ≤ 5 % of the mean")
            .known("stable", "1155 MiB/s")
            .aside()
            .found(alone()),
    ];
    Observation::new(11, "Throughput is more stable than on conventional drives", claims)
}

pub(super) fn resets_spare_io(results: &Results) -> Observation {
    let spared = |action, zones, depth| -> Found {
        let io = Lookup::new(results, Table::Interference, action).zones(zones).depth(depth);
        let (alone, beside) = (io.alone()?.mean_us, io.beside(Action::Reset)?.figures.mean_us);
        let shown = format!("{} alone, {} beside", time(alone), time(beside));
        Some((shown, ratio(beside, alone)? <= 1.05))
    };
    let single = |action, statement, data_set| {
        Claim::new(statement, "mean beside resets ≤ 1.05 × alone, one in flight")
            .known("no effect", data_set)
            .found(spared(action, 1, 1))
    };
    let busy = |action, zones, depth, statement| {
        Claim::new(statement, "mean beside resets ≤ 1.05 × alone")
            .known("not measured", "not measured")
            .aside()
            .found(spared(action, zones, depth))
    };
    let claims = vec![
        single(
            Action::RandomRead,
            "resets do not slow reads",
            "73.0 µs, but for stalls of the host",
        ),
        single(Action::Write, "resets do not slow writes", "11.56 → 11.59 µs, but for such stalls"),
        single(
            Action::Append,
            "resets do not slow appends",
            "14.62 → 14.59 µs, but for such stalls",
        ),
        busy(Action::RandomRead, 1, 32, "nor 32 reads in flight"),
        busy(Action::Write, 4, 1, "nor writes to four zones"),
        busy(Action::Append, 1, 4, "nor four appends in flight"),
    ];
    Observation::new(12, "Resets do not disturb I/O", claims)
}

pub(super) fn io_slows_resets(results: &Results) -> Observation {
    const CAUSE: &str = "two polling threads shared one core: the I/O thread stood still 45–50 % of \
        the time in slices of 16 ms, and resets beside writes took multiples of the 4 ms tick";
    let of = Lookup::new(results, Table::Interference, Action::Reset);
    let slower = |action| -> Option<(String, f64)> {
        let alone = of.alone()?.p95_us;
        let beside = of.zones(1).depth(1).beside(action)?.figures.p95_us;
        let factor = ratio(beside, alone)?;
        let shown = format!("{} → {}: {:+.1} %", time(alone), time(beside), (factor - 1.0) * 100.0);
        Some((shown, factor))
    };
    let disputed = |action| -> FoundOfTwo {
        let (shown, factor) = slower(action)?;
        Some((shown, factor >= 1.3, (0.95..1.2).contains(&factor)))
    };
    let claim = |action, statement, paper, data_set| {
        Claim::new(statement, "95th percentile of resets of full zones ≥ 1.3 × alone")
            .known(paper, data_set)
            .disputed(Artefact { cause: CAUSE, rule: "at most 20 % slower" }, disputed(action))
    };
    let claims = vec![
        claim(
            Action::RandomRead,
            "reads slow resets",
            "17.94 → 28.00 ms: +56 %",
            "90 % of them take 15–15.5 ms: no slower",
        ),
        claim(
            Action::Write,
            "writes slow resets",
            "17.94 → 32.00 ms: +78 %",
            "183 of 193 take 32.0 ms",
        ),
        claim(
            Action::Append,
            "appends slow resets",
            "17.94 → 31.48 ms: +76 %",
            "those not stalled take 17.1–17.3 ms: +12 %",
        ),
        Claim::new("appends slow resets a little", "95th percentile at least 5 % higher")
            .known("–", "about 12 %")
            .aside()
            .found(slower(Action::Append).map(|(shown, factor)| (shown, factor >= 1.05))),
    ];
    Observation::new(13, "I/O disturbs resets", claims)
}
