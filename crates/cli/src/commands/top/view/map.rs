//! The zone map: a row of signs for each drive, or several.
//!
//! Where a drive has more zones than its rows have columns, a sign stands for several zones: the
//! most frequent state, or the most resets. A zone that is read-only or offline is always shown.

use ratatui::text::Line;

use super::super::state::{DriveZones, MapBy, MapZone, Volume};
use super::told;
use crate::commands::zones::{STATE_LEGEND, StateWord, state_sign, wear_legend, wear_sign};
use crate::output::Tone;

/// Fewer lines show no map: heading, one drive, legend.
pub(super) const LEAST: usize = 3;

/// Columns of the slot before the signs.
const MARGIN: usize = 5;

/// How signs are made of zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale {
    /// Rows of each drive.
    rows: usize,
    /// Signs in a row.
    signs: usize,
    /// Zones of a sign.
    zones: usize,
}

impl Scale {
    /// The finest one that shows so many zones of each of so many drives.
    fn of(zones: usize, drives: usize, columns: usize, lines: usize) -> Self {
        let signs = columns.saturating_sub(MARGIN).max(1);
        let most = (lines / drives.max(1)).max(1);
        let per_sign = zones.div_ceil(signs * most).max(1);
        let rows = zones.div_ceil(per_sign).div_ceil(signs).max(1);
        assert!(rows <= most, "{zones} zones in {rows} rows of {most}");
        Self { rows, signs, zones: per_sign }
    }
}

/// The map in so many lines.
pub(super) fn map(volume: &Volume, by: MapBy, columns: usize, lines: usize) -> Vec<Line<'static>> {
    if lines < LEAST {
        return Vec::new();
    }
    let faint = |text: String| Line::from(told(text, Tone::Faint));
    let Some(drives) = &volume.zones else {
        let reason = volume.zones_silence.as_deref().unwrap_or("being read");
        return vec![faint(format!("zones: {reason}"))];
    };
    let known = |drive: &DriveZones| drive.zones.as_ref().map_or(0, Vec::len);
    let most = drives.iter().map(known).max().unwrap_or(0);
    let room = lines - 2;
    let shown = &drives[..drives.len().min(room)];
    let scale = Scale::of(most, shown.len(), columns, room);
    let mut drawn = vec![faint(heading(volume, by, scale, drives.len() - shown.len()))];
    for drive in shown {
        drawn.extend(rows(drive, by, scale));
    }
    let resets = drives.iter().filter_map(|drive| drive.zones.as_ref().ok()).flatten();
    drawn.push(faint(match by {
        MapBy::State => STATE_LEGEND.to_owned(),
        MapBy::Wear => wear_legend(resets.map(|zone| zone.resets).max().unwrap_or(0)),
    }));
    drawn
}

fn heading(volume: &Volume, by: MapBy, scale: Scale, hidden: usize) -> String {
    let mut text = match by {
        MapBy::State => "zones by state".to_owned(),
        MapBy::Wear => "zones by wear".to_owned(),
    };
    match (scale.zones, by) {
        (1, _) => {}
        (zones, MapBy::State) => text += &format!(", a sign for {zones}: the most frequent"),
        (zones, MapBy::Wear) => text += &format!(", a sign for {zones}: the most worn"),
    }
    if hidden > 0 {
        text += &format!(" ({hidden} more drives)");
    }
    if let Some(reason) = &volume.zones_silence {
        text += &format!("; old: {reason}");
    }
    text
}

/// The rows of a drive.
fn rows(drive: &DriveZones, by: MapBy, scale: Scale) -> Vec<Line<'static>> {
    let head = |row: usize| match row {
        0 => format!("{:>4} ", drive.slot),
        _ => " ".repeat(MARGIN),
    };
    let zones = match &drive.zones {
        Ok(zones) => zones,
        Err(reason) => return vec![Line::from(told(head(0) + reason, Tone::Bad))],
    };
    let most = zones.iter().map(|zone| zone.resets).max().unwrap_or(0);
    let signs: Vec<_> = zones.chunks(scale.zones).map(|zones| sign(zones, by, most)).collect();
    let rows = signs.chunks(scale.signs).take(scale.rows).enumerate();
    rows.map(|(row, signs)| Line::raw(head(row) + &signs.iter().collect::<String>())).collect()
}

/// The sign of some zones.
fn sign(zones: &[MapZone], by: MapBy, most: u64) -> char {
    assert!(!zones.is_empty(), "a sign stands for a zone");
    let count = |state: StateWord| zones.iter().filter(|zone| zone.state == state).count();
    for dead in [StateWord::Offline, StateWord::ReadOnly] {
        if count(dead) > 0 {
            return state_sign(dead);
        }
    }
    match by {
        MapBy::Wear => wear_sign(zones.iter().map(|zone| zone.resets).max().unwrap_or(0), most),
        MapBy::State => {
            // Of two that are as frequent, the last counts: active zones are few.
            let states = [StateWord::Empty, StateWord::Full, StateWord::Closed, StateWord::Open];
            let frequent = states.into_iter().max_by_key(|state| count(*state));
            frequent.map_or(' ', state_sign)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_as_fine_as_the_terminal_allows() {
        let scale = |zones, drives, columns, lines| {
            let Scale { rows, signs, zones } = Scale::of(zones, drives, columns, lines);
            (rows, signs, zones)
        };
        assert_eq!(scale(16, 4, 80, 12), (1, 75, 1));
        assert_eq!(scale(904, 4, 80, 12), (3, 75, 5));
        assert_eq!(scale(904, 4, 200, 40), (5, 195, 1));
        assert_eq!(scale(904, 4, 40, 4), (1, 35, 26));
        assert_eq!(scale(0, 0, 3, 1), (1, 1, 1));
    }

    #[test]
    fn every_zone_has_a_sign_at_any_size() {
        for zones in [1, 2, 75, 76, 904, 905] {
            for columns in [1, 6, 40, 80, 81] {
                for lines in [1, 2, 5, 30] {
                    let scale = Scale::of(zones, 1, columns, lines);
                    assert!(scale.rows * scale.signs * scale.zones >= zones, "{scale:?}");
                }
            }
        }
    }

    /// One dead zone among healthy ones is what an operator looks for.
    #[test]
    fn a_dead_zone_is_shown_whatever_is_around_it() {
        let zone = |state| MapZone { state, resets: 1 };
        let full = [zone(StateWord::Full), zone(StateWord::Full), zone(StateWord::Open)];
        assert_eq!(sign(&full, MapBy::State, 1), '█');
        let dead = [full[0], full[1], zone(StateWord::Offline)];
        assert_eq!(sign(&dead, MapBy::State, 1), 'X');
        assert_eq!(sign(&dead, MapBy::Wear, 1), 'X');
    }
}
