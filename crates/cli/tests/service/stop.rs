//! `array stop`: servers end in order, with success, and their drives are free then.

use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use crate::common::{MEMBERS, Place, pattern};

#[test]
fn a_server_is_stopped_by_the_name_of_its_array_its_uuid_and_any_drive() {
    let place = Place::with_array();
    let list = place.run("--json array status d/drive0").document("array-status");
    let uuid = list["array"].as_str().unwrap().to_uppercase();
    for target in ["vol0", &uuid, "d/drive2", MEMBERS] {
        let server = place.serve(MEMBERS);
        let ended = place.run(&format!("array stop {target}")).exits(0).says("vol0: stopped");
        assert!(ended.stdout.contains("drive3"), "{ended:?}");
        // The service manager does not start it again.
        let log = server.ends();
        assert!(log.contains("all acknowledged writes are on the drives"), "{log}");
        place.run(&format!("array check {MEMBERS}")).exits(0);
    }
    place.run(&format!("array stop {MEMBERS}")).exits(0).says("is not served");
    place.run("array stop vol0 --search d").exits(0).says("vol0 is not served");
    place.run("array stop vol1 --search d").exits(3).complains("no drive of array vol1");
    place.run("array stop d/drive5").exits(3).complains("belongs to an array");
    let ended = place.run("--json array stop vol0 --search d").exits(0);
    assert_eq!(ended.document("array-stop")["was_served"], false);
}

#[test]
fn a_volume_with_clients_is_stopped_by_force_only() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let mut client = server.client();
    client.write(0, &pattern(1, 4096));
    let refused = place.run("array stop vol0").exits(4);
    refused.complains("in use by 1 clients").complains("--force");
    client.flush();
    place.run("array stop vol0 --force").exits(0);
    server.ends();
}

/// Each shard has a control socket of its own, and all of them are one process.
#[test]
fn shards_zoned_volumes_and_their_stores_are_stopped_as_one() {
    let place = Place::with_drives();
    place.run(&format!("array create wide --shards 2 --level raid1 {MEMBERS} --size max")).exits(0);
    for target in ["wide", "d/drive3", MEMBERS] {
        let server = place.serve(MEMBERS);
        let ended = place.run(&format!("array stop {target}")).exits(0);
        let all = (0..4).all(|drive| ended.stdout.contains(&format!("drive{drive}")));
        assert!(all, "{ended:?}");
        server.ends();
    }
    // The front ends are those of the first shard, whichever drive is named.
    let server = place.serve(MEMBERS);
    let mut client = crate::common::Nbd::connect(&place.path("s.sock"), "wide");
    for target in ["wide", "d/drive0", "d/drive3", MEMBERS] {
        place.run(&format!("array stop {target}")).exits(4).complains("in use by 1 clients");
    }
    client.flush();
    drop(client);
    server.stop();
    let place = Place::new();
    place.run("emu create d --drives 4 --zones 16 --zone-capacity 4MiB").exits(0);
    place.run(&format!("array create z {MEMBERS} --kind zoned")).exits(0);
    let server = place.serve_zoned(MEMBERS);
    place.run("array stop z").exits(0).says("z: stopped");
    server.ends();
    let store = MEMBERS.replace(' ', ",");
    place.run(&format!("fs mkfs {store}")).exits(0);
    let server = place.serve_store(&store);
    place.run("array stop d/drive1").exits(0).says("z: stopped");
    server.ends();
    // A database that has the store open lost it without a word.
    let server = place.serve_store(&format!("{store} --socket unix:st.sock"));
    let database = UnixStream::connect(place.path("st.sock")).unwrap();
    let clients = || {
        let shown = place.run("--json array status d/drive0").exits(0).document("array-status");
        shown["server"]["clients"].as_u64().unwrap()
    };
    while clients() == 0 {}
    place.run("array stop z").exits(4).complains("in use by 1 clients").complains("--force");
    drop(database);
    while clients() > 0 {}
    place.run("array stop z").exits(0);
    server.ends();
}

#[test]
fn copies_strangers_and_silent_servers_are_not_stopped() {
    let place = Place::with_array();
    std::fs::copy(place.path("d/drive0"), place.path("copy")).unwrap();
    let server = place.serve(MEMBERS);
    place.run("array stop copy").exits(4).complains("a copy of");
    place.run("array stop vol1").exits(3);
    server.signal(Signal::STOP);
    place.run("array stop d/drive0").exits(5).complains("has not answered");
    server.signal(Signal::CONT);
    server.client().flush();
    place.run("array stop d/drive0").exits(0);
    server.ends();
}

/// Each held its place for ten seconds, and 32 of them kept all verbs out.
#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    let place = Place::with_array();
    let server = place.serve(MEMBERS);
    let sockets = std::fs::read_dir(place.path("run")).unwrap().map(|entry| entry.unwrap().path());
    let socket = sockets.into_iter().find(|path| path.extension().is_some_and(|it| it == "sock"));
    let socket = socket.expect("a server has a control socket");
    let silent: Vec<_> = (0..40).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    place.run("array status d/drive0 --check").exits(0);
    place.run("array stop vol0").exits(0);
    server.ends();
    drop(silent);
}
