//! The events of a server: one type, one log, one form for people and for programs.
//!
//! Services note what they do, and [`changes`] derives the rest from one status of the array to the
//! next. Each event gets a number and a time in the [`log`], and leaves the server by three ways:
//! standard error or syslog ([`syslog`]), a program of the operator ([`hook`]), and requests to the
//! control socket (`zoneweave events`).
//!
//! Invariant: no event waits for its receiver, and none holds up I/O. Everything is bounded: the
//! log drops its oldest events, and says how many; a program that is too slow misses events, and is
//! told how many.

pub(crate) mod changes;
mod describe;
pub(crate) mod hook;
pub(crate) mod log;
mod syslog;

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use zoneweave_raid::log::MemberHealth;

use crate::error::{CliError, usage};
use crate::job::{Job, JobKind, JobPhase};
use crate::output::Output;
use crate::status::Health;
use hook::Hook;

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Counts the events of a server from 1.
    pub number: u64,
    /// Nanoseconds since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Name of the array.
    pub array: String,
    pub level: Level,
    #[serde(flatten)]
    pub what: What,
    /// The event in words.
    pub text: String,
}

/// How much an event matters; worse is greater. The levels of syslog, without its extremes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// The server works as it should.
    Info,
    /// Something changed that an operator caused or waits for.
    Notice,
    /// Redundancy or speed is less for a while, and nothing needs to be done.
    Warning,
    /// Somebody has to do something.
    Error,
    /// Data is lost, or writes have stopped.
    Critical,
}

impl Level {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// What happened. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub(crate) enum What {
    /// Clients can connect.
    Started { exports: Vec<String> },
    /// The server ends in order.
    Stopping,
    /// The health of the array changed.
    Health { from: Health, to: Health, why: Option<String>, action: Option<String> },
    /// A member changed its state.
    Member { place: Place, state: MemberHealth, reason: Option<String> },
    /// Commands to a drive failed: so many since they were cleared.
    DriveErrors { place: Place, reads: u64, writes: u64 },
    /// A drive lacked blocks of so many segments when the server started.
    DriveStale { place: Place, segments: u32 },
    /// The header of an emulated drive's file was overwritten: it does not open again.
    DriveHeader { place: Place },
    /// Blocks of a drive were damaged, and restored from the others: so much since then.
    Repaired { place: Place, bytes: u64 },
    /// Blocks of a drive were damaged, and are on no other: so much since then.
    Lost { place: Place, bytes: u64 },
    /// Blocks of the volume cannot be read until a drive is back: so much so far.
    Awaited { bytes: u64, slots: Vec<u8> },
    /// An operator has cleared errors and lost ranges.
    FaultsCleared,
    /// A job waits or runs.
    JobBegan { job: JobKind, place: Option<Place>, detail: String },
    /// A quarter of a job is done.
    JobProgress { job: JobKind, progress: Job },
    /// A job has ended.
    JobEnded { job: JobKind, place: Option<Place>, phase: JobPhase, detail: String },
    /// A drive was closed, to be put back.
    DriveOffline { place: Place },
    /// An operator has added a hot spare.
    SpareAdded { drive: String },
    /// An operator has taken a hot spare back.
    SpareRemoved { drive: String },
    /// A hot spare replaces a member.
    SpareTaken { slot: u8, drive: String },
    /// A hot spare is of no use.
    SpareUnusable { drive: String, reason: String },
    /// Users have written so much of the volume; told at each step upwards.
    Filled { percent: u8 },
    /// Relocation writes this many blocks for each block of users, during the last minute.
    ReclaimPressure { moved_per_user_block: f64 },
    /// Relocation is back to less.
    ReclaimEased,
}

/// A slot with the drive in it, if that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub slot: u8,
    pub drive: Option<String>,
}

impl Place {
    /// `drive` may be empty.
    pub(crate) fn new(slot: usize, drive: impl Display) -> Self {
        let slot = u8::try_from(slot).expect("an array has at most 32 slots");
        let drive = drive.to_string();
        Self { slot, drive: Some(drive).filter(|drive| !drive.is_empty()) }
    }
}

impl What {
    /// The begin of the job of a slot.
    pub(crate) fn began(job: JobKind, place: Place, detail: impl Into<String>) -> Self {
        Self::JobBegan { job, place: Some(place), detail: detail.into() }
    }

    /// The end of the job of a slot; `words` tell success and failure.
    pub(crate) fn ended(
        job: JobKind,
        place: Place,
        result: &Result<(), impl Display>,
        words: (&str, &str),
    ) -> Self {
        let (phase, detail) = match result {
            Ok(()) => (JobPhase::Done, words.0.to_owned()),
            Err(error) => (JobPhase::Failed, format!("{}: {error}", words.1)),
        };
        Self::JobEnded { job, place: Some(place), phase, detail }
    }
}

/// Where a server reports its events, beside its control socket.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct EventOptions {
    /// Run this program for each event from level notice upwards: it gets the event in ZONEWEAVE_
    /// variables of its environment, and as JSON on its standard input
    #[arg(long, value_name = "PROGRAM", help_heading = "Events")]
    pub on_event: Option<PathBuf>,
    /// Write events to syslog, not to standard error
    #[arg(long, help_heading = "Events")]
    pub syslog: bool,
}

/// The receivers of the events of a process, whose arrays may be in several threads.
#[derive(Clone, Default)]
pub(crate) struct Receivers {
    /// Whether standard error goes to the journal of systemd.
    journal: bool,
    hook: Option<Arc<Hook>>,
    syslog: Option<Arc<syslog::Syslog>>,
}

impl EventOptions {
    /// Starts the program's thread, and connects to syslog.
    ///
    /// # Errors
    /// If the program cannot be run, or syslog cannot be reached.
    pub(crate) fn open(&self, output: &Output) -> Result<Receivers, CliError> {
        let hook = self.on_event.as_deref().map(|program| Hook::new(program, output));
        let hook = hook.transpose()?.map(Arc::new);
        let syslog = self.syslog.then(syslog::Syslog::connect).transpose()?.map(Arc::new);
        Ok(Receivers { journal: syslog::is_journal(), hook, syslog })
    }
}

impl EventOptions {
    /// # Errors
    /// If there are any: only arrays have events.
    pub(crate) fn refuse_without_array(&self) -> Result<(), CliError> {
        let options = [("on-event", self.on_event.is_some()), ("syslog", self.syslog)];
        match options.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => {
                let problem = "is for arrays, and this drive belongs to none: leave it out";
                Err(usage(option)(problem.to_owned()))
            }
        }
    }
}

impl Receivers {
    /// Passes an event on.
    pub(crate) fn receive(&self, event: &Event, output: &Output) {
        match &self.syslog {
            Some(syslog) => syslog.send(event),
            None if self.journal || event.level > Level::Info || output.verbose() => {
                output.log_line(syslog::line(event, self.journal));
            }
            None => {}
        }
        if let Some(hook) = self.hook.as_ref().filter(|_| event.level >= Level::Notice) {
            hook.tell(event);
        }
    }
}
