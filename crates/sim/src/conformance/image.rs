//! The expected state of a zoned device: a state, a write pointer and contents for each zone.

use zoneweave_zoned::{Geometry, ZoneState};

/// The expected state of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneImage {
    pub state: ZoneState,
    /// The next block to be written. A finish leaves it where it was.
    pub pointer: u32,
    /// The number of each written block, up to the write pointer.
    pub blocks: Vec<u64>,
    /// Whether a descriptor extension was set.
    pub extended: bool,
}

impl ZoneImage {
    /// A zone of blank hardware.
    pub(super) fn empty() -> Self {
        Self { state: ZoneState::Empty, pointer: 0, blocks: Vec::new(), extended: false }
    }

    /// The zones of a blank device.
    pub(super) fn blank(geometry: &Geometry) -> Vec<Self> {
        vec![Self::empty(); geometry.zones as usize]
    }

    /// Blocks are written at the write pointer.
    pub(super) fn write(&mut self, numbers: &[u64]) {
        self.blocks.extend(numbers);
        self.pointer = u32::try_from(self.blocks.len()).expect("a zone has 32 bits of blocks");
    }

    /// The write pointer as a report has it. It is undefined for zones that take no writes.
    pub(super) fn reported_pointer(&self, geometry: &Geometry) -> u32 {
        match self.state {
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => geometry.zone_capacity.0,
            _ => self.pointer,
        }
    }

    /// The state after a restart of the device: open zones are closed, and active ones without
    /// anything to keep are empty.
    pub(super) fn restarted(&self) -> Self {
        let mut after = self.clone();
        if self.state.is_active() {
            after.state = match self.pointer > 0 || self.extended {
                true => ZoneState::Closed,
                false => ZoneState::Empty,
            };
        }
        after
    }
}
