//! Drives as files: their paths, their contents, and the consent to overwrite them.

pub(crate) mod candidates;
pub(crate) mod consent;
pub(crate) mod failure;
pub(crate) mod foreign;
pub(crate) mod identity;
pub(crate) mod membership;
pub(crate) mod paths;
pub(crate) mod search;
pub(crate) mod space;
pub(crate) mod strangers;
