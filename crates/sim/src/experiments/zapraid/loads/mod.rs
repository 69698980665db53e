//! Loads on a volume.

pub(super) mod overwrites;
pub(super) mod random_writes;
pub(super) mod reads;
pub(super) mod writes;
pub(super) mod zipf;
