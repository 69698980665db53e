//! Servers as services: volumes by name.

mod named;
