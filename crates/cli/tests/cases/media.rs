//! Orders to a server that would leave too little on media: members whose metadata was overwritten,
//! which live as long as the server does, and members that are absent and have missed nothing.

use std::fs;
use std::os::unix::fs::FileExt;

use super::{Case, DATA, Kind};
use crate::common::{MEMBERS, Place, pattern};

/// Overwrites the header of a drive's file.
fn behead(place: &Place, drive: &str) {
    let file = fs::OpenOptions::new().write(true).open(place.path(drive)).unwrap();
    file.write_all_at(&[0; 4096], 0).unwrap();
}

/// The drive of slot 2 was erased to replace a working one, and slot 2 was failed from then on.
#[test]
fn an_absent_member_is_no_new_drive_for_another_slot() {
    for kind in [Kind::Log, Kind::Zoned] {
        let case = Case::of(kind, "raid6", super::SMALL);
        // A first start and stop make a zoned volume one that was stopped cleanly.
        case.serve(MEMBERS).stop();
        let server = case.serve("d/drive0 d/drive1 d/drive3");
        let replace = |slot: u32| {
            format!("array replace d/drive0 --slot {slot} --with d/drive2 --yes-destroy")
        };
        let told = "is the drive of slot 2 of this array";
        let orders = [(replace(1), 4, told), (format!("{} --dry-run", replace(1)), 4, told)];
        case.changes_nothing(&["d"], &orders);
        server.stop();
        case.place.run(&format!("array status {MEMBERS} --check")).exits(0);
    }
}

/// `fail` and `stop` left an array of two drives that no force started.
#[test]
fn a_member_without_its_header_does_not_make_up_for_another() {
    for kind in [Kind::Log, Kind::Zoned] {
        let case = Case::with_data(kind);
        let run = |words: &str| case.place.run(words);
        let server = case.serve(MEMBERS);
        behead(&case.place, "d/drive1");
        // The order looks itself: the server may not have noticed yet.
        let refused = run("array fail d/drive0 --slot 2").exits(4);
        refused.complains("would not have the drives of slot 1").complains("--force");
        // So does the status.
        let status = run("array status d/drive0 --check").exits(11);
        status.says("no other may be lost").says("replace the drive of slot 1 before the server");
        let refused = run("array stop vol0").exits(4);
        refused.complains("would not have the drives of slot 1").complains("--force");
        if kind == Kind::Log {
            let refused = run("array offline d/drive0 --slot 2").exits(4);
            refused.complains("would not have the drives of slot 1");
            let refused = run("array offline d/drive0 --slot 1").exits(4);
            refused.complains("would not open again").complains("--yes-destroy");
        }
        run("array replace d/drive0 --slot 1 --with n/drive0 --yes-destroy").exits(0);
        run("array fail d/drive0 --slot 2").exits(0).says("slot 2 failed");
        assert!(case.read(&server) == pattern(8, DATA), "{kind:?} has other data");
        run("array stop vol0").exits(0);
        server.ends();
        run("array status d/drive0 n/drive0 d/drive3 --check").exits(11);
    }
}

/// Overwrites the superblock zones of a drive's file.
fn strip(place: &Place, drive: &str) {
    let path = place.path(drive);
    let array = b"vol0".as_slice();
    let media = fs::read(&path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let blocks = media.chunks_exact(4096).enumerate();
    let named = blocks.filter(|(_, block)| block.windows(array.len()).any(|name| name == array));
    named.for_each(|(at, _)| file.write_all_at(&[0; 4096], at as u64 * 4096).unwrap());
}

/// `stop` went by the last look of the server, which had not noticed yet, and only at the header.
/// `action` advised to put a drive back that would not open.
#[test]
fn a_stop_looks_at_the_media_itself() {
    for kind in super::KINDS {
        for lose in [behead, strip] {
            let case = Case::new(kind);
            let run = |words: &str| case.place.run(words);
            let server = case.serve(MEMBERS);
            lose(&case.place, "d/drive1");
            let refused = run("array stop vol0").exits(4);
            refused.complains("would not have the drives of slot 1").complains("--force");
            if kind != Kind::Zoned {
                run("array offline d/drive0 --slot 1").exits(4).complains("would not open again");
                let status = run("array offline d/drive0 --slot 1 --force").exits(0);
                let status = status.says("replace the drive of slot 1");
                assert!(!status.stdout.contains("array online"), "{status:#?}");
            }
            server.kill();
        }
    }
}

/// With more redundancy an order is refused only where it would cost the next start.
#[test]
fn redundancy_that_is_on_media_may_be_given_up() {
    let case = Case::of(Kind::Log, "raid6", super::SMALL);
    let run = |words: &str| case.place.run(words);
    let server = case.serve(MEMBERS);
    behead(&case.place, "d/drive1");
    case.wait_for(|status| status["members"][1]["header_lost"] == true);
    behead(&case.place, "d/drive2");
    let status = case.wait_for(|status| status["members"][2]["header_lost"] == true);
    let action = status["action"].as_str().unwrap();
    assert!(action.contains("replace the drives of slots 1, 2"), "{action}");
    assert_eq!(status["losses_left"], 0, "{status}");
    run("array fail d/drive0 --slot 3").exits(4).complains("slots 1, 2");
    run("array stop vol0").exits(4).complains("slots 1, 2");
    run("array replace d/drive0 --slot 1 --with n/drive0 --yes-destroy").exits(0);
    run("array offline d/drive0 --slot 2 --force").exits(0);
    run("array replace d/drive0 --slot 2 --with n/drive1").exits(0);
    behead(&case.place, "n/drive0");
    case.wait_for(|status| status["members"][1]["header_lost"] == true);
    run("array stop vol0 --force").exits(0);
    server.ends();
    run("array status d/drive0 n/drive1 d/drive3").exits(0).says("slot 1 missing");
}
