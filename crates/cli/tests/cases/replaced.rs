//! Drives that were replaced, and a command line from before.

use super::{Case, Kind};
use crate::common::{MEMBERS, Place};

fn go_on(place: &Place, drives: &str, fill: u8) {
    let server = place.serve(drives);
    let mut client = server.client();
    client.write(0, &[fill; 1 << 20]);
    client.flush();
    drop(client);
    server.stop();
}

/// The old command line evicted the new drive, which had missed nothing, for the one that it had
/// replaced.
#[test]
fn an_old_command_line_does_not_bring_back_a_drive_that_was_replaced() {
    let case = Case::new(Kind::Log);
    let place = &case.place;
    let server = place.serve(MEMBERS);
    place.run("array fail d/drive0 --slot 1").exits(0);
    place.run("array replace d/drive0 --slot 1 --with n/drive0").exits(0).says("HEALTHY");
    server.stop();
    let server = place.serve(MEMBERS);
    place.run("array status d/drive0").exits(0).says("until it was replaced").says("slot 1");
    let told = server.stop();
    assert!(!told.contains("returns, and gets"), "{told}");
    // Also once the new drive has missed a write: it returns, and the old one does not.
    go_on(place, MEMBERS, 2);
    go_on(place, MEMBERS, 3);
    let server = place.serve(&format!("{MEMBERS} n/drive0"));
    while place.run("array status d/drive0 --check").code != 0 {}
    let told = server.stop();
    assert!(told.contains("n/drive0): has what it missed"), "{told}");
}
