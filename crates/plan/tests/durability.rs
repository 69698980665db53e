//! The two models of durability agree where both apply, and both agree with figures by hand.

use zoneweave_plan::durability::array::ArrayFailures;
use zoneweave_plan::durability::cluster::{ClusterFailures, Places};
use zoneweave_plan::durability::cycles::{Estimate, estimate};
use zoneweave_plan::durability::{HOURS_PER_YEAR, Repairs};
use zoneweave_plan::spec::Domain;

const CYCLES: u32 = 400_000;

fn array(tolerated: u32) -> ArrayFailures {
    ArrayFailures {
        drives: 4 + tolerated,
        tolerated,
        drive_per_hour: 0.01 / HOURS_PER_YEAR,
        shock_per_hour: 0.0,
        lost_at_shock: 0.0,
        repair_hours: 2.0,
    }
}

fn cluster() -> ClusterFailures {
    ClusterFailures {
        places: Places { hosts: 24, racks: 4, arrays: 1 },
        copies: 2,
        domain: Domain::Host,
        groups: 1200,
        array_per_hour: 1e-7,
        host_per_hour: 1e-6,
        rack_per_hour: 0.0,
        site_per_hour: 0.0,
        lost_at_outage: 0.0,
        array_hours: 3.0,
        host_hours: 3.0,
    }
}

fn agree(what: &str, chain: f64, found: Estimate, within: f64) {
    let off = found.hours_to_loss / chain - 1.0;
    eprintln!("{what}: chain {chain:.3e} h, simulated {:.3e} h, {off:+.3}", found.hours_to_loss);
    assert!(off.abs() < within, "{what}: {off:+.3} beyond {within}, {found:?}");
    assert!(found.error < within, "{what}: the interval is {:.3} wide", found.error);
}

#[test]
fn an_array_lasts_as_long_by_both_models() {
    for tolerated in 0..=3 {
        let array = array(tolerated);
        let found = estimate(&mut array.system(), Repairs::Exponential, CYCLES, 7);
        agree(&format!("{tolerated} tolerated"), array.hours_to_loss(), found, 0.1);
    }
}

#[test]
fn shocks_shorten_the_life_of_an_array_by_both_models() {
    let calm = array(2);
    let shaken = ArrayFailures { shock_per_hour: 1e-5, lost_at_shock: 0.02, ..calm };
    assert!(shaken.hours_to_loss() < calm.hours_to_loss() / 10.0);
    let found = estimate(&mut shaken.system(), Repairs::Exponential, CYCLES, 8);
    agree("shocks", shaken.hours_to_loss(), found, 0.1);
}

/// With one failure tolerated the distribution of repairs hardly matters; with two, repairs of a
/// fixed length leave half as much time for the third failure.
#[test]
fn repairs_of_fixed_length_lose_as_computed_by_hand() {
    let single = array(1);
    let found = estimate(&mut single.system(), Repairs::Fixed, CYCLES, 9);
    let (n, fails, hours) = (5.0, single.drive_per_hour, single.repair_hours);
    agree("one tolerated", 1.0 / (n * fails * (n - 1.0) * fails * hours), found, 0.05);
    // The second failure leaves hours - t of the first rebuild: a third one in that time loses.
    let double = array(2);
    let found = estimate(&mut double.system(), Repairs::Fixed, CYCLES, 10);
    let by_hand = 6.0 * fails * 5.0 * fails * 4.0 * fails * hours * hours / 2.0;
    agree("two tolerated", 1.0 / by_hand, found, 0.05);
}

#[test]
fn a_cluster_lasts_as_long_by_both_models() {
    let calm = cluster();
    let many = Places { arrays: 4, ..calm.places };
    for (what, cluster) in [
        ("hosts alone", calm),
        ("arrays alone", ClusterFailures { array_per_hour: 1e-5, host_per_hour: 0.0, ..calm }),
        ("four arrays a host", ClusterFailures { places: many, array_per_hour: 1e-5, ..calm }),
        ("three copies", ClusterFailures { copies: 3, groups: 800, ..calm }),
        ("site", ClusterFailures { site_per_hour: 1e-4, lost_at_outage: 0.01, ..calm }),
        ("racks", ClusterFailures { rack_per_hour: 1e-4, lost_at_outage: 0.05, ..calm }),
    ] {
        let found = estimate(&mut cluster.system(), Repairs::Exponential, CYCLES, 11);
        agree(what, cluster.hours_to_loss(), found, 0.1);
    }
}

/// Copies in different racks survive the loss of one rack, which the chain does not know.
#[test]
fn a_rack_as_domain_survives_outages_of_racks() {
    let racks = ClusterFailures {
        host_per_hour: 0.0,
        array_per_hour: 0.0,
        rack_per_hour: 1e-4,
        lost_at_outage: 0.3,
        ..cluster()
    };
    let by_host = estimate(&mut racks.system(), Repairs::Fixed, CYCLES, 12);
    let apart = ClusterFailures { domain: Domain::Rack, ..racks };
    let by_rack = estimate(&mut apart.system(), Repairs::Fixed, CYCLES, 12);
    assert!(by_rack.hours_to_loss > 100.0 * by_host.hours_to_loss, "{by_rack:?} {by_host:?}");
    assert!(apart.hours_to_loss() <= by_rack.hours_to_loss, "the chain is a lower bound");
}

/// With a chance of none below the smallest number, outages still lose what they lose; and copies
/// whose cover is below 10^-16 have a loss by the chain.
#[test]
fn extremes_keep_their_precision() {
    let places = Places { hosts: 1_200, racks: 4, arrays: 1 };
    let wide = ClusterFailures { places, groups: 60_000, ..cluster() };
    let dark = ClusterFailures { site_per_hour: 1e-4, lost_at_outage: 0.5, ..wide };
    let found = estimate(&mut dark.system(), Repairs::Fixed, 200, 15);
    assert!((found.hours_to_loss * 1e-4 - 1.0).abs() < 0.1, "each outage loses: {found:?}");
    let places = Places { hosts: 10_000, racks: 4, arrays: 1 };
    let many = ClusterFailures { places, copies: 5, groups: 1, ..cluster() };
    let hours = many.hours_to_loss();
    assert!(hours.is_finite() && hours > 1e20, "{hours}");
}

/// A loss takes at least one group, and more the more hosts go at once.
#[test]
fn a_loss_takes_groups() {
    let site = ClusterFailures { site_per_hour: 1e-4, lost_at_outage: 0.3, ..cluster() };
    let found = estimate(&mut site.system(), Repairs::Fixed, CYCLES, 13);
    assert!(found.lost_share > 2.0 / 1200.0 && found.lost_share < 0.5, "{found:?}");
    let few = estimate(&mut cluster().system(), Repairs::Fixed, CYCLES, 13);
    assert!(few.lost_share >= 1.0 / 1200.0 && few.lost_share < found.lost_share, "{few:?}");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let one = estimate(&mut cluster().system(), Repairs::Fixed, 10_000, 14);
    let other = estimate(&mut cluster().system(), Repairs::Fixed, 10_000, 14);
    assert_eq!(one, other);
}
