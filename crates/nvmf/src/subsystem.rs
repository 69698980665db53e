//! The subsystem that is served: its names, its namespaces and their zones.

/// A namespace of 4 KiB blocks; its identifier is its position, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Size in blocks of 4 KiB.
    pub blocks: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether completed writes may be lost at power loss before a flush.
    pub volatile_cache: bool,
    /// Identity, the same on every path and after every restart.
    pub uuid: [u8; 16],
    /// Writes of a multiple of this many blocks are the cheapest; zero says nothing.
    pub optimal_blocks: u16,
    /// Its zones, if it is zoned.
    pub zones: Option<Zones>,
}

/// The zones of a namespace, all of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zones {
    /// Blocks from the start of one zone to the start of the next.
    pub size: u64,
    /// Zones that may be open at once; `None` for no limit.
    pub max_open: Option<u32>,
    /// Zones that may be open or closed at once; `None` for no limit.
    pub max_active: Option<u32>,
    /// Blocks of a Zone Append, at least 1.
    pub append_blocks: u32,
    /// Whether a read may cross from one zone into the next.
    pub reads_across: bool,
}

/// The command sets that a host has selected when it enabled its controller. Namespaces of others
/// do not exist for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandSets {
    Nvm,
    All,
}

impl CommandSets {
    pub(crate) fn has(self, namespace: &Namespace) -> bool {
        self == Self::All || namespace.zones.is_none()
    }
}

/// The subsystem that hosts connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// Its NVMe qualified name.
    pub nqn: String,
    /// Serial number, at most 20 characters.
    pub serial: String,
    /// Model, at most 40 characters.
    pub model: String,
    /// Firmware revision, at most 8 characters.
    pub firmware: String,
    /// Its namespaces.
    pub namespaces: Vec<Namespace>,
}
