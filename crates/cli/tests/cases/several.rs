//! Drives under several names, and servers of other users.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;

use super::{Case, Kind};
use crate::common::{Ended, MEMBERS};

/// A link to a drive in a folder that is searched was called a drive given twice.
#[test]
fn a_drive_with_two_names_in_a_folder_is_found_once() {
    let case = Case::new(Kind::Log);
    symlink("drive0", case.place.path("d/a-link")).unwrap();
    symlink("drive2", case.place.path("d/link")).unwrap();
    let serve = "serve nbd --array vol0 --search d --socket unix:s.sock";
    let server = case.place.start(serve, "nbdinfo '");
    case.place.run("array status d/drive0 --check").exits(0);
    server.stop();
    case.place.run("array rename vol0 next --search d").exits(0);
    case.place.run("array destroy next --search d --yes").exits(0);
    case.place.run("array list d").exits(0).says("blank");
}

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
