//! The program of an operator that is run for each event.
//!
//! A thread of its own runs the program, for one event at a time and in order, so that neither I/O
//! nor the control socket waits for it. The queue is bounded: a program that is too slow misses the
//! events in between, and is told with the next one how many.
//!
//! Fault model: the program may hang, fail, write much, or leave children behind. Its process group
//! is killed when it ends, or after a minute. It inherits neither the blocked signals nor the
//! descriptors of the server; its output goes to the server's standard error. A failure is a
//! message of the server.

use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use zoneweave_linux::FreshChild;

use super::Event;
use crate::error::CliError;
use crate::output::Output;
use crate::output::queue::Queue;

/// Events that may wait for the program.
const WAITING: usize = 64;

/// The time that the program has for an event.
const TIME: Duration = Duration::from_secs(60);

/// The time that a server that stops gives the program for all that waits.
const LAST_TIME: Duration = Duration::from_secs(5);

/// How often a program is looked at.
const LOOKING: Duration = Duration::from_millis(10);

/// A program that is run for events.
pub(crate) struct Hook {
    queue: Queue<Event>,
    output: Output,
}

impl Hook {
    /// Failures of the program are messages of `output`.
    ///
    /// # Errors
    /// If there is no such program, or no thread for it.
    pub(crate) fn new(program: &Path, output: &Output) -> Result<Self, CliError> {
        let (program, failures) = (find(program)?, output.clone());
        let queue = Queue::start("events", WAITING, move |event, missed| {
            if let Err(reason) = run(&program, &event, missed, TIME) {
                let program = program.display();
                failures.log_line(format_args!("{program} failed for an event: {reason}"));
            }
        });
        let queue = queue
            .map_err(|error| CliError::System { action: "start a thread for events", error })?;
        Ok(Self { queue, output: output.clone() })
    }

    /// Queues an event for the program, which misses it if too many wait.
    pub(crate) fn tell(&self, event: &Event) {
        self.queue.put(event.clone());
    }
}

impl Drop for Hook {
    /// Lets the program hear what waits, for [`LAST_TIME`] at most.
    fn drop(&mut self) {
        if !self.queue.end(LAST_TIME) {
            self.output.log_line("the program for events still runs; not waiting for it");
        }
    }
}

/// The file of a program; a name without a slash is looked for in PATH, as a shell does.
///
/// # Errors
/// If there is no such file, or this user may not run it: the first event would be lost.
fn find(program: &Path) -> Result<PathBuf, CliError> {
    let failed = |error| CliError::EventProgram { path: program.to_owned(), error };
    let is_name = program.components().count() == 1 && !program.is_file();
    let found = match is_name {
        true => std::env::var_os("PATH")
            .iter()
            .flat_map(std::env::split_paths)
            .map(|folder| folder.join(program))
            .find(|path| check_runs(path).is_ok())
            .ok_or_else(|| ErrorKind::NotFound.into()),
        false => program.canonicalize().and_then(|path| check_runs(&path).map(|()| path)),
    };
    found.map_err(failed)
}

/// # Errors
/// If the path is no file that this user may run.
fn check_runs(path: &Path) -> io::Result<()> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    Ok(rustix::fs::access(path, rustix::fs::Access::EXEC_OK)?)
}

/// Runs the program for an event, before which it has missed others; the error says why it failed.
fn run(program: &Path, event: &Event, missed: u64, time: Duration) -> Result<(), String> {
    let mut variables = vec![
        ("ZONEWEAVE_EVENT", event.what.word().into()),
        ("ZONEWEAVE_LEVEL", event.level.word().into()),
        ("ZONEWEAVE_ARRAY", event.array.clone().into()),
        ("ZONEWEAVE_TEXT", event.text.clone().into()),
        ("ZONEWEAVE_TIME", crate::format::time(event.time_ns).into()),
        ("ZONEWEAVE_MISSED", missed.to_string().into()),
    ];
    let place = event.what.place();
    variables.extend(place.as_ref().map(|it| ("ZONEWEAVE_SLOT", it.slot.to_string().into())));
    let drive = place.and_then(|place| place.drive);
    variables.extend(drive.map(|drive| ("ZONEWEAVE_DRIVE", drive.into())));
    let child = FreshChild::spawn(program.as_os_str(), &variables);
    let mut child = child.map_err(|error| error.to_string())?;
    // An event fits the buffer of a pipe. A program may end without reading it.
    if let Some(mut input) = child.take_input() {
        let _ = serde_json::to_writer(&mut input, event);
    }
    let status = wait(child, time).map_err(|error| error.to_string())?;
    match status {
        None => Err(format!("it was killed, as it ran for {} s", time.as_secs())),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        }),
    }
}

/// The end of a process; `None` if it was killed after `time`.
fn wait(child: FreshChild, time: Duration) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + time;
    let leader = child.pid();
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let has_ended = waitid(WaitId::Pid(leader), options)?.is_some();
        if has_ended || Instant::now() >= end {
            // What it left behind, too. Its number is not given away before it is waited for.
            let _ = kill_process_group(leader, Signal::KILL);
            let status = child.wait()?;
            return Ok(has_ended.then_some(status));
        }
        thread::sleep(LOOKING);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::log::EventLog;
    use super::super::{Place, What};
    use super::*;

    /// A shell script in a folder.
    fn script(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("program");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn quiet() -> Output {
        Output::for_programs()
    }

    fn event(what: What) -> Event {
        let log = EventLog::new("vol0");
        log.note(what);
        log.news().remove(0)
    }

    #[test]
    fn a_program_gets_events_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let written = folder.path().join("written");
        let text = format!(
            "echo $ZONEWEAVE_EVENT $ZONEWEAVE_LEVEL $ZONEWEAVE_ARRAY $ZONEWEAVE_SLOT \
             $ZONEWEAVE_DRIVE >> {0}; cat >> {0}; echo >> {0}",
            written.display()
        );
        let hook = Hook::new(&script(folder.path(), &text), &quiet()).unwrap();
        let lost = What::Lost { place: Place::new(2, "d/drive2"), bytes: 4096 };
        hook.tell(&event(lost));
        hook.tell(&event(What::ReclaimEased));
        drop(hook);
        let written = fs::read_to_string(written).unwrap();
        let lines: Vec<_> = written.lines().collect();
        assert_eq!(lines.len(), 4, "{written}");
        assert_eq!(lines[0], "lost critical vol0 2 d/drive2");
        let document: Event = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(document.what, What::Lost { place: Place::new(2, "d/drive2"), bytes: 4096 });
        assert_eq!(lines[2], "reclaim-eased notice vol0");
    }

    /// A mail server that hangs must not fill the memory.
    #[test]
    fn a_program_that_hangs_is_killed_with_its_children_and_misses_events() {
        let folder = tempfile::tempdir().unwrap();
        let hang = folder.path().join("hang");
        fs::write(&hang, "").unwrap();
        let text = "hang() { while [ -e HANG ]; do sleep 0.01; done; }\nhang & hang";
        let text = text.replace("HANG", &hang.display().to_string());
        let hangs = script(folder.path(), &text);
        let stopping = event(What::Stopping);
        let killed = run(&hangs, &stopping, 0, Duration::from_millis(50)).unwrap_err();
        assert!(killed.contains("killed"), "{killed}");
        let hook = Hook::new(&hangs, &quiet()).unwrap();
        for _ in 0..WAITING + 10 {
            hook.tell(&event(What::Stopping));
        }
        // The thread may have taken one.
        assert!(hook.queue.dropped() >= 9);
        fs::remove_file(hang).unwrap();
    }

    #[test]
    fn failures_say_why() {
        let folder = tempfile::tempdir().unwrap();
        let fails = script(folder.path(), "exit 3");
        assert_eq!(run(&fails, &event(What::Stopping), 0, TIME).unwrap_err(), "exit code 3");
        let gone = folder.path().join("gone");
        let refused = Hook::new(&gone, &quiet()).err().unwrap().to_string();
        assert!(refused.contains("--on-event"), "{refused}");
    }
}
