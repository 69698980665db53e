//! `zoneweave fs mkfs`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zoneweave_filestore::{FileStore, FormatError, FormatOptions};
use zoneweave_linux::unix_seconds;
use zoneweave_raid::array::repair::fit::holds_something;
use zoneweave_store::Place;
use zoneweave_zoned::{ByteSize, ZoneId, ZonedDeviceExt};

use super::{DRIVES_HELP, OfStore};
use crate::drives::consent::{Consent, Destroyed, holdings, not_empty};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{NamedDrive, Session, random_uuid};

/// The store to make.
#[derive(Args)]
#[command(mut_arg("store", |store| store.help(DRIVES_HELP)))]
pub(crate) struct Mkfs {
    #[command(flatten)]
    store: OfStore,
    /// Name for people, up to 64 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// Finish a zone with less free space than this, in percent of its capacity: an active zone is
    /// free earlier, and the space is lost until the zone is reset
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=50))]
    finish: u8,
    /// Overwrite a drive or volume that holds data; except file systems and real drives (see
    /// --destroy)
    #[arg(long)]
    yes_destroy: bool,
    /// Overwrite this drive, whatever it holds
    #[arg(long, value_name = "DRIVE")]
    destroy: Vec<PathBuf>,
    /// Print what would be overwritten, and make no store. A zoned volume is started to look at it
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Made {
    label: String,
    device_bytes: u64,
    /// Contents that are overwritten.
    destroys: Vec<Destroyed>,
    /// Whether nothing was changed.
    dry_run: bool,
}

pub(super) fn run(request: &Mkfs, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    let place = request.store.place(&session, output)?;
    let device = place.device();
    let blocks = device.geometry().capacity_blocks();
    let device_bytes = blocks * zoneweave_zoned::BLOCK_BYTES as u64;
    let destroys = contents(&session, &place)?;
    let made =
        Made { label: request.label.clone(), device_bytes, destroys, dry_run: request.dry_run };
    if request.dry_run {
        session.executor.run(place.close());
        output.result("fs-mkfs", &made, |output| Destroyed::tell(&made.destroys, output));
        return Ok(Exit::Done);
    }
    let options = FormatOptions {
        label: request.label.clone(),
        finish_percent: request.finish,
        created: unix_seconds(),
        force: consent(&session, &place, request)?,
        ..FormatOptions::new(random_uuid()?)
    };
    let formatted = session.executor.run(async {
        let made = FileStore::format(&*device, &options).await;
        place.close().await;
        made
    });
    formatted.map_err(|error| match error {
        FormatError::NotEmpty { .. } => CliError::StoreInTheWay { error },
        other => other.into(),
    })?;
    output.result("fs-mkfs", &made, |output| {
        output.line(format_args!("made a file store on {}", ByteSize::of_blocks(blocks)));
    });
    Ok(Exit::Done)
}

/// The contents of a drive or volume that is not blank.
fn contents(session: &Session, place: &Place) -> Result<Vec<Destroyed>, CliError> {
    if let Place::Drive(drive) = place {
        let label = drive.path().display().to_string();
        let named = &NamedDrive::new(label, drive.clone(), &session.handle);
        let holds = session.executor.run(holdings(named))?;
        return Ok(holds.iter().map(|holds| Destroyed::new(named, holds)).collect());
    }
    let failed = |status| CliError::Zone { zone: ZoneId(0), status };
    let zones = session.executor.run(place.device().report()).map_err(failed)?;
    let written = zones.iter().filter(|info| holds_something(info)).count();
    let volume =
        Destroyed { drive: "volume".to_owned(), holds: format!("{written} written zones") };
    Ok(Some(volume).filter(|_| written > 0).into_iter().collect())
}

/// Whether contents may be overwritten.
///
/// # Errors
/// If the drive has some, and the operator has not consented.
fn consent(session: &Session, place: &Place, request: &Mkfs) -> Result<bool, CliError> {
    // A zoned volume holds nothing but its zones, which the store looks at.
    let Place::Drive(drive) = place else { return Ok(request.yes_destroy) };
    let label = drive.path().display().to_string();
    let named = &NamedDrive::new(label, drive.clone(), &session.handle);
    let consent = Consent { all: request.yes_destroy, named: &request.destroy };
    match session.executor.run(holdings(named))? {
        Some(holds) if !consent.covers(named, &holds) => Err(not_empty(named, &holds)),
        holds => Ok(holds.is_some()),
    }
}
