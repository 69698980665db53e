//! A scenario: everything that happens in one history, in full.
//!
//! Running a scenario draws nothing at random but by the seeds written in it, so it replays, can be
//! cut down, and is kept as a file. It says what is tried; where trying it would break the
//! contract with the volume (a second drive damaged where redundancy covers one), the run skips it,
//! unless the scenario is one `beyond` the contract. So any part of a scenario is a scenario.

mod fault;
mod foreign;
mod spare;
mod trace;
mod vary;
mod writing;

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

/// The layout of scenario files that this release writes and reads.
pub const FORMAT: u32 = 1;

/// One history: an array, and one life of its engine after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// [`FORMAT`].
    pub format: u32,
    /// The seed that it was drawn from.
    pub seed: u64,
    /// Why it is kept, for people.
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
    /// Where they are.
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
    /// Whether writes are acknowledged only when durable; by the drives' caches if not given.
    pub writethrough: Option<bool>,
    /// Zones that a drive can have open or closed at a time.
    pub active_zones: u32,
    /// The longest a drive takes for a command that is not slowed down, in microseconds.
    pub latency_us: u64,
    /// Identities and latencies.
    pub seed: u64,
    /// Zones by which the volume is smaller than it could be: so many may fail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spare_zones: u32,
    /// Entries of a page of the index; as many as a block holds if not given. The volume leaves room for blocks of
    /// all pages, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_entries: Option<NonZeroU32>,
    /// Whether more may be damaged and lost than the redundancy covers. Then anything may fail, but
    /// nothing may be made up.
    #[serde(default)]
    pub beyond: bool,
}

/// Where the chunks of a stripe are.
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

    /// What it is called, also in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotated => "rotated",
            Self::Fixed => "fixed",
            Self::Mirrored => "mirrored",
        }
    }

    /// The numbers of parity chunks that it can be of.
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

/// What is as in every older scenario is not written.
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
    /// What the array is made as, if there can be such an array.
    #[must_use]
    pub fn scheme(&self) -> Option<Scheme> {
        Scheme::arranged(self.layout.arrangement(), self.data, self.parity).ok()
    }

    /// Drives of the array.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.data + self.parity
    }

    /// How many drives may be damaged or away at a time without anything failing: no more than the
    /// parity covers, and never half of them, since the other half could be in use elsewhere. Of
    /// mirrors not any so many: what they survive is told by [`Self::survives`].
    #[must_use]
    pub fn spared(&self) -> usize {
        self.parity.min((self.columns() - 1) / 2)
    }

    /// Whether the others hold everything. Twins of mirrors are half of all drives apart.
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
    /// How it writes, if that fits the array; as the array was made for if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writing: Option<Writing>,
    /// Blocks written for each of a checkpoint; zero for no checkpoints, what is usual if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_share: Option<u32>,
    /// Users are served before all of the index is read: so many pages at a time meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_on_demand: Option<NonZeroU32>,
    /// Pages of the index that are to be in memory, beside those that somebody works with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_pages: Option<u64>,
    /// Starts with too few drives, tried first: these slots stay away. Each must be refused, and
    /// change nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Vec<usize>>,
    /// Starts with a drive that cannot be what it says, tried first: each must be refused, and
    /// change nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impostors: Vec<Impostor>,
    /// Slots whose drive stays away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<usize>,
    /// Whether it starts by force: as many drives may be missing then as the parity covers, also if
    /// those left are no majority. An array that was started so goes on by force until it has one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Drives left behind are started by themselves, by force, and offered together with the rest
    /// again. All of it happens to copies.
    #[serde(rename = "apart", default, skip_serializing_if = "Option::is_none")]
    pub split_brain: Option<SplitBrain>,
    /// Slots whose drive is replaced by a blank one before the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blanked: Vec<usize>,
    /// Whether drives that were taken out earlier are offered as well.
    #[serde(rename = "strangers", default)]
    pub former_drives: bool,
    /// Drives offered as well that are arrays by themselves. They must not be touched.
    #[serde(rename = "of_other_arrays", default, skip_serializing_if = "is_zero")]
    pub foreign_drives: u32,
    /// In which order drives are offered, by seed; 0 is the order of slots.
    #[serde(default)]
    pub order: u64,
    /// Blank drives that are kept ready from when users are served: the engine puts them into slots whose
    /// drive is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spares: Vec<Spare>,
    /// What happens to drives while the engine is down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meanwhile: Vec<Action>,
    /// What users and administrators do: each list is one of them, who does one thing after the
    /// other.
    pub actors: Vec<Vec<Action>>,
    /// What happens to drives at some step, whatever the engine is doing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timed: Vec<Timed>,
    /// Where the engine is stopped; it comes to its end otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Whether the offline checker looks at the drives after recovery.
    #[serde(default)]
    pub checked: bool,
}

/// Where the engine is stopped, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// What the steps are counted from.
    pub since: Since,
    /// Steps of the executor: tasks polled and turns of the clock.
    pub steps: u64,
    /// Whether drives lose their power, too.
    pub power: bool,
    /// Decides what becomes of commands in flight and of what is not durable.
    pub seed: u64,
}

/// Something that happens at some step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    /// What the steps are counted from.
    pub since: Since,
    /// Steps of the executor.
    pub steps: u64,
    /// What happens: a fault, or a drive pulled.
    pub action: Action,
}

/// What steps are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// The start: stops soon after it fall into recovery.
    Start,
    /// The moment when the volume was verified and users are served.
    Serving,
}

/// One thing that a user or an administrator does, or that happens to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Write blocks; addresses wrap around at the end of the volume.
    Write {
        /// The first block.
        lba: u64,
        /// How many.
        blocks: u32,
        /// Durable when acknowledged.
        #[serde(default)]
        fua: bool,
    },
    /// Trim blocks.
    Trim {
        /// The first block.
        lba: u64,
        /// How many.
        blocks: u32,
        /// Durable when acknowledged.
        #[serde(default)]
        fua: bool,
    },
    /// Write zeros.
    WriteZeroes {
        /// The first block.
        lba: u64,
        /// How many.
        blocks: u32,
        /// Durable when acknowledged.
        #[serde(default)]
        fua: bool,
    },
    /// Read and verify blocks.
    Read {
        /// The first block.
        lba: u64,
        /// How many.
        blocks: u32,
    },
    /// Flush.
    Flush,
    /// Wait.
    Sleep {
        /// How long, in microseconds.
        us: u64,
    },
    /// Take a member out of service.
    Fail {
        /// Its slot.
        slot: usize,
    },
    /// Put a blank drive into the first slot that has no working member, or else into this one, and
    /// rebuild it.
    Replace {
        /// The slot if all work.
        slot: usize,
    },
    /// Go on with a rebuild that was interrupted.
    Resume,
    /// Read and verify everything, and heal what is damaged.
    Scrub,
    /// Pull a drive out; it comes back before the next life.
    Pull {
        /// Its slot.
        slot: usize,
        /// Even if it is one too many: then writes must stop, and nothing may be lost.
        #[serde(default)]
        too_many: bool,
        /// And what its cache held is lost.
        #[serde(default)]
        forgetting: bool,
    },
    /// Keep what a drive holds, as a snapshot of a virtual drive does.
    Keep {
        /// Its slot.
        slot: usize,
    },
    /// Let a drive hold again what was kept of it, as after a backup was restored.
    GoBack {
        /// Its slot.
        slot: usize,
    },
    /// Something happens to what is on a drive, or to commands to come.
    Fault {
        /// The drive's slot.
        slot: usize,
        /// What happens.
        fault: Fault,
    },
}

impl Scenario {
    /// How much there is in it, for telling whether cutting it down got anywhere.
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
