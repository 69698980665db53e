//! A block that was read and passed its checksum.

use bytes::Bytes;

use crate::log::format::BlockIdentity;

/// A verified block with its identity.
#[derive(Clone, Debug)]
pub(in crate::log) struct FoundBlock {
    /// Contents of the block.
    pub data: Bytes,
    /// Identity from its metadata.
    pub identity: BlockIdentity,
}

/// Attempts at a block that can be neither read nor reconstructed.
pub(super) const TRIES: u32 = 4;
