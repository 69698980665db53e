//! A mixed load on a volume while its memory is watched.

use crate::common::Place;

#[test]
fn a_short_soak_reads_what_was_written_and_stays_within_its_memory() {
    let place = Place::new();
    let soak = "soak --requests 12000 --drive 64MiB";
    let soaked = place.run(&format!("{soak} --json -q")).exits(0);
    assert_eq!(soaked.stderr, "");
    let document = soaked.document("soak");
    let of = |part: &str, name: &str| document[part][name].as_u64().unwrap();
    let kinds = ["reads", "writes", "trims", "flushes"].map(|kind| of("outcome", kind));
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
    assert!(kinds.iter().sum::<u64>() >= 12000, "{kinds:?}");
    let samples = document["samples"].as_array().unwrap();
    assert!(samples.len() > 3, "{samples:?}");
    let drives = document["drives_memory_bytes"].as_u64().unwrap();
    assert_eq!(drives, 4 * (64 << 20) / 4096 * (4096 + 64));
    for sample in samples {
        let of = |name: &str| sample[name].as_u64().unwrap();
        assert_eq!(of("resident_bytes").saturating_sub(drives), of("beside_drives_bytes"));
        assert!(of("engine_bytes") <= of("engine_at_most_bytes"), "{sample}");
    }
    // Segments were collected, or the volume would have been full.
    assert!(of("outcome", "written_bytes") > 2 * document["volume_bytes"].as_u64().unwrap());
    let allowed = of("verdict", "allowed_bytes");
    assert_eq!(allowed, drives + document["index_bytes"].as_u64().unwrap() + (256 << 20));
    assert!(of("verdict", "resident_peak_bytes") <= allowed);
    assert_eq!(document["verdict"]["holds"], true);
    assert_eq!(document["verdict"]["growth_is_judged"], false);
}

#[test]
fn a_soak_tells_lines_and_a_verdict() {
    let place = Place::new();
    let soak = place.run("soak --requests 1000 --drive 64MiB --depth 8").exits(0);
    soak.says("AMPLIFICATION").says("holds: at most").says("not judged: no growth");
    place.run("soak --requests 1000 --drive 4MiB").exits(2).complains("32 zones of 2 MiB");
    place.run("soak --requests 1000 --minutes 1").exits(2);
    place.run("soak --minutes never").exits(2).complains("not a number of minutes");
}
