//! The translation layer: maps logical blocks to physical ones. No clocks, no data.
//!
//! Physical blocks come in superblocks, which are erased as a whole and written front to back at
//! *frontiers*. Writing a logical block invalidates its old place. Valid blocks of a superblock are
//! moved to a frontier before it is erased.
//!
//! Invariants: a place holds at most one logical block, and a logical block has at most one place.
//! A superblock's count of valid blocks is the number of logical blocks mapped to it.

use zoneweave_zoned::Lba;

/// A physical block, counted through all superblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(pub(super) u32);

/// A number of erase blocks, one of every die, that are erased together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SuperblockId(pub(super) u32);

/// A place to write: one for each stream, and one for moved blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FrontierId(pub(super) u32);

/// In tables of places: the logical block has none.
const UNMAPPED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    /// Written to its end: may be chosen to be collected.
    Full,
    /// Its valid blocks are being moved.
    Collecting,
}

#[derive(Clone, Debug)]
struct Superblock {
    state: State,
    valid: u32,
    written: u32,
    erases: u32,
    /// When it became full, in superblocks filled before.
    filled: u64,
    /// The logical block for which each place was written; empty while free.
    logical: Vec<u32>,
}

/// Tables of a drive.
#[derive(Clone, Debug)]
pub(super) struct Ftl {
    places: Vec<u32>,
    superblocks: Vec<Superblock>,
    superblock_blocks: u32,
    frontiers: Vec<Option<SuperblockId>>,
    free: u32,
    filled: u64,
}

impl Ftl {
    /// Nothing is written.
    ///
    /// # Panics
    /// If there are more blocks than 32 bits count.
    pub(super) fn new(
        logical_blocks: u64,
        superblocks: u32,
        superblock_blocks: u32,
        frontiers: u32,
    ) -> Self {
        let physical = u64::from(superblocks) * u64::from(superblock_blocks);
        assert!(physical < u64::from(UNMAPPED), "places fit 32 bits");
        assert!(logical_blocks < physical, "some physical blocks are spare");
        let blank = Superblock {
            state: State::Free,
            valid: 0,
            written: 0,
            erases: 0,
            filled: 0,
            logical: Vec::new(),
        };
        Self {
            places: vec![UNMAPPED; usize::try_from(logical_blocks).expect("it fits 32 bits")],
            superblocks: vec![blank; superblocks as usize],
            superblock_blocks,
            frontiers: vec![None; frontiers as usize],
            free: superblocks,
            filled: 0,
        }
    }

    pub(super) fn superblock_blocks(&self) -> u32 {
        self.superblock_blocks
    }

    pub(super) fn superblocks(&self) -> u32 {
        u32::try_from(self.superblocks.len()).expect("counted in 32 bits")
    }

    /// Superblocks that are erased and not open.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    pub(super) fn erases(&self, superblock: SuperblockId) -> u32 {
        self.superblocks[superblock.0 as usize].erases
    }

    /// Where a logical block is.
    pub(super) fn lookup(&self, lba: Lba) -> Option<Place> {
        let place = self.places[lba.index()];
        (place != UNMAPPED).then_some(Place(place))
    }

    pub(super) fn superblock_of(&self, place: Place) -> (SuperblockId, u32) {
        (SuperblockId(place.0 / self.superblock_blocks), place.0 % self.superblock_blocks)
    }

    pub(super) fn place_in(&self, superblock: SuperblockId, offset: u32) -> Place {
        assert!(offset < self.superblock_blocks, "a superblock has fewer blocks");
        Place(superblock.0 * self.superblock_blocks + offset)
    }

    /// Places left at a frontier before it needs another superblock.
    pub(super) fn room(&self, frontier: FrontierId) -> u32 {
        let open = self.frontiers[frontier.0 as usize];
        open.map_or(0, |id| self.superblock_blocks - self.superblocks[id.0 as usize].written)
    }

    /// Opens the least worn free superblock.
    ///
    /// # Panics
    /// If none is free, or the frontier has room.
    pub(super) fn open(&mut self, frontier: FrontierId) {
        assert_eq!(self.room(frontier), 0, "the frontier has no room left");
        let blanks = (0..).zip(&self.superblocks).filter(|(_, one)| one.state == State::Free);
        let least = blanks.min_by_key(|(_, one)| one.erases);
        let (id, _): (u32, _) = least.expect("a superblock is free");
        let superblock = &mut self.superblocks[id as usize];
        superblock.state = State::Open;
        superblock.logical.reserve_exact(self.superblock_blocks as usize);
        self.frontiers[frontier.0 as usize] = Some(SuperblockId(id));
        self.free -= 1;
    }

    /// Gives a logical block the next place of a frontier that has room.
    pub(super) fn write(&mut self, frontier: FrontierId, lba: Lba) -> Place {
        self.unmap(lba);
        let place = self.take(frontier, lba);
        self.places[lba.index()] = place.0;
        place
    }

    /// Takes the place of a logical block away; whether it had one.
    pub(super) fn unmap(&mut self, lba: Lba) -> bool {
        let place = std::mem::replace(&mut self.places[lba.index()], UNMAPPED);
        if place == UNMAPPED {
            return false;
        }
        let (id, _) = self.superblock_of(Place(place));
        self.superblocks[id.0 as usize].valid -= 1;
        true
    }

    /// Moves a valid block to a frontier that has room.
    pub(super) fn relocate(&mut self, frontier: FrontierId, from: Place) -> Option<Place> {
        let lba = self.valid_at(from)?;
        Some(self.write(frontier, lba))
    }

    /// The logical block mapped to a place.
    pub(super) fn valid_at(&self, place: Place) -> Option<Lba> {
        let (id, offset) = self.superblock_of(place);
        let logical = *self.superblocks[id.0 as usize].logical.get(offset as usize)?;
        (self.places[logical as usize] == place.0).then_some(Lba(u64::from(logical)))
    }

    /// Valid blocks of a superblock.
    pub(super) fn valid(&self, superblock: SuperblockId) -> u32 {
        self.superblocks[superblock.0 as usize].valid
    }

    /// The full superblock with the fewest valid blocks, the one filled first among equals; none
    /// if nothing would be gained.
    pub(super) fn victim(&self) -> Option<SuperblockId> {
        let full = (0..).zip(&self.superblocks).filter(|(_, one)| one.state == State::Full);
        let (id, best) = full.min_by_key(|(_, one)| (one.valid, one.filled))?;
        (best.valid < self.superblock_blocks).then_some(SuperblockId(id))
    }

    /// Starts to move the valid blocks of a full superblock.
    pub(super) fn begin_collecting(&mut self, superblock: SuperblockId) {
        let superblock = &mut self.superblocks[superblock.0 as usize];
        assert_eq!(superblock.state, State::Full, "only full superblocks are collected");
        superblock.state = State::Collecting;
    }

    /// Stops moving; the remaining valid blocks stay in place.
    pub(super) fn abandon_collecting(&mut self, superblock: SuperblockId) {
        let superblock = &mut self.superblocks[superblock.0 as usize];
        assert_eq!(superblock.state, State::Collecting, "it was being collected");
        superblock.state = State::Full;
    }

    /// The superblock was erased.
    pub(super) fn erased(&mut self, superblock: SuperblockId) {
        let superblock = &mut self.superblocks[superblock.0 as usize];
        assert_eq!(superblock.state, State::Collecting, "it was collected before");
        assert_eq!(superblock.valid, 0, "nothing valid is erased");
        superblock.state = State::Free;
        superblock.written = 0;
        superblock.erases += 1;
        superblock.logical = Vec::new();
        self.free += 1;
    }

    fn take(&mut self, frontier: FrontierId, lba: Lba) -> Place {
        let id = self.frontiers[frontier.0 as usize].expect("the frontier is open");
        let superblock = &mut self.superblocks[id.0 as usize];
        let offset = superblock.written;
        superblock.written += 1;
        superblock.valid += 1;
        superblock.logical.push(u32::try_from(lba.0).expect("fewer blocks than 32 bits count"));
        if superblock.written == self.superblock_blocks {
            superblock.state = State::Full;
            superblock.filled = self.filled;
            self.filled += 1;
            self.frontiers[frontier.0 as usize] = None;
        }
        self.place_in(id, offset)
    }
}

#[cfg(test)]
mod tests;
