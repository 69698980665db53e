//! `array rename`: the name is that of the media, in all shards and for all servers.

use crate::common::{MEMBERS, Place, pattern};

#[test]
fn an_array_has_its_new_name_and_its_data() {
    let place = Place::with_array();
    let data = pattern(3, 1 << 20);
    let server = place.serve(MEMBERS);
    let mut client = server.client();
    client.write(0, &data);
    client.flush();
    place.run("array rename vol0 tank --search d").exits(4).complains("array stop vol0");
    server.stop();
    place.run(&format!("array rename {MEMBERS} bad/name")).exits(2).complains("cannot be a name");
    place.run("array rename d/drive0 d/drive1 d/drive3 tank").exits(4).complains("slot 2");
    place.run("array rename vol0 tank --search d").exits(0).says("vol0 is called tank now");
    place.run("array rename vol0 other --search d").exits(3);
    let status = place.run(&format!("--json array status {MEMBERS}")).exits(0);
    assert_eq!(status.document("array-status")["name"], "tank");
    place.run(&format!("array check {MEMBERS}")).exits(0);
    let server = place.start("serve nbd --array tank --search d --socket unix:s.sock", "nbdinfo '");
    let mut client = crate::common::Nbd::connect(&place.path("s.sock"), "tank");
    assert!(client.read(0, data.len()) == data, "the data are as they were");
    drop(client);
    server.stop();
}

#[test]
fn a_name_that_another_array_has_is_refused() {
    let place = Place::with_array();
    place.run("array create other d/drive4 d/drive5 --size max --chunk 4KiB").exits(0);
    place.run("array rename vol0 other --search d").exits(4).complains("is here already");
    place
        .run("array rename d/drive4 d/drive5 vol0 --search d")
        .exits(4)
        .complains("is here already");
    place.run("array rename d/drive4 d/drive5 next").exits(0);
    place.run("array rename d/drive4 d/drive0 next").exits(4).complains("give the drives of one");
}

#[test]
fn shards_and_zoned_volumes_are_renamed_whole() {
    let place = Place::with_drives();
    place.run(&format!("array create wide --shards 2 --level raid1 {MEMBERS} --size max")).exits(0);
    place.run("array rename d/drive0 d/drive1 broad").exits(4).complains("shard 1");
    place.run("array rename wide broad --search d").exits(0);
    let status = place.run(&format!("--json array status {MEMBERS}")).exits(0);
    let status = status.document("array-status");
    assert_eq!((&status["name"], &status["shards"][1]["name"]), (&"broad".into(), &"broad".into()));
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create z {MEMBERS} --kind zoned")).exits(0);
    place.run("array rename z y --search d").exits(0);
    place.run(&format!("array status {MEMBERS}")).exits(0).says("y ");
    place.run(&format!("array check {MEMBERS}")).exits(0);
}
