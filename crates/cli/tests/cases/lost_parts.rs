//! Block volumes of which parts are lost, and with them the addresses of the blocks.

use std::fs;
use std::os::unix::fs::FileExt;

use super::{Case, Kind, SMALL};
use crate::common::{MEMBERS, Place};

/// A block of users.
const BLOCK: [u8; 4096] = [0xAA; 4096];

/// Changes a byte of each such block of a drive; returns their number.
fn rot_all(place: &Place, drive: &str) -> usize {
    let path = place.path(drive);
    let bytes = fs::read(&path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let blocks = bytes.chunks_exact(4096).enumerate();
    let found: Vec<_> = blocks.filter(|(_, block)| **block == BLOCK).collect();
    found.iter().for_each(|(at, _)| file.write_all_at(b"rot", *at as u64 * 4096).unwrap());
    found.len()
}

/// `array status` said HEALTHY before the start, after its refusal, and for ever after one by
/// force.
#[test]
fn what_a_start_refuses_or_gives_up_is_not_healthy() {
    for kind in [Kind::Log, Kind::Shards] {
        let case = Case::of(kind, "raid0", SMALL);
        let run = |words: &str| case.place.run(words);
        let server = case.serve(MEMBERS);
        let mut client = server.client();
        client.write(0, &BLOCK.repeat(128));
        client.flush();
        drop(client);
        server.stop();
        let status = format!("array status {} --check", case.with(MEMBERS));
        run(&status).exits(0);
        let blocks = rot_all(&case.place, "d/drive1");
        assert!(blocks > 0, "{kind:?}: no block is on the drive");
        for _ in 0..2 {
            let failed = run(&status).exits(12).says("FAILED").says("it cannot start");
            failed.says("lost parts, which d/drive1 does not return").says("--force");
            let refused = run(&case.serves(MEMBERS)).exits(4);
            refused.complains("lost parts, which d/drive1 does not return");
        }
        let server = case.serve(&format!("{MEMBERS} --force"));
        // Until its blocks are moved elsewhere, a start would ask again.
        let damaged = case.wait_for(|status| status["server"]["segments_leftover"] == 0);
        assert_eq!(damaged["health"], "damaged", "{damaged}");
        assert_eq!(damaged["members"][1]["io"]["unrepairable_blocks"], blocks, "{damaged}");
        server.kill();
        run(&status).exits(13).says("could not be read");
        let server = case.serve(MEMBERS);
        run("array clear d/drive0").exits(0);
        server.stop();
        run(&status).exits(0);
    }
}
