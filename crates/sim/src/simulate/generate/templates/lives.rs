//! Lives in a row in which one event leads to another.
//!
//! A broken promise shows only when it is needed. Examples are a chunk that was never written when
//! another member is lost, and a decision that is not on media when the next start has to decide
//! again. Lives drawn independently hardly ever form such sequences.

use crate::random::pick;
use crate::simulate::generate::draw::Draw;
use crate::simulate::scenario::{Action, Command, Fault, Life, On, Since, Stop, Timed};

/// Number of templates.
const TEMPLATES: u64 = 14;

/// As many commands of one kind as a life can have.
pub(in crate::simulate::generate) const MANY: u64 = 1000;

impl Draw<'_> {
    /// A few lives, sometimes preceded by one that heals the array: while one drive is damaged,
    /// another may have no fault.
    pub(in crate::simulate::generate) fn template(&mut self) -> Vec<Life> {
        let heals = self.chance(300);
        let mut lives = if heals { vec![self.healing()] } else { Vec::new() };
        lives.extend(self.one_template());
        assert!(!lives.is_empty(), "a template has a life");
        lives
    }

    /// Every drive is brought back.
    pub(in crate::simulate::generate) fn healing(&mut self) -> Life {
        let mut heal = vec![Action::Resume];
        heal.extend((0..self.shape.spared()).map(|_| Action::Replace { slot: usize::MAX }));
        heal.push(Action::Scrub);
        Life { actors: vec![heal], order: self.random.next(), ..Life::default() }
    }

    fn one_template(&mut self) -> Vec<Life> {
        match self.random.below(TEMPLATES) {
            0 => self.errors_then_loss(),
            1 => self.crashes_in_a_row(),
            2 => self.start_that_cannot_read(),
            3 => self.pulled_then_loss(),
            4 => self.rebuild_interrupted(),
            5 => self.source_pulled(),
            6 => self.long_life(),
            7 => self.slow_resets(),
            8 => self.flushes_fail(),
            9 => self.pulled_for_a_moment(),
            10 => self.zone_not_reset(),
            11 => self.away_and_back(),
            12 => self.flapping(),
            _ => self.blocks_of_other_places(),
        }
    }

    /// Commands of one drive fail, and another drive is lost soon after.
    fn errors_then_loss(&mut self) -> Vec<Life> {
        let (bad, lost) = self.two_slots();
        let steps = 100 + self.random.below(self.habits.steps_most);
        let mut busy = self.busy(steps);
        for _ in 0..1 + self.random.below(4) {
            let command = pick(self.random, &[Command::Append, Command::Write, Command::Flush]);
            let on = On { command, after: self.random.below(12) };
            let fault = match self.random.below(4) {
                0 => Fault::Partial { on, blocks: 1 },
                chosen => Fault::Error { on, applied: chosen == 1 },
            };
            let steps = self.random.below(steps);
            let action = Action::Fault { slot: bad, fault };
            busy.timed.push(Timed { since: Since::Serving, steps, action });
        }
        let mut lives = vec![busy];
        if self.chance(500) {
            lives.push(self.brief());
        }
        lives.push(self.without(lost));
        lives
    }

    /// From some step on every flush of a drive fails, until the power fails; then another drive is
    /// lost.
    fn flushes_fail(&mut self) -> Vec<Life> {
        let (bad, lost) = self.two_slots();
        let steps = 100 + self.random.below(600);
        let mut busy = self.busy(steps);
        let mut careful = Vec::new();
        for _ in 0..12 {
            let (lba, blocks, fua) = (self.lba(), self.blocks(), false);
            careful.extend([Action::Write { lba, blocks, fua }, Action::Flush]);
        }
        busy.actors.push(careful);
        let on = On { command: Command::Flush, after: 0 };
        let action = Action::Fault { slot: bad, fault: Fault::Error { on, applied: false } };
        let steps = self.random.below(steps);
        busy.timed = vec![Timed { since: Since::Serving, steps, action }; 32];
        if let Some(stop) = &mut busy.stop {
            stop.power = true;
        }
        let mut lives = vec![busy];
        if self.chance(300) {
            lives.push(self.brief());
        }
        lives.push(self.without(lost));
        lives
    }

    /// The engine is stopped again as soon as it serves users, several times; the contents must
    /// stay the same.
    fn crashes_in_a_row(&mut self) -> Vec<Life> {
        let steps = self.random.below(self.habits.steps_most);
        let mut lives = vec![self.busy(steps)];
        for _ in 0..1 + self.random.below(3) {
            lives.push(self.brief());
        }
        if self.chance(500) {
            let lost = self.slot();
            lives.push(self.without(lost));
        }
        lives
    }

    /// A start cannot read blocks that later starts can, and serves older data.
    fn start_that_cannot_read(&mut self) -> Vec<Life> {
        let (bad, slow) = self.two_slots();
        let steps = self.random.below(self.habits.steps_most);
        let mut busy = self.busy(steps);
        if self.chance(500) {
            // Incomplete stripes lack a chunk: each of the remaining chunks decides whether they
            // count.
            let command = if self.shape.tabled { Command::Append } else { Command::Write };
            let steps = self.random.below(steps + 1);
            let action = slowed(slow, On { command, after: 0 }, MANY);
            busy.timed.push(Timed { since: Since::Serving, steps, action });
        }
        let mut confused = self.brief();
        let (before, most) = (pick(self.random, &[12, 60]), pick(self.random, &[12, 60]));
        let first = self.random.below(before);
        for number in 0..1 + self.random.below(most) {
            let on = On { command: Command::Read, after: first + number };
            let fault = Fault::Error { on, applied: false };
            confused.meanwhile.push(Action::Fault { slot: bad, fault });
        }
        if self.chance(500) {
            let after = self.random.below(20);
            confused.meanwhile.extend(self.slow_records(after, MANY));
        }
        if self.chance(200) {
            let steps = self.random.below(600);
            confused.stop = Some(Stop { since: Since::Start, ..self.stop_at(steps) });
        }
        let mut lives = vec![busy, confused];
        for _ in 0..1 + self.random.below(3) {
            lives.push(self.brief());
        }
        lives
    }

    /// A drive is pulled under load, and may be recorded as out late. It comes back after a crash;
    /// then another drive is lost.
    fn pulled_then_loss(&mut self) -> Vec<Life> {
        let (pulled, lost) = self.two_slots();
        let steps = self.random.below(self.habits.steps_most);
        let most = pick(self.random, &[30, 100, 400]);
        let after = self.random.below(most);
        let mut busy = self.busy(steps + after);
        let writes = (0..60).map(|_| {
            let (lba, blocks, fua) = (self.lba(), self.blocks(), false);
            Action::Write { lba, blocks, fua }
        });
        busy.actors.push(writes.collect());
        let timed = |action| Timed { since: Since::Serving, steps, action };
        if self.chance(700) {
            busy.timed.extend(self.slow_records(0, 1).into_iter().map(timed));
        }
        busy.timed.push(timed(Action::Pull { slot: pulled, too_many: false, forgetting: false }));
        vec![busy, self.brief(), self.without(lost)]
    }

    /// A rebuild is interrupted by crashes and finished in a later life; then another member is
    /// lost.
    fn rebuild_interrupted(&mut self) -> Vec<Life> {
        let (slot, lost) = self.two_slots();
        let mut lives = Vec::new();
        for number in 0..1 + self.random.below(3) {
            let most = pick(self.random, &[100, 400, 1500]);
            let steps = self.random.below(most);
            let mut life = self.busy(steps);
            let rebuild = if number == 0 { Action::Replace { slot } } else { Action::Resume };
            life.actors.insert(0, vec![rebuild]);
            lives.push(life);
        }
        let mut last = Life { actors: vec![vec![Action::Resume]], ..Life::default() };
        if self.chance(600) {
            let steps = 40 + self.random.below(400);
            last.stop = Some(self.stop_at(steps));
        }
        lives.push(last);
        lives.push(self.without(lost));
        lives
    }

    /// A drive is away while users write, and is put back in a later life, which a crash may cut
    /// short; then another member is lost.
    fn away_and_back(&mut self) -> Vec<Life> {
        let (slot, lost) = self.two_slots();
        let most = self.habits.steps_most;
        let before = self.random.below(most);
        let mut lives = vec![self.busy(before)];
        for _ in 0..1 + self.random.below(2) {
            let steps = self.random.below(most);
            lives.push(Life { missing: vec![slot], ..self.busy(steps) });
        }
        for _ in 0..self.random.below(3) {
            let most = pick(self.random, &[60, 200, 800]);
            let steps = self.random.below(most);
            let mut life = self.busy(steps);
            life.missing = vec![slot];
            self.returns(slot, &mut life);
            lives.push(life);
        }
        let mut last = if self.chance(500) { self.busy(2 * most) } else { self.brief() };
        self.returns(slot, &mut last);
        lives.push(last);
        lives.push(self.without(lost));
        lives
    }

    /// A drive returns in this life. Its zones may take so long to reset that segments are
    /// reclaimed meanwhile.
    fn returns(&mut self, slot: usize, life: &mut Life) {
        life.actors.insert(0, vec![Action::Readd, Action::Resume]);
        if self.chance(400) {
            let (on, times) = (On { command: Command::Reset, after: 0 }, 1 + self.random.below(4));
            let action = slowed(slot, on, times);
            life.timed.push(Timed { since: Since::Serving, steps: 0, action });
        }
    }

    /// A drive is gone and back several times under load; then another member is lost.
    fn flapping(&mut self) -> Vec<Life> {
        let (slot, lost) = self.two_slots();
        let steps = 500 + self.random.below(4 * self.habits.steps_most);
        let mut busy = self.busy(steps);
        let mut flaps = Vec::new();
        for _ in 0..1 + self.random.below(5) {
            let forgetting = self.chance(200);
            flaps.push(Action::Pull { slot, too_many: false, forgetting });
            flaps.push(Action::Sleep { us: self.random.below(20 * self.shape.latency_us) });
            flaps.push(Action::Readd);
            flaps.push(Action::Sleep { us: self.random.below(20 * self.shape.latency_us) });
        }
        busy.actors.push(flaps);
        vec![busy, self.brief(), self.without(lost)]
    }

    /// More source drives of a rebuild are pulled than the redundancy covers, while users write.
    fn source_pulled(&mut self) -> Vec<Life> {
        let columns = self.shape.columns();
        let slot = self.slot();
        let mut life = self.busy(3000);
        life.actors.insert(0, vec![Action::Replace { slot }]);
        let mut pulls = Vec::new();
        // A pull before the rebuild begins does nothing, hence several attempts.
        for _ in 0..8 {
            let us = self.random.below(6 * self.shape.latency_us);
            pulls.push(Action::Sleep { us });
            let slots = (1..=self.shape.parity).map(|apart| (slot + apart) % columns);
            let pull = |slot| Action::Pull { slot, too_many: true, forgetting: false };
            pulls.extend(slots.map(pull));
        }
        life.actors.push(pulls);
        let resumed = vec![Action::Resume, Action::Flush];
        let lost = (slot + 1) % columns;
        vec![life, Life { actors: vec![resumed], ..Life::default() }, self.without(lost)]
    }

    /// So many writes that numbers reserved at the start run out.
    fn long_life(&mut self) -> Vec<Life> {
        const SEGMENTS: u64 = 90;
        const BLOCKS: u32 = 24;
        let segment = u64::from(self.shape.zone_blocks) * self.shape.data as u64;
        let writes = (SEGMENTS * segment / u64::from(BLOCKS)).min(400);
        let write = |lba| Action::Write { lba, blocks: BLOCKS, fua: false };
        let long = (0..writes).map(|_| write(self.lba())).collect();
        // The life ends before this stop.
        let mut life = self.busy(100_000);
        life.actors = vec![long];
        let mut next = self.brief();
        next.checked = true;
        vec![life, next]
    }

    /// Zone resets are slow, while blocks are trimmed and rewritten, and records are rewritten for
    /// another drive.
    fn slow_resets(&mut self) -> Vec<Life> {
        let steps = 200 + self.random.below(4000);
        let mut life = self.busy(steps);
        let timed = |action| Timed { since: Since::Serving, steps: 0, action };
        if self.chance(500) {
            let on = On { command: Command::Reset, after: self.random.below(6) };
            let all = (0..self.shape.columns()).map(|slot| timed(slowed(slot, on, MANY)));
            life.timed.extend(all);
        } else {
            for _ in 0..1 + self.random.below(3) {
                let action = self.slow(Command::Reset);
                life.timed.push(timed(action));
            }
        }
        if self.chance(500) {
            let (us, slot) = (self.random.below(20_000), self.slot());
            life.actors.push(vec![Action::Sleep { us }, Action::Replace { slot }]);
        }
        let mut changing = Vec::new();
        for _ in 0..30 + self.random.below(60) {
            let (lba, blocks, fua) = (self.lba(), self.blocks(), false);
            changing.push(match self.chance(300) {
                true => Action::Trim { lba, blocks: blocks * 4, fua },
                false => Action::Write { lba, blocks: blocks * 2, fua },
            });
        }
        life.actors.push(changing);
        vec![life, self.brief()]
    }

    /// A drive is pulled, and the engine killed while the others record that. A start that counts
    /// the drive as a member is stopped before it has rewritten the blocks that the drive missed;
    /// then another drive is lost.
    fn pulled_for_a_moment(&mut self) -> Vec<Life> {
        let mut lives = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let (pulled, lost) = self.two_slots();
            let (before, soon) = (self.random.below(150), 25 + self.random.below(35));
            let mut busy = self.busy(before);
            busy.stop = Some(Stop { power: false, ..self.stop_at(before + soon) });
            busy.actors.push(self.full_stripes(60));
            let action = Action::Pull { slot: pulled, too_many: false, forgetting: false };
            busy.timed.push(Timed { since: Since::Serving, steps: before, action });
            let mut back = Life { stop: Some(self.stop_at(0)), ..Life::default() };
            let command = if self.shape.tabled { Command::Append } else { Command::Write };
            let slow = |slot| slowed(slot, On { command, after: 0 }, MANY);
            back.meanwhile = (0..self.shape.columns()).map(slow).collect();
            lives.extend([self.healing(), busy, back, self.without(lost)]);
        }
        lives
    }

    /// A drive fails to reset a zone of a dead segment. The segment's blocks must stay dead when
    /// all newer information about them is gone: the trims, and the first record of its death.
    fn zone_not_reset(&mut self) -> Vec<Life> {
        let mut changing = Vec::new();
        for _ in 0..100 + self.random.below(300) {
            let (lba, blocks, fua) = (self.lba(), self.blocks(), false);
            changing.push(match self.chance(300) {
                true => Action::Trim { lba, blocks, fua },
                false => Action::Write { lba, blocks, fua },
            });
        }
        // The life ends before this stop.
        let mut life = Life { actors: vec![changing], ..self.busy(100_000) };
        let on = On { command: Command::Reset, after: 0 };
        let fault = Fault::Error { on, applied: false };
        let (action, steps) = (Action::Fault { slot: self.slot(), fault }, self.random.below(1500));
        // As often as a reset is tried.
        life.timed = vec![Timed { since: Since::Serving, steps, action }; 3];
        vec![self.healing(), life, self.brief()]
    }

    /// Writes of one stripe each.
    pub(in crate::simulate::generate) fn full_stripes(&mut self, writes: u64) -> Vec<Action> {
        let stripe = self.shape.data * self.shape.chunk_blocks as usize;
        let blocks = u32::try_from(stripe).expect("a stripe's blocks");
        (0..writes).map(|_| Action::Write { lba: self.lba(), blocks, fua: false }).collect()
    }

    /// Blocks of a drive are overwritten with other blocks of it.
    fn blocks_of_other_places(&mut self) -> Vec<Life> {
        let slot = self.slot();
        let mut life = self.busy(300);
        for _ in 0..8 + self.random.below(32) {
            let fault = Fault::Copied { seed: self.random.next() };
            life.meanwhile.push(Action::Fault { slot, fault });
        }
        vec![self.healing(), life]
    }

    /// Every drive is slow at writing records.
    pub(in crate::simulate::generate) fn slow_records(
        &self,
        after: u64,
        times: u64,
    ) -> Vec<Action> {
        let on = On { command: Command::Write, after };
        (0..self.shape.columns()).map(|slot| slowed(slot, on, times)).collect()
    }

    /// Some commands of a drive are slow.
    fn slow(&mut self, command: Command) -> Action {
        let on = On { command, after: self.random.below(6) };
        let us = pick(self.random, &[1000, 10_000, 100_000]);
        let fault = Fault::Slow { on, times: 1 + self.random.below(4), us };
        Action::Fault { slot: self.slot(), fault }
    }

    /// Users at work until a crash.
    pub(in crate::simulate::generate) fn busy(&mut self, steps: u64) -> Life {
        let users = 1 + self.random.below(self.habits.actors_most);
        let actors = (0..users).map(|_| self.user()).collect();
        let stop = Some(self.stop_at(steps));
        Life { actors, stop, ..Life::default() }
    }

    /// A verified start, and a crash soon after.
    pub(in crate::simulate::generate) fn brief(&mut self) -> Life {
        let steps = self.random.below(60);
        let actors = if self.chance(300) { vec![self.user()] } else { Vec::new() };
        let stop = Some(self.stop_at(steps));
        Life { actors, stop, checked: self.chance(125), ..Life::default() }
    }

    /// A start without a drive.
    pub(in crate::simulate::generate) fn without(&mut self, slot: usize) -> Life {
        let steps = self.random.below(600);
        let mut life = self.busy(steps);
        life.missing = vec![slot];
        life
    }

    pub(in crate::simulate::generate) fn stop_at(&mut self, steps: u64) -> Stop {
        let power = self.chance(self.habits.power);
        Stop { since: Since::Serving, steps, power, seed: self.random.next() }
    }

    /// Two slots, different ones if possible.
    pub(in crate::simulate::generate) fn two_slots(&mut self) -> (usize, usize) {
        let one = self.slot();
        let columns = self.shape.columns() as u64;
        let apart = 1 + self.random.below((columns - 1).max(1));
        let other = (one as u64 + apart) % columns;
        assert!(columns == 1 || other != one as u64, "two columns have two slots");
        (one, usize::try_from(other).expect("a slot"))
    }
}

/// Commands of a drive take longer than anything else.
pub(in crate::simulate::generate) const fn slowed(slot: usize, on: On, times: u64) -> Action {
    Action::Fault { slot, fault: Fault::Slow { on, times, us: 100_000 } }
}
