//! Servers as services: volumes by name, the service manager, assembly at boot, events and metrics.

mod assemble;
mod destroy;
mod events;
mod metrics;
mod named;
mod new_drives;
mod notify;
mod rename;
mod scrubs;
mod spares;
mod stop;
mod top;
mod wipe;
