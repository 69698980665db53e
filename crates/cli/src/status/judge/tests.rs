//! Verdicts for each combination of members, rebuilds and losses.

use super::*;

fn members(states: &[MemberHealth]) -> Vec<MemberStatus> {
    let member = |(slot, state): (u8, &MemberHealth)| MemberStatus {
        slot,
        uuid: String::new(),
        drive: Some(format!("/d/drive{slot}")),
        path: None,
        state: *state,
        reason: None,
        header_lost: false,
        zones: None,
        resets_max: None,
        io: None,
        latencies: Vec::new(),
        segments_lacking: 0,
        segments_absent_at_start: 0,
    };
    (0..).zip(states).map(member).collect()
}

fn spare(drive: &str, state: SpareState) -> SpareStatus {
    let (drive, reason) = (drive.to_owned(), Some("it is too small".to_owned()));
    SpareStatus { drive, path: None, state, slot: None, reason }
}

/// Health, reason and action of an array with members in these states.
fn of(states: &[MemberHealth], facts: Facts<'_>) -> (Health, String, String) {
    let members = members(states);
    let verdict = judge(&Facts { members: &members, ..facts });
    (verdict.health, verdict.why.unwrap_or_default(), verdict.action.unwrap_or_default())
}

use MemberHealth::{Failed, Missing, Online, Rebuilding};

const SERVED: Facts<'_> = Facts {
    members: &[],
    losses_left: 1,
    stopped: None,
    is_served: true,
    rebuild: Rebuild::None,
    relocates: true,
    waiting: &[],
    offline: &[],
    spares: &[],
    lost_blocks: 0,
    awaited_blocks: 0,
    is_zoned: false,
};
const RUNS: Facts<'_> = Facts { rebuild: Rebuild::Runs, ..SERVED };
const UNSERVED: Facts<'_> = Facts { is_served: false, ..SERVED };

/// A client got errors, and the status said nothing of it.
#[test]
fn blocks_that_wait_for_a_drive_are_told() {
    let facts = Facts { awaited_blocks: 20, ..SERVED };
    let (health, why, action) = of(&[Online, Failed, Online, Online], facts);
    let told = "80 KiB of the volume cannot be read until the drive of slot 1 is back";
    assert_eq!(health, Health::Degraded);
    assert!(why.contains(told), "{why}");
    assert!(action.contains("slot 1"), "{action}");
}

/// With a slot being rebuilt and another without a drive, the advice was to do nothing, and the
/// health that of a rebuild.
#[test]
fn a_slot_without_a_drive_asks_for_one_while_another_is_rebuilt() {
    let (health, why, action) = of(&[Online, Rebuilding, Failed, Online], RUNS);
    assert_eq!(health, Health::Degraded);
    assert_eq!(why, "slot 1 rebuilding; slot 2 failed");
    assert!(action.starts_with("slot 1 being rebuilt; replace the drive of slot 2: "), "{action}");
    assert!(action.ends_with("replace DRIVE... --slot 2 --with NEWDRIVE"), "{action}");
    let (_, _, two) = of(&[Failed, Failed, Online, Online], SERVED);
    assert!(two.starts_with("replace the 2 drives, one after the other: "), "{two}");
}

/// The banner of a start in the middle of a rebuild advised to replace the drive being rebuilt.
#[test]
fn a_rebuild_that_runs_or_resumes_asks_for_nothing() {
    let states = [Online, Rebuilding, Online];
    let (health, _, action) = of(&states, RUNS);
    assert_eq!(health, Health::Rebuilding);
    assert!(action.starts_with("none: "), "{action}");
    let (health, _, action) = of(&states, UNSERVED);
    assert_eq!(
        (health, &action[..]),
        (Health::Degraded, "serve the array: its rebuild resumes by itself")
    );
    let (health, _, action) = of(&states, SERVED);
    assert_eq!(health, Health::Degraded);
    assert!(action.contains("tried again by itself: see to the cause"), "{action}");
}

#[test]
fn a_drive_that_is_coming_is_named_and_none_is_asked_for() {
    let states = [Online, Failed, Rebuilding];
    let waiting = [WaitingStatus { slot: 1, drive: "/n".to_owned(), returns: false }];
    let (health, _, action) = of(&states, Facts { waiting: &waiting, ..RUNS });
    assert_eq!(health, Health::Degraded);
    assert_eq!(
        action,
        "none: slot 2 being rebuilt; /n waits to replace slot 1; do not remove another drive"
    );
    let waiting = [WaitingStatus { returns: true, ..waiting[0].clone() }];
    let (_, _, action) = of(&[Online, Failed, Online], Facts { waiting: &waiting, ..SERVED });
    assert_eq!(action, "none: /n returns to slot 1; do not remove another drive");
    let spares = [spare("/s", SpareState::Waiting)];
    let (_, _, action) = of(&states, Facts { spares: &spares, ..RUNS });
    assert!(action.contains("the spare /s is to replace slot 1"), "{action}");
    let (_, _, action) = of(&[Failed, Failed, Online], Facts { spares: &spares, ..SERVED });
    assert!(action.starts_with("the spare /s is to replace slot 0; replace the drive of slot 1"));
    let useless = [spare("/s", SpareState::GivenUp)];
    let (_, why, action) = of(&states, Facts { spares: &useless, ..RUNS });
    assert!(why.ends_with("the spare /s is unusable: it is too small"), "{why}");
    assert!(action.contains("replace the drive of slot 1: zoneweave"), "{action}");
    let (health, why, action) = of(&[Online], Facts { spares: &useless, ..SERVED });
    assert_eq!((health, &why[..]), (Health::Healthy, ""), "a healthy array is not ill");
    assert_eq!(
        action,
        "the spare /s is unusable; add another: zoneweave array spare add DRIVE... NEWDRIVE"
    );
    let one_waits = [spare("/s", SpareState::GivenUp), spare("/t", SpareState::Waiting)];
    let (_, _, action) = of(&[Online], Facts { spares: &one_waits, ..SERVED });
    assert_eq!(action, "");
}

/// An older copy of a drive was HEALTHY, while a second loss would have cost data.
#[test]
fn an_online_drive_that_lacks_blocks_is_being_rebuilt() {
    let mut members = members(&[Online, Online, Online]);
    members[2].segments_lacking = 7;
    let of = |facts: Facts<'_>| judge(&Facts { members: &members, ..facts });
    let Verdict { health, why, action } = of(SERVED);
    assert_eq!(health, Health::Rebuilding);
    let lacks = "slot 2 lacks blocks of 7 segments, to be rewritten from others";
    assert_eq!(why.as_deref(), Some(lacks));
    assert!(action.unwrap().starts_with("none: blocks are being rewritten"));
    let full = of(Facts { relocates: false, ..SERVED });
    assert_eq!(full.health, Health::Degraded);
    assert!(full.action.unwrap().starts_with("trim unused blocks"));
    let lost = of(Facts { lost_blocks: 1, ..SERVED });
    assert_eq!(lost.health, Health::Damaged);
    assert!(lost.why.unwrap().ends_with(lacks));
    members[1].state = Failed;
    let Verdict { health, why, action } = judge(&Facts { members: &members, ..SERVED });
    assert_eq!(health, Health::Degraded);
    assert_eq!(why.unwrap(), format!("slot 1 failed; {lacks}"));
    assert!(action.unwrap().contains("--slot 1 --with NEWDRIVE"));
}

/// A start without a member takes it out of service before the first write, not before.
#[test]
fn a_drive_that_missed_nothing_is_to_be_brought_back() {
    let (health, why, action) = of(&[Online, Missing, Online], SERVED);
    assert_eq!((health, &why[..]), (Health::Degraded, "slot 1 missing"));
    let end = "online DRIVE... --slot 1 --with ITS_DRIVE";
    assert!(action.starts_with("bring back the drive of slot 1"), "{action}");
    assert!(action.ends_with(end), "{action}");
    let (_, _, action) = of(&[Failed, Missing, Online, Online], SERVED);
    assert!(action.ends_with(end), "{action}");
}

/// After `array offline` the advice was to replace the drive.
#[test]
fn a_drive_that_was_taken_offline_is_to_be_put_back() {
    let offline = [(1, PathBuf::from("/d/drive1"))];
    let facts = Facts { offline: &offline, ..SERVED };
    let (health, _, action) = of(&[Online, Failed, Online], facts);
    assert_eq!(health, Health::Degraded);
    assert!(action.ends_with("array online DRIVE... --slot 1 --with /d/drive1"), "{action}");
    let (_, _, action) = of(&[Failed, Online, Online], facts);
    assert!(action.ends_with("--slot 0 --with NEWDRIVE"), "{action}");
}

#[test]
fn blocks_that_could_not_be_read_are_damage_whatever_else_is_wrong() {
    let lost = Facts { lost_blocks: 20, ..SERVED };
    let (health, why, action) = of(&[Online, Online], lost);
    assert_eq!(health, Health::Damaged);
    assert!(why.starts_with("80 KiB of the volume could not be read"), "{why}");
    assert!(action.starts_with("restore the data from a copy"), "{action}");
    assert!(action.contains("; then: zoneweave array clear DRIVE..."), "{action}");
    let (health, why, action) = of(&[Online, Failed], lost);
    assert_eq!(health, Health::Damaged);
    assert!(why.ends_with("; slot 1 failed"), "{why}");
    assert!(action.contains("--slot 1 --with"), "{action}");
    let (_, _, action) = of(&[Online, Rebuilding], Facts { rebuild: Rebuild::Runs, ..lost });
    assert!(!action.contains("none"), "{action}");
}

#[test]
fn a_stopped_array_names_the_drives_to_bring_back() {
    let stopped = Facts { stopped: Some("more drives are lost"), lost_blocks: 9, ..SERVED };
    let (health, why, action) = of(&[Online, Rebuilding, Failed, Missing], stopped);
    assert_eq!(health, Health::Failed);
    assert!(why.starts_with("more drives are lost (slot 1 rebuilding; slot 2 failed"), "{why}");
    assert!(action.contains("slot 2 (/d/drive2), slot 3 (/d/drive3) and restart"), "{action}");
    let (_, why, action) = of(&[Online], stopped);
    assert_eq!(
        (&why[..], &action[..]),
        ("more drives are lost", "replace the failing drive, and restart")
    );
    let (health, why, action) = of(&[Online, Missing], Facts { is_served: false, ..stopped });
    assert_eq!(
        (health, &why[..], &action[..]),
        (Health::Failed, "slot 1 missing", "more drives are lost")
    );
}

/// Each combination has a reason and an action, and an action that asks for a drive has a command.
#[test]
fn every_combination_of_members_has_a_reason_and_an_action() {
    let all = [Online, Rebuilding, Failed, Missing];
    for states in all.iter().flat_map(|one| all.iter().map(move |other| [*one, *other, Online])) {
        for facts in [SERVED, RUNS, UNSERVED] {
            let (health, why, action) = of(&states, facts);
            let is_healthy = states == [Online; 3];
            assert_eq!(health == Health::Healthy, is_healthy, "{states:?}");
            assert_eq!((why.is_empty(), action.is_empty()), (is_healthy, is_healthy), "{states:?}");
            let vacant = states.iter().any(|state| matches!(state, Failed | Missing));
            assert!(!vacant || health == Health::Degraded, "{states:?}");
            assert!(!vacant || action.contains("--slot"), "{states:?}: {action}");
        }
    }
}
