//! A drive in RAM: a controller, media, a write cache, and commands in flight.
//!
//! A [`RamDrive`] is the hardware; it outlives the process that uses it. [`RamDrive::attach`] gives
//! a process its device. Every attachment, crash or power failure ends the life of the device given
//! out before: its commands are answered [`Status::Aborted`], later ones [`Status::DeviceGone`],
//! and none of them changes the drive any more.
//!
//! A command changes the drive at one moment between its submission and its completion. A power
//! failure decides about the commands before that moment (they happen or do not). It cuts each zone
//! back to a prefix between the durable and the written blocks; the cut may tear a command between
//! two blocks. Finished zone management is durable, and is never undone.
//!
//! `drive` has attachments and completions, `core` the effects of commands. `cache` and `areas`
//! keep the versions that a power failure may lose, `numbered` the commands in flight. `image`
//! saves a drive in a file. `memory_drive` is another drive, for measurements.

mod areas;
mod cache;
mod core;
mod drive;
mod image;
mod memory_drive;
mod numbered;
mod pending;

pub use drive::RamDrive;
pub use image::ImageError;
pub use memory_drive::MemoryDrive;
pub use pending::PendingCommand;
