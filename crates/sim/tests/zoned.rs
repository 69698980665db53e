//! Histories of the zoned volume.

use zoneweave_sim::simulate::{Mix, Tally, generate, is_possible, record_panics, run};

/// Seeds run; `ZONEWEAVE_SEEDS` sets another number, `ZONEWEAVE_SEED` the first one.
const SEEDS: u64 = 100;

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name);
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn mix(swarm: bool) -> Mix {
    Mix { swarm, layout: None, inline: false, zoned: true }
}

#[test]
fn fresh_histories_pass() {
    crate::report_marks::report_marks();
    record_panics();
    let first = number("ZONEWEAVE_SEED", 0);
    let (mut tally, mut impossible, mut failures) = (Tally::default(), 0, Vec::new());
    let seeds = number("ZONEWEAVE_SEEDS", SEEDS);
    for (seed, swarm) in (first..first + seeds).flat_map(|seed| [(seed, false), (seed, true)]) {
        let scenario = generate(seed, mix(swarm));
        impossible += u64::from(!is_possible(&scenario));
        match run(&scenario) {
            Ok(counts) => tally.add(&counts),
            Err(failure) => {
                let flag = if swarm { " --swarm" } else { "" };
                let replay =
                    format!("zoneweave simulate --kind zoned --seed {seed} --runs 1{flag}");
                failures.push(format!("{failure}: {replay}"));
            }
        }
    }
    println!("{impossible} impossible, {tally:#?}");
    let shown: Vec<_> = failures.iter().take(15).collect();
    assert!(failures.is_empty(), "{} failures of {}: {shown:#?}", failures.len(), 2 * seeds);
    assert!(impossible * 20 < seeds, "{impossible} of {} shapes are impossible", 2 * seeds);
}
