//! When a volume is scrubbed without an order: every so often, or at a time of the week.
//!
//! The time of the next scrub follows from the scrubs on record alone, so a restart neither repeats
//! nor forgets one. Each array has an offset of its own: the arrays of a machine, or of many that
//! were started together, do not all begin at once. An array without a scrub on record has an
//! offset within the whole period, counted from 1970: its first scrub is put off by no restart, and
//! the arrays of a machine remain spread over the period. There is no time zone: times are UTC, so
//! that a change of the clock by an hour moves no scrub.

use std::cell::Cell;
use std::time::Duration;

use zoneweave_linux::unix_seconds;
use zoneweave_raid::log::format::ArrayUuid;
use zoneweave_raid::log::{MemberHealth, MemberStatus, ScrubResult, ScrubRun};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// The shortest interval: a scrub of a large array takes hours.
const SHORTEST: u64 = HOUR;

/// The longest offset of an array.
const JITTER_MOST: u64 = 12 * HOUR;

/// Time after the begin of a scrub that was interrupted, or failed, to the next attempt.
const AGAIN: u64 = HOUR;

/// The longest time after the first scrub of an array was due in which a start still begins it. A
/// machine that runs each day, at whatever hours, misses no first scrub.
const LATE: u64 = DAY;

/// The time after a time of the week in which a scrub that was interrupted begins again: a night.
const WINDOW: u64 = 6 * HOUR;

/// Days of the week; 1970 began on a Thursday.
const DAYS: [&str; 7] = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"];

/// A schedule of scrubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// Seconds from one begin to the next.
    Every(u64),
    /// Each week, so many seconds after its begin: Thursday, 0:00 UTC.
    Weekly(u64),
}

/// Parses `30d`, or `sun 02:00` (UTC).
pub(crate) fn parse_schedule(text: &str) -> Result<Schedule, String> {
    let wrong = || {
        format!(
            "{text:?} is neither a time from one scrub to the next, such as 30d, nor a time of the week in UTC, \
             such as \"sun 02:00\""
        )
    };
    if let Some((day, time)) = text.split_once(' ') {
        let day = DAYS.iter().position(|name| day.eq_ignore_ascii_case(name)).ok_or_else(wrong)?;
        let (hours, minutes) = time.split_once(':').ok_or_else(wrong)?;
        let number = |digits: &str, below: u64| {
            let number = digits.parse::<u64>().ok().filter(|number| *number < below);
            number.filter(|_| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let (hours, minutes) = number(hours, 24).zip(number(minutes, 60)).ok_or_else(wrong)?;
        return Ok(Schedule::Weekly(day as u64 * DAY + hours * HOUR + minutes * MINUTE));
    }
    let every: Duration = humantime::parse_duration(text).map_err(|_| wrong())?;
    match every.as_secs() {
        seconds if seconds < SHORTEST => Err(format!("{text:?} is too often: an hour at least")),
        seconds => Ok(Schedule::Every(seconds)),
    }
}

impl Schedule {
    /// When the next scrub begins, in seconds since 1970; `runs` are the scrubs on record, oldest
    /// first. It may be in the past. A run of the future counts as none, and a start in it as now:
    /// a clock that was ahead must not put scrubs off for years.
    pub(crate) fn next(self, runs: &[ScrubRun], started_s: u64, now_s: u64, of: ArrayUuid) -> u64 {
        let past = runs.iter().rev().find(|run| run.begun_s <= now_s);
        let Some(last) = past else { return self.first(started_s.min(now_s), of) };
        if !matches!(last.result, ScrubResult::Complete | ScrubResult::Incomplete) {
            return self.again(last.begun_s.saturating_add(AGAIN), now_s, of);
        }
        let jitter = self.jitter(of);
        match self {
            Self::Every(seconds) => last.begun_s.saturating_add(seconds).saturating_add(jitter),
            Self::Weekly(offset) => {
                // The first time of the week that the last scrub is not the one of.
                from_phase(last.begun_s.saturating_add(1), offset + jitter, WEEK)
            }
        }
    }

    /// When the first scrub of an array begins whose server started at `started_s`.
    fn first(self, started_s: u64, of: ArrayUuid) -> u64 {
        let (late, phase, period) = match self {
            Self::Every(seconds) => (LATE.min(seconds / 10), mixed(of) % seconds.max(1), seconds),
            Self::Weekly(offset) => (WINDOW, offset + self.jitter(of), WEEK),
        };
        from_phase(started_s.saturating_sub(late), phase, period)
    }

    /// When a scrub that did not end is repeated: from `after_s` on, in a window after a time of
    /// the week if there is one.
    fn again(self, after_s: u64, now_s: u64, of: ArrayUuid) -> u64 {
        let Self::Weekly(offset) = self else { return after_s };
        let begins = after_s.max(now_s);
        let next = from_phase(begins.saturating_sub(WINDOW), offset + self.jitter(of), WEEK);
        if next <= begins { after_s } else { next }
    }

    /// The offset of an array: a tenth of the time between scrubs at most.
    fn jitter(self, array: ArrayUuid) -> u64 {
        let most = match self {
            Self::Every(seconds) => (seconds / 10).min(JITTER_MOST),
            Self::Weekly(_) => HOUR,
        };
        mixed(array) % most.max(1)
    }
}

/// A number of an array by FNV-1a: UUIDs of shards differ in the last byte alone.
fn mixed(array: ArrayUuid) -> u64 {
    let mixed = array.0.iter().fold(0xCBF2_9CE4_8422_2325_u64, |mixed, byte| {
        (mixed ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    mixed >> 16
}

/// The first time from `from_s` on that is a whole number of periods after `phase`.
fn from_phase(from_s: u64, phase: u64, period: u64) -> u64 {
    let periods = from_s.saturating_sub(phase).div_ceil(period.max(1));
    phase.saturating_add(periods.saturating_mul(period))
}

/// Least time between two attempts of a scheduled scrub: one may not get as far as the record.
const PAUSE: u64 = HOUR;

/// The scheduled scrubs of a server. Times are in seconds since 1970.
pub(super) struct ScheduledScrubs {
    schedule: Cell<Option<Schedule>>,
    started_s: u64,
    /// The last attempt of this server.
    attempted_s: Cell<Option<u64>>,
}

impl ScheduledScrubs {
    pub(super) fn new() -> Self {
        let (schedule, attempted_s) = (Cell::default(), Cell::default());
        Self { schedule, started_s: unix_seconds(), attempted_s }
    }

    /// Sets the schedule.
    pub(super) fn set(&self, schedule: Schedule) {
        self.schedule.set(Some(schedule));
    }

    /// When the next scrub begins, if there is a schedule; it may be in the past.
    pub(super) fn next_s(&self, runs: &[ScrubRun], array: ArrayUuid, now_s: u64) -> Option<u64> {
        let next = self.schedule.get()?.next(runs, self.started_s, now_s, array);
        let attempted = self.attempted_s.get().filter(|attempted| *attempted <= now_s);
        let again = attempted.map_or(0, |attempted| attempted.saturating_add(PAUSE));
        Some(next.max(again))
    }

    /// Whether a scrub that is due may begin. It waits for the redundancy of the array: a scrub
    /// without a member would be incomplete, and take the member out of service after a start that
    /// has decided nothing.
    pub(super) fn attempt(&self, members: &[MemberStatus], now_s: u64) -> bool {
        let is_whole = members.iter().all(|member| member.state == MemberHealth::Online);
        if is_whole {
            self.attempted_s.set(Some(now_s));
        }
        is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: ArrayUuid = ArrayUuid([7; 16]);

    fn run(begun_s: u64, result: ScrubResult) -> ScrubRun {
        ScrubRun { ended_s: begun_s + 100, result, ..ScrubRun::begin(begun_s) }
    }

    #[test]
    fn schedules_are_read_and_others_are_refused() {
        assert_eq!(parse_schedule("30d"), Ok(Schedule::Every(30 * DAY)));
        assert_eq!(parse_schedule("1month"), Ok(Schedule::Every(2_630_016)));
        // 1970-01-01 was a Thursday.
        assert_eq!(parse_schedule("thu 00:00"), Ok(Schedule::Weekly(0)));
        assert_eq!(
            parse_schedule("Sun 02:30"),
            Ok(Schedule::Weekly(3 * DAY + 2 * HOUR + 30 * MINUTE))
        );
        for wrong in [
            "",
            "sunday 02:00",
            "sun",
            "sun 24:00",
            "sun 2:00",
            "sun 02:60",
            "sun +1:00",
            "1s",
            "x",
        ] {
            assert!(parse_schedule(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_interval_counts_from_the_last_scrub_that_read_everything() {
        let schedule = Schedule::Every(30 * DAY);
        let jitter = schedule.jitter(ARRAY);
        assert!(jitter < 12 * HOUR);
        let next = |runs: &[ScrubRun], started| schedule.next(runs, started, 2000 * DAY, ARRAY);
        let last = run(1000 * DAY, ScrubResult::Complete);
        // Whenever the server starts.
        for started in [1000 * DAY, 1020 * DAY, 2000 * DAY] {
            assert_eq!(next(&[last], started), 1030 * DAY + jitter);
        }
        // One that the end of its server interrupted is repeated, also one that failed.
        for result in [ScrubResult::Running, ScrubResult::Failed] {
            let runs = [last, run(1031 * DAY, result)];
            assert_eq!(next(&runs, 1032 * DAY), 1031 * DAY + HOUR);
        }
        // The clock was ahead during a scrub, or at the start: the run before counts, or none.
        let future = run(9000 * DAY, ScrubResult::Complete);
        assert_eq!(next(&[last, future], 1035 * DAY), 1030 * DAY + jitter);
        assert_eq!(next(&[future], 1035 * DAY), next(&[], 1035 * DAY));
        assert_eq!(next(&[], 9000 * DAY), next(&[], 2000 * DAY));
    }

    #[test]
    fn a_time_of_the_week_is_missed_by_no_restart_and_taken_once() {
        let Ok(schedule) = parse_schedule("sun 02:00") else { panic!("a schedule") };
        let jitter = schedule.jitter(ARRAY);
        assert!(jitter < HOUR);
        let sunday = |week: u64| (week * 7 + 3) * DAY + 2 * HOUR;
        let next =
            |begun: u64| schedule.next(&[run(begun, ScrubResult::Complete)], begun, begun, ARRAY);
        let due = sunday(100) + jitter;
        assert_eq!(next(due), sunday(101) + jitter);
        assert_eq!(next(due - 1), due);
        assert_eq!(next(due + 6 * DAY), sunday(101) + jitter);
        // The server was down for weeks: it is due at once, and once.
        let late = sunday(105) + DAY;
        assert!(schedule.next(&[run(due, ScrubResult::Complete)], late, late, ARRAY) < late);
        assert_eq!(next(late), sunday(106) + jitter);
        assert_eq!(next(0), 3 * DAY + 2 * HOUR + jitter);
    }

    /// All arrays of a machine without a scrub on record began theirs at its start.
    #[test]
    fn first_scrubs_are_spread_over_the_period_and_no_restart_puts_them_off() {
        let schedule = Schedule::Every(30 * DAY);
        let first =
            |array: u8, started| schedule.next(&[], started, 2000 * DAY, ArrayUuid([array; 16]));
        let day_of = |array| first(array, 1001 * DAY) / DAY - 1000;
        let mut days: Vec<_> = (0..60).map(day_of).collect();
        days.sort_unstable();
        // From a day before the start on.
        assert!(days[0] < 4 && days[59] > 27 && days[59] <= 31, "{days:?}");
        days.dedup();
        assert!(days.len() > 20, "{days:?}");
        for array in 0..60 {
            let due = first(array, 1001 * DAY);
            // The server starts at this hour of each day.
            for hour in [1, 12, 23] {
                let starts = || (1000..1040).map(|day| day * DAY + hour * HOUR);
                let mut before = starts().filter(|start| (1001 * DAY..=due).contains(start));
                assert!(before.all(|start| first(array, start) == due));
                let after = starts().find(|start| *start > due);
                assert_eq!(first(array, after.unwrap()), due);
            }
        }
        let Ok(weekly) = parse_schedule("sun 02:00") else { panic!("a schedule") };
        let due = (700 * 7 + 3) * DAY + 2 * HOUR + weekly.jitter(ARRAY);
        for started in [due - 6 * DAY, due, due + 5 * HOUR] {
            assert_eq!(weekly.next(&[], started, started, ARRAY), due);
        }
        assert_eq!(weekly.next(&[], due + 7 * HOUR, due + 7 * HOUR, ARRAY), due + WEEK);
    }

    /// A scrub that a restart had interrupted began anew on a working day.
    #[test]
    fn an_interrupted_scrub_begins_again_in_the_night_of_its_week_or_in_the_next() {
        let Ok(schedule) = parse_schedule("sun 02:00") else { panic!("a schedule") };
        let due = (700 * 7 + 3) * DAY + 2 * HOUR + schedule.jitter(ARRAY);
        let next = |begun, now| schedule.next(&[run(begun, ScrubResult::Running)], now, now, ARRAY);
        for now in [due + 10, due + HOUR, due + 5 * HOUR] {
            assert_eq!(next(due, now), due + HOUR);
        }
        for now in [due + 7 * HOUR, due + 3 * DAY, due + WEEK - 1] {
            assert_eq!(next(due, now), due + WEEK);
        }
        assert!(next(due, due + WEEK) <= due + WEEK);
        // One that was ordered at another time.
        assert_eq!(next(due + 2 * DAY, due + 2 * DAY + HOUR), due + WEEK);
    }

    #[test]
    fn arrays_and_shards_begin_at_times_of_their_own() {
        let schedule = Schedule::Every(30 * DAY);
        let of = |last| {
            let mut uuid = ARRAY.0;
            uuid[15] = last;
            schedule.jitter(ArrayUuid(uuid))
        };
        let mut offsets: Vec<_> = (0..64).map(of).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert!(offsets.len() > 60, "{offsets:?}");
    }
}
