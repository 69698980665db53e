//! The state of one history: the drives, the oracle, and current expectations.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::geometry::SegmentGeometry;
use zoneweave_raid::log::limits::largest_volume;
use zoneweave_raid::log::{CreateOptions, MemberHealth, OpenOptions, SpareState, Volume};
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockCount, BlockError};

use super::tally::Tally;
use crate::simulate::drives::attach::FRAME;
use crate::simulate::drives::slots::Drives;
use crate::simulate::oracle::{Oracle, Survives};
use crate::simulate::run::faults::{Orders, Recorded};
use crate::simulate::scenario::Shape;

pub(crate) struct Harness {
    /// The array.
    pub shape: Shape,
    /// The drives.
    pub drives: RefCell<Drives>,
    /// The allowed versions of blocks.
    pub oracle: RefCell<Oracle>,
    /// The counts.
    pub tally: RefCell<Tally>,
    /// Blocks of the volume.
    pub blocks: Cell<u64>,
    /// The promises that survived the crashes since the last verified recovery.
    pub survives: Cell<Survives>,
    /// Number of those crashes.
    pub crashed: Cell<u64>,
    /// In this life too many drives were pulled: requests may fail.
    pub broken: Cell<bool>,
    /// Slowness of this life's slowest drive, as a factor.
    slowest: Cell<u64>,
    /// The array was started by force, and may have no majority since.
    pub forced: Cell<bool>,
    /// Number of lineages used for starts by force.
    lineages: Cell<u64>,
    /// Faults on record at the end of the last life.
    pub recorded: RefCell<Option<Recorded>>,
    /// Orders about them.
    pub orders: Orders,
}

impl Harness {
    /// An array of blank drives.
    pub(crate) fn new(shape: Shape) -> Self {
        let mut oracle = Oracle::default();
        if shape.beyond {
            oracle.lose_promises();
        }
        Self {
            shape,
            drives: RefCell::new(Drives::new(shape)),
            oracle: RefCell::new(oracle),
            tally: RefCell::default(),
            blocks: Cell::new(0),
            survives: Cell::new(Survives::Acknowledged),
            crashed: Cell::new(0),
            broken: Cell::new(false),
            slowest: Cell::new(1),
            forced: Cell::new(false),
            lineages: Cell::new(0),
            recorded: RefCell::default(),
            orders: Orders::default(),
        }
    }

    /// The options of the array's creation.
    pub(crate) fn create_options(&self, wipe: bool) -> CreateOptions {
        let shape = &self.shape;
        let members = (0..shape.columns() as u64).map(|slot| self.member(slot)).collect();
        CreateOptions {
            name: "simulated".to_owned(),
            scheme: shape.scheme().expect("a scenario's scheme is possible"),
            volume_blocks: self.volume_blocks(),
            chunk_blocks: shape.chunk_blocks,
            group_rows: shape.group_rows,
            tabled: shape.tabled,
            writethrough: shape.writethrough,
            array: ArrayUuid(self.identity(u64::MAX)),
            members,
            lineage: Lineage(shape.seed | 1),
            shard: Shard::WHOLE,
            wipe,
        }
    }

    /// The options of a start: by force if nothing else works.
    pub(crate) fn start_options(&self) -> OpenOptions {
        let forced = self.forced.get() && self.drives.borrow().needs_force();
        let index_page_entries = self.shape.page_entries;
        let options = OpenOptions { index_page_entries, ..OpenOptions::default() };
        if !forced {
            return options;
        }
        self.lineages.set(self.lineages.get() + 1);
        let mut random = Random::new(self.shape.seed ^ self.lineages.get());
        OpenOptions { force: true, lineage: Lineage(random.next()), ..options }
    }

    /// The size of a volume that leaves spare zones, or room for pages of its index.
    fn volume_blocks(&self) -> Option<u64> {
        let shape = &self.shape;
        if shape.spare_zones == 0 && shape.page_entries.is_none() {
            return None;
        }
        let scheme = shape.scheme()?;
        let (unit, capacity) = match shape.inline {
            false => (BlockCount(1), BlockCount(shape.zone_blocks)),
            true => (FRAME.unit(), FRAME.usable(BlockCount(shape.zone_blocks))),
        };
        let (chunk, rows) = (shape.chunk_blocks, shape.group_rows);
        let geometry = SegmentGeometry::in_units(scheme, unit, capacity, chunk, rows)?;
        let most = largest_volume(&geometry, shape.zones.saturating_sub(shape.spare_zones));
        let entries = shape.page_entries.map(|entries| u64::from(entries.get()));
        Some(entries.map_or(most, |entries| (most * entries / (entries + 1)).max(1)))
    }

    /// The identity of the n-th drive.
    pub(crate) fn member(&self, number: u64) -> MemberUuid {
        MemberUuid(self.identity(number))
    }

    pub(crate) fn identity(&self, number: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        Random::new(self.shape.seed.wrapping_add(number.wrapping_mul(0x1_0001))).fill(&mut bytes);
        bytes
    }

    /// Whether acknowledged writes survive a power loss without a flush.
    pub(crate) fn writethrough(&self) -> bool {
        !self.shape.volatile || self.shape.writethrough == Some(true)
    }

    /// Whether requests may fail.
    pub(crate) fn may_fail(&self) -> bool {
        self.shape.beyond || self.broken.get()
    }

    /// Begins a life: no events yet.
    pub(crate) fn begin_life(&self) {
        self.broken.set(false);
        self.slowest.set(1);
    }

    /// Allows for a slow drive, by a factor.
    pub(crate) fn slow_down(&self, times: u64) {
        self.slowest.set(self.slowest.get().max(times));
    }

    /// A time limit, extended for a slow drive.
    pub(crate) fn patience(&self, usual: Nanos) -> Nanos {
        Nanos(usual.0.saturating_mul(self.slowest.get()))
    }

    /// Updates the counts.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.borrow_mut());
    }

    /// The value of a request; `None` if it failed and may fail.
    ///
    /// # Panics
    ///
    /// If it failed and must not.
    pub(crate) fn expect<T>(&self, what: &str, result: Result<T, BlockError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) if self.may_fail() => {
                let harmless = !matches!(error, BlockError::OutOfRange { .. });
                assert!(harmless, "{what} failed: {error}");
                None
            }
            Err(error) => panic!("{what} failed although the contract covers it: {error}"),
        }
    }

    /// Updates the slots without a working member from the engine's status.
    pub(crate) fn observe(&self, volume: &Volume) {
        self.seat_spares(volume);
        self.drives.borrow_mut().observe(slots_out(volume));
    }

    /// Updates which spares have taken slots from the engine's status.
    pub(crate) fn seat_spares(&self, volume: &Volume) {
        let mut drives = self.drives.borrow_mut();
        if !drives.has_spares() {
            return;
        }
        let status = volume.status();
        assert_eq!(status.members.len(), self.shape.columns(), "the status has every slot");
        for member in &status.members {
            let is_member = |number| self.member(number).to_string() == member.uuid;
            drives.seat(usize::from(member.slot), is_member);
        }
        for spare in status.spares.taken.iter().filter(|spare| spare.state == SpareState::Rebuilt) {
            let member = &status.members[usize::from(spare.slot)];
            if member.state == MemberHealth::Online && member.uuid == spare.uuid {
                drives.confirm_spare(usize::from(spare.slot));
            }
        }
    }

    /// The same as [`Self::observe`], at a moment when the status is recorded on media.
    pub(crate) fn confirm(&self, volume: &Volume) {
        self.seat_spares(volume);
        self.drives.borrow_mut().confirm(slots_out(volume));
    }
}

fn slots_out(volume: &Volume) -> BTreeSet<usize> {
    let members = volume.status().members;
    let out = members.iter().filter(|member| member.state != MemberHealth::Online);
    out.map(|member| usize::from(member.slot)).collect()
}
