//! Hot spares that come and go while an array is served.

use std::fs;

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

/// The status once a spare is given up.
fn given_up(place: &Place, spare: usize) -> Value {
    // Each question takes some milliseconds; the server looks once a second.
    for _ in 0..2000 {
        let found = status(place);
        if found["server"]["spares"][spare]["state"] == "given_up" {
            return found;
        }
    }
    panic!("spare {spare} is not given up: {}", status(place));
}

/// A spare whose file was removed or truncated stayed "on standby" until it was needed.
#[test]
fn a_spare_whose_drive_is_gone_is_told_and_not_taken() {
    let place = Place::with_array();
    let server = place.serve(&format!("{MEMBERS} --spare d/drive4 --spare d/drive5"));
    fs::remove_file(place.path("d/drive4")).unwrap();
    let found = given_up(&place, 0);
    assert_eq!((&found["health"], &found["action"]), (&"healthy".into(), &Value::Null));
    let file = fs::OpenOptions::new().write(true).open(place.path("d/drive5")).unwrap();
    file.set_len(1 << 20).unwrap();
    let found = given_up(&place, 1);
    assert_eq!(found["health"], "healthy");
    let action = found["action"].as_str().unwrap();
    assert!(action.contains("zoneweave array spare add /"), "{action}");
    place.run("array status d/drive0").says("d/drive5 is unusable");
    place.run("array fail d/drive0 --slot 1").exits(0);
    let lost = place.run("array status d/drive0 --check").exits(11);
    lost.says("d/drive5 is unusable").says("replace the drive of slot 1");
    let log = server.stop();
    for spare in ["d/drive4", "d/drive5"] {
        assert!(log.contains(&format!("the spare {spare} is unusable: ")), "{log}");
    }
}

/// The advice to add another one remained when that was done, and no command ended it.
#[test]
fn a_spare_that_was_given_up_is_replaced_or_dismissed() {
    let place = Place::with_array();
    fs::copy(place.path("d/drive4"), place.path("copy")).unwrap();
    let server = place.serve(&format!("{MEMBERS} --spare d/drive4 --spare d/drive5"));
    for (at, spare) in ["d/drive4", "d/drive5"].into_iter().enumerate() {
        fs::remove_file(place.path(spare)).unwrap();
        given_up(&place, at);
    }
    assert!(status(&place)["action"].as_str().unwrap().contains("is unusable"));
    fs::rename(place.path("copy"), place.path("d/drive4")).unwrap();
    place.run("array spare add vol0 d/drive4").exits(0);
    let found = status(&place);
    assert_eq!((spares(&found).len(), &found["action"]), (2, &Value::Null), "{found}");
    place.run("array spare remove vol0 d/drive5").exits(0);
    let found = status(&place);
    assert_eq!((spares(&found).len(), &spares(&found)[0]["state"]), (1, &"waiting".into()));
    place.run("array spare remove vol0 d/drive5").exits(3).complains("no spare that waits");
    place.run("array fail d/drive0 --slot 1").exits(0);
    assert!((0..2000).any(|_| status(&place)["health"] == "healthy"), "it is not rebuilt");
    assert_eq!(status(&place)["action"], Value::Null);
    server.stop();
}
