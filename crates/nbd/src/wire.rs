//! Numbers of the NBD wire format. Everything on the wire is big-endian.

/// First eight bytes of the greeting, "NBDMAGIC".
pub(crate) const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT": second word of the greeting, and first word of every option.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First word of every option reply.
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First word of every request.
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First word of a simple reply.
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First word of a structured reply chunk.
pub(crate) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags: the server's 16 bits and the client's 32 bits agree on these two.
pub(crate) mod handshake_flag {
    pub(crate) const FIXED_NEWSTYLE: u16 = 1;
    pub(crate) const NO_ZEROES: u16 = 1 << 1;
}

/// Option numbers.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Option reply types; errors have bit 31 set.
pub(crate) mod option_reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    pub(crate) const ERR_UNSUPPORTED: u32 = (1 << 31) + 1;
    pub(crate) const ERR_INVALID: u32 = (1 << 31) + 3;
    pub(crate) const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    pub(crate) const ERR_BLOCK_SIZE_REQUIRED: u32 = (1 << 31) + 8;
    pub(crate) const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Information types of `GO` and `INFO`.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Request types.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISCONNECT: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const CACHE: u16 = 5;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Request flags.
pub(crate) mod command_flag {
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DONT_FRAGMENT: u16 = 1 << 2;
    pub(crate) const REQUEST_ONE: u16 = 1 << 3;
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
}

/// Structured reply chunk types; errors have bit 15 set.
pub(crate) mod chunk_type {
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const ERROR: u16 = (1 << 15) + 1;
    pub(crate) const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// The only structured reply flag: no further chunk follows for this request.
pub(crate) const CHUNK_DONE: u16 = 1;

/// Name of the one metadata context of the standard.
pub(crate) const BASE_ALLOCATION: &[u8] = b"base:allocation";
/// Query that lists every context of the `base` namespace.
pub(crate) const BASE_NAMESPACE: &[u8] = b"base:";
