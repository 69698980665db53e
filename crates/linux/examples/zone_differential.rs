//! The same random commands on a real drive and on the emulator: statuses, states and data must be
//! the same.
//!
//! ```text
//! zone_differential DEVICE COMMANDS SEED
//! ```
//!
//! DEVICE is the character device of an NVMe namespace or a zoned block device. Its contents are
//! destroyed. Differences are counted by subject and printed. `allowed` names the differences that
//! the specification permits; any other fails the run.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_linux::{Drive, Ring};
use zoneweave_runtime::{Executor, Random};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Command, OOB_BYTES, OobKind, Payload, Reply, ReportOptions, Status,
    ZoneAction, ZoneAddress, ZoneId, ZoneInfo, ZonedDevice, ZonedDeviceExt,
};

/// Zones that commands are for: more than may be active.
const ZONES: u32 = 20;

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(differences) => {
            eprintln!("zone_differential: {differences} differences that should not be");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("zone_differential: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<u64, Box<dyn Error>> {
    let [device, commands, seed] = words else {
        return Err("usage: zone_differential DEVICE COMMANDS SEED".into());
    };
    let (commands, seed) = (commands.parse::<u64>()?, seed.parse::<u64>()?);
    let ring = Ring::new()?;
    let executor = Executor::new(Rc::new(ring.clone()));
    let handle = executor.handle();
    let real = Drive::open(&ring, &handle, Path::new(device))?;
    let twin = RamDrive::new(real.geometry().clone(), Immediate)?.attach(&handle);
    executor.run(async {
        real.manage_all(ZoneAction::Reset).await?;
        let mut differential = Differential {
            real: &real,
            twin: &*twin,
            random: Random::new(seed),
            told: BTreeMap::new(),
        };
        for number in 0..commands {
            differential.step(number).await?;
        }
        for (what, count) in &differential.told {
            println!("{count} times {what}");
        }
        println!("{commands} commands compared");
        let wrong = differential.told.iter().filter(|(what, _)| !allowed(what));
        Ok(wrong.map(|(_, count)| count).sum())
    })
}

/// Differences that specifications leave to drives: which of several zones that were opened
/// implicitly is closed when another one has to be opened; and that a zone that holds nothing is
/// empty once it is closed, as with SCSI.
fn allowed(what: &str) -> bool {
    what.starts_with("after close: Empty at 0 ")
        || what.starts_with("after ")
            && (what.contains(": Closed at") && what.contains("ImplicitlyOpen at"))
}

struct Differential<'a> {
    real: &'a Drive,
    twin: &'a dyn ZonedDevice,
    random: Random,
    told: BTreeMap<String, u64>,
}

impl Differential<'_> {
    async fn step(&mut self, number: u64) -> Result<(), Box<dyn Error>> {
        let zone = ZoneId(u32::try_from(self.random.below(ZONES.into()))?);
        let before = self.zone_of(self.twin, zone).await?;
        let command = self.command(zone, before)?;
        let kind = name(&command);
        let (one, other) = (self.real.submit(command.clone()), self.twin.submit(command));
        let (one, other) = (whole(one.await), whole(other.await));
        if one != other {
            let text = |outcome: &Result<Reply, Status>| match outcome {
                Ok(Reply::Read(_)) => "data".to_owned(),
                Ok(_) => "success".to_owned(),
                Err(status) => status.to_string(),
            };
            let what = format!(
                "{kind} of a zone that is {:?}: the drive answers {}, the emulator {}",
                before.state,
                text(&one),
                text(&other)
            );
            if !self.told.contains_key(&what) {
                if let (Ok(Reply::Read(one)), Ok(Reply::Read(other))) = (&one, &other) {
                    println!("{}", differing(one, other));
                }
                println!(
                    "first at command {number}, {zone}, write pointer {}",
                    before.write_pointer.0
                );
            }
            *self.told.entry(what).or_default() += 1;
        }
        // All zones, as a command may close another one.
        let all = number.is_multiple_of(64) || one.is_err() != other.is_err();
        let (first, count) = if all { (ZoneId(0), ZONES) } else { (zone, 1) };
        let (real, twin) = (
            self.zones(self.real, first, count).await?,
            self.zones(self.twin, first, count).await?,
        );
        for (real, twin) in real.iter().zip(&twin) {
            // How often zones were reset NVMe drives do not tell.
            let twin = ZoneInfo { resets: 0, ..*twin };
            if *real != twin {
                let what = format!(
                    "after {kind}: {:?} at {} {:?} on the drive, {:?} at {} {:?} in the emulator",
                    real.state,
                    real.write_pointer.0,
                    real.attributes,
                    twin.state,
                    twin.write_pointer.0,
                    twin.attributes
                );
                *self.told.entry(what).or_default() += 1;
                // Both drives are reset, so that the next commands can be compared.
                self.real.manage_all(ZoneAction::Reset).await?;
                self.twin.manage_all(ZoneAction::Reset).await?;
                break;
            }
        }
        Ok(())
    }

    async fn zones(
        &self,
        drive: &dyn ZonedDevice,
        first: ZoneId,
        count: u32,
    ) -> Result<Vec<ZoneInfo>, Status> {
        Ok(drive.report_by(first, count, ReportOptions::default()).await?.zones)
    }

    async fn zone_of(
        &self,
        drive: &dyn ZonedDevice,
        zone: ZoneId,
    ) -> Result<ZoneInfo, Box<dyn Error>> {
        Ok(self.zones(drive, zone, 1).await?.first().copied().ok_or("a zone is not reported")?)
    }

    fn command(&mut self, zone: ZoneId, info: ZoneInfo) -> Result<Command, Box<dyn Error>> {
        let geometry = self.real.geometry();
        let (capacity, size) =
            (u64::from(geometry.zone_capacity.0), u64::from(geometry.zone_size.0));
        // A drive without appends has to refuse some.
        let most = match geometry.append_limit.0 {
            0 => u64::from(geometry.max_transfer.0).min(32),
            limit => u64::from(limit.min(geometry.max_transfer.0)),
        };
        let blocks = BlockCount(u32::try_from(1 + self.random.below(most))?);
        let fua = self.random.per_mille(100);
        Ok(match self.random.below(100) {
            0..30 => {
                // Usually at the write pointer; otherwise anywhere.
                let wild = self.random.per_mille(100);
                let offset = if wild {
                    u32::try_from(self.random.below(size))?
                } else {
                    info.write_pointer.0
                };
                let offset = offset.min(u32::try_from(size - 1)?);
                Command::Write {
                    at: ZoneAddress::new(zone, offset),
                    payload: self.payload(blocks),
                    fua,
                }
            }
            30..55 => Command::Append { zone, payload: self.payload(blocks), fua },
            55..75 => {
                let below = if self.random.per_mille(100) {
                    size
                } else {
                    u64::from(info.write_pointer.0).clamp(1, capacity)
                };
                let offset = u32::try_from(self.random.below(below))?;
                Command::Read { at: ZoneAddress::new(zone, offset), blocks }
            }
            75..81 => Command::Manage { zone, action: ZoneAction::Open },
            81..88 => Command::Manage { zone, action: ZoneAction::Close },
            88..91 => Command::Manage { zone, action: ZoneAction::Finish },
            91..98 => Command::Manage { zone, action: ZoneAction::Reset },
            98 => Command::Manage { zone, action: ZoneAction::Offline },
            _ => Command::Flush,
        })
    }

    fn payload(&mut self, blocks: BlockCount) -> Payload {
        let mut data = AlignedBuffer::unfilled(blocks);
        let mut oob = vec![0; blocks.index() * OOB_BYTES];
        self.random.fill(&mut data.as_mut()[..64]);
        self.random.fill(&mut oob);
        if self.real.geometry().oob == OobKind::None {
            oob.clear();
        }
        Payload::new(data.freeze(), oob.into())
    }
}

/// Where two payloads differ.
fn differing(one: &Payload, other: &Payload) -> String {
    let blocks = 0..one.blocks().index().min(other.blocks().index());
    let data: Vec<_> =
        blocks.clone().filter(|block| one.block(*block) != other.block(*block)).collect();
    let oob: Vec<_> =
        blocks.clone().filter(|block| one.block_oob(*block) != other.block_oob(*block)).collect();
    format!("of blocks {blocks:?} data differs in {data:?}, metadata in {oob:?}")
}

/// Data in one piece, however a drive cut it.
fn whole(outcome: Result<Reply, Status>) -> Result<Reply, Status> {
    outcome.map(|reply| match reply {
        Reply::Read(payload) => {
            Reply::Read(Payload { data: vec![payload.data.concat().into()], ..payload })
        }
        other => other,
    })
}

fn name(command: &Command) -> String {
    match command {
        Command::Read { .. } => "read".to_owned(),
        Command::Write { .. } => "write".to_owned(),
        Command::Append { .. } => "append".to_owned(),
        Command::Manage { action, .. } => format!("{action:?}").to_lowercase(),
        other => format!("{other:?}"),
    }
}
