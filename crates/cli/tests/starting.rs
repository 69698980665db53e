//! The duration of a start, as `bench` measures it.

use crate::common::Place;

#[test]
fn starts_by_the_checkpoint_on_demand_and_by_footers_are_measured() {
    let place = Place::new();
    let bench = "bench --mapped 64MiB --runs 1 --region 16MiB --json -q --only";
    let started = place.run(&format!("{bench} start")).exits(0).document("bench");
    assert_eq!(started["results"], serde_json::json!([]));
    let starts = started["starts"].as_array().expect("a list");
    let names: Vec<_> = starts.iter().map(|start| start["workload"].clone()).collect();
    assert_eq!(names, ["start", "start on demand", "start footers"]);
    for start in starts {
        assert_eq!(start["mapped_bytes"], 64 << 20, "{start}");
        assert!(start["processor_ns"].as_u64() > Some(0), "{start}");
        assert!(start["read_bytes"].as_u64() > Some(4096), "{start}");
    }
    let decoded = place.run(&format!("{bench} decode")).exits(0).document("bench");
    assert_eq!(decoded["starts"][0]["read_bytes"], 64 << 20);
    // Only requests have a size or a depth.
    place.run(&format!("{bench} start --depth 64")).exits(2).complains("start on demand");
}
