//! Zone reports as a drive sends them: decoded, and nothing of them believed.

use bytes::Bytes;
use zoneweave_zoned::{
    BlockCount, DESCRIPTOR_BYTES, Geometry, Status, ZoneAttributes, ZoneId, ZoneInfo, ZoneOffset,
    ZoneState,
};

/// The contents of one answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Zones that match, as the drive counts them.
    pub(super) matching: u64,
    pub(super) zones: Vec<ZoneInfo>,
    pub(super) extensions: Vec<Bytes>,
}

/// Zones that are listed in an answer of so many bytes.
pub(super) fn zones_in(bytes: usize, extension_bytes: u32) -> usize {
    bytes.saturating_sub(DESCRIPTOR_BYTES) / (DESCRIPTOR_BYTES + extension_bytes as usize)
}

/// Decodes an answer about zones from `first` on. `extension_bytes` follow each zone's descriptor.
///
/// # Errors
/// [`Status::InternalError`] if the zones are not in order, not those of the drive, or make no
/// sense.
pub(super) fn decode(
    bytes: &[u8],
    geometry: &Geometry,
    first: ZoneId,
    extension_bytes: u32,
) -> Result<Part, Status> {
    let (head, list) = bytes.split_at_checked(DESCRIPTOR_BYTES).ok_or(Status::InternalError)?;
    let matching = u64_at(head, 0);
    let listed = usize::try_from(matching).unwrap_or(usize::MAX);
    let mut part = Part { matching, zones: Vec::new(), extensions: Vec::new() };
    let mut next = first.0;
    let each = DESCRIPTOR_BYTES + extension_bytes as usize;
    for entry in list.chunks_exact(each).take(listed) {
        let (descriptor, extension) = entry.split_at(DESCRIPTOR_BYTES);
        let info = zone(descriptor, geometry).ok_or(Status::InternalError)?;
        if info.zone.0 < next {
            return Err(Status::InternalError);
        }
        next = info.zone.0 + 1;
        part.zones.push(info);
        if extension_bytes > 0 {
            part.extensions.push(Bytes::copy_from_slice(extension));
        }
    }
    Ok(part)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The zone of a descriptor, if it can be one of the drive's.
fn zone(descriptor: &[u8], geometry: &Geometry) -> Option<ZoneInfo> {
    const SEQUENTIAL: u8 = 2;
    if descriptor[0] & 0xF != SEQUENTIAL {
        return None;
    }
    let state = state_of(descriptor[1] >> 4)?;
    let size = u64::from(geometry.zone_size.0);
    let (capacity, start, pointer) =
        (u64_at(descriptor, 8), u64_at(descriptor, 16), u64_at(descriptor, 24));
    let zone = u32::try_from(start / size).ok().filter(|zone| *zone < geometry.zones)?;
    if !start.is_multiple_of(size) || capacity > geometry.zone_capacity.0.into() {
        return None;
    }
    let capacity = u32::try_from(capacity).ok()?;
    let write_pointer = match state {
        // NVMe leaves it undefined there.
        ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => capacity,
        ZoneState::Empty if pointer != start => return None,
        _ => {
            let offset = u32::try_from(pointer.checked_sub(start)?).ok()?;
            (offset <= capacity).then_some(offset)?
        }
    };
    Some(ZoneInfo {
        zone: ZoneId(zone),
        state,
        write_pointer: ZoneOffset(write_pointer),
        capacity: BlockCount(capacity),
        resets: 0,
        attributes: ZoneAttributes::from_bits(descriptor[2] & 0b1000_1111)?,
    })
}

fn state_of(value: u8) -> Option<ZoneState> {
    let states = [
        ZoneState::Empty,
        ZoneState::ImplicitlyOpen,
        ZoneState::ExplicitlyOpen,
        ZoneState::Closed,
        ZoneState::ReadOnly,
        ZoneState::Full,
        ZoneState::Offline,
    ];
    states.into_iter().find(|state| *state as u8 == value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zoneweave_zoned::{ReportOptions, ZoneAction, ZoneAddress, ZoneSet};

    use super::*;

    fn drive() -> ZoneSet {
        let geometry = Geometry { zone_size: BlockCount(128), ..Geometry::new(8, BlockCount(100)) };
        let mut zones = ZoneSet::new(geometry).unwrap();
        zones.write(ZoneAddress::new(ZoneId(1), 0), BlockCount(7)).unwrap();
        zones.manage(ZoneId(2), ZoneAction::Finish).unwrap();
        zones.manage(ZoneId(3), ZoneAction::Open).unwrap();
        zones.manage(ZoneId(1), ZoneAction::Close).unwrap();
        zones.set_read_only(ZoneId(5));
        zones
    }

    #[test]
    fn what_our_drives_encode_is_understood() {
        let zones = drive();
        let report = zones.report(ZoneId(1), 5, ReportOptions::default()).unwrap();
        let bytes = report.encode(zones.geometry());
        let part = decode(&bytes, zones.geometry(), ZoneId(1), 0).unwrap();
        assert_eq!((part.matching, &part.zones), (7, &report.zones));
        assert_eq!(zones_in(bytes.len(), 0), 5);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let zones = drive();
        let report = zones.report(ZoneId(0), 8, ReportOptions::default()).unwrap();
        let good = report.encode(zones.geometry());
        let refused = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(decode(&bytes, zones.geometry(), ZoneId(0), 0), Err(Status::InternalError));
        };
        let second = 2 * DESCRIPTOR_BYTES;
        refused(second, 1); // its type
        refused(second + 1, 0x50); // its state
        refused(second + 8, 101); // its capacity
        refused(second + 16, 129); // its start
        refused(second + 16, 0); // its start, that of the zone before
        refused(second + 17, 0xFF); // its start, beyond the drive
        refused(second + 24, 127); // its write pointer, before its start
        refused(second + 24, 128 + 101); // its write pointer, beyond its capacity
        refused(DESCRIPTOR_BYTES + 24, 1); // the write pointer of an empty zone
        assert_eq!(decode(&good[..60], zones.geometry(), ZoneId(0), 0), Err(Status::InternalError));
        let counted = decode(&good, zones.geometry(), ZoneId(1), 0);
        assert_eq!(counted, Err(Status::InternalError), "zones before those asked for");
    }

    proptest! {
        #[test]
        fn any_answer_is_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..1000)) {
            let zones = drive();
            if let Ok(part) = decode(&bytes, zones.geometry(), ZoneId(0), 0) {
                prop_assert!(part.zones.iter().all(|info| info.zone.0 < 8));
                prop_assert!(part.zones.iter().all(|info| info.write_pointer.0 <= 100));
            }
        }
    }
}
