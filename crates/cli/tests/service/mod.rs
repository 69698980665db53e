//! Servers as services: volumes by name, the service manager, and assembly at boot.

mod assemble;
mod named;
mod notify;
