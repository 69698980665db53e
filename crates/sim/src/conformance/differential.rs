//! Random commands with power losses, compared with the model.
//!
//! Commands are drawn so that most succeed, and each status is reached. Some are in flight
//! together. From time to time the power fails while a command is in flight: then each zone must be
//! as before that command or as after it, without a part of what was not durable. What is found
//! after a power loss is durable by itself.

use std::collections::{BTreeSet, VecDeque};

use zoneweave_runtime::Random;
use zoneweave_zoned::{Command, Outcome, Reply, Status, ZoneAddress, ZoneId, ZoneInfo, ZoneState};

use super::image::ZoneImage;
use super::model::Model;
use super::operation::{Answer, Operation, answer, draw};
use super::session::{Session, status_of};
use super::{Factory, Hardware};
use crate::random::between;

/// Commands between two comparisons of all zones.
const COMPARED_EVERY: u64 = 64;

/// Commands that are shown with a difference.
const SHOWN: usize = 12;

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed of the commands.
    pub seed: u64,
    /// Number of commands.
    pub commands: u64,
    /// Power losses per 1,000 commands.
    pub power_losses: u64,
}

/// The work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Commands, those in flight together counted one by one.
    pub commands: u64,
    /// Of these, commands that succeeded.
    pub succeeded: u64,
    /// Power losses.
    pub power_losses: u64,
    /// Commands that were complete neither before nor at a power loss.
    pub interrupted: u64,
}

/// Compares a device with the model.
///
/// # Errors
///
/// The first difference, with the commands before it.
///
/// # Panics
///
/// If the device has random write areas, or the plan has nothing but power losses.
pub fn compare(factory: Factory<'_>, plan: Plan) -> Result<Compared, String> {
    assert!(plan.power_losses < 1000, "commands are run between power losses");
    let hardware = factory();
    let session = Session::start(&*hardware);
    assert!(session.geometry().zrwa.is_none(), "the model has no random write areas");
    let model = Model::new(session.geometry());
    let mut run = Run {
        hardware,
        session: Some(session),
        model,
        random: Random::new(plan.seed),
        numbers: 0,
        latest: VecDeque::new(),
        compared: Compared::default(),
    };
    while run.compared.commands < plan.commands {
        let result = match run.random.per_mille(plan.power_losses) {
            true => run.cut_power(),
            false => run.step(),
        };
        result.map_err(|problem| {
            let latest: Vec<_> = run.latest.iter().map(|one| format!("  {one}\n")).collect();
            format!("seed {}: {problem}, after\n{}", plan.seed, latest.concat())
        })?;
    }
    Ok(run.compared)
}

struct Run {
    hardware: Box<dyn Hardware>,
    /// `None` while the power is off.
    session: Option<Session>,
    model: Model,
    random: Random,
    numbers: u64,
    latest: VecDeque<String>,
    compared: Compared,
}

impl Run {
    fn session(&self) -> &Session {
        self.session.as_ref().expect("the device is running")
    }

    fn show(&mut self, what: String) {
        self.latest.push_back(what);
        if self.latest.len() > SHOWN {
            self.latest.pop_front();
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let operation = draw(&mut self.random, &self.model);
        let zone = match operation {
            Operation::Write { zone, .. } | Operation::Append { zone, .. } => Some(zone),
            _ => None,
        };
        match zone {
            Some(zone) if self.random.per_mille(100) => self.several(zone)?,
            _ => self.one(operation)?,
        }
        if self.compared.commands.is_multiple_of(COMPARED_EVERY) {
            self.session().compare(&self.model.zones)?;
        }
        Ok(())
    }

    fn command(&mut self, operation: Operation) -> (Command, Vec<u64>) {
        operation.command(&self.model.geometry, &mut self.numbers)
    }

    /// One command, carried out by the device and by the model.
    fn one(&mut self, operation: Operation) -> Result<(), String> {
        let (command, numbers) = self.command(operation);
        let outcome = self.session().run(command);
        self.note(operation, status_of(&outcome));
        let expected = answer(&mut self.model, operation, &numbers);
        self.judge(&outcome, &expected)
    }

    fn note(&mut self, operation: Operation, status: Option<Status>) {
        self.compared.commands += 1;
        self.compared.succeeded += u64::from(status.is_none());
        self.show(match status {
            Some(status) => format!("{operation:?}: {status}"),
            None => format!("{operation:?}"),
        });
    }

    fn judge(&self, outcome: &Outcome, expected: &Result<Answer, Status>) -> Result<(), String> {
        let right = match (outcome, expected) {
            (Err(found), Err(status)) => found == status,
            (Ok(Reply::Written(at)), Ok(Answer::Written(zone, offset))) => {
                *at == ZoneAddress::new(ZoneId(*zone), *offset)
            }
            (Ok(Reply::Read(payload)), Ok(Answer::Numbers(zone, numbers))) => {
                self.session().numbers(ZoneId(*zone), 0, payload).as_ref() == Ok(numbers)
            }
            (Ok(Reply::Zones(report)), Ok(Answer::Zones(zones))) => {
                report.zones.iter().map(|info| info.zone.0).eq(zones.iter().copied())
            }
            (Ok(Reply::Done), Ok(Answer::Done)) => true,
            _ => false,
        };
        if right { Ok(()) } else { Err(format!("{outcome:?} is returned, expected {expected:?}")) }
    }

    /// Writes or appends to a zone that are in flight together.
    fn several(&mut self, zone: u32) -> Result<(), String> {
        let Some(image) = self.model.zones.get(zone as usize) else { return Ok(()) };
        let (count, pointer) = (between(&mut self.random, 2, 6), image.pointer);
        let appends = self.random.per_mille(500);
        let operations: Vec<_> = (0..count)
            .map(|index| match appends {
                true => Operation::Append { zone, blocks: 1, fua: false },
                false => Operation::Write { zone, offset: pointer + index, blocks: 1, fua: false },
            })
            .collect();
        let (commands, numbers): (Vec<_>, Vec<_>) =
            operations.iter().map(|operation| self.command(*operation)).unzip();
        let outcomes = self.session().run_together(commands);
        // Appends take effect in an order of their own, which their offsets show.
        let offset = |outcome: &Outcome| match outcome {
            Ok(Reply::Written(at)) => at.offset.0,
            _ => u32::MAX,
        };
        let mut order: Vec<_> = (0..outcomes.len()).collect();
        if appends {
            order.sort_by_key(|index| offset(&outcomes[*index]));
        }
        for index in order {
            let operation = operations[index];
            self.note(operation, status_of(&outcomes[index]));
            let expected = answer(&mut self.model, operation, &numbers[index]);
            self.judge(&outcomes[index], &expected)?;
        }
        Ok(())
    }

    /// The power fails with a command in flight.
    fn cut_power(&mut self) -> Result<(), String> {
        let operation = draw(&mut self.random, &self.model);
        let (command, numbers) = self.command(operation);
        let session = self.session.take().expect("the device is running");
        let outcome = session.interrupt(command, self.random.below(6));
        self.note(operation, outcome.as_ref().and_then(status_of));
        self.show(format!("power loss, {}", if outcome.is_some() { "after it" } else { "in it" }));
        let before = self.model.clone();
        let mut after = self.model.clone();
        let expected = answer(&mut after, operation, &numbers);
        self.hardware.power_loss(self.random.next());
        self.session = Some(Session::start(&*self.hardware));
        self.compared.power_losses += 1;
        let possible = match &outcome {
            None => {
                self.compared.interrupted += 1;
                // What the command would have made durable is durable only once it is complete.
                after.durable.clone_from(&before.durable);
                let zones = 0..after.zones.len();
                zones.filter(|zone| after.zones[*zone].blocks.is_empty()).for_each(|zone| {
                    after.durable[zone] = 0;
                });
                vec![before, after]
            }
            Some(outcome) => {
                if status_of(outcome) != expected.as_ref().err().copied() {
                    return Err(format!("{outcome:?} is returned, expected {expected:?}"));
                }
                vec![after]
            }
        };
        let found = self.session().report()?;
        for info in found {
            self.adopt(&possible, &info)?;
        }
        Ok(())
    }

    /// A zone is as one of the models allows; the model takes over what is found.
    fn adopt(&mut self, possible: &[Model], info: &ZoneInfo) -> Result<(), String> {
        let capacity = self.session().geometry().zone_capacity.0;
        let mut found = self.session().read(info.zone, capacity)?;
        let end = found.iter().rposition(|number| *number > 0).map_or(0, |last| last + 1);
        found.truncate(end);
        let index = info.zone.index();
        let allows = |model: &&Model| {
            let (zone, durable) = (&model.zones[index], model.durable[index] as usize);
            let mut cut = zone.clone();
            cut.blocks.truncate(end);
            cut.pointer = u32::try_from(end).expect("an offset in a zone");
            // A finished zone stays full, one that lost its last block is not full any more.
            let finished = zone.state == ZoneState::Full && zone.pointer < capacity;
            cut.state = match cut.pointer {
                _ if finished => ZoneState::Full,
                0 => ZoneState::Empty,
                end if end == capacity => ZoneState::Full,
                _ => ZoneState::Closed,
            };
            let reported = cut.reported_pointer(self.session().geometry());
            (durable..=zone.blocks.len()).contains(&end)
                && found == cut.blocks
                && (info.state, info.write_pointer.0) == (cut.state, reported)
        };
        if !possible.iter().any(|model| allows(&model)) {
            let allowed: BTreeSet<_> = possible
                .iter()
                .map(|model| {
                    let zone = &model.zones[index];
                    format!("{:?} {}..={}", zone.state, model.durable[index], zone.pointer)
                })
                .collect();
            return Err(format!(
                "{} is {:?} with its write pointer at {} and {end} blocks after a power loss, \
                 allowed are {allowed:?}",
                info.zone, info.state, info.write_pointer.0
            ));
        }
        let pointer = u32::try_from(end).expect("an offset in a zone");
        self.model.durable[index] = pointer;
        self.model.zones[index] =
            ZoneImage { state: info.state, pointer, blocks: found, extended: false };
        Ok(())
    }
}
