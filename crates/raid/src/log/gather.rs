//! Reading blocks from drives, each once, with as few commands as possible.
//!
//! What lies one behind the other in a zone is read with one command, whatever each block is
//! wanted for: to be returned, or to rebuild another one. One block that cannot be read hides the
//! others of its command, of which there may be no other copy: then they are read one by one.
//! Nothing here is verified.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{BlockCount, Payload, Status, ZoneAddress};

use crate::layout::Column;
use crate::log::core::Core;
use crate::marks::{Mark, mark};

/// Blocks read from one zone in one command.
const RUN_BLOCKS: usize = 32;

/// Where a block of a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The member.
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

/// A block as a drive returned it: data and metadata.
pub(super) type RawBlock = (Bytes, Bytes);

/// What drives answered.
pub(super) struct Gathered {
    /// In order of their places.
    blocks: Vec<(Spot, Result<RawBlock, Status>)>,
    /// Behind the one asked for last: most are asked for in order.
    next: Cell<usize>,
}

impl Gathered {
    /// The answer about a block; `None` if it was not asked for.
    #[must_use]
    pub(super) fn get(&self, spot: Spot) -> Option<&Result<RawBlock, Status>> {
        let next = self.next.get();
        let at = match self.blocks.get(next) {
            Some((at, _)) if *at == spot => next,
            _ => self.blocks.binary_search_by_key(&spot.order(), |(at, _)| at.order()).ok()?,
        };
        self.next.set(at + 1);
        Some(&self.blocks[at].1)
    }
}

/// Reads blocks, in any order, of which some may be named more than once.
pub(super) async fn gather(core: &Rc<Core>, mut spots: Vec<Spot>) -> Gathered {
    spots.sort_by_key(Spot::order);
    spots.dedup();
    let runs = spots.chunk_by(Spot::is_before).flat_map(|run| run.chunks(RUN_BLOCKS));
    let answers = futures_util::future::join_all(runs.map(|run| read_run(core, run))).await;
    let answers = answers.into_iter().flatten();
    Gathered { blocks: spots.iter().copied().zip(answers).collect(), next: Cell::new(0) }
}

async fn read_run(core: &Rc<Core>, run: &[Spot]) -> Vec<Result<RawBlock, Status>> {
    let first = run[0];
    let length = BlockCount(u32::try_from(run.len()).expect("at most 32"));
    let block = |payload: &Payload, at: usize| (payload.block(at), payload.block_oob(at));
    match core.read_zone(first.column, first.at, length).await {
        Ok(payload) => (0..run.len()).map(|at| Ok(block(&payload, at))).collect(),
        Err(status) if length.0 > 1 && !status.is_fatal() => {
            mark(Mark::RunReadOneByOne);
            let alone = run.iter().map(|spot| async {
                let payload = core.read_zone(spot.column, spot.at, BlockCount(1)).await?;
                Ok(block(&payload, 0))
            });
            futures_util::future::join_all(alone).await
        }
        Err(status) => vec![Err(status); run.len()],
    }
}
