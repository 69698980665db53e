//! Segments: garbage collection under load, and the record of dead ones.

mod collecting;
mod deaths;
