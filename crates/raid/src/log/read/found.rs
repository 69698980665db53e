//! A block that was read and passed its checksum.

use crate::log::format::BlockIdentity;
use bytes::Bytes;

/// A block found, with its identity.
#[derive(Clone, Debug)]
pub(in crate::log) struct FoundBlock {
    /// The data.
    pub data: Bytes,
    /// Its identity.
    pub identity: BlockIdentity,
}
