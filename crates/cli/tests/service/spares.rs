//! Hot spares that come and go while an array is served.

use serde_json::Value;

use crate::common::{MEMBERS, Place};

fn status(place: &Place) -> Value {
    place.run("--json array status d/drive0").exits(0).document("array-status")
}

fn spares(status: &Value) -> &Vec<Value> {
    status["server"]["spares"].as_array().unwrap()
}

#[test]
fn a_spare_is_added_to_a_running_array_and_replaces_a_lost_drive() {
    let place = Place::with_array();
    place.run("array spare add d/drive0 d/drive4").exits(5).complains("not being served");
    let server = place.serve(MEMBERS);
    place.run("array spare add vol0 d/drive4").exits(0).says("d/drive4");
    let found = status(&place);
    assert_eq!((spares(&found).len(), &spares(&found)[0]["state"]), (1, &"waiting".into()));
    place.run("array spare add d/drive1 d/drive4").exits(4).complains("a spare already");
    place.run("array fail d/drive0 --slot 2").exits(0);
    while status(&place)["health"] != "healthy" {}
    let found = status(&place);
    assert_eq!(spares(&found)[0]["state"], "rebuilt", "{found}");
    place.run("array spare remove vol0 d/drive4").exits(3).complains("no spare that waits");
    server.stop();
    place.run("array check d/drive0 d/drive1 d/drive4 d/drive3").exits(0);
}

#[test]
fn a_spare_is_given_back_and_others_are_refused() {
    let place = Place::with_array();
    place.run("emu create few --drives 1 --zones 12 --zone-capacity 256KiB").exits(0);
    place.run("fs mkfs d/drive5").exits(0);
    let server = place.serve(MEMBERS);
    let refused = [
        ("d/drive1", 4, "already in service"),
        ("d/drive5", 4, "a spare must be blank"),
        ("few/drive0", 1, "too small"),
        ("gone", 3, "does not exist"),
    ];
    for (spare, exit, reason) in refused {
        place.run(&format!("array spare add vol0 {spare}")).exits(exit).complains(reason);
        place.run(&format!("array spare remove vol0 {spare}")).exits(3);
    }
    place.run("array spare add vol0 d/drive4").exits(0);
    place.run("drive wipe d/drive4").exits(4).complains("in use");
    place.run("array spare remove vol0 d/drive4").exits(0);
    assert!(spares(&status(&place)).is_empty());
    // Its drive is free.
    place.run("drive wipe d/drive4").exits(0).says("is blank");
    place.run("array fail d/drive0 --slot 2").exits(0);
    assert_eq!(status(&place)["health"], "degraded");
    let events = place.run("events d/drive0").exits(0);
    events.says("d/drive4 is a spare now").says("d/drive4 is no spare any more");
    server.stop();
    let place = Place::new();
    place.run("emu create d --drives 5 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create z {MEMBERS} --kind zoned")).exits(0);
    let server = place.serve_zoned(MEMBERS);
    place.run("array spare add z d/drive4").exits(4).complains("zoned volume");
    server.stop();
}
