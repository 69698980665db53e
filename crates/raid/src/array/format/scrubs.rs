//! The newest scrubs in superblock records.
//!
//! The array has no clock of its own: the caller that orders a scrub provides its times. A scrub is
//! recorded when it begins, so that an interrupted one is known too.

use serde::{Deserialize, Serialize};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::array::format::bounds::{NUMBER_LIMIT, TIME_LIMIT};

/// How a scrub ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScrubResult {
    /// It has not, or its process died.
    Running,
    /// Everything was read.
    Complete,
    /// It was stopped, or drives were missing: a part was not read.
    Incomplete,
    /// It ended with an error.
    Failed,
}

/// A scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ScrubRun {
    /// Its begin, in seconds since 1970.
    pub begun_s: u64,
    /// Its end; 0 before.
    pub ended_s: u64,
    /// Blocks read and verified.
    pub blocks: u64,
    /// Damaged blocks that were restored.
    pub repaired: u64,
    /// Blocks that were lost, or had been before.
    pub lost: u64,
    /// Stripes that do not match their parity.
    pub mismatches: u64,
    /// How it ended.
    pub result: ScrubResult,
}

impl ScrubRun {
    /// One that begins.
    #[must_use]
    pub fn begin(begun_s: u64) -> Self {
        let (ended_s, blocks, repaired, lost, mismatches) = (0, 0, 0, 0, 0);
        let result = ScrubResult::Running;
        Self { begun_s, ended_s, blocks, repaired, lost, mismatches, result }
    }
}

/// The newest scrubs, in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubs(pub Vec<ScrubRun>);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHead {
    runs: U16,
    reserved: [u8; 6],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawRun {
    begun_s: U64,
    ended_s: U64,
    blocks: U64,
    repaired: U64,
    lost: U64,
    mismatches: U64,
    result: u8,
    reserved: [u8; 15],
}

impl Scrubs {
    /// Most scrubs in a record.
    pub const MOST: usize = 8;

    /// Adds a scrub, or what became of the last one.
    pub(crate) fn note(&mut self, run: ScrubRun) {
        match self.0.last_mut() {
            Some(last) if last.result == ScrubResult::Running && last.begun_s == run.begun_s => {
                *last = run;
            }
            _ => self.0.push(run),
        }
        let old = self.0.len().saturating_sub(Self::MOST);
        self.0.drain(..old);
        assert!(self.0.len() <= Self::MOST, "{} scrubs", self.0.len());
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.0.len() <= Self::MOST, "{} scrubs", self.0.len());
        let runs = u16::try_from(self.0.len()).expect("few").into();
        let mut bytes = RawHead { runs, reserved: [0; 6] }.as_bytes().to_vec();
        for run in &self.0 {
            let number = |count: u64| count.min(NUMBER_LIMIT - 1).into();
            let time = |seconds: u64| seconds.min(TIME_LIMIT - 1).into();
            let raw = RawRun {
                begun_s: time(run.begun_s),
                ended_s: time(run.ended_s),
                blocks: number(run.blocks),
                repaired: number(run.repaired),
                lost: number(run.lost),
                mismatches: number(run.mismatches),
                result: match run.result {
                    ScrubResult::Running => 0,
                    ScrubResult::Complete => 1,
                    ScrubResult::Incomplete => 2,
                    ScrubResult::Failed => 3,
                },
                reserved: [0; 15],
            };
            bytes.extend(raw.as_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = RawHead::ref_from_prefix(bytes).ok()?;
        let runs = usize::from(head.runs.get());
        if runs > Self::MOST {
            return None;
        }
        let runs = <[RawRun]>::ref_from_bytes_with_elems(rest, runs).ok()?;
        runs.iter().map(decode_run).collect::<Option<_>>().map(Self)
    }
}

fn decode_run(raw: &RawRun) -> Option<ScrubRun> {
    let RawRun { begun_s, ended_s, blocks, repaired, lost, mismatches, .. } = raw;
    let numbers = [begun_s, ended_s, blocks, repaired, lost, mismatches].map(|number| number.get());
    let result = match raw.result {
        0 => ScrubResult::Running,
        1 => ScrubResult::Complete,
        2 => ScrubResult::Incomplete,
        3 => ScrubResult::Failed,
        _ => return None,
    };
    let [begun_s, ended_s, blocks, repaired, lost, mismatches] = numbers;
    let run = ScrubRun { begun_s, ended_s, blocks, repaired, lost, mismatches, result };
    let are_times = begun_s < TIME_LIMIT && ended_s < TIME_LIMIT;
    (are_times && numbers.iter().all(|number| *number < NUMBER_LIMIT)).then_some(run)
}

/// Of the longest list.
pub(crate) const BYTES_MOST: usize = size_of::<RawHead>() + Scrubs::MOST * size_of::<RawRun>();
const _: () = assert!(size_of::<RawHead>() == 8 && size_of::<RawRun>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(begun_s: u64) -> ScrubRun {
        let result = ScrubResult::Complete;
        ScrubRun {
            ended_s: begun_s + 1,
            blocks: 5,
            repaired: 1,
            result,
            ..ScrubRun::begin(begun_s)
        }
    }

    #[test]
    fn the_newest_scrubs_are_kept_each_once() {
        let mut scrubs = Scrubs::default();
        for begun_s in 0..20 {
            scrubs.note(ScrubRun::begin(begun_s));
            // Every fifth ends with its process.
            if begun_s % 5 != 0 {
                scrubs.note(ended(begun_s));
            }
        }
        let expected = |begun_s: u64| match begun_s % 5 {
            0 => ScrubRun::begin(begun_s),
            _ => ended(begun_s),
        };
        assert_eq!(scrubs.0, (12..20).map(expected).collect::<Vec<_>>());
        assert_eq!(Scrubs::decode(&scrubs.encode()), Some(scrubs));
    }

    #[test]
    fn what_no_volume_writes_is_refused() {
        let scrubs = Scrubs(vec![ended(3), ended(9)]);
        let bytes = scrubs.encode();
        assert!((0..bytes.len()).all(|end| Scrubs::decode(&bytes[..end]).is_none()));
        let with = |at: usize, byte| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Scrubs::decode(&bytes)
        };
        assert_eq!(with(0, 9), None, "too many, and not there");
        assert_eq!(with(8 + 48, 4), None, "no result");
        assert_eq!(with(8 + 23, 0xFF), None, "more blocks than there are");
        assert_eq!(with(8 + 4, 59), None, "a begin in the year 10000");
        assert_eq!(with(8 + 12, 59), None, "an end in the year 10000");
        assert_eq!(with(2, 7), Some(scrubs), "reserved");
    }
}
