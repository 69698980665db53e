//! The health of an array in one word, why it is not healthy, and what to do.
//!
//! | members | health | action |
//! |---|---|---|
//! | all online, and every block could be read | HEALTHY | |
//! | all others are being rebuilt | REBUILDING | none |
//! | an online drive lacks blocks, which are being rewritten | REBUILDING | none |
//! | an online drive lacks blocks, and no space is free to rewrite them | DEGRADED | trim |
//! | the header of an online drive's file was overwritten | DEGRADED | another drive for it |
//! | a slot has no drive, and nothing is about to fill it | DEGRADED | a drive for it, at once |
//! | a slot has no drive, and a spare, a replacement or its drive waits for it | DEGRADED | none |
//! | a drive is missing, and has missed nothing yet | DEGRADED | bring it back |
//! | a drive was taken offline | DEGRADED | put it back |
//! | a rebuild has stopped, or the array is not served | DEGRADED | restart or serve it |
//! | a spare is of no use, and none waits | as above | another spare, if nothing else is to do |
//! | blocks could not be read | DAMAGED | restore them; and as above |
//! | writes have stopped, or the array cannot start | FAILED | bring drives back |

use std::path::PathBuf;

use zoneweave_raid::log::MemberHealth;
use zoneweave_zoned::BLOCK_BYTES;

use super::{DRIVES, HEADER_LOST, Health, MemberStatus, SpareState, SpareStatus, WaitingStatus};
use crate::format::{bytes, slot_state, slots, word};

/// The rebuild of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rebuild {
    /// None runs. If a slot is being rebuilt, its rebuild has stopped.
    #[default]
    None,
    /// One runs, or is about to go on after a restart.
    Runs,
}

/// Facts that decide the verdict.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts<'a> {
    pub members: &'a [MemberStatus],
    /// Further drives that may be lost, whichever they are.
    pub losses_left: usize,
    /// Why writes have stopped, or why the array cannot start.
    pub stopped: Option<&'a str>,
    /// Whether a server runs; without one, `stopped` says what to do.
    pub is_served: bool,
    pub rebuild: Rebuild,
    /// Whether blocks that online drives lack are being rewritten.
    pub relocates: bool,
    pub waiting: &'a [WaitingStatus],
    /// Slots whose drives were taken offline, with their paths.
    pub offline: &'a [(u8, PathBuf)],
    pub spares: &'a [SpareStatus],
    /// Blocks that could not be read, nor restored from other drives.
    pub lost_blocks: u64,
    /// Blocks that were found unreadable until a drive is back that is out of service.
    pub awaited_blocks: u64,
    /// Whether the volume is a zoned one: its blocks are written again after a reset.
    pub is_zoned: bool,
}

/// Health, reason and action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub health: Health,
    pub why: Option<String>,
    pub action: Option<String>,
}

/// Judges an array.
pub(super) fn judge(facts: &Facts<'_>) -> Verdict {
    let bad = facts.bad();
    let described = facts.described();
    if let Some(stopped) = facts.stopped {
        let (why, action) = match (facts.is_served, bad.is_empty()) {
            (true, true) => {
                (stopped.to_owned(), "replace the failing drive, and restart".to_owned())
            }
            (true, false) => (format!("{stopped} ({described})"), facts.bring_back()),
            (false, true) => ("it cannot start".to_owned(), stopped.to_owned()),
            (false, false) => (described, stopped.to_owned()),
        };
        return Verdict { health: Health::Failed, why: Some(why), action: Some(action) };
    }
    let is_whole = facts.members.iter().all(MemberStatus::is_whole);
    let members = (!is_whole).then(|| facts.members_verdict());
    let (health, action) = members.unzip();
    let health = health.unwrap_or(Health::Healthy);
    let why = Some(described).filter(|why| !why.is_empty());
    if facts.lost_blocks == 0 {
        let action = action.or_else(|| facts.for_spares());
        return Verdict { health, why, action };
    }
    let lost = format!(
        "{} of the volume could not be read, nor restored from other drives",
        bytes(facts.lost_blocks.saturating_mul(BLOCK_BYTES as u64))
    );
    let restore = match facts.is_zoned {
        true => "reset the zone, and restore its data from a copy",
        false => "restore the data from a copy: a block is whole again once it is written",
    };
    let restore = format!("{restore}; then: zoneweave array clear {DRIVES}");
    let action = action.filter(|action| !action.starts_with(NOTHING));
    Verdict {
        health: Health::Damaged,
        why: Some(why.map_or(lost.clone(), |why| format!("{lost}; {why}"))),
        action: Some(action.map_or(restore.clone(), |action| format!("{restore}; {action}"))),
    }
}

/// How an action begins that is none.
const NOTHING: &str = "none: ";

impl Facts<'_> {
    /// Members that are not online.
    fn bad(&self) -> Vec<&MemberStatus> {
        self.members.iter().filter(|member| member.state != MemberHealth::Online).collect()
    }

    /// Slots in one of these states.
    fn slots_in(&self, states: &[MemberHealth]) -> Vec<u8> {
        let found = self.members.iter().filter(|member| states.contains(&member.state));
        found.map(|member| member.slot).collect()
    }

    /// What online members lack.
    fn lacking(&self) -> impl Iterator<Item = String> {
        let is_lacking = |member: &&MemberStatus| {
            member.state == MemberHealth::Online && member.segments_lacking > 0
        };
        self.members.iter().filter(is_lacking).map(|member| {
            let (slot, count) = (member.slot, member.segments_lacking);
            let segments = if count == 1 { "segment" } else { "segments" };
            format!("slot {slot} lacks blocks of {count} {segments}, to be rewritten from others")
        })
    }

    /// What cannot be read before a drive is back.
    fn awaited(&self) -> Option<String> {
        let out = self.slots_in(&[MemberHealth::Failed, MemberHealth::Missing]);
        (self.awaited_blocks > 0 && !out.is_empty()).then(|| {
            let size = bytes(self.awaited_blocks.saturating_mul(BLOCK_BYTES as u64));
            format!(
                "{size} of the volume cannot be read until the drive of {} is back, as they are \
                 damaged on another one",
                slots(&out)
            )
        })
    }

    /// Online members that will not open again.
    fn headless(&self) -> impl Iterator<Item = String> {
        self.without_header().map(|slot| format!("slot {slot}: {HEADER_LOST}"))
    }

    fn without_header(&self) -> impl Iterator<Item = u8> {
        let online = self.members.iter().filter(|member| member.state == MemberHealth::Online);
        online.filter(|member| member.header_lost).map(|member| member.slot)
    }

    /// The state and reason of each member that is not whole, and of spares that are no help.
    fn described(&self) -> String {
        let words = |member: &&MemberStatus| {
            slot_state(member.slot, member.state, member.reason.as_deref())
        };
        let bad = self.bad();
        let useless = |spare: &&SpareStatus| spare.state == SpareState::GivenUp && !bad.is_empty();
        let spares = self.spares.iter().filter(useless).map(|spare| {
            let reason = spare.reason.as_deref().unwrap_or("it failed");
            format!("the spare {} is unusable: {reason}", spare.shown())
        });
        let bad = bad.iter().map(words);
        bad.chain(self.awaited())
            .chain(self.headless())
            .chain(self.lacking())
            .chain(spares)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// The action of an array without other needs whose spares are all of no use.
    fn for_spares(&self) -> Option<String> {
        let in_state =
            |state: SpareState| self.spares.iter().find(move |spare| spare.state == state);
        let useless = in_state(SpareState::GivenUp)?;
        let add = || {
            let spare = useless.shown();
            format!("the spare {spare} is unusable; add another: {}", spare_add())
        };
        in_state(SpareState::Waiting).is_none().then(add)
    }

    /// Advice for an array whose writes have stopped for lack of drives.
    fn bring_back(&self) -> String {
        let lost = self.members.iter().filter(|member| !member.state.is_in_service());
        let words = |member: &MemberStatus| match member.shown() {
            Some(drive) => format!("slot {} ({drive})", member.slot),
            None => format!("slot {}", member.slot),
        };
        let lost: Vec<_> = lost.map(words).collect();
        match lost.is_empty() {
            true => "restart the server".to_owned(),
            false => format!(
                "bring back the drives of {} and restart the server; do not create a new array",
                lost.join(", ")
            ),
        }
    }

    /// Health and action with members out of service, or being rebuilt.
    fn members_verdict(&self) -> (Health, String) {
        let missing = self.slots_in(&[MemberHealth::Missing]);
        let out = self.slots_in(&[MemberHealth::Failed, MemberHealth::Missing]);
        let rebuilding = self.slots_in(&[MemberHealth::Rebuilding]);
        match (&out[..], &rebuilding[..]) {
            ([], []) => return self.only_online(),
            ([], _) => return self.only_rebuilding(&rebuilding),
            _ => {}
        }
        let action = match self.is_served {
            true => self.for_vacant(&out, &rebuilding),
            false => unserved(&out, &missing, self.losses_left),
        };
        let action = match self.for_headless() {
            None => action,
            Some(next) if action.starts_with(NOTHING) => next,
            // Too few others may be left to replace one that works before.
            Some(next) => format!("{action}; then {next}"),
        };
        (Health::Degraded, action)
    }

    /// The action for drives that will not open again.
    fn for_headless(&self) -> Option<String> {
        let lost: Vec<_> = self.without_header().collect();
        let command = format!("{} --yes-destroy", replace(*lost.first()?));
        Some(match lost[..] {
            [slot] => format!(
                "replace the drive of slot {slot} before the server stops, which can still read \
                 it: {command}"
            ),
            _ => format!(
                "replace the drives of {}, one after the other, before the server stops, which can \
                 still read them: {command}",
                slots(&lost)
            ),
        })
    }

    fn only_online(&self) -> (Health, String) {
        if let Some(text) = self.for_headless() {
            return (Health::Degraded, text);
        }
        match self.relocates {
            true => {
                let text = format!("{NOTHING}blocks are being rewritten; do not remove a drive");
                (Health::Rebuilding, text)
            }
            false => {
                let text = "trim unused blocks, and restart the server: no space is free to \
                            rewrite what a drive lacks";
                (Health::Degraded, text.to_owned())
            }
        }
    }

    fn only_rebuilding(&self, slots: &[u8]) -> (Health, String) {
        match (self.rebuild, self.is_served) {
            (Rebuild::Runs, _) => {
                let text = format!("{NOTHING}a rebuild is running; do not remove another drive");
                (Health::Rebuilding, text)
            }
            (Rebuild::None, false) => {
                (Health::Degraded, "serve the array: its rebuild resumes by itself".to_owned())
            }
            (Rebuild::None, true) => {
                let text = format!(
                    "the rebuild has stopped, and is tried again by itself: see to the cause; for \
                     another new drive, take this one out first: zoneweave array fail {DRIVES} \
                     --slot {}",
                    slots[0]
                );
                (Health::Degraded, text)
            }
        }
    }

    /// The action of a server with vacant slots.
    fn for_vacant(&self, out: &[u8], rebuilding: &[u8]) -> String {
        let running = match (rebuilding, self.rebuild) {
            ([], _) => String::new(),
            (some, Rebuild::Runs) => format!("{} being rebuilt; ", slots(some)),
            (some, Rebuild::None) => format!("the rebuild of {} has stopped; ", slots(some)),
        };
        let waits = |slot: &&u8| self.waiting.iter().any(|waiting| waiting.slot == **slot);
        let spare = self.spares.iter().filter(|spare| spare.state == SpareState::Waiting);
        let mut coming: Vec<_> = (self.waiting.iter()).map(WaitingStatus::text).collect();
        let vacant = out.iter().filter(|slot| !waits(slot)).copied();
        let mut uncovered = Vec::new();
        let mut spare = spare.map(SpareStatus::shown);
        for slot in vacant {
            match spare.next() {
                Some(spare) => coming.push(format!("the spare {spare} is to replace slot {slot}")),
                None => uncovered.push(slot),
            }
        }
        let coming = coming.join("; ");
        let missing = self.slots_in(&[MemberHealth::Missing]);
        if let Some(slot) = uncovered.iter().find(|slot| missing.contains(slot)) {
            // Nothing was written since the start, so its drive counts as soon as it is back.
            if self.is_zoned {
                return format!(
                    "{running}bring back the drive of slot {slot}, which has missed no write yet, \
                     and restart the server with it before the first write"
                );
            }
            return format!(
                "{running}bring back the drive of slot {slot}, which has missed no write yet: {}",
                online(*slot)
            );
        }
        let offline = |slot: u8| self.offline.iter().find(|(other, _)| *other == slot);
        if let Some((slot, path)) = uncovered.iter().find_map(|slot| offline(*slot)) {
            return format!(
                "{running}put the drive of slot {slot} back, which was taken offline: {} {}",
                online_with(*slot),
                word(path.display())
            );
        }
        match uncovered[..] {
            [] => format!("{NOTHING}{running}{coming}; do not remove another drive"),
            [slot] => {
                let coming = if coming.is_empty() { coming } else { format!("{coming}; ") };
                format!("{running}{coming}replace the drive of slot {slot}: {}", replace(slot))
            }
            [first, ..] => format!(
                "{running}replace the {} drives, one after the other: {}",
                uncovered.len(),
                replace(first)
            ),
        }
    }
}

/// Advice for slots out of service of an array that is not served; `missing` are those not yet
/// recorded as failed.
fn unserved(out: &[u8], missing: &[u8], losses_left: usize) -> String {
    let first = *missing.first().or(out.first()).expect("a slot is out of service");
    let them = if out.len() == 1 { "it" } else { "them" };
    // Only a start may record several as failed.
    let serve = if missing.len() > 1 { "serve the array without them and " } else { "" };
    let what = match losses_left {
        0 => {
            format!("bring {} back or {serve}replace {them} before another drive fails", slots(out))
        }
        _ => format!("{serve}replace {them}"),
    };
    format!("{what}: {}", replace(first))
}

/// The command that replaces the drive of a slot.
pub(super) fn replace(slot: u8) -> String {
    format!("zoneweave array replace {DRIVES} --slot {slot} --with NEWDRIVE")
}

/// The command that adds a spare.
fn spare_add() -> String {
    format!("zoneweave array spare add {DRIVES} NEWDRIVE")
}

/// The command that brings the drive of a slot back.
fn online(slot: u8) -> String {
    format!("{} ITS_DRIVE", online_with(slot))
}

pub(super) fn online_with(slot: u8) -> String {
    format!("zoneweave array online {DRIVES} --slot {slot} --with")
}

#[cfg(test)]
mod tests;
