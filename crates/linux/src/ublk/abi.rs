//! The driver's interface: numbers and layouts of the kernel's `linux/ublk_cmd.h`.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// How the kernel numbers commands: direction, size of the argument, type and number.
#[expect(clippy::cast_possible_truncation, reason = "structures of less than 100 bytes")]
const fn code(direction: u32, bytes: usize, number: u32) -> u32 {
    direction << 30 | (bytes as u32) << 16 | (b'u' as u32) << 8 | number
}

const READ: u32 = 2;
const READ_WRITE: u32 = 3;
const CONTROL_BYTES: usize = size_of::<ControlHeader>();

/// Commands to the control device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    GetDeviceInfo,
    AddDevice,
    DeleteDevice,
    StartDevice,
    StopDevice,
    SetParameters,
    GetParameters,
    StartRecovery,
    EndRecovery,
    GetFeatures,
}

impl Control {
    pub(super) const fn code(self) -> u32 {
        match self {
            Self::GetDeviceInfo => code(READ, CONTROL_BYTES, 0x02),
            Self::AddDevice => code(READ_WRITE, CONTROL_BYTES, 0x04),
            Self::DeleteDevice => code(READ_WRITE, CONTROL_BYTES, 0x05),
            Self::StartDevice => code(READ_WRITE, CONTROL_BYTES, 0x06),
            Self::StopDevice => code(READ_WRITE, CONTROL_BYTES, 0x07),
            Self::SetParameters => code(READ_WRITE, CONTROL_BYTES, 0x08),
            Self::GetParameters => code(READ, CONTROL_BYTES, 0x09),
            Self::StartRecovery => code(READ_WRITE, CONTROL_BYTES, 0x10),
            Self::EndRecovery => code(READ_WRITE, CONTROL_BYTES, 0x11),
            Self::GetFeatures => code(READ, CONTROL_BYTES, 0x13),
        }
    }

    /// The command's purpose, to complete "cannot ...".
    pub(super) const fn purpose(self) -> &'static str {
        match self {
            Self::GetDeviceInfo => "ask what the device is",
            Self::AddDevice => "add the device",
            Self::DeleteDevice => "delete the device",
            Self::StartDevice => "start the device",
            Self::StopDevice => "stop the device",
            Self::SetParameters => "tell the kernel what the disk is like",
            Self::GetParameters => "ask what the disk is like",
            Self::StartRecovery => "begin to take the device over",
            Self::EndRecovery => "take the device over",
            Self::GetFeatures => "ask the driver what it can do",
        }
    }
}

/// A command to the control device.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct ControlHeader {
    pub(super) device: u32,
    /// All ones: no command of ours is about a queue.
    pub(super) queue: u16,
    pub(super) length: u16,
    pub(super) address: u64,
    pub(super) data: u64,
    pub(super) path_length: u16,
    pub(super) reserved: [u16; 3],
}

/// A device as the driver knows it.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct DeviceInfo {
    pub(super) queues: u16,
    pub(super) queue_depth: u16,
    pub(super) state: u16,
    pub(super) padding: u16,
    pub(super) io_bytes_max: u32,
    pub(super) device: u32,
    pub(super) server_process: i32,
    pub(super) padding_2: u32,
    pub(super) features: u64,
    /// For the server's own use.
    pub(super) server_flags: u64,
    pub(super) owner_user: u32,
    pub(super) owner_group: u32,
    pub(super) reserved: [u64; 2],
}

/// Added and not started, or stopped.
pub(super) const STATE_DEAD: u16 = 0;
/// Served.
pub(super) const STATE_LIVE: u16 = 1;
/// Its server has died, and requests wait for another one.
pub(super) const STATE_QUIESCED: u16 = 2;

/// A server that died may be followed by another one.
pub(super) const FEATURE_USER_RECOVERY: u64 = 1 << 3;
/// Requests of a dead server are issued again.
pub(super) const FEATURE_RECOVERY_REISSUE: u64 = 1 << 4;
/// Commands have the numbers used here.
pub(super) const FEATURE_IOCTL_NUMBERS: u64 = 1 << 6;
/// Data is copied by reading and writing the character device.
pub(super) const FEATURE_USER_COPY: u64 = 1 << 7;
/// The disk is zoned.
pub(super) const FEATURE_ZONED: u64 = 1 << 8;

/// Everything the kernel is told about a disk.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Parameters {
    pub(super) length: u32,
    pub(super) types: u32,
    pub(super) basic: BasicParameters,
    pub(super) discard: DiscardParameters,
    pub(super) numbers: [u32; 4],
    pub(super) zoned: ZonedParameters,
    pub(super) padding: u32,
}

pub(super) const PARAMETERS_BASIC: u32 = 1 << 0;
pub(super) const PARAMETERS_DISCARD: u32 = 1 << 1;
pub(super) const PARAMETERS_ZONED: u32 = 1 << 3;

#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, PartialEq, Eq)]
#[repr(C)]
pub(super) struct BasicParameters {
    pub(super) attributes: u32,
    pub(super) logical_block_shift: u8,
    pub(super) physical_block_shift: u8,
    pub(super) optimal_io_shift: u8,
    pub(super) least_io_shift: u8,
    pub(super) sectors_max: u32,
    pub(super) chunk_sectors: u32,
    pub(super) device_sectors: u64,
    pub(super) virtual_boundary_mask: u64,
}

pub(super) const ATTRIBUTE_READ_ONLY: u32 = 1 << 0;
pub(super) const ATTRIBUTE_VOLATILE_CACHE: u32 = 1 << 2;
pub(super) const ATTRIBUTE_FUA: u32 = 1 << 3;

#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, PartialEq, Eq)]
#[repr(C)]
pub(super) struct DiscardParameters {
    pub(super) alignment: u32,
    pub(super) granularity: u32,
    pub(super) discard_sectors_max: u32,
    pub(super) zeroes_sectors_max: u32,
    pub(super) segments_max: u16,
    pub(super) reserved: u16,
}

#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, PartialEq, Eq)]
#[repr(C)]
pub(super) struct ZonedParameters {
    pub(super) open_max: u32,
    pub(super) active_max: u32,
    pub(super) append_sectors_max: u32,
    pub(super) reserved: [u32; 5],
}

/// Fetches a request.
pub(super) const FETCH: u32 = code(READ_WRITE, size_of::<IoCommand>(), 0x20);
/// Answers a request and fetches the next one.
pub(super) const COMMIT_AND_FETCH: u32 = code(READ_WRITE, size_of::<IoCommand>(), 0x21);

/// A command to the character device.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct IoCommand {
    pub(super) queue: u16,
    pub(super) tag: u16,
    pub(super) result: i32,
    /// Where an append went; zero otherwise: with [`FEATURE_USER_COPY`] it is no address.
    pub(super) append_sector: u64,
}

/// A request, as the kernel writes it into the memory that is shared.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, PartialEq, Eq)]
#[repr(C)]
pub(super) struct IoDescriptor {
    /// The operation in the lowest byte, flags above.
    pub(super) operation_flags: u32,
    /// Or zones, of a report.
    pub(super) sectors: u32,
    pub(super) start_sector: u64,
    pub(super) address: u64,
}

/// In `operation_flags`: durable when it completes.
pub(super) const FLAG_FUA: u32 = 1 << 13;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
    ZoneOpen,
    ZoneClose,
    ZoneFinish,
    ZoneAppend,
    ZoneResetAll,
    ZoneReset,
    ReportZones,
}

impl IoDescriptor {
    /// The operation; `None` if it is unknown.
    pub(super) fn operation(&self) -> Option<Operation> {
        Some(match self.operation_flags & 0xFF {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Flush,
            3 => Operation::Discard,
            5 => Operation::WriteZeroes,
            10 => Operation::ZoneOpen,
            11 => Operation::ZoneClose,
            12 => Operation::ZoneFinish,
            13 => Operation::ZoneAppend,
            14 => Operation::ZoneResetAll,
            15 => Operation::ZoneReset,
            18 => Operation::ReportZones,
            _ => return None,
        })
    }

    pub(super) fn is_fua(&self) -> bool {
        self.operation_flags & FLAG_FUA != 0
    }
}

/// Where the data of a request is found in the character device, for reading and writing it.
pub(super) fn data_position(tag: u16) -> u64 {
    const DATA_START: u64 = 0x8000_0000;
    const TAG_SHIFT: u32 = 25;
    DATA_START + (u64::from(tag) << TAG_SHIFT)
}

/// The most data that a request of any ublk device has.
pub(super) const DATA_BYTES_MAX: u32 = 1 << 25;

const _: () = {
    assert!(size_of::<ControlHeader>() == 32);
    assert!(size_of::<DeviceInfo>() == 64);
    assert!(size_of::<Parameters>() == 112);
    assert!(size_of::<IoCommand>() == 16);
    assert!(size_of::<IoDescriptor>() == 24);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_kernel() {
        assert_eq!(Control::AddDevice.code(), 0xC020_7504);
        assert_eq!(Control::GetFeatures.code(), 0x8020_7513);
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xC010_7520, 0xC010_7521));
    }

    #[test]
    fn parameters_lie_where_the_kernel_looks() {
        assert_eq!(std::mem::offset_of!(Parameters, discard), 40);
        assert_eq!(std::mem::offset_of!(Parameters, numbers), 60);
        assert_eq!(std::mem::offset_of!(Parameters, zoned), 76);
    }
}
