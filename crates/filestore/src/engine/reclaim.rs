//! Relocation: live blocks move out of zones with garbage, which are then reset.
//!
//! Below a fifth of empty zones, a zone is relocated if its share of garbage is above
//! 100 - 3 * (20 - f) percent, with f percent of zones empty: ZenFS's rule. While a write waits for
//! space, any garbage suffices. One zone is relocated at a time, the one with the most garbage.

use std::rc::Rc;

use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, Command, OOB_BYTES, Payload, ZoneAddress, ZoneId,
};

use super::core::{Core, GivenUp, Pin, Reclaim, State, Ticket};
use super::place::Place;
use crate::error::StoreError;
use crate::format::{Entry, Tag};
use crate::hint::Lifetime;
use crate::ids::{FileId, Incarnation};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::policy::{EmptyZone, Need, UsedZone, Wear};
use crate::state::extents::ExtentMap;
use crate::state::{BlockRun, Phase, Piece, Zone};

/// Relocation begins when less of the zones is empty.
const EMPTY_PERCENT: u64 = 20;

/// How fast the demanded share of garbage falls with each percent of empty zones.
const SLOPE: u64 = 3;

/// Why a zone is relocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Its garbage becomes free.
    Garbage,
    /// Its files keep it from being worn as others are.
    Wear,
}

/// A zone when its relocation begins.
#[derive(Clone, Copy)]
struct Begun {
    incarnation: Incarnation,
    live: u32,
    changes: u64,
}

/// Blocks of a file that were copied.
struct Copied {
    file: FileId,
    offset: u64,
    bytes: u64,
    from: BlockRun,
    to: ZoneAddress,
    /// The lifetime that its place was chosen for.
    lifetime: Lifetime,
}

impl Reclaim {
    /// Forgets zones that were stuck before the last change. Returns whether there were some.
    fn forget_stuck(&mut self) -> bool {
        let (all, changes) = (self.given_up.len(), self.changes);
        self.given_up.retain(|_, why| !matches!(why, GivenUp::Stuck(at) if *at < changes));
        self.given_up.len() < all
    }

    /// A zone was reset: there is more space.
    pub(crate) fn record_reset(&mut self, zone: ZoneId) {
        self.given_up.remove(&zone);
        self.given_up.retain(|_, why| *why == GivenUp::Damaged);
        self.changes += 1;
    }

    /// Whether a zone waits for a write to end.
    pub(crate) fn has_stuck(&self) -> bool {
        self.given_up.values().any(|why| matches!(why, GivenUp::Stuck(_)))
    }
}

impl State {
    /// The zone to be relocated next, if any is worth it. With `is_urgent`, any garbage is.
    pub(crate) fn victim(&self, is_urgent: bool) -> Option<ZoneId> {
        let usable = |phase| !matches!(phase, Phase::Metadata | Phase::Unusable);
        let zones = self.zones.iter().filter(|(_, entry)| usable(entry.phase)).count() as u64;
        let empty = 100 * self.empty_zones() as u64 / zones.max(1);
        let least = if is_urgent {
            0
        } else if empty < EMPTY_PERCENT {
            100 - SLOPE * (EMPTY_PERCENT - empty)
        } else {
            return None;
        };
        let capacity = u64::from(self.zones.capacity().0);
        let garbage = |zone: ZoneId| self.zones.garbage(zone);
        let worth = |zone: &ZoneId| {
            let garbage = u64::from(garbage(*zone));
            garbage > 0 && 100 * garbage > least * capacity
        };
        let sealed = self.zones.iter().map(|(zone, _)| zone);
        let found = sealed.filter(worth).filter(|zone| !self.reclaim.given_up.contains_key(zone));
        found.max_by_key(|zone| garbage(*zone))
    }

    /// The sealed zone that holds back wear, if the policy levels it. Users come first, so a zone
    /// must be empty beside the reserve. Waiting for a second one starves levelling on a full
    /// store. In the test of the policies, the spread of resets was 49 then, and is 9.
    fn lagging_zone(&mut self, reserve: usize) -> Option<ZoneId> {
        if self.empty_zones() < reserve + 1 {
            return None;
        }
        if let Some(zone) = self.reclaim.levelled.filter(|zone| self.can_move(*zone)) {
            return Some(zone);
        }
        if !self.policy.moves_files() {
            return None;
        }
        let zones = self.zones.iter().map(|(zone, _)| zone);
        let used = zones.filter(|zone| self.can_move(*zone)).map(|zone| {
            let Zone { lifetime, live, resets, .. } = *self.zones.get(zone);
            UsedZone { zone, lifetime, live, resets }
        });
        let used: Vec<_> = used.collect();
        let wear = self.wear();
        let empty = self.zones.iter().filter(|(_, entry)| entry.phase == Phase::Empty);
        let empty = empty.map(|(zone, entry)| EmptyZone { zone, resets: entry.resets });
        let empty: Vec<_> = empty.collect();
        self.reclaim.levelled = self.policy.pick_used(&used, &empty, &wear);
        self.reclaim.levelled
    }

    fn can_move(&self, zone: ZoneId) -> bool {
        let entry = self.zones.get(zone);
        let is_movable = entry.phase == Phase::Sealed && entry.live > 0 && !entry.is_read_only;
        is_movable && !self.reclaim.given_up.contains_key(&zone)
    }

    fn begun(&self, zone: ZoneId) -> Begun {
        let Zone { incarnation, live, .. } = *self.zones.get(zone);
        Begun { incarnation, live, changes: self.reclaim.changes }
    }

    /// Resets of the data zones.
    pub(crate) fn wear(&self) -> Wear {
        let usable = |phase| !matches!(phase, Phase::Metadata | Phase::Unusable);
        let zones = self.zones.iter().filter(|(_, entry)| usable(entry.phase));
        zones.map(|(_, entry)| entry.resets).collect()
    }

    /// The live pieces of a zone, and whether an extent's tags have to be read first.
    fn live_pieces(&self, zone: ZoneId) -> Vec<(FileId, Result<Vec<Piece>, usize>)> {
        let mut found = Vec::new();
        for (id, file) in self.namespace.files() {
            for (index, extent) in file.extents.iter().enumerate() {
                if extent.at.zone == zone {
                    let pieces = file.extents.pieces(extent.offset, extent.end());
                    found.push((id, pieces.map_err(|_| index)));
                }
            }
        }
        found
    }
}

impl Core {
    /// Starts relocation if there is need for it.
    pub(crate) fn run_reclaim(self: &Rc<Self>) {
        let mut state = self.state_mut();
        if state.reclaim.is_running || state.stopped.is_some() {
            return;
        }
        let is_urgent = state.reclaim.waiting > 0;
        let has_work =
            state.victim(is_urgent).is_some() || state.lagging_zone(self.limits.reserve).is_some();
        if !has_work {
            return;
        }
        state.reclaim.is_running = true;
        drop(state);
        self.handle.spawn_alone("relocation", self.clone().reclaim());
    }

    /// A write has ended, or a record is durable: zones that were stuck may be relocated. While
    /// another one is, they wait for their turn, so that none is tried again and again.
    pub(crate) fn retry_reclaim(self: &Rc<Self>) {
        let retries = {
            let reclaim = &mut self.state_mut().reclaim;
            reclaim.changes += 1;
            !reclaim.is_running && reclaim.forget_stuck()
        };
        if retries {
            mark(Mark::RelocationRetried);
            self.run_reclaim();
            self.space_changed.open();
        }
    }

    /// Blocks are free that no record holds back.
    pub(crate) fn space_freed(self: &Rc<Self>) {
        self.reset_unneeded();
        self.retry_reclaim();
        self.run_reclaim();
        self.space_changed.open();
    }

    async fn reclaim(self: Rc<Self>) {
        loop {
            let victim = {
                let mut state = self.state_mut();
                let is_urgent = state.reclaim.waiting > 0;
                let garbage = state.victim(is_urgent).map(|zone| (zone, Reason::Garbage));
                let victim = garbage.or_else(|| {
                    let lagging = state.lagging_zone(self.limits.reserve)?;
                    mark(Mark::WearLevelled);
                    Some((lagging, Reason::Wear))
                });
                let victim = victim.filter(|_| state.stopped.is_none());
                if state.reclaim.levelled == victim.map(|(zone, _)| zone) {
                    // In its next use it holds other files.
                    state.reclaim.levelled = None;
                }
                // After the others: something has changed since they were tried.
                let again = victim.is_none() && state.reclaim.forget_stuck();
                let again = again && state.stopped.is_none();
                state.reclaim.is_running = victim.is_some() || again;
                if again {
                    mark(Mark::RelocationRetried);
                    continue;
                }
                victim
            };
            let Some((victim, reason)) = victim else { break };
            let begun = self.state().begun(victim);
            let relocated = self.relocate(victim, reason).await;
            self.end_relocation(victim, begun, &relocated);
            self.reset_unneeded();
            self.until_reset(victim).await;
        }
        self.space_changed.open();
    }

    /// Gives up a zone that failed, or whose live blocks cannot move yet: those of writes that are
    /// not part of a file, as one before them waits for space. Others come first.
    fn end_relocation(&self, zone: ZoneId, begun: Begun, relocated: &Result<(), StoreError>) {
        let mut state = self.state_mut();
        let now = state.begun(zone);
        if now.incarnation != begun.incarnation {
            // It was reset meanwhile, and is in another use.
            return;
        }
        let is_stuck = state.zones.get(zone).phase == Phase::Sealed && now.live == begun.live;
        let why = match relocated {
            Err(StoreError::Damaged { .. } | StoreError::Unreadable { .. }) => GivenUp::Damaged,
            Err(_) => GivenUp::Failed,
            Ok(()) if is_stuck && now.live > 0 => GivenUp::Stuck(begun.changes),
            Ok(()) => return,
        };
        if why == GivenUp::Stuck(begun.changes) {
            mark(Mark::RelocationStuck);
        }
        state.reclaim.given_up.insert(zone, why);
    }

    /// Waits until a relocated zone is empty, or in use for another reason.
    async fn until_reset(&self, zone: ZoneId) {
        loop {
            let waits = {
                let state = self.state();
                let entry = state.zones.get(zone);
                let is_pinned = entry.phase == Phase::Sealed && entry.live == 0;
                let is_on_its_way = entry.phase == Phase::Resetting;
                state.stopped.is_none() && (is_on_its_way || (is_pinned && entry.readers > 0))
            };
            if !waits {
                return;
            }
            self.space_changed.wait().await;
        }
    }

    /// Copies all that is live in a zone, and puts it on record.
    async fn relocate(self: &Rc<Self>, zone: ZoneId, reason: Reason) -> Result<(), StoreError> {
        let (pin, incarnation) = {
            let mut state = self.state_mut();
            state.check_running()?;
            assert!(state.zones.get(zone).phase == Phase::Sealed, "{zone} is relocated");
            (Pin::new(self, &mut state, zone), state.zones.get(zone).incarnation)
        };
        let mut copied = Vec::new();
        let copies = self.copy_all(zone, (incarnation, reason), &mut copied).await;
        if reason == Reason::Wear && copies.is_err() {
            // The zone stays in use, so each copy would be a write for nothing, and half of its
            // files would be where only cold ones should be.
            mark(Mark::LevellingGivenUp);
            self.drop_copies(&copied);
            return copies;
        }
        if !mutant(Mutant::MoveBeforeFlush)
            && let Err(status) = self.make_durable().await
        {
            self.drop_copies(&copied);
            return Err(StoreError::Device(status));
        }
        let ticket = self.record_moves(copied);
        // Not earlier: a zone in another use may hold other bytes of a file at the same blocks.
        drop(pin);
        self.until_durable(ticket).await?;
        copies
    }

    /// Copies all that is live in a zone. Copies before an error count.
    async fn copy_all(
        self: &Rc<Self>,
        zone: ZoneId,
        (incarnation, reason): (Incarnation, Reason),
        copied: &mut Vec<Copied>,
    ) -> Result<(), StoreError> {
        self.load_all_ends(zone, incarnation).await?;
        let pieces = self.state().live_pieces(zone);
        for (file, pieces) in pieces {
            // What changed since the tags were read is left for the next time.
            for piece in pieces.into_iter().flatten() {
                self.copy(file, piece, (incarnation, reason), copied).await?;
            }
        }
        Ok(())
    }

    fn drop_copies(&self, copied: &[Copied]) {
        let mut state = self.state_mut();
        for copy in copied {
            state.zones.free(BlockRun { at: copy.to, blocks: copy.from.blocks });
        }
    }

    async fn load_all_ends(
        self: &Rc<Self>,
        zone: ZoneId,
        incarnation: Incarnation,
    ) -> Result<(), StoreError> {
        let unknown: Vec<_> = {
            let state = self.state();
            let unknown = state.live_pieces(zone).into_iter().filter_map(|(file, pieces)| {
                let index = pieces.err()?;
                let node = state.namespace.file(file)?;
                Some((file, node.extents.iter().nth(index)?.clone()))
            });
            unknown.collect()
        };
        for (file, extent) in unknown {
            self.load_ends(file, &extent, incarnation).await?;
        }
        Ok(())
    }

    /// Copies the blocks of a piece, in as many writes as room and transfer size demand.
    async fn copy(
        self: &Rc<Self>,
        file: FileId,
        piece: Piece,
        (incarnation, reason): (Incarnation, Reason),
        copied: &mut Vec<Copied>,
    ) -> Result<(), StoreError> {
        let most = self.limits.buffer.index();
        let blocks = piece.starts.len() - 1;
        let mut done = 0;
        while done < blocks {
            let until = blocks.min(done + most);
            let at = block_at(piece.at, done);
            let part = Piece { at, starts: piece.starts[done..=until].to_vec() };
            let mut hints = match self.state().namespace.file(file) {
                Some(node) => node.hints,
                // It was deleted meanwhile.
                None => return Ok(()),
            };
            if reason == Reason::Wear {
                hints.lifetime = self.state().policy.lifetime_of_moved(hints.lifetime);
            }
            let need = Need { hints, is_relocation: true };
            let payload = self.read_verified(file, &part, incarnation).await?;
            let want = BlockCount(u32::try_from(until - done).expect("at most a transfer"));
            // Otherwise each write would be alone in a zone: equal lifetimes are a poor match.
            let last = copied.last().filter(|last| last.lifetime == hints.lifetime);
            let place = self.place(need, last.map(|last| last.to.zone), want).await?;
            let written = part.starts.len().min(place.blocks.index() + 1);
            let starts = &part.starts[..written];
            let to = self.write_copy(file, place, starts, &payload).await?;
            let from = BlockRun { at, blocks: place.blocks };
            let bytes = starts[written - 1] - starts[0];
            copied.push(Copied {
                file,
                offset: starts[0],
                bytes,
                from,
                to,
                lifetime: hints.lifetime,
            });
            done += place.blocks.index();
        }
        Ok(())
    }

    /// Writes the first blocks of a payload at a place, with tags for that place.
    async fn write_copy(
        self: &Rc<Self>,
        file: FileId,
        place: Place,
        starts: &[u64],
        payload: &Payload,
    ) -> Result<ZoneAddress, StoreError> {
        assert!(starts.len() == place.blocks.index() + 1, "a start for each block, and the end");
        let mut buffer = AlignedBuffer::unfilled(place.blocks);
        let blocks = buffer.as_mut().chunks_exact_mut(BLOCK_BYTES);
        for (block, source) in blocks.zip(payload.iter_blocks()) {
            block.copy_from_slice(&source);
        }
        let payload = self.retag(file, place, starts, buffer);
        let write = self.device.submit(Command::Write { at: place.at, payload, fua: false });
        let run = BlockRun { at: place.at, blocks: place.blocks };
        self.state_mut().zones.add_live(run);
        let written = write.await;
        mark(Mark::Relocated);
        let seals = {
            let mut state = self.state_mut();
            state.counters.relocated += u64::from(place.blocks.0);
            if written.is_err() {
                let entry = state.zones.get_mut(place.at.zone);
                entry.must_finish = true;
                if entry.phase == Phase::Open {
                    entry.phase = Phase::Sealing;
                }
                state.zones.free(run);
            }
            state.end_flight(place.at)
        };
        if seals {
            self.start_sealing(place.at.zone);
        }
        written.map(|_| place.at).map_err(StoreError::Device)
    }

    /// Blocks with tags for another place.
    fn retag(
        &self,
        file: FileId,
        place: Place,
        starts: &[u64],
        mut buffer: AlignedBuffer,
    ) -> Payload {
        let state = self.state();
        let incarnation = state.zones.get(place.at.zone).incarnation;
        let version = state.namespace.file(file).map(|node| node.version).unwrap_or_default();
        let payload_bytes = self.layout.payload_bytes();
        let mut metadata = Vec::new();
        let blocks = buffer.as_mut().chunks_exact_mut(BLOCK_BYTES);
        for ((index, block), span) in blocks.enumerate().zip(starts.windows(2)) {
            let bytes = u32::try_from(span[1] - span[0]).expect("bytes of a block");
            let tag = Tag { file, version, offset: span[0], bytes, is_copy: true };
            let (payload, inline) = block.split_at_mut(payload_bytes);
            payload[bytes as usize..].fill(0);
            let at = block_at(place.at, index);
            let encoded = tag.encode(self.layout, self.seed, at, incarnation, payload);
            if self.has_metadata() {
                metadata.extend(encoded);
                metadata.resize((index + 1) * OOB_BYTES, 0);
            } else {
                inline.copy_from_slice(&encoded);
            }
        }
        Payload::new(buffer.freeze(), metadata.into())
    }

    /// Points files at the copies of their blocks. Copies of blocks that changed meanwhile are
    /// garbage.
    fn record_moves(&self, copied: Vec<Copied>) -> Ticket {
        let mut state = self.state_mut();
        for Copied { file, offset, bytes, from, to, .. } in copied {
            let node = state.namespace.file_mut(file);
            let moved = node.and_then(|node| move_kept(&mut node.extents, offset, bytes, from, to));
            let (bytes, blocks) = moved.unwrap_or((0, BlockCount(0)));
            if blocks < from.blocks {
                let at = block_at(to, blocks.index());
                state.zones.free(BlockRun { at, blocks: BlockCount(from.blocks.0 - blocks.0) });
            }
            // Its ends may split one extent each.
            state.add_extents(2);
            if moved.is_none() {
                mark(Mark::RelocationStale);
                continue;
            }
            let has_name = state.namespace.file(file).is_some_and(|node| node.links > 0);
            if !has_name {
                mark(Mark::OrphanRelocated);
            }
            let (id, from) = (file, BlockRun { blocks, ..from });
            let entry = Entry::Move { id, offset, bytes, from: from.at, to, blocks };
            state.record(has_name.then_some(entry), vec![from]);
        }
        state.journal.last
    }
}

/// Points a file at the copy of a run of its blocks, or of those that a truncation since left it.
/// Returns the bytes and blocks that are in the copy now.
fn move_kept(
    extents: &mut ExtentMap,
    offset: u64,
    bytes: u64,
    from: BlockRun,
    to: ZoneAddress,
) -> Option<(u64, BlockCount)> {
    if extents.relocate(offset, bytes, from, to) {
        return Some((bytes, from.blocks));
    }
    let (kept, blocks) = extents.kept_of(offset, from)?;
    let moved = extents.relocate(offset, kept, BlockRun { blocks, ..from }, to);
    if moved {
        mark(Mark::RelocatedInPart);
    }
    moved.then_some((kept, blocks))
}

fn block_at(first: ZoneAddress, index: usize) -> ZoneAddress {
    let index = u32::try_from(index).expect("a block of a zone");
    ZoneAddress { offset: first.offset.plus(BlockCount(index)), ..first }
}
