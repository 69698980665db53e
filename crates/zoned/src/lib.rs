//! The interfaces of zoned drives and of block devices.
//!
//! [`ZonedDevice`] is one drive: zones, write pointers, commands with out-of-band metadata beside
//! each block. [`BlockDevice`] is the device that a front end serves. Engines know these traits
//! only, so that they run unchanged on emulated and real drives, in virtual and in real time.

mod address;
mod block;
mod buffer;
mod command;
mod device;
mod geometry;
mod latency;
mod nontemporal;
mod prefetch;
mod report;
mod state;
mod status;
mod zone;

pub use address::{
    BLOCK_BYTES, BlockCount, ByteSize, Lba, OOB_BYTES, ZoneAddress, ZoneId, ZoneOffset,
};
pub use block::{
    BlockDevice, BlockDeviceInfo, BlockError, BlockFuture, ByteDevice, ByteExtent, Extent,
    ExtentState,
};
pub use buffer::{AlignedBuffer, Payload, blocks_in_use, is_zero, zero_blocks};
pub use command::{Command, Outcome, Reply, ZoneAction};
pub use device::{Completion, Responder, ZonedDevice, ZonedDeviceExt, completion};
pub use geometry::{
    EXTENSION_BYTES_MAX, EXTENSION_UNIT_BYTES, Geometry, GeometryError, OobKind, ZrwaGeometry,
};
pub use latency::{Histogram, Latencies, Operation, Timed};
pub use nontemporal::copy_nontemporal;
pub use prefetch::prefetch;
pub use report::{DESCRIPTOR_BYTES, ReportOptions, ZoneDescriptor, ZoneFilter, ZoneReport};
pub use state::{CHANGED_ZONES_MAX, ChangedZones, ImportError, ZoneRecord, ZoneSet};
pub use status::Status;
pub use zone::{ZoneAttributes, ZoneInfo, ZoneState};
