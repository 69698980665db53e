//! Several bad drives at once, drives under several names, and drives in files without room.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;

use super::{Case, Kind};
use crate::common::{Ended, MEMBERS, Place, SmallDisk, pattern};

/// The advice was to kill the server, which was healthy.
#[test]
fn a_server_that_this_user_may_not_reach_is_not_called_hung() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: ANOTHER USER NEEDS ROOT");
        return;
    }
    let case = Case::new(Kind::Log);
    let mode = |name: &str, mode| {
        fs::set_permissions(case.place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    (0..4).for_each(|drive| mode(&format!("d/drive{drive}"), 0o666));
    let server = case.serve(MEMBERS);
    let as_nobody = |words: &str| {
        let mut command = case.place.command(words);
        Ended::of_command(command.uid(65534).gid(65534))
    };
    let status = as_nobody(&format!("array status {MEMBERS} --check")).exits(14);
    let status = status.says("served by someone else");
    assert!(!format!("{status:?}").contains("kill -9"), "{status:#?}");
    let jobs = as_nobody("array jobs d/drive0").exits(5);
    jobs.complains("this user may not reach a server");
    server.stop();
    as_nobody(&format!("array status {MEMBERS} --check")).exits(0);
}
