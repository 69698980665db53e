//! Plans that make sense, and plans that do not.

use zoneweave_plan::outcome::{Effort, Outcome, PlanError, without_arrays};
use zoneweave_plan::spec::{Domain, Drive, RATES, Rates, Spec, SpecError};
use zoneweave_zoned::{BlockCount, Geometry};

const FEW: Effort = Effort { cycles: 20_000, seed: 1 };

pub(crate) fn spec() -> Spec {
    let geometry = Geometry::new(904, BlockCount(275_712));
    Spec {
        drive: Drive {
            name: "drive".to_owned(),
            geometry,
            write_mib_per_s: 1050.0,
            read_mib_per_s: 3000.0,
        },
        array: Default::default(),
        host: Default::default(),
        cluster: Default::default(),
        pool: Default::default(),
        load: Default::default(),
        rates: Rates::default(),
    }
}

#[test]
fn a_plan_adds_up() {
    let spec = spec();
    let outcome = Outcome::of(&spec, FEW).unwrap();
    let capacity = outcome.capacity;
    assert_eq!(capacity.drives, 96);
    let ideal = capacity.raw_bytes * 0.75 / 1.2;
    assert!(capacity.volume_bytes < ideal && capacity.volume_bytes > 0.95 * ideal);
    assert!((capacity.usable_bytes / capacity.volume_bytes - 0.35).abs() < 1e-9);
    let written = outcome.amplification;
    assert!((written.parity - 4.0 / 3.0).abs() < 1e-12 && written.pool == 2.0);
    assert!(written.relocation > 1.0 && written.relocation < 2.0, "{written:?}");
    assert!(outcome.repairs.host.bytes > 1.99 * outcome.repairs.array.bytes);
    assert!(outcome.host.index_bytes < outcome.host.memory_bytes);
    assert!(outcome.durability.array.chain_years > 1e3);
}

/// The purpose of arrays: a failed drive moves nothing over the network.
#[test]
fn arrays_keep_failed_drives_off_the_network() {
    let with = spec();
    let without = without_arrays(&with, 3);
    let (with, without) = (Outcome::of(&with, FEW).unwrap(), Outcome::of(&without, FEW).unwrap());
    assert_eq!(without.repairs.local_bytes_per_year, 0.0);
    assert!(with.repairs.network_bytes_per_year < without.repairs.network_bytes_per_year);
}

#[test]
fn ten_thousand_drives_have_a_plan() {
    let mut large = spec();
    large.cluster.hosts = 1250;
    large.cluster.racks = 50;
    large.pool.copies = 3;
    assert_eq!(large.drives(), 10_000);
    let outcome = Outcome::of(&large, Effort { cycles: 2_000, seed: 1 }).unwrap();
    assert!(outcome.durability.pool.years > 0.0);
}

#[test]
fn nonsense_is_refused_by_its_name() {
    let refused = |change: fn(&mut Spec)| {
        let mut spec = spec();
        change(&mut spec);
        Outcome::of(&spec, FEW).unwrap_err().to_string()
    };
    for (change, says) in [
        ((|spec| spec.pool.fill = 1.5) as fn(&mut Spec), "pool.fill"),
        (|spec| spec.pool.fill = f64::NAN, "pool.fill"),
        (|spec| spec.cluster.hosts = 0, "cluster.hosts"),
        (|spec| spec.cluster.racks = 13, "cluster.racks"),
        (|spec| spec.pool.copies = 4, "4, but there are 3 racks"),
        (|spec| spec.array.data = 0, "array.data"),
        (|spec| spec.array.data = usize::MAX, "array.data"),
        (|spec| spec.cluster.hosts = 90_000, "720000 drives"),
        (|spec| spec.rates.drive_failures_per_year = -0.1, "drive_failures_per_year"),
        (
            |spec| {
                (spec.cluster.hosts, spec.rates.hosts_lost_at_outage) = (2_000, 0.9);
            },
            "hosts_lost_at_outage",
        ),
        (|spec| spec.rates.rebuild_share = 0.0, "rebuild_share"),
        (|spec| spec.drive.geometry.zones = 4, "cannot be made"),
    ] {
        let message = refused(change);
        assert!(message.contains(says), "{message:?} names no {says:?}");
    }
}

#[test]
fn every_rate_has_a_source_and_a_sound_default() {
    for rate in RATES {
        assert!(rate.source.len() > 5 && !rate.about.is_empty(), "{}", rate.name);
        assert_eq!((rate.of)(&Rates::default()), rate.value);
        assert!(rate.value <= rate.most, "{}", rate.name);
    }
    let mut bad = spec();
    bad.pool.domain = Domain::Host;
    bad.pool.copies = 13;
    let error = Outcome::of(&bad, FEW);
    assert!(matches!(error, Err(PlanError::Spec(SpecError::OutOfRange { .. }))));
}
