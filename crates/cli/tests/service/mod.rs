//! Servers as services: volumes by name, and the service manager.

mod named;
mod notify;
