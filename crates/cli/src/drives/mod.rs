//! Drives as files: their paths, what they hold, and whether that may be destroyed.

pub(crate) mod consent;
pub(crate) mod foreign;
pub(crate) mod paths;
