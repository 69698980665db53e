//! The wear of a drive, in one line.

use serde::Serialize;
use zoneweave_linux::DriveInfo;
use zoneweave_zoned::ZoneState;

/// Wear of a drive.
#[derive(Serialize)]
pub(crate) struct WearView {
    max_resets: u64,
    mean_resets: f64,
    /// Zones that are read-only or offline.
    worn_zones: usize,
    /// For drives that count the erases of their erase blocks.
    erases: Option<EraseView>,
}

#[derive(Serialize)]
struct EraseView {
    max: u32,
    mean: f64,
    endurance: Option<u32>,
}

impl WearView {
    pub(crate) fn of(info: &DriveInfo) -> Self {
        let total: u64 = info.zones.iter().map(|zone| zone.resets).sum();
        let is_worn = |state| matches!(state, ZoneState::ReadOnly | ZoneState::Offline);
        #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
        let mean_resets = total as f64 / info.zones.len().max(1) as f64;
        Self {
            max_resets: info.zones.iter().map(|zone| zone.resets).max().unwrap_or(0),
            mean_resets,
            worn_zones: info.zones.iter().filter(|zone| is_worn(zone.state)).count(),
            erases: info.wear.as_ref().map(|wear| {
                // The bytes written are not stored, and not needed here.
                let spread = wear.report(0).erase_blocks;
                let endurance = wear.settings().endurance_cycles;
                EraseView { max: spread.max, mean: spread.mean, endurance }
            }),
        }
    }

    pub(crate) fn line(&self) -> String {
        let Self { max_resets, mean_resets, worn_zones, .. } = self;
        let mut line = format!("wear: zone resets at most {max_resets}");
        line += &format!(", {mean_resets:.1} on average");
        if let Some(erases) = &self.erases {
            line += &format!("; erase-block cycles at most {}", erases.max);
            line += &format!(", {:.1} on average", erases.mean);
            if let Some(endurance) = erases.endurance {
                line += &format!(", endurance {endurance}");
            }
        }
        line + &format!("; {worn_zones} worn zones")
    }
}
