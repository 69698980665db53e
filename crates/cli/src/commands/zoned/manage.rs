//! `zoneweave zoned open`, `close`, `reset` and `finish`.

use clap::Args;
use serde::Serialize;
use zoneweave_zoned::{ZoneAction, ZoneId, ZonedDevice, ZonedDeviceExt};

use super::{Target, known};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

/// The zones to change.
#[derive(Args)]
pub(crate) struct Zones {
    #[command(flatten)]
    volume: Target,
    /// Number of the zone (may be repeated)
    #[arg(long, value_name = "N", required_unless_present = "all")]
    zone: Vec<u32>,
    /// All zones
    #[arg(long, conflicts_with = "zone")]
    all: bool,
}

#[derive(Serialize)]
struct Changed {
    /// Absent if all zones were changed.
    zones: Option<Vec<u32>>,
}

pub(super) fn run(request: &Zones, action: ZoneAction, output: &Output) -> Result<Exit, CliError> {
    let work = async |volume: &dyn ZonedDevice| change(volume, request, action).await;
    match action {
        // Zones that a start finds open are closed, as after a power loss of a drive.
        ZoneAction::Open | ZoneAction::Close => request.volume.run_served(work)?,
        _ => request.volume.run(&request.zone, output, work)?,
    }
    let changed = Changed { zones: (!request.all).then(|| request.zone.clone()) };
    let (kind, word) = match action {
        ZoneAction::Open => ("zoned-open", "opened"),
        ZoneAction::Close => ("zoned-close", "closed"),
        ZoneAction::Reset => ("zoned-reset", "reset"),
        _ => ("zoned-finish", "finished"),
    };
    output.result(kind, &changed, |output| match &changed.zones {
        None => output.line(format_args!("all zones {word}")),
        Some(zones) => {
            zones.iter().for_each(|zone| output.line(format_args!("zone {zone} {word}")))
        }
    });
    Ok(Exit::Done)
}

async fn change(
    volume: &dyn ZonedDevice,
    request: &Zones,
    action: ZoneAction,
) -> Result<(), CliError> {
    if request.all {
        let failed = |status| CliError::Zone { zone: ZoneId(0), status };
        return volume.manage_all(action).await.map_err(failed);
    }
    let zones = request.zone.iter().map(|zone| known(volume, *zone));
    // All of them are checked before one is changed.
    for zone in zones.collect::<Result<Vec<_>, _>>()? {
        let changed = volume.manage(zone, action).await;
        changed.map_err(|status| CliError::Zone { zone, status })?;
    }
    Ok(())
}
