//! Members: lost, replaced, lying, slow, without metadata; and the schemes that survive their loss.

mod active_zones;
mod awaiting;
mod destroying;
mod faults;
mod hedging;
mod inline;
mod members;
mod rebuilding;
mod returning;
mod schemes;
mod scrubbing;
mod spares;
mod stale;
mod stopping;
mod suspicion;
