//! A drive that is away is expelled only by a start, or an order, that then takes place: one that
//! is refused leaves all drives as they were.

use zoneweave_emulator::{FaultAction, RamDrive, Selector};
use zoneweave_zoned::{Status, ZoneAction, ZoneId, ZoneInfo, ZonedDeviceExt};

use super::drives::write;
use super::returning::{
    AWAY, FULL, OPEN, PARTIAL, assert_whole, closed, epoch_of, media, reads, without,
};

/// Checks that no drive was written, and that each two of them start.
fn assert_untouched(drives: &[RamDrive], before: &[(ZoneInfo, Vec<u8>)]) {
    assert!(media(drives) == before, "a drive was written");
    for away in 0..drives.len() {
        without(drives, away, async |volume| {
            assert_eq!(reads(volume, OPEN, PARTIAL).await, Ok(true), "without drive {away}");
        });
    }
}

/// A second drive died unnoticed. The first change was recorded on the third drive alone, without
/// the one that was away: once that was back, the two had no majority for any membership.
#[test]
fn a_drive_that_died_before_the_first_change_expels_nobody() {
    let drives = closed();
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    without(&drives, AWAY, async |volume| {
        let all = Selector::default().always();
        drives[0].inject(all, FaultAction::Fail(Status::DeviceGone));
        assert!(write(volume, OPEN, PARTIAL, 1).await.is_err());
        assert!(volume.manage(ZoneId(FULL), ZoneAction::Reset).await.is_err());
        assert!(volume.status().stopped.is_some());
    });
    drives[0].faults(|plan| plan.clear());
    assert_untouched(&drives, &before);
    assert_whole(&drives, epoch);
}
