//! The end of a service, a name or an array: `zoneweave array stop`, `rename` and `destroy`.

mod stop;
mod target;

pub(super) use stop::{Stop, stop};
