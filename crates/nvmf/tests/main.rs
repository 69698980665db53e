//! Tests of the whole target, by an initiator over byte pipes.

mod admin;
mod hostile;
mod initiator;
mod properties;
mod session;
mod zoned;
