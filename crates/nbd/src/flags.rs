//! Transmission flags: the features of an export, sent to the client at the end of the handshake.

use std::fmt;
use std::ops::BitOr;

/// A set of `NBD_FLAG_*` transmission flags.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct TransmissionFlags(u16);

impl TransmissionFlags {
    /// No flag at all; sent flags always have [`Self::HAS_FLAGS`] too.
    pub const NONE: Self = Self(0);
    /// Set in all flags that are sent.
    pub const HAS_FLAGS: Self = Self(1);
    /// Writes, trims and zeroes fail with [`Errno::NotPermitted`](crate::Errno::NotPermitted).
    pub const READ_ONLY: Self = Self(1 << 1);
    /// Flush is understood.
    pub const SEND_FLUSH: Self = Self(1 << 2);
    /// Force-unit-access is understood on every command.
    pub const SEND_FUA: Self = Self(1 << 3);
    /// The medium rotates: clients may sort requests.
    pub const ROTATIONAL: Self = Self(1 << 4);
    /// Trim is understood.
    pub const SEND_TRIM: Self = Self(1 << 5);
    /// Write-zeroes is understood.
    pub const SEND_WRITE_ZEROES: Self = Self(1 << 6);
    /// Reads may ask for a single content chunk. Sent only once structured replies are agreed.
    pub const SEND_DF: Self = Self(1 << 7);
    /// A flush on one connection covers the writes replied to on all of them.
    pub const CAN_MULTI_CONN: Self = Self(1 << 8);
    /// Resize is understood. Not implemented here: [`ExportList`](crate::ExportList) refuses it.
    pub const SEND_RESIZE: Self = Self(1 << 9);
    /// Cache (prefetch) is understood.
    pub const SEND_CACHE: Self = Self(1 << 10);
    /// Write-zeroes may ask to fail rather than be as slow as a write.
    pub const SEND_FAST_ZERO: Self = Self(1 << 11);

    /// Every flag this crate can honour.
    pub const SUPPORTED: Self = Self(0x0fff & !Self::SEND_RESIZE.0);

    /// The 16-bit value sent to the client.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Makes a set from its wire value, keeping unknown bits for [`Self::without`] to find.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Whether every flag of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of `self` that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether no flag is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for TransmissionFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for TransmissionFlags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TransmissionFlags({:#06x})", self.0)
    }
}
