//! Options of a store.

use std::fmt;
use std::rc::Rc;

use zoneweave_journal::Uuid;
use zoneweave_zoned::{BlockCount, Geometry};

use crate::error::Unfit;
use crate::policy::{LifetimePolicy, Policy};
use crate::trace::Recorder;

/// Records of a metadata zone: 64 MiB, the metadata of half a million files.
pub(crate) const ZONE_RECORDS: u32 = 16 * 1024;

/// Zones that a store needs: two for metadata, one to write, one free for relocation, and one to
/// gain from it.
const ZONES_LEAST: u32 = 5;

/// Blocks that a zone needs, for a snapshot and the log behind it.
const ZONE_BLOCKS_LEAST: u32 = 8;

/// Active zones that a store needs: both metadata zones while the log changes over, and one to
/// write.
const ACTIVE_LEAST: u32 = 3;

/// Active zones of metadata.
const ACTIVE_METADATA: u32 = 2;

/// Data zones that are written at once if the drive has no limit. ZenFS gains nothing from more
/// than 12 active zones (Bjørling et al., §4.2).
const ACTIVE_UNLIMITED: u32 = 12;

/// How a store is made.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// The UUID of the store: 128 random bits.
    pub uuid: Uuid,
    /// A name for people, up to 64 bytes.
    pub label: String,
    /// Free space in a zone, in percent of its capacity, below which it is finished; 0 for never.
    pub finish_percent: u8,
    /// Seconds since 1970.
    pub created: u64,
    /// Whether a drive that is not empty is reset.
    pub force: bool,
}

impl FormatOptions {
    /// A store without a label, whose zones are filled to the end.
    #[must_use]
    pub fn new(uuid: Uuid) -> Self {
        Self { uuid, label: String::new(), finish_percent: 0, created: 0, force: false }
    }
}

/// How a store is opened.
pub struct OpenOptions {
    /// The allocation policy.
    pub policy: Box<dyn Policy>,
    /// Blocks that a file collects before it writes them, at most the drive's transfer size.
    pub buffer: BlockCount,
    /// Data zones that are written at once, at most what the drive allows beside metadata. `None`
    /// for all of these.
    pub active_zones: Option<u32>,
    /// Files that may be open for writing at once.
    pub max_writers: usize,
    /// Returns seconds since 1970, for the times of files.
    pub clock: Rc<dyn Fn() -> u64>,
    /// Takes what happens to files, beginning with those that are there.
    pub recorder: Option<Rc<dyn Recorder>>,
}

impl Default for OpenOptions {
    /// ZenFS's policy, 1 MiB buffers, 1024 writers, no clock (times are 0), and no recorder.
    fn default() -> Self {
        Self {
            policy: Box::new(LifetimePolicy),
            buffer: BlockCount(256),
            active_zones: None,
            max_writers: 1024,
            clock: Rc::new(|| 0),
            recorder: None,
        }
    }
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("policy", &self.policy.name())
            .field("buffer", &self.buffer)
            .field("active_zones", &self.active_zones)
            .field("max_writers", &self.max_writers)
            .finish_non_exhaustive()
    }
}

/// The buffer of a file on a drive, which takes no larger writes than its own limit.
pub(crate) fn buffer_on(geometry: &Geometry, wished: BlockCount) -> BlockCount {
    wished.clamp(BlockCount(1), geometry.max_transfer)
}

/// Data zones of a drive that may be active at once.
///
/// # Errors
/// If the drive allows too few, or its zones are too few or too small.
pub(crate) fn active_data_zones(geometry: &Geometry, usable_zones: u32) -> Result<u32, Unfit> {
    if usable_zones < ZONES_LEAST {
        return Err(Unfit::Zones { found: usable_zones, needed: ZONES_LEAST });
    }
    let needed = BlockCount(ZONE_BLOCKS_LEAST * geometry.write_unit.0);
    if geometry.zone_capacity < needed {
        return Err(Unfit::ZoneCapacity { found: geometry.zone_capacity, needed });
    }
    let limits = [geometry.max_active, geometry.max_open];
    let Some(limit) = limits.into_iter().flatten().min() else { return Ok(ACTIVE_UNLIMITED) };
    if limit < ACTIVE_LEAST {
        return Err(Unfit::ActiveZones { found: limit, needed: ACTIVE_LEAST });
    }
    Ok((limit - ACTIVE_METADATA).min(ACTIVE_UNLIMITED))
}
