//! Status codes of completions.

use std::fmt;

/// The outcome of a command: status code type in bits 10..8, status code in bits 7..0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(u16);

/// Do Not Retry, in the status field of a completion.
const DO_NOT_RETRY: u16 = 1 << 15;

impl Status {
    /// The command succeeded.
    pub const SUCCESS: Self = Self(0x000);
    /// The opcode is unknown, or not supported by this controller.
    pub const INVALID_OPCODE: Self = Self(0x001);
    /// A field has an unsupported value.
    pub const INVALID_FIELD: Self = Self(0x002);
    /// The device failed in a way it cannot describe.
    pub const INTERNAL_ERROR: Self = Self(0x006);
    /// The command was aborted by the host.
    pub const ABORT_REQUESTED: Self = Self(0x007);
    /// The namespace does not exist, or is not attached.
    pub const INVALID_NAMESPACE: Self = Self(0x00B);
    /// The command does not fit the state of the controller.
    pub const COMMAND_SEQUENCE: Self = Self(0x00C);
    /// The length of the data does not fit the command.
    pub const SGL_LENGTH_INVALID: Self = Self(0x00F);
    /// The kind of data descriptor is not supported.
    pub const SGL_TYPE_INVALID: Self = Self(0x011);
    /// The offset of in-capsule data is outside of the capsule.
    pub const SGL_OFFSET_INVALID: Self = Self(0x016);
    /// The namespace takes no writes.
    pub const WRITE_PROTECTED: Self = Self(0x020);
    /// Data was damaged on its way; sending the command again may help.
    pub const TRANSIENT_TRANSPORT: Self = Self(0x022);
    /// The range is beyond the namespace.
    pub const LBA_OUT_OF_RANGE: Self = Self(0x080);
    /// There are more Asynchronous Event Requests than announced.
    pub const EVENT_LIMIT: Self = Self(0x105);
    /// There is no such log page.
    pub const INVALID_LOG_PAGE: Self = Self(0x109);
    /// The feature cannot be saved.
    pub const FEATURE_NOT_SAVEABLE: Self = Self(0x10D);
    /// The feature cannot be changed.
    pub const FEATURE_NOT_CHANGEABLE: Self = Self(0x10E);
    /// There is no such combination of command sets.
    pub const COMMAND_SET_REJECTED: Self = Self(0x12B);
    /// The format of the Connect command is unknown.
    pub const CONNECT_FORMAT: Self = Self(0x180);
    /// All controllers are in use.
    pub const CONTROLLER_BUSY: Self = Self(0x181);
    /// A parameter of Connect is wrong; the result says which.
    pub const CONNECT_PARAMETER: Self = Self(0x182);
    /// The host may not connect.
    pub const CONNECT_HOST: Self = Self(0x184);
    /// The block exists but cannot be read.
    pub const UNRECOVERED_READ: Self = Self(0x281);
    /// The server is going away; another path, or a later try, may work.
    pub const INTERNAL_PATH: Self = Self(0x300);

    /// A status by its value, as other crates and `nvme-cli` count it.
    ///
    /// # Panics
    /// If the value has bits beyond status code and type.
    #[must_use]
    pub const fn new(value: u16) -> Self {
        assert!(value < 0x800, "a status has eleven bits");
        Self(value)
    }

    /// The value.
    #[must_use]
    pub const fn value(self) -> u16 {
        self.0
    }

    /// Whether the host may send the command again. All layers below have retried what can be
    /// retried, so only errors of the path are worth it.
    const fn is_retryable(self) -> bool {
        matches!(self, Self::TRANSIENT_TRANSPORT | Self::ABORT_REQUESTED) || self.0 >> 8 == 3
    }

    /// The status field of a completion; bit 0 is the phase, which fabrics do not have.
    pub(crate) const fn field(self) -> u16 {
        let retry = if self.0 == 0 || self.is_retryable() { 0 } else { DO_NOT_RETRY };
        self.0 << 1 | retry
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {:#05x}", self.0)
    }
}
