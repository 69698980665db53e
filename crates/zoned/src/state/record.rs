//! The state of zones that survives a restart of the drive, and the restart from it.

use thiserror::Error;

use super::ZoneSet;
use crate::{BlockCount, Geometry, GeometryError, ZoneAttributes, ZoneId, ZoneOffset, ZoneState};

/// The state of a zone that survives a restart of its drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRecord {
    /// The state when the record was made.
    pub state: ZoneState,
    /// The next block to be written; for full zones the capacity, or where a finish cut it off.
    pub write_pointer: ZoneOffset,
    /// How often a reset emptied the zone.
    pub resets: u64,
    /// Its other attributes.
    pub attributes: ZoneAttributes,
}

impl ZoneRecord {
    /// A zone as it leaves the factory.
    pub const NEW: Self = Self {
        state: ZoneState::Empty,
        write_pointer: ZoneOffset(0),
        resets: 0,
        attributes: ZoneAttributes::NONE,
    };
}

/// Zone records that no drive of the geometry can have.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ImportError {
    /// The geometry itself is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A record too few or too many.
    #[error("{found} zone records for {expected} zones: the records are of another drive")]
    WrongCount {
        /// Records given.
        found: usize,
        /// Zones of the geometry.
        expected: u32,
    },
    /// A write pointer that does not go with the zone's state or capacity.
    #[error("{zone} is {state:?} with its write pointer at block {} of {capacity}: \
             the record is damaged, restore it or reset the zone", .write_pointer.0)]
    WritePointer {
        /// The zone.
        zone: ZoneId,
        /// Its state.
        state: ZoneState,
        /// Its write pointer.
        write_pointer: ZoneOffset,
        /// Its capacity.
        capacity: BlockCount,
    },
    /// Attributes that a zone in its state, or any zone of the drive, cannot have.
    #[error(
        "{zone} is {state:?} with the attributes {attributes:?}: \
             the record is damaged, restore it or reset the zone"
    )]
    Attributes {
        /// The zone.
        zone: ZoneId,
        /// Its state.
        state: ZoneState,
        /// Its attributes.
        attributes: ZoneAttributes,
    },
    /// More zones are partly written than the drive can hold.
    #[error("{found} partly written zones, the drive's limit is {limit}: the records are damaged")]
    TooManyActive {
        /// Partly written zones.
        found: u32,
        /// The active-zone limit.
        limit: u32,
    },
}

impl ZoneSet {
    /// A drive that restarts with the records of its last run. Open zones are closed, and active
    /// zones without a written block or a descriptor extension are empty, as after a controller
    /// shutdown. Random write areas are released and the blocks ahead of the write pointer lost,
    /// since records do not have them. Descriptor extensions are zeros until
    /// [stored](ZoneSet::store_extension).
    ///
    /// # Errors
    /// If the records contradict the geometry or themselves.
    pub fn import(geometry: Geometry, records: &[ZoneRecord]) -> Result<Self, ImportError> {
        let mut set = Self::new(geometry)?;
        if records.len() != set.zones.len() {
            let (found, expected) = (records.len(), set.geometry.zones);
            return Err(ImportError::WrongCount { found, expected });
        }
        for (zone, record) in (0..).map(ZoneId).zip(records) {
            check_record(&set.geometry, zone, *record)?;
            let state = after_restart(*record, false);
            let attributes = match state {
                // A zone that restarts empty has no pending requests of the drive: see `allowed`.
                ZoneState::Empty => ZoneAttributes::NONE,
                _ => record.attributes.without(ZoneAttributes::RANDOM_WRITES),
            };
            let record = ZoneRecord { state: ZoneState::Empty, attributes, ..*record };
            set.zones[zone.index()].record = record;
            set.set_state(zone, state);
            // Setting the state clears attributes that a zone loses when its state changes.
            set.zones[zone.index()].record.attributes = attributes;
        }
        match set.geometry.max_active {
            Some(limit) if set.active > limit => {
                Err(ImportError::TooManyActive { found: set.active, limit })
            }
            _ => Ok(set),
        }
    }

    /// The records of all zones, in order.
    pub fn export(&self) -> impl ExactSizeIterator<Item = ZoneRecord> + '_ {
        self.zones.iter().map(|zone| zone.record)
    }
}

fn check_record(geometry: &Geometry, zone: ZoneId, record: ZoneRecord) -> Result<(), ImportError> {
    let ZoneRecord { state, write_pointer, attributes, .. } = record;
    let capacity = geometry.zone_capacity;
    let possible = match state {
        ZoneState::Empty => write_pointer.0 == 0,
        state if state.is_active() => write_pointer.0 < capacity.0,
        _ => write_pointer.0 <= capacity.0,
    };
    if !possible {
        return Err(ImportError::WritePointer { zone, state, write_pointer, capacity });
    }
    if attributes == allowed(geometry, state, attributes) {
        Ok(())
    } else {
        Err(ImportError::Attributes { zone, state, attributes })
    }
}

/// Those of the attributes that a zone in a state can have.
fn allowed(geometry: &Geometry, state: ZoneState, attributes: ZoneAttributes) -> ZoneAttributes {
    let impossible = [
        (ZoneAttributes::EXTENDED, geometry.descriptor_extension_bytes == 0),
        (ZoneAttributes::RANDOM_WRITES, geometry.zrwa.is_none() || !state.is_active()),
        (ZoneAttributes::FINISH_RECOMMENDED, !state.is_active()),
        (ZoneAttributes::FINISHED_BY_DRIVE, state != ZoneState::Full),
    ];
    if matches!(state, ZoneState::Empty | ZoneState::Offline) {
        return ZoneAttributes::NONE;
    }
    let without = |left: ZoneAttributes, one: &(ZoneAttributes, bool)| {
        if one.1 { left.without(one.0) } else { left }
    };
    impossible.iter().fold(attributes, without)
}

/// The state of a zone after a restart. `ahead` is whether blocks ahead of its write pointer are
/// written.
pub(super) fn after_restart(record: ZoneRecord, ahead: bool) -> ZoneState {
    let unwritten = record.write_pointer.0 == 0 && !ahead;
    let extended = record.attributes.contains(ZoneAttributes::EXTENDED);
    match record.state {
        state if state.is_active() && unwritten && !extended => ZoneState::Empty,
        state if state.is_active() => ZoneState::Closed,
        state => state,
    }
}
