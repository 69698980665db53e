//! A scenario: everything that happens in one history, in full.
//!
//! Running a scenario draws random numbers only from the seeds stored in it, so it can be replayed,
//! reduced and kept as a file. It lists attempts: a fault that would violate the contract with the
//! volume is skipped, unless the scenario is one `beyond` the contract. An example is a second
//! damaged drive where the redundancy covers one. So any part of a scenario is a scenario.
//!
//! The types: this file has the array, lives and actions, `fault` the faults, `foreign` and `spare`
//! drives outside the array, `writing` the write mode, `zoned` what a zoned volume has. `trace`
//! reads and writes files, and `vary` moves the crashes of a history.
//!
//! Invariant: a file of an older release has the same meaning for ever. New fields have a default
//! and are not written if they have it.

mod fault;
mod foreign;
mod spare;
mod trace;
mod vary;
mod writing;
mod zoned;

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use zoneweave_raid::scheme::{Arrangement, Scheme};

pub use fault::{Class, Command, Fault, On, Part};
pub use foreign::{Impostor, SplitBrain};
pub use spare::Spare;
pub use trace::TraceError;
pub use vary::vary;
pub use writing::{Mode, Writing};
pub use zoned::{ZoneVerb, ZonedShape};

/// The format of scenario files.
pub const FORMAT: u32 = 1;

/// One history: an array, and one life of its engine after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// [`FORMAT`].
    pub format: u32,
    /// The seed that it was drawn from.
    pub seed: u64,
    /// The reason to keep it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub story: String,
    /// The array.
    pub shape: Shape,
    /// Attempts to make the array that are cut short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted_formats: Vec<Stop>,
    /// Attempts to make the array in which a drive vanishes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken_formats: Vec<BrokenFormat>,
    /// The lives of the engine, each ended by a crash or by itself.
    pub lives: Vec<Life>,
}

/// An attempt to make the array in which a drive vanishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokenFormat {
    /// Its slot.
    pub slot: usize,
    /// After so many steps.
    pub steps: u64,
}

/// The drives and the array on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Data chunks of a stripe.
    pub data: usize,
    /// Parity chunks of a stripe.
    pub parity: usize,
    /// Placement of the chunks.
    #[serde(default, skip_serializing_if = "is_rotated")]
    pub layout: Layout,
    /// Zones of a drive.
    pub zones: u32,
    /// Blocks of a zone.
    pub zone_blocks: u32,
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Whether drives have no metadata, so that it is among their blocks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inline: bool,
    /// Rows of a group.
    pub group_rows: u32,
    /// Whether chunks are appended (Zone Append) or written in place (Zone Write).
    pub tabled: bool,
    /// Whether drives have a volatile cache.
    pub volatile: bool,
    /// Whether writes are acknowledged only when durable; derived from the drives' caches if
    /// `None`.
    pub writethrough: Option<bool>,
    /// Zones that a drive can have open or closed at a time.
    pub active_zones: u32,
    /// Maximum latency of a command without delays, in microseconds.
    pub latency_us: u64,
    /// Seed of identities and latencies.
    pub seed: u64,
    /// Zones by which the volume is smaller than possible: so many may fail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spare_zones: u32,
    /// Entries of a page of the index; the capacity of a block if `None`. Otherwise the volume
    /// leaves room for blocks of all pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_entries: Option<NonZeroU32>,
    /// Whether faults may exceed the redundancy. Then any request may fail, but reads never return
    /// data that was not written.
    #[serde(default)]
    pub beyond: bool,
    /// The volume is a zoned one, not a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zoned: Option<ZonedShape>,
}

/// Placement of a stripe's chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Every stripe starts one column further than the one before.
    #[default]
    Rotated,
    /// Parity is always on the last columns.
    Fixed,
    /// As rotated, with a copy of each data chunk for parity.
    Mirrored,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 3] = [Self::Rotated, Self::Fixed, Self::Mirrored];

    /// The name, also in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotated => "rotated",
            Self::Fixed => "fixed",
            Self::Mirrored => "mirrored",
        }
    }

    /// Possible numbers of parity chunks.
    pub(super) fn parity_range(self, data: u64) -> (u64, u64) {
        let most = 32_u64.saturating_sub(data);
        match self {
            Self::Rotated => (0, most),
            Self::Fixed => (1, most),
            Self::Mirrored => (data.max(2), data),
        }
    }

    fn arrangement(self) -> Arrangement {
        match self {
            Self::Rotated => Arrangement::Rotated,
            Self::Fixed => Arrangement::Fixed,
            Self::Mirrored => Arrangement::Mirrored,
        }
    }
}

/// A default is not written, as in older scenarios.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The same.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_rotated(layout: &Layout) -> bool {
    *layout == Layout::Rotated
}

impl Shape {
    /// The array's scheme, if the shape is possible.
    #[must_use]
    pub fn scheme(&self) -> Option<Scheme> {
        Scheme::arranged(self.layout.arrangement(), self.data, self.parity).ok()
    }

    /// Drives of the array.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.data + self.parity
    }

    /// How many drives may be damaged or away without any failure: at most the parity, and less
    /// than half of the drives, since the others could be in use elsewhere. For mirrors it depends
    /// on the drives, see [`Self::survives`].
    #[must_use]
    pub fn spared(&self) -> usize {
        self.parity.min((self.columns() - 1) / 2)
    }

    /// Whether the remaining drives have all data. Twins of mirrors are half of all drives apart.
    #[must_use]
    pub fn survives(&self, lost: &BTreeSet<usize>) -> bool {
        match self.layout {
            Layout::Rotated | Layout::Fixed => lost.len() <= self.parity,
            Layout::Mirrored => {
                !lost.iter().any(|slot| lost.contains(&slot.saturating_add(self.data)))
            }
        }
    }
}

/// From a start of the engine to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Life {
    /// The write mode, if it fits the array; the array's own if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writing: Option<Writing>,
    /// User blocks written per checkpoint block; zero for no checkpoints, the default if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_share: Option<u32>,
    /// Users are served before the whole index is read, with so many pages loaded at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_on_demand: Option<NonZeroU32>,
    /// Pages of the index to keep in memory, apart from pages in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_pages: Option<u64>,
    /// Earlier starts with too few drives: these slots stay away. Each must be refused without any
    /// effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Vec<usize>>,
    /// Earlier starts with an impostor: each must be refused without any effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impostors: Vec<Impostor>,
    /// Slots whose drive stays away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<usize>,
    /// Whether it starts by force: any drives that the parity covers may be missing, even without a
    /// majority. Later starts use force until the array has a majority again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Drives left behind are started by themselves, by force, and then offered together with the
    /// others. All of it happens to copies.
    #[serde(rename = "apart", default, skip_serializing_if = "Option::is_none")]
    pub split_brain: Option<SplitBrain>,
    /// Slots whose drive is replaced by a blank one before the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blanked: Vec<usize>,
    /// Whether drives that were removed earlier are offered as well.
    #[serde(rename = "strangers", default)]
    pub former_drives: bool,
    /// Number of offered drives that are arrays by themselves. They must not be changed.
    #[serde(rename = "of_other_arrays", default, skip_serializing_if = "is_zero")]
    pub foreign_drives: u32,
    /// Seed of the order in which drives are offered; 0 is the order of slots.
    #[serde(default)]
    pub order: u64,
    /// Spares, available as soon as users are served: the engine assigns them to slots whose drive
    /// is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spares: Vec<Spare>,
    /// Faults of drives while the engine is down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meanwhile: Vec<Action>,
    /// Actions of users and administrators: one list each, performed in order.
    pub actors: Vec<Vec<Action>>,
    /// Faults of drives at some step, whatever the engine is doing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timed: Vec<Timed>,
    /// The stop of the engine; without one the life ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Whether the offline checker verifies the drives after recovery.
    #[serde(default)]
    pub checked: bool,
}

/// The place and kind of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Origin of the step count.
    pub since: Since,
    /// Steps of the executor: tasks polled and turns of the clock.
    pub steps: u64,
    /// Whether drives lose their power as well.
    pub power: bool,
    /// Decides the outcome of commands in flight and of volatile data.
    pub seed: u64,
}

/// An event at some step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    /// Origin of the step count.
    pub since: Since,
    /// Steps of the executor.
    pub steps: u64,
    /// The event: a fault, or a pulled drive.
    pub action: Action,
}

/// Origin of step counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// The start of the engine: early stops interrupt recovery.
    Start,
    /// The moment when the volume is verified and users are served.
    Serving,
}

/// An action of a user or an administrator, or an event of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Write blocks; addresses wrap around at the end of the volume.
    Write {
        /// The first block.
        lba: u64,
        /// Number of blocks.
        blocks: u32,
        /// Durable when acknowledged.
        #[serde(default)]
        fua: bool,
    },
    /// Trim blocks.
    Trim {
        /// The first block.
        lba: u64,
        /// Number of blocks.
        blocks: u32,
        /// Durable when acknowledged.
        #[serde(default)]
        fua: bool,
    },
    /// Write zeros.
    WriteZeroes {
        /// The first block.
        lba: u64,
        /// Number of blocks.
        blocks: u32,
        /// Durable when acknowledged.
        #[serde(default)]
        fua: bool,
    },
    /// Read and verify blocks.
    Read {
        /// The first block.
        lba: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// Flush.
    Flush,
    /// A command to a zone of a zoned volume.
    Zone {
        /// The zone; numbers wrap around at the last one.
        zone: u32,
        /// The command.
        verb: ZoneVerb,
    },
    /// Wait.
    Sleep {
        /// Microseconds.
        us: u64,
    },
    /// Take a member out of service.
    Fail {
        /// Its slot.
        slot: usize,
    },
    /// Put a blank drive into the first slot without a working member, or else into this one, and
    /// rebuild it.
    Replace {
        /// The slot, if all members work.
        slot: usize,
    },
    /// Put the drive of the first slot whose member is out of service back as it is: a pulled drive
    /// is plugged in again, and gets what it missed.
    Readd,
    /// Continue an interrupted rebuild.
    Resume,
    /// Read and verify everything, and repair damage.
    Scrub,
    /// Clear the faults on record.
    Clear,
    /// Record a scrub.
    RecordScrub,
    /// Pull a drive out; it comes back before the next life.
    Pull {
        /// Its slot.
        slot: usize,
        /// Even if it is one too many: then writes must stop, and nothing may be lost.
        #[serde(default)]
        too_many: bool,
        /// Also lose the contents of its cache.
        #[serde(default)]
        forgetting: bool,
    },
    /// Take a snapshot of a drive, like that of a virtual drive.
    Keep {
        /// Its slot.
        slot: usize,
    },
    /// Restore the snapshot of a drive, like a backup.
    GoBack {
        /// Its slot.
        slot: usize,
    },
    /// A fault of stored blocks, or of later commands.
    Fault {
        /// The drive's slot.
        slot: usize,
        /// The fault.
        fault: Fault,
    },
}

impl Scenario {
    /// The size of the scenario, to measure the progress of a reduction.
    #[must_use]
    pub fn size(&self) -> usize {
        let life = |life: &Life| {
            let actions: usize = life.actors.iter().map(|actor| 1 + actor.len()).sum();
            let happens = life.meanwhile.len() + life.timed.len() + life.spares.len();
            1 + actions + happens + life.missing.len() + life.refused.len() + foreign::size(life)
        };
        let formats = self.interrupted_formats.len() + self.broken_formats.len();
        self.lives.iter().map(life).sum::<usize>() + formats
    }
}
