//! Structures on the path of every request, exposed to the benchmark that measures each alone
//! (`benches/structures.rs`). Nothing else uses this.

use std::ops::Range;

use zoneweave_zoned::{BlockCount, Lba};

use crate::log::admit::inflight::InFlight;
use crate::log::engine::address::{Address, PbaSpace};
use crate::log::format::checkpoint::{AddressSpace, mapping_entries};
use crate::log::format::{ArrayUuid, Sequence};
use crate::log::index::map::Index;
use crate::scheme::Scheme;

/// The index of a volume, held in memory completely.
pub struct MeasuredIndex(Index);

impl MeasuredIndex {
    /// For so many blocks, with entries of four bytes, on four drives with zones of 64 MiB; nothing
    /// is mapped.
    ///
    /// # Panics
    /// If such entries cannot address so many blocks.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        const ZONE: BlockCount = BlockCount(16_384);
        let scheme = Scheme::new(3, 1).expect("a possible scheme");
        let space = PbaSpace::new(scheme, ZONE);
        let slots = u32::try_from(blocks / u64::from(ZONE.0) + 1).expect("few segments");
        assert_eq!(space.entry_bytes(slots), 4, "{blocks} blocks");
        Self(Index::new(&AddressSpace {
            array: ArrayUuid([7; 16]),
            volume_blocks: blocks,
            entry_bytes: 4,
            page_entries: mapping_entries(4),
            slots,
            columns: 4,
            column_blocks: space.column_blocks(),
        }))
    }

    /// Where a block is.
    #[must_use]
    pub fn get(&self, lba: Lba) -> Option<Address> {
        self.0.get(lba).map(Address::from)
    }

    /// Maps a block, as a completed write does; returns the former address.
    pub fn set(&mut self, lba: Lba, to: Address) -> Option<Address> {
        self.0.set(lba, Some(to.into())).map(Address::from)
    }
}

/// The table of blocks in flight.
#[derive(Default)]
pub struct MeasuredInFlight(InFlight);

impl MeasuredInFlight {
    /// Records that a write of some blocks is in flight.
    pub fn begin_write(&mut self, blocks: Range<u64>) {
        self.0.begin_write(blocks);
    }

    /// Records that one of its blocks is complete; returns whether it is the newest of that block.
    pub fn end_write(&mut self, lba: Lba, sequence: Sequence) -> bool {
        self.0.end_write(lba, Some(sequence))
    }
}
