//! Drawing faults of drives.

use super::draw::Draw;
use super::fault_kind::FaultKind;
use crate::random::{between, pick};
use crate::simulate::scenario::{Action, Class, Command, Fault, On, Part, Since, Timed};

/// Classes of recurring faults.
const CLASSES: [Class; 9] = [
    Class::Errored,
    Class::Lost,
    Class::Misdirected,
    Class::Rotted,
    Class::Unreadable,
    Class::Slow,
    Class::DuplicateAppend,
    Class::LyingWritePointer,
    Class::IneffectiveFlush,
];

impl Draw<'_> {
    /// A fault of a drive.
    pub(super) fn fault(&mut self) -> Action {
        let kind = pick(self.random, &self.habits.kinds);
        let (seed, slot) = (self.random.next(), self.slot());
        let part = pick(self.random, &[Part::Data, Part::Oob, Part::Both]);
        let most = pick(self.random, &[3, 30]);
        let after = self.random.below(most);
        let write =
            if self.shape.tabled && self.chance(800) { Command::Append } else { Command::Write };
        let anything =
            pick(self.random, &[write, write, Command::Flush, Command::Reset, Command::Any]);
        let fault = match kind {
            FaultKind::Rot => Fault::Rot { seed, part, bit: self.chance(500) },
            FaultKind::Unreadable => Fault::Unreadable { seed },
            FaultKind::Copied => Fault::Copied { seed },
            FaultKind::Slow => Fault::Slow {
                on: On { command: anything, after },
                times: 1 + self.random.below(8),
                us: pick(self.random, &[1000, 10_000, 100_000]),
            },
            FaultKind::Error => {
                let command = pick(self.random, &[anything, anything, Command::Read]);
                Fault::Error { on: On { command, after }, applied: self.chance(500) }
            }
            FaultKind::Partial => {
                let blocks = between(self.random, 0, 3);
                Fault::Partial { on: On { command: write, after }, blocks }
            }
            FaultKind::Lost => {
                let command = if self.chance(100) { Command::Reset } else { write };
                Fault::Lost { on: On { command, after } }
            }
            FaultKind::Misdirected => Fault::Misdirected {
                on: On { command: write, after },
                zone: between(self.random, 0, self.shape.zones - 1),
                offset: between(self.random, 0, self.shape.zone_blocks - 1),
            },
            FaultKind::Garbled => Fault::Garbled { on: On { command: write, after }, seed, part },
            FaultKind::ZoneWorn => Fault::ZoneWorn { seed, offline: self.chance(500) },
            FaultKind::ZoneFails => {
                let command = pick(self.random, &[anything, anything, Command::Read]);
                Fault::ZoneFails { on: On { command, after }, offline: self.chance(500) }
            }
            kind => self.lasting_fault(kind, seed, after),
        };
        Action::Fault { slot, fault }
    }

    /// A lasting fault: a bad drive, or a lying one.
    fn lasting_fault(&mut self, kind: FaultKind, seed: u64, after: u64) -> Fault {
        match kind {
            FaultKind::Sluggish => Fault::Sluggish { times: pick(self.random, &[10, 100, 1000]) },
            FaultKind::Often => Fault::Often {
                class: pick(self.random, &CLASSES),
                per_million: pick(self.random, &[2000, 20_000, 200_000]),
                seed,
            },
            FaultKind::FlushIgnored => {
                Fault::FlushIgnored { after, times: 1 + self.random.below(20) }
            }
            FaultKind::Misreported => Fault::Misreported {
                // The engine reports zones when the array starts, and hardly later.
                after: after % 2,
                zone: between(self.random, 0, self.shape.zones - 1),
                offset: between(self.random, 0, self.shape.zone_blocks),
            },
            FaultKind::Append if self.chance(500) => Fault::Repeated { after },
            _ => Fault::Doubled { after },
        }
    }

    /// Pulls one drive, or up to three, which is one too many.
    pub(super) fn pulls(&mut self) -> Vec<Action> {
        let too_many = self.chance(300);
        let forgetting = self.chance(300);
        let pull = |slot| Action::Pull { slot, too_many, forgetting };
        self.slots(if too_many { 3 } else { 1 }).into_iter().map(pull).collect()
    }

    /// Faults or a pull at some step.
    pub(super) fn timed(&mut self) -> Vec<Timed> {
        let since = if self.chance(600) { Since::Start } else { Since::Serving };
        let most = pick(self.random, &[20, 100, 400, 2000]);
        let steps = self.random.below(most);
        let actions = if self.chance(600) { self.pulls() } else { vec![self.fault()] };
        actions.into_iter().map(|action| Timed { since, steps, action }).collect()
    }
}
