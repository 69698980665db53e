//! `zoneweave characterize` with the real binary.

use crate::common::Place;

const SMALL: &str = "characterize --preset zn540-1tb --zones 40 --zone-capacity 8MiB --quick -q";

#[test]
fn a_preset_is_measured_judged_and_written_down() {
    let place = Place::new();
    let ended = place.run(&format!("{SMALL} --out report --json")).exits(0);
    let document = ended.document("characterize");
    let observations = document["observations"].as_array().unwrap();
    assert_eq!(observations.len(), 13);
    // One observation that holds on the calibrated drive, and one that does not.
    assert_eq!(observations[3]["verdict"], "holds");
    assert_eq!(observations[12]["verdict"], "artefact");
    assert!(document["recommendations"].as_array().unwrap().len() > 5);
    for file in ["index.html", "samples.jsonl", "reset.csv", "intra-zone.svg", "fidelity.md"] {
        assert!(place.path("report").join(file).exists(), "{file}");
    }
    let page = std::fs::read_to_string(place.path("report/index.html")).unwrap();
    assert!(page.contains("this drive") && page.contains("</html>"));
}

#[test]
fn a_drive_in_a_file_is_measured_in_real_time_and_left_empty() {
    let place = Place::new();
    place.run("emu create d --drives 1 --zones 24 --zone-capacity 4MiB").exits(0);
    place.run("characterize d/drive0 --quick").exits(0).says("cannot be measured here");
    place.run("characterize d/drive0 --quick --preset instant").exits(2);
    let map = place.run("zones d/drive0 --json").exits(0).document("zones");
    let zones = map["drives"][0]["zones"].as_array().unwrap();
    assert!(zones.iter().all(|zone| zone["state"] == "empty"));
}

#[test]
fn a_drive_that_holds_something_is_refused() {
    let place = Place::with_array();
    place.run("characterize d/drive0 --quick").exits(4).complains("a member of array");
    place.run("characterize gone --quick").exits(3);
    place.run("characterize --preset no-such-drive").exits(2).complains("choose one of");
    place.run("characterize").exits(2);
}
