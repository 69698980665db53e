//! A drive that is away is expelled only by a start, or an order, that then takes place: one that
//! is refused leaves all drives as they were.

use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Selector};
use zoneweave_raid::raizn::{OpenError, OpenOptions, Unread, UnreadPart, open};
use zoneweave_raid::scheme::Column;
use zoneweave_zoned::{Status, ZoneAction, ZoneId, ZoneInfo, ZonedDeviceExt};

use super::drives::{LOG_ZONES, executor, offer, write};
use super::logs::silence_log;
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

/// Starts without the drive that is away, which is refused; returns why.
fn refused(drives: &[RamDrive]) -> OpenError {
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        let mut offered = offer(drives, &handle);
        offered.remove(AWAY);
        let opened = open(&handle, offered, OpenOptions::default()).await;
        opened.err().expect("the start is refused")
    })
}

/// The start saw that a parity log was not read, expelled the drive that was away, and was refused
/// because of the log. That drive could not take the place of the one with the log any more.
#[test]
fn a_start_that_lacks_answers_of_a_log_expels_nobody() {
    let drives = closed();
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    silence_log(&drives[0]);
    let error = refused(&drives);
    let OpenError::Unread(Unread { part: UnreadPart::ParityLog, slot, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!(slot, Column::of(0));
    drives[0].faults(|plan| plan.clear());
    assert_untouched(&drives, &before);
    assert_whole(&drives, epoch);
}

/// A drive died while the start read its parity log. The start recorded on the last drive that the
/// one that was away is out, and then met the death again.
#[test]
fn a_start_during_which_a_drive_dies_expels_nobody() {
    let drives = closed();
    let (before, epoch) = (media(&drives), epoch_of(&drives));
    for zone in LOG_ZONES {
        let reads = Selector::next(CommandKind::Read).in_zone(ZoneId(zone)).always();
        drives[0].inject(reads, FaultAction::Fail(Status::DeviceGone));
    }
    let error = refused(&drives);
    assert!(matches!(error, OpenError::Stopped(_)), "{error}");
    drives[0].faults(|plan| plan.clear());
    assert_untouched(&drives, &before);
    assert_whole(&drives, epoch);
}
