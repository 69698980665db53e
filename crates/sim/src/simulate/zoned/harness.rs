//! The state of a history of a zoned volume.

use std::cell::RefCell;
use std::collections::BTreeSet;

use zoneweave_raid::log::format::{ArrayUuid, Lineage};
use zoneweave_raid::raizn::{CreateOptions, OpenOptions, Volume};
use zoneweave_zoned::{BlockCount, Geometry, Status};

use super::oracle::ZonedOracle;
use crate::simulate::run::harness::Harness;

pub(crate) struct ZonedHarness {
    /// The drives, counts and expectations that do not depend on the kind of the volume.
    pub base: Harness,
    /// The allowed states of zones.
    pub oracle: RefCell<ZonedOracle>,
    /// The geometry of the volume, once it is started.
    pub geometry: RefCell<Option<Geometry>>,
}

impl ZonedHarness {
    /// An array of blank drives.
    pub(crate) fn new(base: Harness) -> Self {
        Self { base, oracle: RefCell::default(), geometry: RefCell::default() }
    }

    /// The options of the array's creation.
    pub(crate) fn create_options(&self, wipe: bool) -> CreateOptions {
        let shape = &self.base.shape;
        let zoned = shape.zoned.expect("the volume is a zoned one");
        CreateOptions {
            name: "simulated".to_owned(),
            array: ArrayUuid(self.base.identity(u64::MAX)),
            members: (0..shape.columns() as u64).map(|slot| self.base.member(slot)).collect(),
            lineage: Lineage(shape.seed | 1),
            scheme: shape.scheme().expect("a scenario's scheme is possible"),
            unit: BlockCount(shape.chunk_blocks),
            checksums: zoned.checksums,
            wipe,
        }
    }

    /// The options of a start.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let log = self.base.start_options();
        OpenOptions { force: log.force, lineage: log.lineage }
    }

    /// The value of a command; `None` if it failed and may fail.
    ///
    /// # Panics
    ///
    /// If it failed and must not.
    pub(crate) fn expect<T>(&self, what: &str, result: Result<T, Status>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(_) if self.base.may_fail() => None,
            Err(error) => panic!("{what} failed although the contract covers it: {error}"),
        }
    }

    /// Updates the slots without a working member from the volume's status.
    pub(crate) fn observe(&self, volume: &Volume) {
        self.base.drives.borrow_mut().observe(slots_out(volume));
    }

    /// The same, at a moment when the status is recorded on media.
    pub(crate) fn confirm(&self, volume: &Volume) {
        self.base.drives.borrow_mut().confirm(slots_out(volume));
    }
}

/// The slots whose drives were not there at the start, and have missed nothing.
pub(crate) fn slots_missing(volume: &Volume) -> BTreeSet<usize> {
    let members = volume.status().members;
    let missing = members.iter().filter(|member| member.missing);
    missing.map(|member| usize::from(member.slot)).collect()
}

fn slots_out(volume: &Volume) -> BTreeSet<usize> {
    let members = volume.status().members;
    // Before the first change, the next start has a member that is missing as before.
    let out = members.iter().filter(|member| !member.online && !member.missing);
    out.map(|member| usize::from(member.slot)).collect()
}
