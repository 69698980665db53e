//! Zones as the kernel reports them: which of a disk can be used, and nothing of them believed.

use zoneweave_zoned::{
    BlockCount, Geometry, ZoneAddress, ZoneAttributes, ZoneId, ZoneInfo, ZoneOffset, ZoneState,
};

use super::error::DiskNonsense;
use crate::sys::blkzoned::{
    BLOCK_SECTORS, ReportedZone, SECTOR_BYTES, ZONE_CONVENTIONAL, ZONE_SEQUENTIAL, ZoneRange,
};

/// Where the zones of a drive are on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Zones of the disk before the first of the drive: conventional ones.
    pub(super) left_out: u32,
    pub(super) zone_sectors: u64,
}

/// The part of a disk that becomes a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) left_out: u32,
    pub(super) zones: u32,
}

/// Why nothing of a disk does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unsuitable {
    Nonsense(DiskNonsense),
    /// A conventional zone lies between others.
    Between(usize),
}

impl Layout {
    pub(super) fn first_sector(self, zone: ZoneId) -> u64 {
        (u64::from(self.left_out) + u64::from(zone.0)) * self.zone_sectors
    }

    pub(super) fn range(self, zone: ZoneId) -> ZoneRange {
        ZoneRange { first_sector: self.first_sector(zone), sectors: self.zone_sectors }
    }

    /// The first byte of a block.
    pub(super) fn position(self, at: ZoneAddress) -> u64 {
        let sector = self.first_sector(at.zone) + u64::from(at.offset.0) * BLOCK_SECTORS;
        sector * SECTOR_BYTES
    }

    /// The reported zones from `first` on.
    ///
    /// # Errors
    /// The number of an impossible zone, as the disk counts them.
    pub(super) fn decode(
        self,
        reported: &[ReportedZone],
        geometry: &Geometry,
        first: ZoneId,
    ) -> Result<Vec<ZoneInfo>, DiskNonsense> {
        let zones = (first.0..geometry.zones).map(ZoneId);
        let decoded = zones.zip(reported).map(|(zone, reported)| {
            let nonsense = DiskNonsense::Report { zone: self.left_out as usize + zone.index() };
            self.zone(zone, reported, geometry).ok_or(nonsense)
        });
        decoded.collect()
    }

    fn zone(self, zone: ZoneId, reported: &ReportedZone, geometry: &Geometry) -> Option<ZoneInfo> {
        let ReportedZone { start, length, capacity, .. } = *reported;
        let fits = start == self.first_sector(zone) && length == self.zone_sectors;
        if !fits || reported.kind != ZONE_SEQUENTIAL || !capacity.is_multiple_of(BLOCK_SECTORS) {
            return None;
        }
        let capacity = u32::try_from(capacity / BLOCK_SECTORS).ok()?;
        let state = state_of(reported.condition)?;
        if capacity > geometry.zone_capacity.0 {
            return None;
        }
        let write_pointer = match state {
            // Kernels before 5.9 report no capacity.
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => capacity,
            ZoneState::Empty if reported.write_pointer != start => return None,
            // Other software may have stopped inside a block of ours: that block counts as written,
            // and a write behind it will be refused.
            _ => {
                let written = reported.write_pointer.checked_sub(start)?;
                let written = u32::try_from(written.div_ceil(BLOCK_SECTORS)).ok()?;
                (written <= capacity).then_some(written)?
            }
        };
        let attributes = match reported.reset_recommended {
            0 => ZoneAttributes::NONE,
            _ => ZoneAttributes::RESET_RECOMMENDED,
        };
        Some(ZoneInfo {
            zone,
            state,
            write_pointer: ZoneOffset(write_pointer),
            capacity: BlockCount(capacity),
            resets: 0,
            attributes,
        })
    }
}

/// The sequential zones of a disk, without conventional zones at either end, and without a shorter
/// last zone.
///
/// # Errors
/// If zones are not contiguous, or none qualify.
pub(super) fn usable(zones: &[ReportedZone], zone_sectors: u64) -> Result<Part, Unsuitable> {
    let nonsense = |zone| Unsuitable::Nonsense(DiskNonsense::Report { zone });
    let mut start = 0_u64;
    for (zone, reported) in zones.iter().enumerate() {
        let whole = reported.length == zone_sectors;
        let last = zone + 1 == zones.len() && reported.length < zone_sectors;
        let known = matches!(reported.kind, ZONE_CONVENTIONAL | ZONE_SEQUENTIAL);
        if reported.start != start || !(whole || last) || reported.length == 0 || !known {
            return Err(nonsense(zone));
        }
        start = start.checked_add(zone_sectors).ok_or(nonsense(zone))?;
    }
    let is_used = |reported: &ReportedZone| {
        reported.kind == ZONE_SEQUENTIAL && reported.length == zone_sectors
    };
    let first = zones.iter().position(is_used).ok_or(nonsense(0))?;
    let last = zones.iter().rposition(is_used).expect("there is a first");
    if let Some(between) = zones[first..last].iter().position(|zone| !is_used(zone)) {
        return Err(Unsuitable::Between(first + between));
    }
    let count = |zones: usize| u32::try_from(zones).map_err(|_| nonsense(zones));
    Ok(Part { left_out: count(first)?, zones: count(last + 1 - first)? })
}

/// The capacity of zones, which must be the same for all zones in use.
///
/// # Errors
/// If zones differ.
pub(super) fn common_capacity(zones: &[ZoneInfo]) -> Result<BlockCount, DiskNonsense> {
    let holding = || zones.iter().filter(|info| info.state != ZoneState::Offline);
    let first = holding().next().ok_or(DiskNonsense::Report { zone: 0 })?;
    match holding().find(|info| info.capacity != first.capacity) {
        None => Ok(first.capacity),
        Some(other) => {
            Err(DiskNonsense::Capacities { one: first.capacity.0, other: other.capacity.0 })
        }
    }
}

fn state_of(condition: u8) -> Option<ZoneState> {
    let states = [
        ZoneState::Empty,
        ZoneState::ImplicitlyOpen,
        ZoneState::ExplicitlyOpen,
        ZoneState::Closed,
        ZoneState::ReadOnly,
        ZoneState::Full,
        ZoneState::Offline,
    ];
    states.into_iter().find(|state| *state as u8 == condition)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::FromBytes;

    use super::*;

    const SIZE: u64 = 128;

    fn zone(number: u64, kind: u8, condition: u8) -> ReportedZone {
        let start = number * SIZE;
        ReportedZone {
            start,
            length: SIZE,
            write_pointer: start,
            kind,
            condition,
            capacity: 96,
            ..ReportedZone::default()
        }
    }

    fn disk(kinds: &[u8]) -> Vec<ReportedZone> {
        (0..).zip(kinds).map(|(number, kind)| zone(number, *kind, 1)).collect()
    }

    fn geometry(zones: u32) -> Geometry {
        Geometry { zone_size: BlockCount(16), ..Geometry::new(zones, BlockCount(12)) }
    }

    #[test]
    fn conventional_zones_are_left_out_at_both_ends() {
        let of = |kinds: &[u8]| usable(&disk(kinds), SIZE);
        assert_eq!(of(&[2, 2, 2]), Ok(Part { left_out: 0, zones: 3 }));
        assert_eq!(of(&[1, 1, 2, 2, 1]), Ok(Part { left_out: 2, zones: 2 }));
        assert_eq!(of(&[1, 2, 1, 2]), Err(Unsuitable::Between(2)));
        assert!(matches!(of(&[1, 1]), Err(Unsuitable::Nonsense(_))));
        assert!(matches!(of(&[]), Err(Unsuitable::Nonsense(_))));
        // Sequential writes preferred: host-aware disks have such.
        assert_eq!(of(&[2, 3]), Err(Unsuitable::Nonsense(DiskNonsense::Report { zone: 1 })));
    }

    #[test]
    fn a_last_zone_that_is_shorter_is_left_out() {
        let mut zones = disk(&[2, 2, 2]);
        zones[2].length = 64;
        assert_eq!(usable(&zones, SIZE), Ok(Part { left_out: 0, zones: 2 }));
        zones[1].length = 64;
        let nonsense = Unsuitable::Nonsense(DiskNonsense::Report { zone: 1 });
        assert_eq!(usable(&zones, SIZE), Err(nonsense));
    }

    #[test]
    fn zones_are_told_in_blocks_from_the_first_that_is_used() {
        let layout = Layout { left_out: 2, zone_sectors: SIZE };
        let at = ZoneAddress::new(ZoneId(1), 3);
        assert_eq!(layout.position(at), (3 * 16 + 3) * 4096);
        assert_eq!(layout.range(ZoneId(1)), ZoneRange { first_sector: 384, sectors: 128 });
        let open = ReportedZone { write_pointer: 384 + 17, ..zone(3, 2, 2) };
        let full = ReportedZone { write_pointer: u64::MAX, reset_recommended: 1, ..zone(4, 2, 14) };
        let told = layout.decode(&[open, full], &geometry(8), ZoneId(1)).unwrap();
        assert_eq!((told[0].zone, told[0].state), (ZoneId(1), ZoneState::ImplicitlyOpen));
        // 17 sectors: the write pointer is inside a block.
        assert_eq!((told[0].write_pointer, told[0].capacity), (ZoneOffset(3), BlockCount(12)));
        assert_eq!((told[1].state, told[1].write_pointer), (ZoneState::Full, ZoneOffset(12)));
        assert_eq!(told[1].attributes, ZoneAttributes::RESET_RECOMMENDED);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let layout = Layout { left_out: 0, zone_sectors: SIZE };
        let refused = |change: fn(&mut ReportedZone)| {
            let mut zone = ReportedZone { write_pointer: 140, ..zone(1, 2, 2) };
            assert!(layout.decode(&[zone], &geometry(8), ZoneId(1)).is_ok());
            change(&mut zone);
            let decoded = layout.decode(&[zone], &geometry(8), ZoneId(1));
            assert_eq!(decoded, Err(DiskNonsense::Report { zone: 1 }));
        };
        refused(|zone| zone.start = 0);
        refused(|zone| zone.length = 64);
        refused(|zone| zone.kind = ZONE_CONVENTIONAL);
        refused(|zone| zone.condition = 0);
        refused(|zone| zone.condition = 0xFF);
        refused(|zone| zone.condition = 1);
        refused(|zone| zone.capacity = 97);
        refused(|zone| zone.capacity = 104);
        refused(|zone| zone.capacity = u64::MAX - 7);
        refused(|zone| zone.write_pointer = 127);
        refused(|zone| zone.write_pointer = 128 + 97);
        refused(|zone| zone.write_pointer = u64::MAX);
    }

    #[test]
    fn zones_that_hold_different_amounts_are_refused() {
        let layout = Layout { left_out: 0, zone_sectors: SIZE };
        let mut zones = disk(&[2, 2, 2]);
        zones[1].condition = 15;
        zones[1].capacity = 0;
        let told = layout.decode(&zones, &geometry(3), ZoneId(0)).unwrap();
        assert_eq!(common_capacity(&told), Ok(BlockCount(12)));
        zones[2].capacity = 88;
        let told = layout.decode(&zones, &geometry(3), ZoneId(0)).unwrap();
        assert_eq!(common_capacity(&told), Err(DiskNonsense::Capacities { one: 12, other: 11 }));
    }

    proptest! {
        #[test]
        fn any_report_is_bounded(bytes in proptest::collection::vec(any::<u8>(), 64 * 4)) {
            let zones: Vec<_> =
                bytes.chunks_exact(64).map(|b| ReportedZone::read_from_bytes(b).unwrap()).collect();
            let size = zones[0].length;
            drop(usable(&zones, size));
            let layout = Layout { left_out: 0, zone_sectors: SIZE };
            if let Ok(told) = layout.decode(&zones, &geometry(3), ZoneId(0)) {
                prop_assert!(told.iter().all(|info| info.write_pointer.0 <= 12));
            }
        }
    }
}
