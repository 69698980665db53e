//! Outcomes of a crash for one drive: every subset of the commands in flight that change it, in
//! submission order. With a power failure, also every prefix of each zone's cache.

use std::fmt::Write as _;

use zoneweave_emulator::{CrashChoices, FaultPlan, Immediate, RamDrive, Request};
use zoneweave_zoned::{BlockCount, ZoneAddress, ZoneId, ZoneOffset};

use super::hash::Hash;

/// An outcome of a crash for a drive.
pub(super) struct Outcome {
    /// The drive after the crash.
    pub ram: RamDrive,
    /// Hash of its contents.
    pub hash: u128,
    /// The choices behind it: for each command in flight that changes the drive, whether it was
    /// applied, and for each zone, how many of its volatile blocks were kept.
    pub choices: Vec<u32>,
}

/// All outcomes of a drive.
pub(super) struct Outcomes {
    /// Number of choices.
    pub choices: u64,
    /// Outcomes with different media.
    pub distinct: Vec<Outcome>,
}

/// Tries every choice of a crash.
pub(super) fn outcomes(drive: &RamDrive, power: bool) -> Outcomes {
    let mut all = Outcomes { choices: 0, distinct: Vec::<Outcome>::new() };
    let mut script = Script::default();
    loop {
        let ram = drive.fork(Immediate);
        ram.set_gone(false);
        ram.faults(FaultPlan::clear);
        script.at = 0;
        crash(&ram, power, &mut script);
        all.choices += 1;
        let hash = contents_hash(&ram);
        if all.distinct.iter().all(|other| other.hash != hash) {
            let choices = script.digits.clone();
            all.distinct.push(Outcome { ram, hash, choices });
        }
        if !script.advance() {
            return all;
        }
    }
}

/// Loses the power, or only the process.
pub(super) fn crash(ram: &RamDrive, power: bool, choices: &mut dyn CrashChoices) {
    match power {
        true => ram.power_loss_by(choices),
        false => ram.process_kill_by(choices),
    }
}

/// Whether a command can leave something on the drive that survives a crash.
pub(super) fn changes_media(request: &Request) -> bool {
    match request {
        Request::Read { .. } | Request::Report { .. } | Request::ChangedZones | Request::Flush => {
            false
        }
        Request::Write { .. }
        | Request::Append { .. }
        | Request::Manage { .. }
        | Request::ManageAll { .. }
        | Request::SetExtension { .. } => true,
    }
}

/// The choices of a crash, as the digits of a number that is counted up.
#[derive(Default)]
struct Script {
    digits: Vec<u32>,
    /// Number of choices of each question.
    answers: Vec<u32>,
    at: usize,
}

impl Script {
    fn choose(&mut self, answers: u32) -> u32 {
        if self.at == self.digits.len() {
            self.digits.push(0);
            self.answers.push(answers);
        }
        assert_eq!(self.answers[self.at], answers, "the same answers lead to the same question");
        self.at += 1;
        self.digits[self.at - 1]
    }

    /// The next choices: the last question with another choice takes it, and later questions start
    /// over.
    fn advance(&mut self) -> bool {
        while let (Some(digit), Some(answers)) = (self.digits.pop(), self.answers.pop()) {
            if digit + 1 < answers {
                self.digits.push(digit + 1);
                self.answers.push(answers);
                return true;
            }
        }
        false
    }
}

impl CrashChoices for Script {
    fn happens(&mut self, request: &Request) -> bool {
        changes_media(request) && self.choose(2) == 1
    }

    fn kept(&mut self, _zone: ZoneId, promised: ZoneOffset, written: ZoneOffset) -> ZoneOffset {
        ZoneOffset(promised.0 + self.choose(written.0 - promised.0 + 1))
    }
}

/// A crash with the largest possible loss.
pub(super) struct Worst;

impl CrashChoices for Worst {
    fn happens(&mut self, _request: &Request) -> bool {
        false
    }

    fn kept(&mut self, _zone: ZoneId, promised: ZoneOffset, _written: ZoneOffset) -> ZoneOffset {
        promised
    }
}

/// A hash of a drive's contents.
pub(super) fn contents_hash(ram: &RamDrive) -> u128 {
    let mut hash = Hash::default();
    let mut text = String::new();
    for zone in (0..ram.geometry().zones).map(ZoneId) {
        let info = ram.zone(zone);
        text.clear();
        write!(text, "{info:?}").expect("a string takes everything");
        hash.bytes(text.as_bytes());
        let blocks = BlockCount(info.write_pointer.0.min(ram.geometry().zone_capacity.0));
        let payload = ram.peek(ZoneAddress::new(zone, 0), blocks);
        payload.data.iter().for_each(|piece| hash.bytes(piece));
        hash.bytes(&payload.oob);
    }
    hash.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_of_answers_is_tried_once() {
        let mut script = Script::default();
        let mut seen = std::collections::BTreeSet::new();
        loop {
            script.at = 0;
            let first = script.choose(2);
            // The second question depends on the first answer.
            let second = script.choose(2 + first);
            assert!(seen.insert((first, second)));
            if !script.advance() {
                break;
            }
        }
        assert_eq!(seen.len(), 5);
    }
}
