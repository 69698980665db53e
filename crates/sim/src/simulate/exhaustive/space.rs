//! Definitions of the named spaces: drives, their initial contents, and all traces over an alphabet
//! of operations up to a length.
//!
//! A *case* is one kind of drives, one filling and one trace. Cases are numbered, short traces
//! first, so that a range of them can be searched. The search within a case is described in [the
//! module above](super).

use std::fmt;

use crate::simulate::scenario::{Layout, Shape, ZonedShape};

/// An operation of a user or an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes blocks.
    Write {
        /// The first block.
        lba: u64,
        /// Number of blocks.
        blocks: u64,
        /// Forced unit access: durable when acknowledged.
        fua: bool,
    },
    /// Trims blocks. Writing zeros is equivalent for the engine.
    Trim {
        /// The first block.
        lba: u64,
        /// Number of blocks.
        blocks: u64,
        /// Durable when acknowledged.
        fua: bool,
    },
    /// Writes at the write pointer of a zone, if the blocks fit.
    WriteZone {
        /// The zone.
        zone: u32,
        /// Number of blocks.
        blocks: usize,
        /// Durable when acknowledged, with everything before it in the zone.
        fua: bool,
    },
    /// Resets a zone.
    Reset {
        /// The zone.
        zone: u32,
    },
    /// Finishes a zone.
    Finish {
        /// The zone.
        zone: u32,
    },
    /// Makes everything durable.
    Flush,
    /// Closes the volume and starts it again.
    Restart,
    /// The same without a drive.
    StartWithout {
        /// Its slot.
        slot: usize,
    },
    /// The same with the drive that was missing. It is put back if the array went on without it.
    StartWith {
        /// Its slot.
        slot: usize,
    },
    /// Pulls a drive.
    Pull {
        /// Its slot.
        slot: usize,
    },
    /// Writes block 0, or the next one of zone 0, and one chunk fails to be written.
    FailingWrite {
        /// The slot of the drive.
        slot: usize,
    },
    /// Makes everything durable, and one drive fails to.
    FailingFlush {
        /// The slot of the drive.
        slot: usize,
    },
}

use Operation::{
    FailingFlush, FailingWrite, Finish, Flush, Pull, Reset, Restart, StartWith, StartWithout, Trim,
    Write, WriteZone,
};

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let durably = |fua| if fua { " fua" } else { "" };
        match self {
            Write { lba, blocks, fua } => write!(f, "write {lba}+{blocks}{}", durably(*fua)),
            Trim { lba, blocks, fua } => write!(f, "trim {lba}+{blocks}{}", durably(*fua)),
            WriteZone { zone, blocks, fua } => {
                write!(f, "write {blocks} to zone {zone}{}", durably(*fua))
            }
            Reset { zone } => write!(f, "reset zone {zone}"),
            Finish { zone } => write!(f, "finish zone {zone}"),
            Flush => f.write_str("flush"),
            Restart => f.write_str("restart"),
            StartWithout { slot } => write!(f, "start without {slot}"),
            StartWith { slot } => write!(f, "start with {slot}"),
            Pull { slot } => write!(f, "pull {slot}"),
            FailingWrite { slot } => write!(f, "write 0+1 failing at {slot}"),
            FailingFlush { slot } => write!(f, "flush failing at {slot}"),
        }
    }
}

/// An operation of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub operation: Operation,
    /// Whether it begins together with the one before, instead of after it.
    pub together: bool,
}

/// The drives, and the kind of crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drives {
    pub name: &'static str,
    /// They have a volatile cache.
    pub volatile: bool,
    /// Acknowledged writes are durable.
    pub writethrough: bool,
    /// Chunks are appended.
    pub append: bool,
    /// A crash cuts the power, instead of only killing the process.
    pub power: bool,
    /// The volume is a zoned one.
    pub zoned: bool,
}

/// The smallest zoned volume: 2 zones behind the 7 of metadata, of as few blocks as the parity log
/// needs.
const ZONED_ZONES: u32 = 2;
const ZONED_BLOCKS: u32 = 24;
const METADATA_ZONES: u32 = 7;

impl Drives {
    /// The smallest array that the engine creates: 3 + 1 drives of 6 zones, 2 of them for
    /// superblocks. Groups have 2 rows, so that a few writes cross the end of one.
    pub(super) fn shape(&self) -> Shape {
        match self.zoned {
            false => self.log_shape(),
            true => Shape {
                zones: METADATA_ZONES + ZONED_ZONES,
                zone_blocks: ZONED_BLOCKS,
                writethrough: None,
                zoned: Some(ZonedShape { metadata: true, checksums: true }),
                ..self.log_shape()
            },
        }
    }

    /// Zones of a zoned volume, and the blocks of each.
    pub(super) fn zoned_volume(&self) -> (u32, u32) {
        let data = u32::try_from(self.shape().data).expect("a few drives");
        (ZONED_ZONES, ZONED_BLOCKS * data)
    }

    fn log_shape(&self) -> Shape {
        Shape {
            data: 3,
            parity: 1,
            layout: Layout::Rotated,
            zones: 6,
            zone_blocks: 16,
            chunk_blocks: 1,
            inline: false,
            group_rows: 2,
            tabled: self.append,
            volatile: self.volatile,
            writethrough: Some(self.writethrough),
            active_zones: 8,
            latency_us: 1,
            seed: 1,
            spare_zones: 0,
            page_entries: None,
            beyond: false,
            zoned: None,
        }
    }
}

/// Operations before a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    pub name: &'static str,
    pub operations: &'static [Operation],
}

/// A named space.
#[derive(Debug)]
pub struct Space {
    /// Name of the space.
    pub name: &'static str,
    /// Description of the space, in a sentence.
    pub about: &'static str,
    pub(super) drives: &'static [Drives],
    pub(super) fillings: &'static [Filling],
    pub(super) alphabet: &'static [Operation],
    pub(super) longest: u32,
    /// Ranks of the drives in slots 0 to 3 by speed; each case runs with all of them.
    pub(super) orders: &'static [[u8; 4]],
    /// Whether recoveries are crashed as well.
    pub(super) again: bool,
}

/// One case of a space.
pub(super) struct Case {
    pub drives: Drives,
    pub filling: Filling,
    pub trace: Vec<Step>,
}

impl Space {
    /// The space of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SPACES.iter().find(|space| space.name == name)
    }

    /// Number of traces of `length` operations. Each operation but the first begins after the
    /// previous one or together with it.
    fn traces_of(&self, length: u32) -> u64 {
        match length {
            0 => 1,
            _ => self.choices(0) * self.choices(1).pow(length - 1),
        }
    }

    /// Choices at a place of a trace: each operation after the previous one, or together with it
    /// unless it is a start.
    fn choices(&self, place: u32) -> u64 {
        let together = if place == 0 { 0 } else { self.companions().len() };
        (self.alphabet.len() + together) as u64
    }

    fn companions(&self) -> Vec<Operation> {
        let is_start =
            |one: &Operation| matches!(one, Restart | StartWithout { .. } | StartWith { .. });
        self.alphabet.iter().copied().filter(|one| !is_start(one)).collect()
    }

    fn traces(&self) -> u64 {
        (0..=self.longest).map(|length| self.traces_of(length)).sum()
    }

    /// Number of cases.
    #[must_use]
    pub fn cases(&self) -> u64 {
        self.traces() * self.drives.len() as u64 * self.fillings.len() as u64
    }

    /// The number of cases as a product.
    #[must_use]
    pub fn size(&self) -> String {
        let listed = |names: Vec<&str>| names.join(", ");
        let letters: Vec<_> = self.alphabet.iter().map(ToString::to_string).collect();
        format!(
            "{} cases = {} kinds of drives ({}) x {} fillings ({}) x {} traces of at most {} of {} \
             operations ({}), each after the one before or together with it; each case with {} \
             orders of the drives by speed{}",
            self.cases(),
            self.drives.len(),
            listed(self.drives.iter().map(|drives| drives.name).collect()),
            self.fillings.len(),
            listed(self.fillings.iter().map(|filling| filling.name).collect()),
            self.traces(),
            self.longest,
            self.alphabet.len(),
            letters.join(", "),
            self.orders.len(),
            if self.again { "; every recovery is crashed into again" } else { "" },
        )
    }

    /// A case.
    ///
    /// # Panics
    ///
    /// If there is no case of this number.
    pub(super) fn case(&self, number: u64) -> Case {
        assert!(number < self.cases(), "case {number} of {}", self.cases());
        let mut rest = number;
        let mut digit = |base: u64| {
            let digit = rest % base;
            rest /= base;
            usize::try_from(digit).expect("an index")
        };
        let drives = self.drives[digit(self.drives.len() as u64)];
        let filling = self.fillings[digit(self.fillings.len() as u64)];
        Case { drives, filling, trace: self.trace(rest) }
    }

    fn trace(&self, number: u64) -> Vec<Step> {
        let (mut rest, mut length) = (number, 0);
        while rest >= self.traces_of(length) {
            rest -= self.traces_of(length);
            length += 1;
        }
        let mut steps = Vec::new();
        for place in 0..length {
            let choices = self.choices(place);
            let choice = usize::try_from(rest % choices).expect("an index");
            rest /= choices;
            steps.push(match choice.checked_sub(self.alphabet.len()) {
                None => Step { operation: self.alphabet[choice], together: false },
                Some(choice) => Step { operation: self.companions()[choice], together: true },
            });
        }
        steps
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} drives, {} array:", self.drives.name, self.filling.name)?;
        if self.trace.is_empty() {
            write!(f, " start")?;
        }
        for (at, step) in self.trace.iter().enumerate() {
            let joint = match (at, step.together) {
                (0, _) => "",
                (_, false) => ", then",
                (_, true) => " with",
            };
            write!(f, "{joint} {}", step.operation)?;
        }
        Ok(())
    }
}

const fn write(lba: u64, blocks: u64) -> Operation {
    Write { lba, blocks, fua: false }
}

/// A power loss costs no acknowledged data.
const PROTECTED: Drives = Drives {
    name: "protected",
    volatile: false,
    writethrough: true,
    append: true,
    power: false,
    zoned: false,
};

/// A power loss costs unflushed data.
const VOLATILE: Drives = Drives {
    name: "volatile",
    volatile: true,
    writethrough: false,
    append: true,
    power: true,
    zoned: false,
};

/// Every chunk is written through, in place.
const THROUGH: Drives = Drives {
    name: "write-through",
    volatile: true,
    writethrough: true,
    append: false,
    power: true,
    zoned: false,
};

/// The same for zoned volumes.
const EVERY_ZONED: &[Drives] = &[
    Drives { name: "protected zoned", zoned: true, ..PROTECTED },
    Drives { name: "volatile zoned", zoned: true, ..VOLATILE },
];

const fn write_zone(blocks: usize) -> Operation {
    WriteZone { zone: 0, blocks, fua: false }
}

/// A part of a stripe, and more than one.
const FEW_ZONED: &[Operation] = &[
    write_zone(1),
    write_zone(4),
    WriteZone { zone: 0, blocks: 1, fua: true },
    Reset { zone: 0 },
    Finish { zone: 0 },
    Flush,
    FailingWrite { slot: 1 },
    Pull { slot: 1 },
];

/// With a whole stripe, another zone, and restarts.
const ALL_ZONED: &[Operation] = &[
    write_zone(1),
    write_zone(3),
    write_zone(4),
    WriteZone { zone: 0, blocks: 2, fua: true },
    WriteZone { zone: 1, blocks: 2, fua: false },
    Reset { zone: 0 },
    Finish { zone: 0 },
    Flush,
    FailingWrite { slot: 1 },
    FailingFlush { slot: 1 },
    Pull { slot: 1 },
    Restart,
];

/// A zone with a stripe and a part of one.
const WRITTEN_ZONE: Filling = Filling { name: "written zone", operations: &[write_zone(4), Flush] };

const FRESH: Filling = Filling { name: "fresh", operations: &[] };

/// The segment's last group comes next: 12 of its 13 rows are written.
const NEARLY_FULL_SEGMENT: Filling = Filling {
    name: "nearly full segment",
    operations: &[
        write(0, 3),
        write(0, 3),
        write(0, 3),
        write(0, 3),
        write(0, 3),
        write(0, 3),
        write(0, 3),
        write(0, 3),
        write(0, 3),
        write(0, 3),
        write(0, 3),
        write(0, 3),
        Flush,
    ],
};

/// The same with every block of the volume written, all in that segment.
const FULL_VOLUME: Filling =
    Filling { name: "full volume", operations: &[write(0, 30), write(0, 6), Flush] };

const FUA: Operation = Write { lba: 1, blocks: 1, fua: true };

const TRIM: Operation = Trim { lba: 0, blocks: 2, fua: false };

/// One of each kind on the same blocks; the second write completes a stripe and begins another.
const FEW: &[Operation] = &[
    write(0, 1),
    write(0, 4),
    FUA,
    TRIM,
    Flush,
    FailingWrite { slot: 1 },
    FailingFlush { slot: 1 },
    Pull { slot: 1 },
];

/// With a write of three stripes that overlaps the others, a durable trim, and restarts.
const ALL: &[Operation] = &[
    write(0, 1),
    write(0, 4),
    write(2, 7),
    FUA,
    TRIM,
    Trim { lba: 1, blocks: 4, fua: true },
    Flush,
    FailingWrite { slot: 1 },
    FailingFlush { slot: 1 },
    Pull { slot: 1 },
    Restart,
];

/// Each drive is once the slowest and once the fastest.
const TURNS: &[[u8; 4]] = &[[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]];

const EVERY_KIND: &[Drives] = &[PROTECTED, VOLATILE, THROUGH];

/// Every space.
pub const SPACES: &[Space] = &[
    Space {
        name: "two-ops",
        about: "up to two operations on a fresh array",
        drives: EVERY_KIND,
        fillings: &[FRESH],
        alphabet: FEW,
        longest: 2,
        orders: TURNS,
        again: false,
    },
    Space {
        name: "full-segment",
        about: "one operation at the end of a segment, where the next one must be reclaimed first",
        drives: EVERY_KIND,
        fillings: &[NEARLY_FULL_SEGMENT, FULL_VOLUME],
        alphabet: FEW,
        longest: 1,
        orders: TURNS,
        again: false,
    },
    Space {
        name: "crash-twice",
        about: "one write with a crash, and every recovery from it with another crash",
        drives: EVERY_KIND,
        fillings: &[FRESH],
        alphabet: &[write(0, 1)],
        longest: 1,
        orders: &[[0, 1, 2, 3]],
        again: true,
    },
    Space {
        name: "missing-and-back",
        about: "starts without a drive and with it again, and writes before, between and after",
        drives: EVERY_KIND,
        fillings: &[FRESH],
        alphabet: &[write(0, 1), StartWithout { slot: 1 }, StartWith { slot: 1 }],
        longest: 3,
        orders: &[[0, 1, 2, 3]],
        again: false,
    },
    Space {
        name: "zoned-one-op",
        about: "one operation on a zoned volume, with an empty and with a written zone",
        drives: EVERY_ZONED,
        fillings: &[FRESH, WRITTEN_ZONE],
        alphabet: FEW_ZONED,
        longest: 1,
        orders: TURNS,
        again: false,
    },
    Space {
        name: "zoned-two-ops",
        about: "up to two operations on a zoned volume",
        drives: EVERY_ZONED,
        fillings: &[FRESH, WRITTEN_ZONE],
        alphabet: FEW_ZONED,
        longest: 2,
        orders: TURNS,
        again: false,
    },
    Space {
        name: "zoned-crash-twice",
        about: "one write to a zoned volume with a crash, and every recovery with another crash",
        drives: EVERY_ZONED,
        fillings: &[FRESH],
        alphabet: &[write_zone(1)],
        longest: 1,
        orders: &[[0, 1, 2, 3]],
        again: true,
    },
    Space {
        name: "zoned-three-ops",
        about: "up to three operations on a zoned volume",
        drives: EVERY_ZONED,
        fillings: &[FRESH, WRITTEN_ZONE],
        alphabet: ALL_ZONED,
        longest: 3,
        orders: TURNS,
        again: false,
    },
    Space {
        name: "three-ops",
        about: "up to three operations on a fresh array",
        drives: EVERY_KIND,
        fillings: &[FRESH],
        alphabet: ALL,
        longest: 3,
        orders: TURNS,
        again: false,
    },
    Space {
        name: "three-ops-anywhere",
        about: "up to three operations, also at the end of a segment and on a full volume",
        drives: EVERY_KIND,
        fillings: &[FRESH, NEARLY_FULL_SEGMENT, FULL_VOLUME],
        alphabet: ALL,
        longest: 3,
        orders: TURNS,
        again: false,
    },
    Space {
        name: "two-ops-crash-twice",
        about: "up to two operations, and every recovery with another crash",
        drives: EVERY_KIND,
        fillings: &[FRESH, NEARLY_FULL_SEGMENT],
        alphabet: ALL,
        longest: 2,
        orders: TURNS,
        again: true,
    },
];
