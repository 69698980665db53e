//! The error numbers NBD allows on the wire. They look like Linux's and are fixed by the protocol.

/// Why a request failed, as the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// The export is read-only, or policy forbids the request.
    NotPermitted = 1,
    /// The volume could not read or write the data.
    InputOutput = 5,
    /// The server is out of memory.
    OutOfMemory = 12,
    /// The request is malformed or outside the export.
    Invalid = 22,
    /// A write reaches beyond the end of the export, or there is no space.
    NoSpace = 28,
    /// A read that may not be fragmented is too long.
    Overflow = 75,
    /// The request is understood but not possible, such as a fast zero that would be slow.
    NotSupported = 95,
    /// The server is shutting down.
    ShuttingDown = 108,
}

impl Errno {
    /// The 32-bit value sent to the client.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}
