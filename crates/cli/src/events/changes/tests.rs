//! Events between two statuses.

use super::*;
use crate::events::Level;
use crate::status::LostRange;
use crate::status::examples::healthy;

fn texts(news: &[What]) -> Vec<String> {
    news.iter().map(ToString::to_string).collect()
}

fn blocks(status: &mut ArrayStatus) -> &mut BlockVolumeStatus {
    status.server.as_mut().unwrap().blocks.as_mut().unwrap()
}

#[test]
fn nothing_is_told_while_nothing_changes() {
    let mut changes = Changes::default();
    for second in 0..100 {
        assert_eq!(changes.look(Nanos::from_secs(second), &healthy()), []);
    }
}

#[test]
fn a_lost_drive_is_told_with_its_reason_and_what_to_do() {
    let mut changes = Changes::default();
    changes.look(Nanos(0), &healthy());
    let mut status = healthy();
    status.members[2].state = MemberHealth::Failed;
    status.members[2].reason = Some("write fault".to_owned());
    status.health = Health::Degraded;
    status.action = Some("replace it".to_owned());
    let news = changes.look(Nanos(1), &status);
    assert_eq!(
        texts(&news),
        [
            "slot 2 (d/drive2) is now failed: write fault",
            "the array is now DEGRADED; to do: replace it"
        ]
    );
    assert!(news.iter().all(|what| what.level() == Level::Error));
    assert_eq!(changes.look(Nanos(2), &status), []);
    let back = changes.look(Nanos(3), &healthy());
    assert_eq!(texts(&back), ["slot 2 (d/drive2) is now online", "the array is now HEALTHY"]);
}

/// A server may start with a degraded array, of which nobody else tells.
#[test]
fn a_start_without_a_drive_is_told() {
    let mut status = healthy();
    status.health = Health::Degraded;
    let news = Changes::default().look(Nanos(0), &status);
    assert_eq!(texts(&news), ["the array is now DEGRADED"]);
}

/// An older copy of a drive came into service without a word.
#[test]
fn a_drive_that_is_older_than_the_array_is_told_once() {
    let mut status = healthy();
    status.members[3].segments_absent_at_start = 7;
    let mut changes = Changes::default();
    let news = changes.look(Nanos(0), &status);
    assert_eq!(
        texts(&news),
        ["slot 3 (d/drive3): older than the array, or with lost zones: 7 segments lacked blocks \
             on it, and are rewritten from the other drives"]
    );
    assert_eq!((news[0].level(), news[0].word()), (Level::Warning, "drive-stale"));
    assert_eq!(changes.look(Nanos(1), &status), []);
}

/// The header of a drive in service was wiped: the array was HEALTHY until its next start.
#[test]
fn an_overwritten_header_is_told_once() {
    let mut changes = Changes::default();
    changes.look(Nanos(0), &healthy());
    let mut status = healthy();
    status.members[1].header_lost = true;
    let news = changes.look(Nanos(1), &status);
    let told = "slot 1 (d/drive1): the header of its file was overwritten, so that it will not \
                open again";
    assert_eq!(texts(&news), [told]);
    assert_eq!((news[0].level(), news[0].word()), (Level::Error, "drive-header"));
    assert_eq!(changes.look(Nanos(2), &status), []);
    // It may have been during the start.
    let mut changes = Changes::default();
    assert_eq!(texts(&changes.look(Nanos(0), &status)), [told]);
    assert_eq!(changes.look(Nanos(1), &status), []);
}

#[test]
fn errors_are_told_again_at_each_doubling() {
    let mut changes = Changes::default();
    changes.look(Nanos(0), &healthy());
    let mut told = Vec::new();
    for errors in 1..=8 {
        let mut status = healthy();
        let io = status.members[0].io.get_or_insert_default();
        (io.read_errors, io.unrepairable_blocks) = (errors, errors);
        told.extend(changes.look(Nanos(errors), &status));
    }
    let lost: Vec<_> = told.iter().filter(|what| what.level() == Level::Critical).collect();
    assert_eq!((told.len(), lost.len()), (8, 4), "at 1, 2, 4 and 8: {told:?}");
    assert!(lost[0].to_string().contains("4 KiB are LOST"), "{}", lost[0]);
}

#[test]
fn each_range_that_waits_for_a_drive_is_told_once() {
    let mut changes = Changes::default();
    let mut status = healthy();
    status.members[1].state = MemberHealth::Failed;
    changes.look(Nanos(0), &status);
    let mut told = Vec::new();
    for (at, size) in [(0, 1), (0, 2), (8, 1), (8, 1)] {
        let range = |at: u64, blocks: u64| LostRange {
            offset_bytes: at * BLOCK_BYTES as u64,
            size_bytes: blocks * BLOCK_BYTES as u64,
        };
        status.awaited.ranges.retain(|other| other.offset_bytes != range(at, 1).offset_bytes);
        status.awaited.ranges.push(range(at, size));
        told.extend(changes.look(Nanos(1), &status));
    }
    let because = "of the volume cannot be read until the drive of slot 1 is back, as they are \
                   damaged on another one";
    assert_eq!(texts(&told), [format!("4 KiB {because}"), format!("12 KiB {because}")]);
}

#[test]
fn jobs_are_told_at_each_quarter() {
    let mut changes = Changes::default();
    let mut told = Vec::new();
    for done in 0..=100 {
        let mut status = healthy();
        let server = status.server.as_mut().unwrap();
        server.rebuild = Some(Job { done, total: 100 });
        server.scrub = Some(Job { done: 60, total: 100 });
        told.extend(changes.look(Nanos(done), &status));
    }
    assert_eq!(texts(&told), ["rebuild: 25 % done", "rebuild: 50 % done", "rebuild: 75 % done"]);
}

#[test]
fn a_volume_that_fills_is_told_at_each_step() {
    let mut changes = Changes::default();
    let mut told = Vec::new();
    for percent in [10, 85, 85, 79, 85, 70, 96, 100] {
        let mut status = healthy();
        blocks(&mut status).mapped_bytes = status.size_bytes / 100 * percent;
        told.extend(changes.look(Nanos(0), &status));
    }
    let percents = [80, 95, 99].map(|percent| What::Filled { percent });
    assert_eq!(told, percents);
    // Most of an index that is loaded on demand is not counted at first.
    let mut changes = Changes::default();
    for (percent, absent) in [(10, 5), (50, 1), (90, 0)] {
        let mut status = healthy();
        blocks(&mut status).mapped_bytes = status.size_bytes / 100 * percent;
        blocks(&mut status).absent_pages = absent;
        assert_eq!(changes.look(Nanos(0), &status), []);
    }
}

#[test]
fn reclaim_is_judged_by_the_last_minute() {
    let mut changes = Changes::default();
    let mut told = Vec::new();
    let (mut users, mut moved) = (0, 0);
    for second in 0..400 {
        // Each second 1,000 blocks of users; for two minutes five times as many are moved.
        users += 1000;
        moved += if (100..220).contains(&second) { 5000 } else { 500 };
        let mut status = healthy();
        let counters = &mut blocks(&mut status).counters;
        (counters.user_blocks_written, counters.relocated_blocks) = (users, moved);
        let news = changes.look(Nanos::from_secs(second), &status);
        told.extend(news.into_iter().map(|what| (second, what.word())));
    }
    let words: Vec<_> = told.iter().map(|(_, word)| *word).collect();
    assert_eq!(words, ["reclaim-pressure", "reclaim-eased"]);
    assert!((140..160).contains(&told[0].0) && (240..280).contains(&told[1].0), "{told:?}");
    // A volume that nobody writes to has relocations, and no pressure.
    let mut changes = Changes::default();
    for second in 0..200 {
        let mut status = healthy();
        blocks(&mut status).counters.relocated_blocks = second * 10_000;
        assert_eq!(changes.look(Nanos::from_secs(second), &status), []);
    }
}
