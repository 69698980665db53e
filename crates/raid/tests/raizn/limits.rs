//! Limits of a volume whose members have different ones.

use zoneweave_emulator::RamDrive;
use zoneweave_zoned::{BlockCount, Geometry, OobKind, ZonedDevice};

use super::drives::{UNIT, create_on, executor, start, timing};

/// Without the drive that limited it, a volume had more partly written zones than its parity logs
/// have room for.
#[test]
fn a_volume_without_its_weakest_member_offers_no_more_than_its_logs_hold() {
    crate::support::instrument();
    let oob = OobKind::Separate;
    let (max_open, max_active) = (None, None);
    let geometry = Geometry { oob, max_open, max_active, ..Geometry::new(30, BlockCount(240)) };
    let weak = Geometry { max_open: Some(11), max_active: Some(11), ..geometry.clone() };
    let geometries = [geometry.clone(), geometry, weak].into_iter().zip(0..);
    let drives: Vec<_> =
        geometries.map(|(geometry, seed)| RamDrive::new(geometry, timing(seed)).unwrap()).collect();
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        create_on(&drives, &handle, UNIT).await;
        let active = async |drives: &[RamDrive]| {
            let volume = start(drives, &handle).await;
            let active = volume.geometry().max_active;
            volume.close().await;
            active
        };
        assert_eq!(active(&drives).await, Some(6));
        // 240 / (4 * 5) - 1.
        assert_eq!(active(&drives[..2]).await, Some(11));
    });
}
