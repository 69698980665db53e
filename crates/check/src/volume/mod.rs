//! The contents of the volume: [`versions`] of its blocks, of which [`contents`] reads the newest.

pub(crate) mod contents;
pub(crate) mod versions;
