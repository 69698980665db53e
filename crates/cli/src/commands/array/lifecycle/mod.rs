//! The end of a service, a name or an array: `zoneweave array stop`, `rename` and `destroy`.

mod configured;
mod destroy;
mod rename;
mod stop;
mod target;
mod whole;

pub(super) use destroy::{Destroy, destroy};
pub(super) use rename::{Rename, rename};
pub(super) use stop::{Stop, stop};
