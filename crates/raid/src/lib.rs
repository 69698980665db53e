//! RAID volumes over zoned drives.
//!
//! | module | content |
//! |---|---|
//! | [`scheme`] | which column holds which chunk of a stripe; shared by all kinds of volume |
//! | [`array`](mod@array) | members, superblock records and quorum of an array, whatever is on it |
//! | [`log`] | the log-structured block volume |
//! | [`raizn`] | the zoned volume |
//! | [`shards`] | several volumes combined into one |
//! | [`inline`] | metadata beside the blocks, for drives without a metadata area |
//! | [`instrument`] | marks on rare branches and planted bugs, for simulation |

pub mod array;
pub mod inline;
pub mod instrument;
pub mod log;
pub mod raizn;
pub mod scheme;
pub mod shards;
