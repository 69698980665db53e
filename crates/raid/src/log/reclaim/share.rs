//! The GC throttle: shares writes between users and relocation by the free space.
//!
//! Collection begins when the free space is less than a *window* above the reserve of users. Users
//! then get the part of all writes that corresponds to the remaining part of the window: little is
//! relocated while there is much space, and users nearly stop when there is hardly any.
//!
//! The equilibrium is where as much is freed as is written. If relocation takes three blocks for
//! each that it frees, users get a quarter, and free space stays at a quarter of the window.
//! Nothing has to be known about segments for that, and nothing jumps: free space includes the rest
//! of open segments, and the finished part of relocations.
//!
//! Each waits for the other only while the other is at work, so that both cannot wait.

use crate::log::format::StreamKind;

/// Shares are expressed in parts of this number.
const WHOLE: u64 = 64;

/// Most blocks by which one side may be ahead of the other.
const SLACK_MOST: u64 = 512;

/// The free space and its bounds, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    /// Blocks that can be written.
    pub(in crate::log) free: u64,
    /// Room that users' writes leave to relocation.
    pub(in crate::log) floor: u64,
    /// Blocks above the floor in which writes are shared; 0 if they are not.
    pub(in crate::log) window: u64,
}

impl Level {
    /// Whether collection should run.
    #[must_use]
    pub(super) fn is_low(&self) -> bool {
        self.window > 0 && self.free < self.floor + self.window
    }

    /// Users' share of all writes, in parts of [`WHOLE`].
    #[must_use]
    pub(super) fn users_share(&self) -> u64 {
        if !self.is_low() {
            return WHOLE;
        }
        let left = self.free.saturating_sub(self.floor);
        (left * WHOLE / self.window).clamp(1, WHOLE - 1)
    }
}

/// Balance of writes between users and relocation.
#[derive(Debug, Default)]
pub(in crate::log) struct Throttle {
    /// Segments of the window; 0 if writes are not shared.
    pub(in crate::log) window: u32,
    /// Blocks that users could have written in addition, times [`WHOLE`].
    credit: i64,
    /// Magnitude of the credit at which the side that is ahead waits.
    most: i64,
}

impl Throttle {
    /// A balance for a window of so many segments.
    #[must_use]
    pub(in crate::log) fn new(window: u32) -> Self {
        Self { window, ..Self::default() }
    }

    /// Records that so many blocks are written, in segments of a size.
    pub(super) fn note(&mut self, kind: StreamKind, blocks: u64, share: u64, segment: u64) {
        assert!(share <= WHOLE, "users have {share} of {WHOLE} parts of all writes");
        // Relocation of damaged segments gets a part even if writes are not shared.
        let share = share.min(WHOLE * 7 / 8);
        assert!(segment > 0, "writes are shared in segments of no blocks");
        let slack = (segment / 8).clamp(1, SLACK_MOST);
        self.most = signed(slack * WHOLE);
        let change = match kind {
            StreamKind::User => -signed(blocks * (WHOLE - share)),
            StreamKind::Relocation => signed(blocks * share),
        };
        // A stripe may begin just below the bound, and counts in full. Blocks written while the
        // other side was idle no longer count.
        let end = self.most + signed(blocks * WHOLE);
        self.credit = (self.credit + change).clamp(-end, end);
    }

    /// Whether a stream has used up its share until the other one writes.
    #[must_use]
    pub(super) fn is_ahead(&self, kind: StreamKind) -> bool {
        let credit = match kind {
            StreamKind::User => self.credit,
            StreamKind::Relocation => -self.credit,
        };
        self.window > 0 && self.most > 0 && credit <= -self.most
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1000;

    /// A log in which both sides write whenever they may, and relocating `live` blocks of a segment
    /// frees the rest.
    struct Log {
        level: Level,
        throttle: Throttle,
        /// Fraction of a freed block, in parts of `live`.
        freed: u64,
        written: [u64; 2],
    }

    impl Log {
        fn new(free: u64) -> Self {
            let level = Level { free, floor: 3 * SEGMENT, window: 4 * SEGMENT };
            Self { level, throttle: Throttle::new(4), freed: 0, written: [0; 2] }
        }

        fn step(&mut self, live: u64) {
            let moves = self.level.is_low();
            let (blocks, share) = (3, self.level.users_share());
            if !(moves && self.throttle.is_ahead(StreamKind::User)) && self.level.free > 0 {
                self.throttle.note(StreamKind::User, blocks, share, SEGMENT);
                self.level.free -= blocks;
                self.written[0] += blocks;
            }
            if moves && !self.throttle.is_ahead(StreamKind::Relocation) {
                self.throttle.note(StreamKind::Relocation, blocks, share, SEGMENT);
                self.freed += blocks * (SEGMENT - live);
                self.level.free += self.freed / live;
                self.freed %= live;
                self.written[1] += blocks;
            }
        }
    }

    #[test]
    fn room_stays_where_as_much_is_freed_as_is_written() {
        for (live, amplification) in [(250, 1.33), (500, 2.0), (750, 4.0)] {
            let mut log = Log::new(20 * SEGMENT);
            (0..100_000).for_each(|_| log.step(live));
            log.written = [0; 2];
            let (mut least, mut most) = (u64::MAX, 0);
            for _ in 0..100_000 {
                log.step(live);
                least = least.min(log.level.free);
                most = most.max(log.level.free);
            }
            #[expect(clippy::cast_precision_loss, reason = "a test")]
            let measured = (log.written[0] + log.written[1]) as f64 / log.written[0] as f64;
            assert!((measured / amplification - 1.0).abs() < 0.05, "{live}: {measured}");
            assert!(least > log.level.floor && most < log.level.floor + log.level.window);
            assert!(most - least < SEGMENT, "{live}: room of {least} to {most}");
        }
    }

    #[test]
    fn users_go_on_while_there_is_room_and_are_never_stopped_for_good() {
        let mut log = Log::new(100 * SEGMENT);
        (0..1000).for_each(|_| log.step(900));
        assert_eq!(log.written, [3000, 0]);
        log.level.free = log.level.floor;
        log.written = [0; 2];
        // The victims are nearly full: nine blocks are relocated for each freed one.
        (0..100_000).for_each(|_| log.step(900));
        let [users, moved] = log.written;
        assert!(users > 0 && moved / users < 10, "{:?}", log.written);
    }

    #[test]
    fn the_share_of_users_is_what_is_left_of_the_window() {
        let level = |free| Level { free, floor: 100, window: 64 };
        let shares: Vec<_> = [0, 100, 132, 163, 164].map(|free| level(free).users_share()).into();
        assert_eq!(shares, [1, 1, 32, 63, 64]);
        assert!(!Level::default().is_low());
    }
}
