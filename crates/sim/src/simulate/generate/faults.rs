//! Drawing what happens to drives.

use super::{Draw, between, pick};
use crate::simulate::scenario::{Action, Command, Fault, On, Part};

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    Rot,
    Unreadable,
    Copied,
    Slow,
    Error,
    Partial,
    Lost,
    Misdirected,
    Garbled,
}

/// Every kind.
pub(super) const FAULT_KINDS: [FaultKind; 9] = [
    FaultKind::Rot,
    FaultKind::Unreadable,
    FaultKind::Copied,
    FaultKind::Slow,
    FaultKind::Error,
    FaultKind::Partial,
    FaultKind::Lost,
    FaultKind::Misdirected,
    FaultKind::Garbled,
];

impl Draw<'_> {
    /// Something that happens to a drive.
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
        };
        Action::Fault { slot, fault }
    }
}
