//! Reads blocks from drives, each once, with as few commands as possible.
//!
//! Adjacent blocks of a zone are read with one command, for any purpose: as a result, or to
//! reconstruct another block. One unreadable block hides the others of its command, which may have
//! no other copy: these are then read one by one. Nothing is verified here.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use zoneweave_zoned::{BlockCount, Payload, Status, ZoneAddress};

use crate::array::io::{MemberIo, PendingRead, is_answer};
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::scheme::Column;

/// Blocks read from one zone in one command.
const RUN_BLOCKS: usize = 32;

/// Address of a block on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The member's slot.
    pub column: Column,
    /// The place on its drive.
    pub at: ZoneAddress,
}

impl Spot {
    fn order(&self) -> impl Ord + use<> {
        (self.column, self.at.zone, self.at.offset)
    }

    fn is_before(&self, other: &Self) -> bool {
        self.column == other.column
            && self.at.zone == other.at.zone
            && self.at.offset.plus(BlockCount(1)) == other.at.offset
    }
}

/// Whether [`gather_seen`] reads these blocks in the given order, each by itself.
#[must_use]
pub(super) fn are_in_order(spots: &[Spot]) -> bool {
    spots.is_sorted_by(|one, next| one.order() < next.order())
}

/// A block as a drive returned it.
#[derive(Clone, Copy)]
pub(super) struct RawBlock<'a> {
    of: &'a Payload,
    at: usize,
}

impl<'a> RawBlock<'a> {
    /// The data, sharing memory.
    #[must_use]
    pub(super) fn data(self) -> Bytes {
        self.of.block(self.at)
    }

    #[must_use]
    pub(super) fn oob(self) -> &'a [u8] {
        self.of.oob_of(self.at)
    }
}

/// Adjacent blocks, and the answer of their drive.
struct Run {
    first: Spot,
    blocks: u32,
    answer: Result<Payload, Status>,
}

impl Run {
    fn of(run: &[Spot], answer: Result<Payload, Status>) -> Self {
        if let Ok(payload) = &answer {
            let blocks = payload.blocks();
            assert!(blocks.0 == blocks_of(run), "{blocks} answer a read of {}", blocks_of(run));
        }
        Self { first: run[0], blocks: blocks_of(run), answer }
    }

    /// Number of a block within the run.
    fn index_of(&self, spot: Spot) -> Option<usize> {
        let Spot { column, at: ZoneAddress { zone, offset } } = self.first;
        if spot.column != column || spot.at.zone != zone {
            return None;
        }
        let at = spot.at.offset.0.checked_sub(offset.0).filter(|at| *at < self.blocks)?;
        Some(at as usize)
    }
}

pub(super) struct Gathered {
    /// In the order of addresses.
    runs: Vec<Run>,
    /// The run of the last lookup: most lookups are in order.
    last: Cell<usize>,
}

impl Gathered {
    /// Whether drives that failed these reads said something of the blocks, not of themselves.
    #[must_use]
    pub(super) fn are_answers(&self, spots: impl IntoIterator<Item = Spot>) -> bool {
        let failed = |spot| self.get(spot).and_then(Result::err);
        spots.into_iter().filter_map(failed).all(is_answer)
    }

    /// The answer for a block; `None` if it was not requested.
    #[must_use]
    pub(super) fn get(&self, spot: Spot) -> Option<Result<RawBlock<'_>, Status>> {
        let last = self.last.get();
        let there = |run: usize| Some((run, self.runs.get(run)?.index_of(spot)?));
        let search = || {
            let behind = self.runs.partition_point(|run| run.first.order() <= spot.order());
            there(behind.checked_sub(1)?)
        };
        let (run, at) = there(last).or_else(|| there(last + 1)).or_else(search)?;
        self.last.set(run);
        let answer = self.runs[run].answer.as_ref();
        Some(answer.map(|payload| RawBlock { of: payload, at }).map_err(|status| *status))
    }
}

/// Reads blocks in any order, of which some may be named more than once.
pub(super) async fn gather(core: &Rc<Core>, spots: Vec<Spot>) -> Gathered {
    gather_seen(core, spots, |_, _| ()).await
}

/// Reads blocks as [`gather`] does. `see` gets the blocks that complete on submit, each with its
/// number in the order, before more is read, unless some reads are already pending. Those blocks
/// are then still in the processor's caches, and the next read is on its way.
pub(super) async fn gather_seen(
    core: &Rc<Core>,
    mut spots: Vec<Spot>,
    mut see: impl FnMut(usize, RawBlock<'_>),
) -> Gathered {
    spots.sort_by_key(Spot::order);
    spots.dedup();
    let runs: Vec<_> =
        spots.chunk_by(Spot::is_before).flat_map(|run| run.chunks(RUN_BLOCKS)).collect();
    let (mut answers, mut late) = (Vec::with_capacity(runs.len()), Vec::new());
    let mut first = 0;
    for (run, next) in runs.iter().zip(runs.iter().skip(1).map(Some).chain([None])) {
        let pending = core.submit_read(run[0].column, run[0].at, BlockCount(blocks_of(run)));
        // Pending reads are submitted first, so that they are in flight.
        if let Some(payload) = pending.as_ref().ok().filter(|_| late.is_empty()) {
            next.inspect(|next| core.hint_read(next[0].column, next[0].at));
            (0..run.len()).for_each(|at| see(first + at, RawBlock { of: payload, at }));
        }
        first += run.len();
        answers.push(pending.map_err(|pending| late.push(read_run(core, run, pending))).ok());
    }
    let mut late = join_all(late).await.into_iter();
    assert!(first == spots.len(), "{first} of {} blocks are read", spots.len());
    let mut read = Vec::with_capacity(runs.len());
    for (run, answer) in runs.into_iter().zip(answers) {
        let answer = answer.map(|payload| RunAnswer::Together(Ok(payload)));
        match answer.unwrap_or_else(|| late.next().expect("one for each that was not there")) {
            RunAnswer::Together(answer) => read.push(Run::of(run, answer)),
            RunAnswer::OneByOne(answers) => {
                read.extend(run.chunks(1).zip(answers).map(|(spot, answer)| Run::of(spot, answer)));
            }
        }
    }
    assert!(late.next().is_none(), "a drive answered for no run of {} blocks", spots.len());
    Gathered { runs: read, last: Cell::new(0) }
}

/// The answer of a drive for a run.
enum RunAnswer {
    Together(Result<Payload, Status>),
    OneByOne(Vec<Result<Payload, Status>>),
}

async fn read_run(core: &Rc<Core>, run: &[Spot], pending: PendingRead) -> RunAnswer {
    match core.finish_read(pending).await {
        Err(status) if run.len() > 1 && !status.is_fatal() => {
            mark(Mark::RunReadOneByOne);
            let alone = run.iter().map(|spot| core.read_zone(spot.column, spot.at, BlockCount(1)));
            RunAnswer::OneByOne(join_all(alone).await)
        }
        answer => RunAnswer::Together(answer),
    }
}

fn blocks_of(run: &[Spot]) -> u32 {
    u32::try_from(run.len()).expect("at most 32")
}

/// Address of a block, unless its member is missing.
pub(super) fn spot_of(state: &State, place: BlockPlace) -> Option<Spot> {
    let segment = &state.segments[place.slot];
    let zone = segment.zones[place.column.index()]?.zone;
    let offset = segment.geometry.offset_of(place.block);
    Some(Spot { column: place.column, at: ZoneAddress { zone, offset } })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zoneweave_runtime::Random;
    use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, OOB_BYTES, ZoneId, ZoneOffset};

    use super::*;

    fn spot(random: &mut Random) -> Spot {
        let mut below = |most| u32::try_from(random.below(most)).expect("a small number");
        let (zone, offset) = (ZoneId(below(3)), ZoneOffset(below(90)));
        Spot { column: Column::of(below(3) as usize), at: ZoneAddress { zone, offset } }
    }

    /// Blocks whose data and metadata begin with their number, in one piece or in several.
    fn payload(names: &[u32], in_pieces: bool) -> Payload {
        let count = BlockCount(u32::try_from(names.len()).expect("a few"));
        let mut data = AlignedBuffer::zeroed(count);
        let mut oob = vec![0; count.oob_bytes()];
        for (at, name) in names.iter().enumerate() {
            data.as_mut()[at * BLOCK_BYTES..][..4].copy_from_slice(&name.to_le_bytes());
            oob[at * OOB_BYTES..][..4].copy_from_slice(&name.to_le_bytes());
        }
        let whole = Payload::new(data.freeze(), oob.into());
        let pieces = if in_pieces { whole.iter_blocks().collect() } else { whole.data.clone() };
        Payload { data: pieces, oob: whole.oob }
    }

    #[test]
    fn every_block_is_the_one_that_was_read_there() {
        let mut random = Random::new(5);
        for _ in 0..200 {
            let mut spots: Vec<_> = (0..random.below(150)).map(|_| spot(&mut random)).collect();
            spots.sort_by_key(Spot::order);
            spots.dedup();
            let (mut runs, mut expected, mut name) = (Vec::new(), BTreeMap::new(), 0);
            for run in spots.chunk_by(Spot::is_before).flat_map(|run| run.chunks(RUN_BLOCKS)) {
                let names: Vec<_> = (name..).take(run.len()).collect();
                name += blocks_of(run);
                let failed = random.below(4) == 0;
                let told = names.iter().map(|name| (!failed).then_some(*name));
                expected.extend(run.iter().map(Spot::order).zip(told));
                let answer = match failed {
                    true => Err(Status::UnrecoveredRead),
                    false => Ok(payload(&names, random.below(2) == 0)),
                };
                runs.push(Run::of(run, answer));
            }
            let gathered = Gathered { runs, last: Cell::new(0) };
            let others: Vec<_> = (0..300).map(|_| spot(&mut random)).collect();
            for asked in spots.iter().chain(spots.iter().rev()).chain(&others) {
                let found = gathered.get(*asked).map(|answer| {
                    let raw = answer.ok()?;
                    assert_eq!(raw.data()[..4], raw.oob()[..4]);
                    Some(u32::from_le_bytes(*raw.oob().first_chunk().expect("metadata")))
                });
                assert_eq!(found, expected.get(&asked.order()).copied(), "{asked:?}");
            }
        }
    }
}
