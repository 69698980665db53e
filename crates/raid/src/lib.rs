//! RAID volumes over zoned drives.
//!
//! [`log`] is the log-structured block volume. What several kinds of volume share (which member
//! holds which chunk of a stripe) is in [`layout`].

pub mod layout;
pub mod log;
