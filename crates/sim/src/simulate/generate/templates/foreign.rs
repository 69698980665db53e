//! Templates with foreign drives, or with drives that were left behind.

use crate::random::between;
use crate::simulate::generate::draw::Draw;
use crate::simulate::scenario::{Action, Impostor, Life, Since, SplitBrain, Stop};

/// Number of templates.
const TEMPLATES: u64 = 2;

impl Draw<'_> {
    /// A few lives, preceded by one that heals the array.
    pub(in crate::simulate::generate) fn foreign_template(&mut self) -> Vec<Life> {
        let mut lives = vec![self.healing()];
        lives.extend(match self.random.below(TEMPLATES) {
            0 => self.left_behind(),
            _ => vec![self.impostors()],
        });
        lives
    }

    /// The array is started by force without some drives. They come back, and are replaced in the
    /// end.
    fn left_behind(&mut self) -> Vec<Life> {
        let mut lives = Vec::new();
        if self.chance(500) {
            let steps = self.random.below(self.habits.steps_most);
            lives.push(self.busy(steps));
        }
        let first = self.slot();
        let columns = self.shape.columns();
        let missing: Vec<_> =
            (0..self.shape.parity).map(|apart| (first + apart) % columns).collect();
        for _ in 0..1 + self.random.below(3) {
            let steps = self.random.below(self.habits.steps_most);
            let mut forced = self.busy(steps);
            if self.chance(600) {
                let steps = self.random.below(150);
                forced.stop = Some(Stop { since: Since::Start, ..self.stop_at(steps) });
            }
            forced.forced = true;
            forced.missing.clone_from(&missing);
            forced.split_brain = self.split_brain();
            lives.push(forced);
            if self.chance(300) {
                lives.push(self.brief());
            }
        }
        let mut healing = self.healing();
        let replaced = (0..self.shape.parity).map(|_| Action::Replace { slot: usize::MAX });
        healing.actors[0].extend(replaced);
        healing.former_drives = true;
        healing.split_brain = self.split_brain();
        lives.push(healing);
        let mut after = self.brief();
        after.former_drives = true;
        lives.push(after);
        lives
    }

    /// Drives left behind continue by themselves.
    fn split_brain(&mut self) -> Option<SplitBrain> {
        let (starts, blocks) = (between(self.random, 1, 3), between(self.random, 0, 8));
        self.chance(500).then_some(SplitBrain { starts, blocks })
    }

    /// Drives with a false identity, and some of other arrays.
    fn impostors(&mut self) -> Life {
        let mut life = self.brief();
        let slot = self.slot();
        life.impostors = vec![Impostor::Twin { slot }, Impostor::Shrunk { slot }];
        life.foreign_drives = 1 + u32::from(self.chance(500));
        life
    }
}
