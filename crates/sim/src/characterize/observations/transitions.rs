//! Observations 9 and 10: costs of the zone state machine.

use super::Lookup;
use super::lookup::{mean, ratio, time};
use crate::characterize::claim::{Artefact, Claim, Found, FoundOfTwo};
use crate::characterize::{Action, Observation, Results, Sample, Table};

pub(super) fn open_and_close(results: &Results) -> Observation {
    let of = |action| Lookup::new(results, Table::OpenClose, action);
    let steady = |explicit| {
        let sample = of(Action::Write).all().find(|sample| sample.explicit == Some(explicit));
        sample.map(|sample| sample.figures.mean_us)
    };
    let cheap = |action| -> Found {
        let (cost, write) = (of(action).most(mean)?, steady(true)?);
        Some((format!("{}; a write {}", time(cost), time(write)), ratio(cost, write)? <= 2.0))
    };
    let agnostic = || -> Found {
        let (explicit, implicit) = (steady(true)?, steady(false)?);
        let apart = ratio(explicit.max(implicit), explicit.min(implicit))? - 1.0;
        Some((format!("{} against {}", time(explicit), time(implicit)), apart <= 0.05))
    };
    let surcharge = |first: Action, later: Action, least: f64, most: f64| -> Found {
        let later = of(later).all().find(|sample| sample.explicit == Some(false))?.figures.mean_us;
        let extra = of(first).alone()?.mean_us - later;
        let part = ratio(extra, later)?;
        let shown = format!("{} more: {:.1} %", time(extra), part * 100.0);
        Some((shown, part >= least && part <= most))
    };
    let claims = vec![
        Claim::new("an open is cheap", "mean ≤ 2 × a write of 4 KiB")
            .known("9.56 µs", "9.55 µs")
            .found(cheap(Action::Open)),
        Claim::new("a close is cheap", "mean of the slower kind ≤ 2 × a write of 4 KiB")
            .known("11.01 µs", "11.07 µs")
            .found(cheap(Action::Close)),
        Claim::new(
            "how a zone was opened does not matter afterwards",
            "means of later writes differ by at most 5 %",
        )
        .known("no difference", "11.57 against 11.58 µs")
        .found(agnostic()),
        Claim::new(
            "a write that opens a zone costs little more",
            "at most 50 % more than later ones",
        )
        .known("2.02 µs more: 17.38 %", "13.65 against 11.58 µs")
        .found(surcharge(Action::FirstWrite, Action::Write, -1.0, 0.5)),
        Claim::new("so does an append that opens one", "at most 50 % more than later ones")
            .known("2.83 µs more: 19.32 %", "17.51 against 14.67 µs")
            .found(surcharge(Action::FirstAppend, Action::Append, -1.0, 0.5)),
        Claim::new("a write to a closed zone costs more", "at least 5 % more than a later write")
            .known("–", "15.24 against 11.58 µs: 3.6 µs more")
            .aside()
            .found(surcharge(Action::WriteToClosed, Action::Write, 0.05, f64::INFINITY)),
    ];
    Observation::new(9, "Opening and closing zones is marginal", claims)
}

/// The sample of an occupancy, as near as a tenth of a percent.
fn at(samples: Lookup<'_>, percent: f64, finished: Option<bool>) -> Option<&Sample> {
    samples.all().find(|sample| {
        sample.finished == finished
            && sample.occupancy_percent.is_some_and(|held| (held - percent).abs() < 0.1)
    })
}

/// The sample of the emptiest zone that is not empty.
fn least(samples: Lookup<'_>, finished: Option<bool>) -> Option<&Sample> {
    let held = |sample: &&Sample| {
        sample.finished == finished && sample.occupancy_percent.is_some_and(|held| held > 0.0)
    };
    samples.all().filter(held).min_by(|a, b| {
        a.occupancy_percent.unwrap_or(0.0).total_cmp(&b.occupancy_percent.unwrap_or(0.0))
    })
}

/// The sample of the fullest zone.
fn fullest(samples: Lookup<'_>, finished: Option<bool>) -> Option<&Sample> {
    samples.all().filter(|sample| sample.finished == finished).max_by(|a, b| {
        a.occupancy_percent.unwrap_or(0.0).total_cmp(&b.occupancy_percent.unwrap_or(0.0))
    })
}

fn compare(small: &Sample, large: &Sample) -> Option<(String, f64)> {
    let (small, large) = (small.figures.mean_us, large.figures.mean_us);
    Some((format!("{} → {}", time(small), time(large)), ratio(large, small)?))
}

pub(super) fn occupancy(results: &Results) -> Observation {
    let resets = Lookup::new(results, Table::Reset, Action::Reset);
    let finishes = Lookup::new(results, Table::Finish, Action::Finish);
    let reset_grows = || -> Found {
        let (text, factor) = compare(least(resets, Some(false))?, fullest(resets, Some(false))?)?;
        Some((text, factor >= 2.0))
    };
    let finish_falls = || -> Found {
        let (text, factor) = compare(least(finishes, None)?, fullest(finishes, None)?)?;
        Some((text, factor <= 0.5))
    };
    let linear = || -> Found {
        let (least, most) = (least(finishes, None)?.figures.mean_us, fullest(finishes, None)?);
        let middle = (least + most.figures.mean_us) / 2.0;
        let half = at(finishes, 50.0, None)?.figures.mean_us;
        let apart = ratio(half, middle)? - 1.0;
        let shown = format!("{} half full, {} in the middle", time(half), time(middle));
        Some((shown, apart.abs() <= 0.1))
    };
    let finished_faster = || -> Found {
        let (open, finished) = (at(resets, 50.0, Some(false))?, at(resets, 50.0, Some(true))?);
        let (text, factor) = compare(open, finished)?;
        Some((text, factor <= 0.95))
    };
    let empty_faster = || -> FoundOfTwo {
        let empty = at(resets, 0.0, Some(false)).filter(|s| s.occupancy_percent == Some(0.0))?;
        let (text, factor) = compare(empty, least(resets, Some(false))?)?;
        Some((text, factor >= 1.3, (0.95..1.1).contains(&factor)))
    };
    let unwritten = || -> Found {
        let opened = at(finishes, 0.0, None).filter(|s| s.occupancy_percent == Some(0.0))?;
        let (text, factor) = compare(opened, least(finishes, None)?)?;
        Some((text, factor >= 100.0))
    };
    let claims = vec![
        Claim::new(
            "a reset takes longer the more is written",
            "mean of a full zone ≥ 2 × that of a zone with one block",
        )
        .known("11.60 ms half full, 16.19 ms full", "1.66–1.70 → 15.8–16.9 ms")
        .found(reset_grows()),
        Claim::new(
            "a finish takes shorter the more is written",
            "mean of a zone with one block left ≤ half that of a zone with one block written",
        )
        .known("907.51 → 3.07 ms", "907.5 → 2.57 ms (median)")
        .found(finish_falls()),
        Claim::new(
            "a finish gets shorter over the whole range",
            "mean of half-full zones within 10 % of the middle between the ends",
        )
        .known("linear up to 25 %", "457 ms half full: linear throughout")
        .aside()
        .found(linear()),
        Claim::new(
            "finished zones are reset faster than partly written ones",
            "mean of half-full zones at least 5 % lower",
        )
        .known("3.08 ms (26.58 %), once faster, once slower in the text", "11.3–12.2 → 8.5 ms")
        .aside()
        .found(finished_faster()),
        Claim::new(
            "an empty zone is reset much faster than one with a block",
            "mean of zones with one block ≥ 1.3 × that of empty ones",
        )
        .known("1.08 ms", "1.61 → 1.66–1.70 ms")
        .aside()
        .disputed(
            Artefact {
                cause: "903 samples of 2 µs that never reached the drive are averaged in",
                rule: "at most 10 % apart",
            },
            empty_faster(),
        ),
        Claim::new(
            "an opened zone that was not written is finished at once",
            "a hundredth of the time of a zone with one block, or less",
        )
        .known("not permitted", "13.5 µs: it is, and it does")
        .aside()
        .found(unwritten()),
    ];
    Observation::new(10, "Occupancy decides what resets and finishes cost", claims)
}
