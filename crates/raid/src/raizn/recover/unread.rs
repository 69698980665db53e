//! Reads that a start cannot do without, and that a drive failed without a word about the blocks.

use thiserror::Error;
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::Status;

use crate::instrument::marks::{Mark, mark};
use crate::scheme::Column;

/// Time for which a read is repeated, and the total of the pauses before these reads: as long as a
/// drive may be without a path before it is lost.
const PATIENCE: Nanos = Nanos::from_secs(20);

/// The first wait and the longest; each is twice the one before.
const WAIT_FIRST: Nanos = Nanos::from_millis(50);
const WAIT_MOST: Nanos = Nanos::from_secs(2);

/// What was not read of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadPart {
    /// Blocks of its parity log.
    ParityLog,
    /// Blocks at the end of a zone of the volume.
    Zone(u32),
}

/// A read whose blocks may show that a zone goes on, or may have been moved to the parity log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{} of slot {slot} was not read ({status}), and a start without it could lose data: start the \
     volume again once the drive answers; --force gives up what is not read, for good",
    match part {
        UnreadPart::ParityLog => "the parity log".to_owned(),
        UnreadPart::Zone(zone) => format!("the end of zone {zone}"),
    }
)]
pub struct Unread {
    /// What was not read.
    pub part: UnreadPart,
    /// The slot of the drive.
    pub slot: Column,
    /// How it failed the read.
    pub status: Status,
}

/// A zone that a start by force may have cut short, or left without some of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The zone.
    pub zone: u32,
    /// What was not read.
    pub unread: Unread,
}

/// The time that is left to drives that give no answer. It runs from the first read that failed: a
/// start of many zones takes minutes, and the last of them is not cut short for a moment's failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// The end of the reads of one part.
    until: Option<Nanos>,
    /// The next pause.
    pause: Nanos,
    /// The time left for pauses of all parts.
    left: Nanos,
}

impl Default for Patience {
    fn default() -> Self {
        Self { until: None, pause: WAIT_FIRST, left: PATIENCE }
    }
}

impl Patience {
    /// For reads of another part.
    pub(crate) fn of_next_part(&mut self) {
        *self = Self { left: self.left, ..Self::default() };
    }

    /// Waits before a read is repeated; `false` once there is no time left.
    pub(crate) async fn wait(&mut self, handle: &Handle) -> bool {
        let now = handle.now();
        let until = *self.until.get_or_insert(now + PATIENCE);
        let is_left = now < until && self.left > Nanos(0);
        if is_left {
            mark(Mark::ZonedStartRepeated);
            let pause = self.pause.min(self.left);
            self.left = Nanos(self.left.0 - pause.0);
            self.pause = Nanos(pause.0 * 2).min(WAIT_MOST);
            handle.sleep(pause).await;
        }
        is_left
    }
}

/// How a start treats reads without an answer.
pub(crate) struct Gaps {
    /// Whether the user gives up places that are not read.
    force: bool,
    pub(crate) patience: Patience,
    pub(crate) given_up: Vec<GivenUp>,
}

impl Gaps {
    pub(crate) fn begin(force: bool) -> Self {
        Self { force, patience: Patience::default(), given_up: Vec::new() }
    }

    /// Gives up what a zone may go on with.
    ///
    /// # Errors
    /// What was not read, unless the start is by force.
    pub(crate) fn give_up(&mut self, zone: u32, unread: Unread) -> Result<(), Unread> {
        if !self.force {
            return Err(unread);
        }
        self.given_up.push(GivenUp { zone, unread });
        Ok(())
    }
}
