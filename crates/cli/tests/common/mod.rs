//! The real binary in a directory of its own.

#![allow(dead_code, reason = "every test file uses its own part of this")]

mod nbd;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use nbd::Nbd;

const BINARY: &str = env!("CARGO_BIN_EXE_zoneweave");

/// Longest time for a command. Only one that hangs needs it, or a server that should have refused
/// to start.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// A directory for drives, sockets and the runtime directory.
pub(crate) struct Place {
    directory: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Waits for the end of a command whose outputs are piped; kills one that does not end.
    #[track_caller]
    pub(crate) fn of(child: Child) -> Self {
        let watched = Pid::from_child(&child);
        let (ends, end) = mpsc::channel::<()>();
        let watch = thread::spawn(move || {
            // Otherwise the other half was dropped: the command has ended.
            if end.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(watched, Signal::KILL);
            }
        });
        let output = child.wait_with_output().unwrap();
        drop(ends);
        watch.join().unwrap();
        let code = output.status.code();
        Self {
            code: code.unwrap_or_else(|| panic!("a signal ended it, after {LIMIT:?}: {output:?}")),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn of_command(command: &mut Command) -> Self {
        Self::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Asserts that the error says something.
    #[track_caller]
    pub(crate) fn complains(self, of: &str) -> Self {
        assert!(self.stderr.contains(of), "{of:?} is not in {self:#?}");
        self
    }

    /// Asserts that the result says something.
    #[track_caller]
    pub(crate) fn says(self, what: &str) -> Self {
        // Long lines are broken to fit a terminal.
        let says = self.stdout.contains(what) || unbroken(&self.stdout).contains(&unbroken(what));
        assert!(says, "{what:?} is not in {self:#?}");
        self
    }

    /// The one document on stdout.
    #[track_caller]
    pub(crate) fn document(&self, kind: &str) -> Value {
        let document: Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(document["version"], 1);
        assert_eq!(document["kind"], kind, "{document}");
        document
    }
}

/// A text in one line.
pub(crate) fn unbroken(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The command, run in the directory, to which paths are relative.
    pub(crate) fn command(&self, words: &str) -> Command {
        self.prepared(Command::new(BINARY), words)
    }

    /// As [`Place::command`], deaf to no signal: the tests themselves may run under `nohup`, and
    /// what is ignored is inherited.
    pub(crate) fn hearing(&self, words: &str) -> Command {
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP,INT").arg(BINARY);
        self.prepared(command, words)
    }

    fn prepared(&self, mut command: Command, words: &str) -> Command {
        command
            .args(words.split_whitespace())
            .current_dir(self.directory.path())
            .env("ZONEWEAVE_RUNTIME_DIR", self.path("run"))
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn run(&self, words: &str) -> Ended {
        Ended::of_command(&mut self.command(words))
    }

    /// Begins a command, for [`Ended::of`].
    pub(crate) fn begin(&self, words: &str) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// As [`Place::begin`], deaf to no signal.
    pub(crate) fn begin_hearing(&self, words: &str) -> Child {
        self.hearing(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Six small drives, `d/drive0` to `d/drive5`.
    pub(crate) fn with_drives() -> Self {
        let place = Self::new();
        place.run("emu create d --drives 6 --zones 16 --zone-capacity 256KiB").exits(0);
        place
    }

    /// An array `vol0` of the first four.
    pub(crate) fn with_array() -> Self {
        let place = Self::with_drives();
        place.run(&format!("array create vol0 {MEMBERS} --size max --chunk 4KiB")).exits(0);
        place
    }

    /// An array `vol0` with data, whose server was killed.
    pub(crate) fn with_data() -> Self {
        let place = Self::with_array();
        place.crash(MEMBERS);
        place
    }

    /// Kills the server of an array with data in its open segments. The next start has to write,
    /// and takes missing members out of service. The start of an array without data writes nothing.
    pub(crate) fn crash(&self, drives: &str) {
        let server = self.serve(drives);
        let mut client = server.client();
        client.write(0, &pattern(8, 64 << 10));
        client.flush();
        drop(client);
        server.kill();
        fs::remove_file(self.path("s.sock")).unwrap();
    }

    /// Serves drives at `s.sock`; returns when clients can connect.
    pub(crate) fn serve(&self, drives: &str) -> Server {
        self.start(&format!("serve nbd {drives} --socket unix:s.sock"), "nbdinfo '")
    }

    /// Serves a zoned volume to commands.
    pub(crate) fn serve_zoned(&self, drives: &str) -> Server {
        self.start(&format!("serve zoned {drives}"), "ready")
    }

    /// Serves a file store to commands.
    pub(crate) fn serve_store(&self, words: &str) -> Server {
        self.start(&format!("fs serve {words}"), "ready")
    }

    /// Serves a volume of a configuration file over NBD.
    pub(crate) fn serve_named(&self, words: &str) -> Server {
        self.start(&format!("serve named {words}"), "nbdinfo '")
    }

    /// Starts a server; returns when it has announced something.
    pub(crate) fn start(&self, words: &str, announces: &str) -> Server {
        self.starting(self.command(words)).until(announces)
    }

    /// Starts a server by a command.
    pub(crate) fn starting(&self, mut command: Command) -> Starting {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Starting { child, socket: self.path("s.sock") }
    }

    /// Starts a server; returns when a line of its messages says something.
    pub(crate) fn spawn(&self, words: &str, says: &str) -> Starting {
        let mut starting = self.starting(self.command(words));
        let mut stderr = starting.child.stderr.take().unwrap();
        let (mut said, mut byte) = (Vec::new(), [0]);
        while !String::from_utf8_lossy(&said).contains(says) {
            let read = stderr.read(&mut byte).unwrap();
            assert!(read > 0, "the server ended: {}", String::from_utf8_lossy(&said));
            said.extend(byte);
        }
        starting.child.stderr = Some(stderr);
        starting
    }
}

/// A server that starts.
pub(crate) struct Starting {
    child: Child,
    socket: PathBuf,
}

impl Starting {
    /// Waits until the server has announced something.
    pub(crate) fn until(self, announces: &str) -> Server {
        let Self { mut child, socket } = self;
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut announced = String::new();
        while !announced.contains(announces) {
            let read = stdout.read_line(&mut announced).unwrap();
            if read == 0 {
                let mut stderr = String::new();
                child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
                panic!("the server ended: {announced}{stderr}");
            }
        }
        Server { child, _stdout: stdout, announced, socket }
    }
}

/// The drives of the array.
pub(crate) const MEMBERS: &str = "d/drive0 d/drive1 d/drive2 d/drive3";

/// A running server; it is killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// Kept open, so that the server can print.
    _stdout: BufReader<ChildStdout>,
    pub(crate) announced: String,
    socket: PathBuf,
}

impl Server {
    pub(crate) fn client(&self) -> Nbd {
        Nbd::connect(&self.socket, "vol0")
    }

    /// Sends the server a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Asks the server to stop; returns its stderr.
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        self.ends()
    }

    /// Waits for the end of a server that something else has asked to stop; returns its stderr.
    pub(crate) fn ends(mut self) -> String {
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(self.child.wait().unwrap().success(), "{stderr}");
        stderr
    }

    /// Kills the server as a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The document that a server prints when clients can connect.
pub(crate) fn announced(child: &mut Child) -> Value {
    let mut text = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    while !text.ends_with("\n}\n") {
        assert!(stdout.read_line(&mut text).expect("text") > 0, "{text}");
    }
    serde_json::from_str(&text).expect("a document")
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A mounted file system of this many KiB; `None` without root.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    pub(crate) fn new(place: &Place, name: &str, kib: u32) -> Option<Self> {
        let path = place.path(name);
        std::fs::create_dir(&path).unwrap();
        let size = format!("size={kib}k");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&path).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(path));
        }
        eprintln!("SKIPPED: MOUNTING A SMALL FILE SYSTEM NEEDS ROOT");
        None
    }

    /// Leaves no space.
    pub(crate) fn fill(&self) {
        let mut file = std::fs::File::create(self.0.join("filler")).unwrap();
        let full = std::io::copy(&mut std::io::repeat(1), &mut file).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }

    pub(crate) fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// Data that differs from place to place.
pub(crate) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// Changes a byte of every block of data.
pub(crate) fn rot(drive: &Path) {
    let bytes = fs::read(drive).unwrap();
    let file = fs::OpenOptions::new().write(true).open(drive).unwrap();
    // Zones of superblocks and headers are left alone.
    let first = bytes.len() / 4096 / 4;
    for (at, block) in bytes.chunks(4096).enumerate().skip(first) {
        if block.len() == 4096 && block.iter().filter(|byte| **byte != 0).count() > 3500 {
            file.write_all_at(&[block[100] ^ 0xFF], at as u64 * 4096 + 100).unwrap();
        }
    }
}
