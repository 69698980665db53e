//! `zoneweave emu serve`: an emulated drive as a zoned kernel disk.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zoneweave_linux::Signals;
use zoneweave_linux::ublk::{UblkDisk, UblkOptions};
use zoneweave_zoned::{Status, ZonedDevice, ZonedDeviceExt};

use crate::commands::serve::{identity, start_ublk, stop_ublk};
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::bytes;
use crate::output::Output;
use crate::session::{Access, NamedDrive, Session};

/// The drive to serve.
#[derive(Args)]
pub(crate) struct Serve {
    /// Emulated drive
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// N of /dev/ublkbN [default: the disk of a killed server of this drive, or the first free
    /// number]
    #[arg(long, value_name = "N")]
    number: Option<u32>,
}

/// The document printed once the disk exists.
#[derive(Serialize)]
struct ServingDrive {
    drive: String,
    disk: PathBuf,
    zones: u32,
    zone_bytes: u64,
    zone_capacity_bytes: u64,
}

pub(crate) fn run(request: &Serve, output: &Output) -> Result<Exit, CliError> {
    let session = Session::new()?;
    // Before any thread starts: a thread started earlier would still take the signals.
    let signals = Signals::new(&session.ring)
        .map_err(|error| CliError::System { action: "receive signals", error })?;
    let NamedDrive { label, drive, .. } = session.open(&request.drive, Access::Exclusive)?;
    let options =
        UblkOptions { number: request.number, identity: identity(drive.uuid()), optimal_bytes: 0 };
    let server = start_ublk(&session, UblkDisk::Zoned(drive.clone()), options, output)?;
    let geometry = drive.geometry();
    let serving = ServingDrive {
        drive: label.clone(),
        disk: server.path(),
        zones: geometry.zones,
        zone_bytes: geometry.zone_size.data_bytes() as u64,
        zone_capacity_bytes: geometry.zone_capacity.data_bytes() as u64,
    };
    signals.serving();
    tell(&serving, output);
    let waited = session.executor.run(signals.next());
    signals.stopping();
    output.note("stopping: finishing requests in flight");
    let flushed = session.executor.run(async {
        stop_ublk(server, output).await;
        drive.flush().await
    });
    match (waited, flushed) {
        (Err(error), _) => Err(CliError::System { action: "wait for a signal", error }),
        (Ok(_), Err(status)) if status != Status::DeviceGone => {
            Err(CliError::DriveFailed { label, status })
        }
        _ => Ok(Exit::Done),
    }
}

fn tell(serving: &ServingDrive, output: &Output) {
    output.result("emu-serve", serving, |output| {
        let ServingDrive { drive, zones, .. } = serving;
        output.line(format_args!(
            "{drive}  {zones} zones of {}, zone capacity {}",
            bytes(serving.zone_bytes),
            bytes(serving.zone_capacity_bytes)
        ));
        output.line(format_args!("blkzone report {}", serving.disk.display()));
        output.line("ready; stop with Ctrl-C");
    });
}
