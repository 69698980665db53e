//! Baselines to compare the engine with. They read and write at the speed of their design, and do
//! nothing else.
//!
//! `raizn_spdk` is the paper's own baseline on zoned drives, `rmw_raid5` a RAID-5 on conventional
//! drives. This file has their common answers to other requests.

pub(super) mod raizn_spdk;
pub(super) mod rmw_raid5;

use bytes::Bytes;
use zoneweave_zoned::{BlockError, BlockFuture, Extent, ExtentState};

/// The answer to requests other than reads and writes.
pub(crate) fn unsupported() -> BlockFuture<()> {
    let error = BlockError::ReadOnly { reason: "this baseline only writes data" };
    Box::pin(std::future::ready(Err(error)))
}

/// The answer to a flush: drives of these experiments keep acknowledged data.
pub(crate) fn nothing_to_flush() -> BlockFuture<()> {
    Box::pin(std::future::ready(Ok(())))
}

/// The answer to a query of extents: everything may be data.
pub(crate) fn all_data(blocks: u64) -> BlockFuture<Vec<Extent>> {
    Box::pin(std::future::ready(Ok(vec![Extent { blocks, state: ExtentState::Data }])))
}

/// The data of a request in one piece.
pub(crate) fn in_one_piece(data: &[Bytes]) -> Bytes {
    if let [one] = data { one.clone() } else { data.concat().into() }
}
