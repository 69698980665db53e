//! Samples of a run, each with its conditions.

use serde::{Deserialize, Serialize};

use crate::workload::Figures;

/// A part of the programme; its samples make one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Table {
    /// One request in flight, by size and operation.
    RequestSize,
    /// One request in flight, by LBA format.
    Format,
    /// One request in flight, by host software.
    Stack,
    /// One zone, by queue depth.
    IntraZone,
    /// One request in flight in each zone, by number of zones.
    InterZone,
    /// Appends by zones and queue depth.
    AppendGrid,
    /// Writes and appends by request size and concurrency.
    Bandwidth,
    /// Costs of opening and closing, explicitly and implicitly.
    OpenClose,
    /// Resets by zone occupancy, finished before or not.
    Reset,
    /// Finishes by zone occupancy.
    Finish,
    /// Resets and finishes during I/O, and I/O during them.
    Interference,
    /// Reads during rate-limited writes.
    ReadUnderWrite,
    /// Reads during writes that saturate the drive, zoned and conventional.
    Saturation,
}

impl Table {
    /// All, in the order in which they are measured.
    pub const ALL: &'static [Self] = &[
        Self::RequestSize,
        Self::Format,
        Self::Stack,
        Self::IntraZone,
        Self::InterZone,
        Self::AppendGrid,
        Self::Bandwidth,
        Self::OpenClose,
        Self::Reset,
        Self::Finish,
        Self::Interference,
        Self::ReadUnderWrite,
        Self::Saturation,
    ];

    /// The name in files and columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestSize => "request-size",
            Self::Format => "format",
            Self::Stack => "stack",
            Self::IntraZone => "intra-zone",
            Self::InterZone => "inter-zone",
            Self::AppendGrid => "append-grid",
            Self::Bandwidth => "bandwidth",
            Self::OpenClose => "open-close",
            Self::Reset => "reset",
            Self::Finish => "finish",
            Self::Interference => "interference",
            Self::ReadUnderWrite => "read-under-write",
            Self::Saturation => "saturation",
        }
    }

    /// The title for reports.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::RequestSize => "request sizes, one in flight",
            Self::Format => "LBA formats",
            Self::Stack => "host software",
            Self::IntraZone => "queue depths in one zone",
            Self::InterZone => "numbers of zones, one request in each",
            Self::AppendGrid => "appends by zones and depth",
            Self::Bandwidth => "bandwidth by size and concurrency",
            Self::OpenClose => "opening and closing zones",
            Self::Reset => "resets by occupancy",
            Self::Finish => "finishes by occupancy",
            Self::Interference => "zone management beside I/O",
            Self::ReadUnderWrite => "reads beside writes at a rate",
            Self::Saturation => "reads beside saturating writes",
        }
    }
}

/// The measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Random reads.
    RandomRead,
    /// Sequential reads.
    SequentialRead,
    /// Writes at the write pointer.
    Write,
    /// Appends.
    Append,
    /// Random writes (block devices).
    RandomWrite,
    /// Explicit opens.
    Open,
    /// Closes.
    Close,
    /// Writes that open an empty zone.
    FirstWrite,
    /// Appends that open an empty zone.
    FirstAppend,
    /// Writes to a closed zone.
    WriteToClosed,
    /// Resets.
    Reset,
    /// Finishes.
    Finish,
}

impl Action {
    /// The name in files and columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RandomRead => "random-read",
            Self::SequentialRead => "sequential-read",
            Self::Write => "write",
            Self::Append => "append",
            Self::RandomWrite => "random-write",
            Self::Open => "open",
            Self::Close => "close",
            Self::FirstWrite => "first-write",
            Self::FirstAppend => "first-append",
            Self::WriteToClosed => "write-to-closed",
            Self::Reset => "reset",
            Self::Finish => "finish",
        }
    }
}

/// The host software a sample was taken through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// The shortest way to the drive (the paper: SPDK).
    Direct,
    /// The kernel without a scheduler (the paper: `io_uring`).
    Kernel,
    /// The kernel with a scheduler that merges writes (the paper: mq-deadline).
    Scheduler,
}

impl Stack {
    /// The name in files and columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Kernel => "kernel",
            Self::Scheduler => "scheduler",
        }
    }
}

/// The measured drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subsystem {
    /// The zoned drive.
    Zoned,
    /// The conventional twin.
    Conventional,
}

impl Subsystem {
    /// The name in files and columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zoned => "zoned",
            Self::Conventional => "conventional",
        }
    }
}

/// A concurrent operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The operation.
    pub action: Action,
    /// Its rate limit in MiB/s, if any.
    pub asked_mib_per_second: Option<f64>,
    /// Its measured rate in MiB/s, if it moves data.
    pub mib_per_second: Option<f64>,
}

/// A measurement and its conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The table it belongs to.
    pub table: Table,
    /// The drive.
    pub drive: Subsystem,
    /// The measured operation.
    pub action: Action,
    /// The host software.
    pub stack: Stack,
    /// The drive's LBA format.
    pub format_bytes: u32,
    /// Size of a request; zero for zone management.
    pub request_bytes: u64,
    /// Zones in use at once.
    pub zones: u32,
    /// Requests in flight in each zone.
    pub queue_depth: u32,
    /// Part of the zone's capacity that was written, for zone management.
    pub occupancy_percent: Option<f64>,
    /// Whether the zone was finished before, for resets.
    pub finished: Option<bool>,
    /// Whether the zone was opened explicitly.
    pub explicit: Option<bool>,
    /// The concurrent operation, if any.
    pub beside: Option<Beside>,
    /// Commands sent to the drive for each request.
    pub commands_per_request: f64,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

impl Sample {
    /// A sample of the zoned drive in its own format: one zone, one request in flight, directly.
    #[must_use]
    pub fn new(table: Table, action: Action, figures: Figures) -> Self {
        Self {
            table,
            drive: Subsystem::Zoned,
            action,
            stack: Stack::Direct,
            format_bytes: 4096,
            request_bytes: 0,
            zones: 1,
            queue_depth: 1,
            occupancy_percent: None,
            finished: None,
            explicit: None,
            beside: None,
            commands_per_request: 1.0,
            figures,
        }
    }

    /// Requests in flight over all zones.
    #[must_use]
    pub fn concurrency(&self) -> u32 {
        self.zones * self.queue_depth
    }
}

/// Throughput by second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The drive.
    pub drive: Subsystem,
    /// The measured operation.
    pub action: Action,
    /// Concurrent reads in flight.
    pub read_depth: u32,
    /// Whole seconds only.
    pub mib_per_second: Vec<f64>,
}

impl Series {
    /// The mean, and the standard deviation as a part of the mean; `None` without two seconds or
    /// without throughput.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
    pub fn variation(&self) -> Option<(f64, f64)> {
        let count = self.mib_per_second.len();
        if count < 2 {
            return None;
        }
        let mean = self.mib_per_second.iter().sum::<f64>() / count as f64;
        let square = |value: &f64| (value - mean) * (value - mean);
        let variance = self.mib_per_second.iter().map(square).sum::<f64>() / count as f64;
        (mean > 0.0).then(|| (mean, variance.sqrt() / mean))
    }
}

/// All measurements of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// In the order in which they were taken.
    pub samples: Vec<Sample>,
    /// Throughput by second of saturating loads.
    pub series: Vec<Series>,
    /// The drive's limit of open zones.
    pub max_open: Option<u32>,
}

impl Results {
    /// The samples of a table and action.
    pub fn of(&self, table: Table, action: Action) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.table == table && sample.action == action)
    }

    /// The series of a drive.
    #[must_use]
    pub fn series(&self, drive: Subsystem, action: Action, read_depth: u32) -> Option<&Series> {
        self.series.iter().find(|series| {
            series.drive == drive && series.action == action && series.read_depth == read_depth
        })
    }
}
