//! What baselines have in common: they read and write, for their speed, and do nothing else.

pub(super) mod raizn_spdk;
pub(super) mod rmw_raid5;

use bytes::Bytes;
use zoneweave_zoned::{BlockError, BlockFuture, Extent, ExtentState};

/// The answer to whatever changes data without writing it.
pub(crate) fn unsupported() -> BlockFuture<()> {
    let error = BlockError::ReadOnly { reason: "this baseline only writes data" };
    Box::pin(std::future::ready(Err(error)))
}

/// The answer to a flush: drives of these experiments keep what they acknowledged.
pub(crate) fn nothing_to_flush() -> BlockFuture<()> {
    Box::pin(std::future::ready(Ok(())))
}

/// The answer to what is where: everything may be data.
pub(crate) fn all_data(blocks: u64) -> BlockFuture<Vec<Extent>> {
    Box::pin(std::future::ready(Ok(vec![Extent { blocks, state: ExtentState::Data }])))
}

/// The data of a request in one piece.
pub(crate) fn in_one_piece(data: &[Bytes]) -> Bytes {
    if let [one] = data { one.clone() } else { data.concat().into() }
}
