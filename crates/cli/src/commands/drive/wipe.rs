//! `zoneweave drive wipe`.
//!
//! The drive is locked meanwhile: one that a server has, that is mounted, or that another program
//! has opened for itself is refused.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zoneweave_raid::array::format::config::VolumeKind;
use zoneweave_raid::array::repair::fit::holds_something;
use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::recover::records::erase_alone;
use zoneweave_raid::raizn;
use zoneweave_zoned::{BLOCK_BYTES, ZoneState, ZonedDeviceExt};

use crate::drives::consent::{Erasure, holdings};
use crate::drives::membership::membership_of;
use crate::error::{CliError, LifecycleError};
use crate::exit::Exit;
use crate::format::bytes;
use crate::output::Output;
use crate::session::{Access, NamedDrive, Session, refuse_worse_way};

#[derive(Args)]
pub(crate) struct Wipe {
    /// Drive to erase
    drive: PathBuf,
    #[command(flatten)]
    erasure: Erasure,
    /// Erase a member of an array too, which the array then misses
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Wiped {
    drive: String,
    /// What it holds; absent if it was blank.
    holds: Option<String>,
    /// Zones with contents.
    zones: usize,
    /// Zones that cannot be reset: they keep their contents.
    read_only_zones: usize,
    written_bytes: u64,
    /// Whether nothing was erased.
    dry_run: bool,
}

pub(crate) fn run(request: &Wipe, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let named = session.open(&request.drive, Access::Exclusive)?;
    refuse_worse_way(&named, &session.ring, &session.handle)?;
    let failed = |status| CliError::DriveFailed { label: named.label.clone(), status };
    let record = session.executor.run(membership_of(&named)).map_err(failed)?;
    if let Some(record) = record.as_ref().filter(|_| !request.force) {
        let (name, uuid) = (record.config.name.clone(), record.config.array.to_string());
        return Err(LifecycleError::IsMember { label: named.label, name, uuid }.into());
    }
    let planned = plan(&session, &named, request.erasure.dry_run)?;
    if request.erasure.dry_run || planned.holds.is_none() {
        output.result("drive-wipe", &planned, |output| tell(&planned, output));
        return Ok(Exit::Done);
    }
    let Wiped { drive, holds, written_bytes, .. } = &planned;
    let (holds, written) = (holds.as_deref().unwrap_or("nothing"), bytes(*written_bytes));
    let what = format!("{drive}: {holds} ({written})");
    let warning = format!("{drive} holds {holds} ({written}), which will be erased");
    request.erasure.agree(drive, what, [warning], output)?;
    erase(&session, &named, record.as_ref())?;
    output.result("drive-wipe", &planned, |output| tell(&planned, output));
    Ok(Exit::Done)
}

/// What would be erased.
fn plan(session: &Session, named: &NamedDrive, dry_run: bool) -> Result<Wiped, CliError> {
    let holds = session.executor.run(holdings(named))?;
    let failed = |status| CliError::DriveFailed { label: named.label.clone(), status };
    let zones = session.executor.run(named.drive.report()).map_err(failed)?;
    let written = zones.iter().filter(|info| holds_something(info));
    let blocks: u64 = written.clone().map(|info| u64::from(info.write_pointer.0)).sum();
    Ok(Wiped {
        drive: named.label.clone(),
        holds: holds.map(|holds| holds.text),
        zones: written.count(),
        read_only_zones: zones.iter().filter(|info| info.state == ZoneState::ReadOnly).count(),
        written_bytes: blocks * BLOCK_BYTES as u64,
        dry_run,
    })
}

fn tell(wiped: &Wiped, output: &Output) {
    let Wiped { drive, holds, zones, read_only_zones, written_bytes, dry_run } = wiped;
    let Some(holds) = holds else {
        return output.line(format_args!("{drive} is blank"));
    };
    let done = if *dry_run { "would be erased" } else { "erased" };
    let written = bytes(*written_bytes);
    output.line(format_args!("{drive} {done}: {holds}; {zones} zones with {written}"));
    if *read_only_zones > 0 {
        output.warning(format_args!(
            "{read_only_zones} zones are read-only, and keep their contents"
        ));
    }
}

fn erase(
    session: &Session,
    named: &NamedDrive,
    record: Option<&MembershipRecord>,
) -> Result<(), CliError> {
    let is_zoned = record.is_some_and(|it| matches!(it.config.volume, VolumeKind::Zoned(_)));
    let erased = session.executor.run(async {
        match (record, is_zoned) {
            (Some(_), false) => erase_alone(&named.member).await,
            // Records are where a zoned volume has them; of a drive without any, all is data.
            _ => raizn::erase_alone(&(named.drive.clone() as _)).await,
        }
    });
    erased.map_err(|error| {
        LifecycleError::NotWiped { label: named.label.clone(), problem: error.to_string() }.into()
    })
}
