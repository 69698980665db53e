//! `zoneweave fs trace`: the figures and events of a trace.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use zoneweave_filestore::Hints;
use zoneweave_filestore::trace::{
    Class, Ending, Event, GroupKey, GroupSummary, Summary, TimedEvent, TraceError, TraceReader,
};
use zoneweave_sim::file_replay::FileReplayError;
use zoneweave_zoned::BLOCK_BYTES;

use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::format::{bytes, span, table};
use crate::output::{Output, Tone};

/// The trace to look at.
#[derive(Args)]
pub(crate) struct Trace {
    /// Trace of `fs serve --trace FILE`, or of RocksDB on a store with `?trace=FILE`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// List the events, too
    #[arg(long)]
    events: bool,
    /// List at most so many events; required with --json, which holds them in memory
    #[arg(long, value_name = "N", requires = "events")]
    limit: Option<u64>,
}

/// Most events of a document.
const DOCUMENT_EVENTS: u64 = 1_000_000;

#[derive(Serialize)]
struct Shown {
    /// Random: two traces have different ones.
    id: String,
    drive_zones: u32,
    zone_capacity_bytes: u64,
    /// What a file collected before it wrote it.
    buffer_bytes: u64,
    has_reads: bool,
    ending: &'static str,
    trace_bytes: u64,
    seconds: f64,
    appended_bytes: u64,
    /// Of files that were there when recording began.
    existing_bytes: u64,
    read_bytes: u64,
    /// The most files with a name at once.
    files_most: usize,
    /// Events that could not be recorded in time.
    lost_events: u64,
    /// The number of events by their names.
    counts: BTreeMap<&'static str, u64>,
    groups: Vec<Group>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<EventView>>,
}

/// Files of one class, with the same hints at last.
#[derive(Serialize)]
struct Group {
    class: &'static str,
    /// Expected lifetime: 0 not set, 1 none, 2 short, 3 medium, 4 long, 5 extreme.
    lifetime: u8,
    level: Option<u8>,
    files: u64,
    appended_bytes: u64,
    syncs: u64,
    deleted: u64,
    /// Of those that were made and deleted.
    mean_seconds: Option<f64>,
}

impl Group {
    fn of(key: &GroupKey, group: &GroupSummary) -> Self {
        let lived = group.lived_files;
        Self {
            class: key.class.name(),
            lifetime: key.lifetime.number(),
            level: key.level,
            files: group.files,
            appended_bytes: group.appended_bytes,
            syncs: group.syncs,
            deleted: group.deleted,
            mean_seconds: (lived > 0).then(|| group.lived.as_secs_f64() / lived as f64),
        }
    }

    fn row(&self) -> Vec<String> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            self.class.to_owned(),
            self.lifetime.to_string(),
            or_dash(self.level.map(|level| level.to_string())),
            self.files.to_string(),
            bytes(self.appended_bytes),
            self.syncs.to_string(),
            self.deleted.to_string(),
            or_dash(self.mean_seconds.map(|seconds| format!("{seconds:.3} s"))),
        ]
    }
}

/// An event; what its kind does not have is left out.
#[derive(Default, Serialize)]
struct EventView {
    seconds: f64,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Events that are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<u32>,
    /// The file that lost a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<u64>,
}

impl EventView {
    fn of(timed: &TimedEvent) -> Self {
        let TimedEvent { at, event } = timed;
        let mut view = Self {
            seconds: at.as_secs_f64(),
            event: event.name(),
            file: event.file().map(|file| file.0),
            ..Self::default()
        };
        match *event {
            Event::Exists { class, hints, bytes, links, .. } => {
                (view.bytes, view.links) = (Some(bytes), Some(links));
                view = view.with(class).with_hints(hints);
            }
            Event::Create { class, hints, replaces, .. } => {
                view.replaces = replaces.map(|file| file.0);
                view = view.with(class).with_hints(hints);
            }
            Event::Rename { class, replaces, .. } => {
                view.replaces = replaces.map(|file| file.0);
                view = view.with(class);
            }
            Event::Append { bytes, .. }
            | Event::Truncate { bytes, .. }
            | Event::Close { bytes, .. } => view.bytes = Some(bytes),
            Event::Read { offset, bytes, .. } => {
                (view.offset, view.bytes) = (Some(offset), Some(bytes));
            }
            Event::SetHints { hints, .. } => view = view.with_hints(hints),
            Event::Lost { events } => view.events = Some(events),
            _ => {}
        }
        view
    }

    fn with(self, class: Class) -> Self {
        Self { class: Some(class.name()), ..self }
    }

    fn with_hints(self, hints: Hints) -> Self {
        Self { lifetime: Some(hints.lifetime.number()), level: hints.level, ..self }
    }

    fn line(&self) -> String {
        let mut line = format!("{:>14.6}  {:<10}", self.seconds, self.event);
        let mut add = |name: &str, value: Option<String>| {
            line.extend(value.map(|value| format!(" {name} {value}")));
        };
        add("file", self.file.map(|file| file.to_string()));
        add("class", self.class.map(str::to_owned));
        add("offset", self.offset.map(|offset| offset.to_string()));
        add("bytes", self.bytes.map(|bytes| bytes.to_string()));
        add("events", self.events.map(|events| events.to_string()));
        add("lifetime", self.lifetime.map(|lifetime| lifetime.to_string()));
        add("level", self.level.map(|level| level.to_string()));
        add("links", self.links.map(|links| links.to_string()));
        add("replaces", self.replaces.map(|file| file.to_string()));
        line
    }
}

/// Opens a trace.
///
/// # Errors
/// If there is none in the file.
pub(super) fn open(path: &Path) -> Result<TraceReader<BufReader<File>>, TraceError> {
    TraceReader::open(BufReader::with_capacity(1 << 18, File::open(path)?))
}

/// The error of a trace in a file.
pub(super) fn failed(path: &Path, error: FileReplayError) -> CliError {
    let path = path.to_owned();
    match error {
        FileReplayError::Trace(TraceError::Io(error)) => {
            CliError::File { path, action: "read", error }
        }
        error => CliError::FileTrace { path, error },
    }
}

pub(super) fn run(request: &Trace, output: &Output) -> Result<Exit, CliError> {
    let failed = |error: TraceError| failed(&request.file, error.into());
    if request.events && output.json() && request.limit.is_none_or(|limit| limit > DOCUMENT_EVENTS)
    {
        let problem = format!("with --json, list at most {DOCUMENT_EVENTS} events");
        return Err(usage("limit")(problem));
    }
    let mut trace = open(&request.file).map_err(failed)?;
    let mut summary = Summary::default();
    let mut listed = Vec::new();
    let mut left = if request.events { request.limit.unwrap_or(u64::MAX) } else { 0 };
    while let Some(timed) = trace.read_event().map_err(failed)? {
        summary.add(&timed);
        if left == 0 {
            continue;
        }
        left -= 1;
        let view = EventView::of(&timed);
        match output.json() {
            true => listed.push(view),
            false => output.line(view.line()),
        }
    }
    summary.finish();
    let header = trace.header();
    let shown = Shown {
        id: header.id.iter().map(|byte| format!("{byte:02x}")).collect(),
        drive_zones: header.zones,
        zone_capacity_bytes: u64::from(header.zone_capacity.0) * BLOCK_BYTES as u64,
        buffer_bytes: u64::from(header.buffer.0) * BLOCK_BYTES as u64,
        has_reads: header.has_reads,
        ending: match trace.ending() {
            Some(Ending::Closed) => "closed",
            Some(Ending::Torn) => "torn",
            Some(Ending::Open) | None => "open",
        },
        trace_bytes: trace.bytes(),
        seconds: summary.span.as_secs_f64(),
        appended_bytes: summary.appended_bytes,
        existing_bytes: summary.existing_bytes,
        read_bytes: summary.read_bytes,
        files_most: summary.files_most,
        lost_events: summary.lost_events,
        groups: summary.groups.iter().map(|(key, group)| Group::of(key, group)).collect(),
        counts: summary.events,
        events: request.events.then_some(listed),
    };
    output.result("fs-trace", &shown, |output| tell(&shown, summary.span.0, output));
    Ok(Exit::Done)
}

fn tell(shown: &Shown, span_ns: u64, output: &Output) {
    let (zones, capacity) = (shown.drive_zones, bytes(shown.zone_capacity_bytes));
    output.line(format_args!(
        "trace of {} in {}, of a store on {zones} zones of {capacity}",
        span(span_ns),
        bytes(shown.trace_bytes)
    ));
    let ending = match shown.ending {
        "closed" => "it ends with its store",
        "torn" => "it ends in the middle of a write, as that of a killed process",
        _ => "it ends before its store: the process was killed, or could not go on recording",
    };
    output.line(ending);
    if shown.lost_events > 0 {
        let warning = format!("{} events are missing: record it again", shown.lost_events);
        output.line(output.paint(Tone::Warning, &warning));
    }
    let counts = shown.counts.iter().map(|(name, count)| format!("{count} {name}"));
    output.line(format_args!("events: {}", counts.collect::<Vec<_>>().join(", ")));
    output.line(format_args!(
        "{} appended, {} there before; at most {} files at once",
        bytes(shown.appended_bytes),
        bytes(shown.existing_bytes),
        shown.files_most
    ));
    if shown.has_reads {
        output.line(format_args!("{} read", bytes(shown.read_bytes)));
    }
    let headings =
        ["CLASS", ">LIFETIME", ">LEVEL", ">FILES", ">APPENDED", ">SYNCS", ">DELETED", ">LIVED"];
    let rows: Vec<_> = shown.groups.iter().map(Group::row).collect();
    for (number, text) in table(&headings, &rows).iter().enumerate() {
        output.line(if number == 0 { output.paint(Tone::Faint, text) } else { text.clone() });
    }
}
