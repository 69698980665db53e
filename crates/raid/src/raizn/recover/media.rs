//! What a start has read of its members.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_zoned::{Status, ZoneInfo};

use crate::array::probe::Probe;
use crate::raizn::format::body::{Mount, ZonedBody};
use crate::raizn::format::log_record::LogHeader;
use crate::raizn::stripe::Block;

/// A record of a parity log.
pub(crate) struct LogRecord {
    pub(crate) header: LogHeader,
    pub(crate) blocks: Vec<Block>,
}

/// What a parity log holds of the published mount.
#[derive(Default)]
pub(crate) struct LogScan {
    pub(crate) records: Vec<LogRecord>,
    /// Zones with such records, by index, or with blocks that were not read and may be some.
    pub(crate) used: BTreeSet<usize>,
    /// Zones with any block, by index.
    pub(crate) written: BTreeSet<usize>,
    /// Why blocks were not read, of which the drive has said nothing: a later start may find them.
    pub(crate) unread: Option<Status>,
    /// Whether the drive says that it has lost blocks. They may have been such records.
    pub(crate) is_damaged: bool,
}

/// What a start reads of all members at once, by slot.
pub(crate) struct Media {
    /// The zones of each member.
    pub(crate) reports: Vec<Option<Vec<ZoneInfo>>>,
    /// Their parity logs.
    pub(crate) logs: Vec<LogScan>,
}

/// What a start has not made durable yet.
pub(crate) struct Unpublished {
    /// Its number.
    pub(crate) mount: Mount,
    /// What its members repeat before its evictions are recorded.
    pub(crate) probe: Option<Rc<Probe<ZonedBody>>>,
    /// What the parity logs hold, without the records.
    pub(crate) logs: Rc<Vec<LogScan>>,
    /// Whether the task that publishes it has begun.
    pub(crate) begun: bool,
}
