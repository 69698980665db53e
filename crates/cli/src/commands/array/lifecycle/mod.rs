//! The end of a service, a name or an array: `zoneweave array stop`, `rename` and `destroy`; and
//! the spares of a service.

mod configured;
mod destroy;
mod rename;
mod server;
pub(super) mod spare;
mod stop;
mod target;
mod whole;

pub(super) use destroy::{Destroy, destroy};
pub(super) use rename::{Rename, rename};
pub(super) use stop::{Stop, stop};
