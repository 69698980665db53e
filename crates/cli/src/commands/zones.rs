//! `zoneweave zones`: the zone map, one character per zone.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use zoneweave_linux::{Drive, DriveInfo};
use zoneweave_zoned::{BLOCK_BYTES, ZoneInfo, ZoneState};

use super::wear::WearView;
use crate::control::{Request, only_served};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, Tone};
use crate::session::Session;
use crate::start::locate;

/// Zones per line, so that a map fits a terminal.
const LINE_ZONES: usize = 64;

/// Characters from 0 to 100 %.
const RAMP: [char; 6] = ['·', '░', '▒', '▓', '█', '█'];

#[derive(Args)]
pub(crate) struct Zones {
    /// Drives to show
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// What each character of the map shows
    #[arg(long, value_enum, default_value_t = By::State)]
    by: By,
}

/// The value that a character shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Zone state: empty, open, closed, full, read-only or offline
    State,
    /// Share of valid data in the zone (needs a running server)
    Valid,
    /// Resets of the zone, relative to the most worn one
    Wear,
}

#[derive(Serialize)]
struct Map {
    by: &'static str,
    drives: Vec<DriveMap>,
}

#[derive(Serialize)]
struct DriveMap {
    path: PathBuf,
    zones: Vec<Zone>,
    wear: WearView,
}

#[derive(Serialize)]
struct Zone {
    zone: u32,
    state: StateWord,
    written_bytes: u64,
    capacity_bytes: u64,
    resets: u64,
    /// Share of valid data in its segment, from 0 to 1; `None` without a server.
    valid: Option<f64>,
}

/// The fields of a segment used here.
#[derive(Deserialize)]
struct Segment {
    zones: Vec<Option<u32>>,
    valid_blocks: u64,
    data_blocks: u64,
}

pub(crate) fn run(request: &Zones, output: &Output) -> Result<Exit, CliError> {
    let valid = match request.by {
        By::Valid => Some(valid_by_drive(&request.drives)?),
        By::State | By::Wear => None,
    };
    let mut drives = Vec::new();
    for path in &request.drives {
        let info = Drive::inspect(path)?;
        let parts = valid.as_ref().and_then(|valid| valid.get(path));
        drives.push(describe(path.clone(), &info, parts));
    }
    let by = match request.by {
        By::State => "state",
        By::Valid => "valid",
        By::Wear => "wear",
    };
    let map = Map { by, drives };
    output.result("zones", &map, |output| tell(&map, request.by, output));
    Ok(Exit::Done)
}

type Parts = BTreeMap<u32, f64>;

/// The valid share of each zone, from the server.
fn valid_by_drive(paths: &[PathBuf]) -> Result<BTreeMap<PathBuf, Parts>, CliError> {
    use zoneweave_raid::log::DriveRole;
    let session = Session::new()?;
    let located = locate(&session, paths)?;
    let what = "the share of valid data";
    let record = located.survey.membership.as_ref().ok_or(CliError::NoArray)?;
    let client = only_served(located.client, record.config.array, paths, what)?;
    let answer = client.ask(&Request::Segments, |_| {})?;
    let segments: Vec<Segment> = serde_json::from_value(answer).map_err(|error| {
        CliError::System { action: "read the server's answer", error: error.into() }
    })?;
    let mut all = BTreeMap::new();
    for (verdict, named) in located.survey.drives.iter().zip(&located.drives.opened) {
        let DriveRole::Member { slot, .. } = verdict.role else { continue };
        let parts = segments.iter().filter_map(|segment| {
            let zone = (*segment.zones.get(slot.index())?)?;
            #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
            let part = segment.valid_blocks as f64 / segment.data_blocks.max(1) as f64;
            Some((zone, part.min(1.0)))
        });
        all.insert(named.drive.path().to_owned(), parts.collect());
    }
    Ok(all)
}

fn describe(path: PathBuf, info: &DriveInfo, valid: Option<&Parts>) -> DriveMap {
    let zone = |zone: &ZoneInfo| Zone {
        zone: zone.zone.0,
        state: zone.state.into(),
        written_bytes: u64::from(zone.write_pointer.0) * BLOCK_BYTES as u64,
        capacity_bytes: u64::from(zone.capacity.0) * BLOCK_BYTES as u64,
        resets: zone.resets,
        valid: valid.map(|parts| parts.get(&zone.zone.0).copied().unwrap_or(0.0)),
    };
    DriveMap { path, zones: info.zones.iter().map(zone).collect(), wear: WearView::of(info) }
}

/// A zone's state as output shows it, without the kinds of open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StateWord {
    Empty,
    Open,
    Closed,
    Full,
    ReadOnly,
    Offline,
}

impl From<ZoneState> for StateWord {
    fn from(state: ZoneState) -> Self {
        match state {
            ZoneState::Empty => Self::Empty,
            ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen => Self::Open,
            ZoneState::Closed => Self::Closed,
            ZoneState::Full => Self::Full,
            ZoneState::ReadOnly => Self::ReadOnly,
            ZoneState::Offline => Self::Offline,
        }
    }
}

impl fmt::Display for StateWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Full => "full",
            Self::ReadOnly => "read-only",
            Self::Offline => "offline",
        })
    }
}

fn tell(map: &Map, by: By, output: &Output) {
    for drive in &map.drives {
        let heading = drive.path.display().to_string();
        output.line(output.paint(Tone::Strong, &heading));
        let most = drive.zones.iter().map(|zone| zone.resets).max().unwrap_or(0);
        let signs: Vec<_> = drive.zones.iter().map(|zone| sign(zone, by, most)).collect();
        for (line, signs) in signs.chunks(LINE_ZONES).enumerate() {
            let text: String = signs.iter().collect();
            output.line(format_args!("{:>7}  {text}", line * LINE_ZONES));
        }
        output.line(output.paint(Tone::Faint, &drive.wear.line()));
    }
    output.line(output.paint(Tone::Faint, &legend(map, by)));
}

fn sign(zone: &Zone, by: By, most: u64) -> char {
    match (by, zone.state) {
        (_, state @ (StateWord::ReadOnly | StateWord::Offline)) | (By::State, state) => {
            state_sign(state)
        }
        (By::Valid, _) => zone.valid.map_or('·', ramp),
        (By::Wear, _) => wear_sign(zone.resets, most),
    }
}

/// The sign of a zone's state.
pub(crate) const fn state_sign(state: StateWord) -> char {
    match state {
        StateWord::Empty => '·',
        StateWord::Open => '▒',
        StateWord::Closed => '▓',
        StateWord::Full => '█',
        StateWord::ReadOnly => 'R',
        StateWord::Offline => 'X',
    }
}

/// The sign of a zone's resets, where the most worn zone of its drive has `most`.
#[expect(clippy::cast_precision_loss, reason = "one of six signs")]
pub(crate) fn wear_sign(resets: u64, most: u64) -> char {
    ramp(resets as f64 / most.max(1) as f64)
}

/// The signs of states.
pub(crate) const STATE_LEGEND: &str = "· empty  ▒ open  ▓ closed  █ full  R read-only  X offline";

/// The signs of wear; `most` are the resets of the most worn zone of all drives.
pub(crate) fn wear_legend(most: u64) -> String {
    format!("resets: · none  █ the maximum of its drive (highest: {most})")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part between 0 and 1 makes an index between 0 and 5"
)]
fn ramp(part: f64) -> char {
    if part <= 0.0 { RAMP[0] } else { RAMP[1 + (part.min(1.0) * 3.999) as usize] }
}

fn legend(map: &Map, by: By) -> String {
    match by {
        By::State => STATE_LEGEND.to_owned(),
        By::Valid => "valid: · none  ░ up to 25 %  ▒ 50 %  ▓ 75 %  █ 100 %".to_owned(),
        By::Wear => {
            let resets = map.drives.iter().flat_map(|drive| drive.zones.iter().map(|z| z.resets));
            wear_legend(resets.max().unwrap_or(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_signs() {
        let shown: String = [0.0, 0.01, 0.3, 0.6, 0.9, 1.0].map(ramp).iter().collect();
        assert_eq!(shown, "·░▒▓██");
    }
}
