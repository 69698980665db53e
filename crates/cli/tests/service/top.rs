//! `zoneweave top`: on a pseudoterminal, of an array that is served.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::common::{LIMIT, MEMBERS, Place};

/// A terminal, with the command on it.
struct Watched {
    terminal: File,
    /// Kept open: the command alone would end it.
    line: OwnedFd,
    child: Child,
    written: String,
}

impl Watched {
    fn start(place: &Place, words: &str) -> Self {
        // The command must not inherit it: a terminal ends when its last descriptor is closed.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = openpt(flags).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let path = ptsname(&terminal, Vec::new()).unwrap();
        let line =
            open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        resize(&line, 80);
        let child = on_its_own_terminal(&place.command(words))
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::from(line.try_clone().unwrap()))
            .stdout(Stdio::from(line.try_clone().unwrap()))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { terminal: File::from(terminal), line, child, written: String::new() }
    }

    /// Waits until the command has drawn something. It writes what changed, so a word that was
    /// there before, and a space on an empty line, are not written again.
    fn draws(&mut self, what: &str) {
        let until = Instant::now() + LIMIT;
        while !self.written.contains(what) {
            assert!(Instant::now() < until, "{what} is not drawn: {}", self.written);
            self.takes();
        }
    }

    fn takes(&mut self) {
        let limit = Timespec { tv_sec: i64::try_from(LIMIT.as_secs()).unwrap(), tv_nsec: 0 };
        let mut terminal = [PollFd::new(&self.terminal, PollFlags::IN)];
        let ready = poll(&mut terminal, Some(&limit)).unwrap();
        assert!(ready > 0, "nothing is drawn after {}", self.written);
        let mut bytes = [0; 4096];
        let count = self.terminal.read(&mut bytes).unwrap();
        assert!(count > 0, "the terminal ended after {}", self.written);
        // A character may be in two parts; only ASCII is looked for.
        self.written += &String::from_utf8_lossy(&bytes[..count]);
    }

    /// Gives the terminal another width, so that all is written again.
    fn resizes(&self, columns: u16) {
        resize(&self.line, columns);
    }

    fn presses(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.line).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// Waits for the end; the terminal is as before.
    fn ends(mut self) -> ExitStatus {
        // The last thing written leaves the other screen; the cursor was shown before.
        self.draws("\x1b[?1049l");
        let status = self.child.wait().unwrap();
        assert!(self.written.contains("\x1b[?25h"), "{}", self.written);
        assert!(!self.is_raw());
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(stderr, "");
        status
    }
}

fn resize(line: &OwnedFd, columns: u16) {
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(line, size).unwrap();
}

/// The command in a session of its own, whose terminal is its standard input: otherwise it would
/// look at the size of the terminal that the tests run on.
fn on_its_own_terminal(command: &Command) -> Command {
    let mut session = Command::new("setsid");
    session.arg("--ctty").arg(command.get_program()).args(command.get_args());
    session.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => session.env(name, value),
            None => session.env_remove(name),
        };
    }
    session
}

#[test]
fn a_terminal_shows_a_served_array_until_a_key_or_a_signal() {
    let place = Place::with_array();
    place.run("top").exits(2).complains("needs a terminal");
    let server = place.serve(MEMBERS);
    server.client().write(0, &[7; 64 << 10]);
    let mut watched = Watched::start(&place, "top --interval 100ms");
    watched.draws("\x1b[?1049h");
    watched.draws("HEALTHY");
    watched.draws("drive3");
    watched.draws("reclaim");
    watched.draws("by state");
    assert!(watched.is_raw());
    watched.presses("z");
    watched.draws("maximum");
    // A server that hangs stops neither the screen nor the keys.
    server.signal(Signal::STOP);
    watched.draws("UNKNOWN");
    watched.resizes(81);
    watched.draws("answered");
    watched.presses("q");
    assert_eq!(watched.ends().code(), Some(0));
    server.signal(Signal::CONT);
    let mut watched = Watched::start(&place, "top vol0");
    watched.draws("HEALTHY");
    kill_process(Pid::from_child(&watched.child), Signal::TERM).unwrap();
    assert_eq!(watched.ends().signal(), Some(Signal::TERM.as_raw()));
    server.stop();
    let mut watched = Watched::start(&place, "top --color never");
    watched.draws("served");
    watched.presses("\x03");
    assert_eq!(watched.ends().code(), Some(0));
    // A window that is closed leaves no process behind.
    let Watched { terminal, mut child, line, .. } = Watched::start(&place, "top");
    drop(terminal);
    assert!(!child.wait().unwrap().success());
    drop(line);
}
