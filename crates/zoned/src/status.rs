//! NVMe status codes, by name and value.
//!
//! The value is the status code type in bits 10..8 and the status code in bits 7..0, as
//! `nvme-cli` prints it.

use std::fmt;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        /// Why a drive refused or failed a command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Status {
            $($(#[$doc])* $name = $value,)*
        }

        impl Status {
            /// Every status, for tables and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name the NVMe specifications use.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

statuses! {
    /// A field of the command makes no sense.
    InvalidField = 0x002, "Invalid Field in Command";
    /// The drive failed in a way it cannot describe.
    InternalError = 0x006, "Internal Error";
    /// The block lies beyond the drive.
    LbaOutOfRange = 0x080, "LBA Out of Range";
    /// The drive has no room left.
    CapacityExceeded = 0x081, "Capacity Exceeded";
    /// The operation is not allowed on this zone.
    InvalidZoneOperation = 0x1B6, "Invalid Zone Operation Request";
    /// No random write area is left.
    ZrwaUnavailable = 0x1B7, "ZRWA Resources Unavailable";
    /// The command reaches past the end of its zone.
    ZoneBoundary = 0x1B8, "Zone Boundary Error";
    /// The zone takes no more writes before a reset.
    ZoneFull = 0x1B9, "Zone Is Full";
    /// The zone can only be read.
    ZoneReadOnly = 0x1BA, "Zone Is Read Only";
    /// The zone can be neither read nor written.
    ZoneOffline = 0x1BB, "Zone Is Offline";
    /// A write did not start at the write pointer.
    ZoneInvalidWrite = 0x1BC, "Zone Invalid Write";
    /// The limit of active zones is reached.
    TooManyActive = 0x1BD, "Too Many Active Zones";
    /// The limit of open zones is reached and none can be closed implicitly.
    TooManyOpen = 0x1BE, "Too Many Open Zones";
    /// The zone cannot go from its state to the requested one.
    InvalidTransition = 0x1BF, "Invalid Zone State Transition";
    /// The media did not take the write.
    WriteFault = 0x280, "Write Fault";
    /// The media did not return the block.
    UnrecoveredRead = 0x281, "Unrecovered Read Error";
    /// The block was never written and the drive was told to say so.
    Deallocated = 0x287, "Deallocated or Unwritten Logical Block";
    /// The drive does not answer any more: pulled out, dead, or its file is gone.
    DeviceGone = 0x370, "Host Path Error";
    /// The host gave up on the command; it may or may not have happened.
    Aborted = 0x371, "Command Aborted By Host";
}

impl Status {
    /// The value with status code type and code.
    #[must_use]
    pub const fn value(self) -> u16 {
        self as u16
    }

    /// Whether the drive as a whole is lost, rather than a zone or a block of it.
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        matches!(self, Self::DeviceGone)
    }

    /// Whether the drive takes no such command for a zone in its state, as for one that has failed:
    /// trying again is of no use, and nothing is said about other zones.
    #[must_use]
    pub const fn is_of_zone_state(self) -> bool {
        matches!(self, Self::ZoneReadOnly | Self::ZoneOffline | Self::InvalidTransition)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (status {:#05x})", self.name(), self.value())?;
        // Of a drive in a file, or a namespace that has less than it says: nothing is wrong with
        // the drive.
        match self {
            Self::CapacityExceeded => {
                f.write_str(", there is no space left where its data is kept")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Status {}
