//! Figures about the wear of a drive.

use zoneweave_zoned::{BLOCK_BYTES, ZoneId};

use super::counts::{Wear, ZoneWear};
use super::settings::WearSettings;

/// How erase counts are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EraseSpread {
    /// Counts there are.
    pub counts: u64,
    /// Their sum.
    pub total: u64,
    /// The smallest.
    pub min: u32,
    /// The largest.
    pub max: u32,
    /// The average.
    pub mean: f64,
    /// The standard deviation, of the whole population.
    pub deviation: f64,
}

impl EraseSpread {
    /// The spread of some counts; all zero if there are none.
    #[must_use]
    pub fn of(counts: impl Iterator<Item = u32>) -> Self {
        let (mut spread, mut squares) = (Self { min: u32::MAX, ..Self::default() }, 0_u128);
        for count in counts {
            spread.counts += 1;
            spread.total += u64::from(count);
            squares += u128::from(count) * u128::from(count);
            spread.min = spread.min.min(count);
            spread.max = spread.max.max(count);
        }
        if spread.counts == 0 {
            return Self::default();
        }
        let number = spread.counts as f64;
        spread.mean = spread.total as f64 / number;
        let variance = squares as f64 / number - spread.mean * spread.mean;
        spread.deviation = variance.max(0.0).sqrt();
        spread
    }
}

/// The wear of one zone.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneWearReport {
    /// Which zone.
    pub zone: ZoneId,
    /// The erase counts of its erase blocks.
    pub erase_counts: Vec<u32>,
    /// Their spread.
    pub spread: EraseSpread,
}

/// The wear of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct WearReport {
    /// The settings.
    pub settings: WearSettings,
    /// Every zone.
    pub zones: Vec<ZoneWearReport>,
    /// The spread over all erase blocks of the drive.
    pub erase_blocks: EraseSpread,
    /// The spread over zones, each counted by its most erased block, which ends the zone's life.
    pub zone_maxima: EraseSpread,
    /// Data written by the host since the drive was made or opened, bytes.
    pub written_bytes: u64,
}

/// The data that the host can write in a drive's life, if the erases per byte stay the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lifetime {
    /// Until the first erase block is worn, bytes.
    pub first_worn_bytes: f64,
    /// Until all are, if wear were spread evenly, bytes.
    pub levelled_bytes: f64,
}

impl WearReport {
    pub(super) fn of(settings: WearSettings, zones: &[ZoneWear], written_blocks: u64) -> Self {
        let zones: Vec<_> = (0..)
            .map(ZoneId)
            .zip(zones)
            .map(|(zone, wear)| ZoneWearReport {
                zone,
                spread: EraseSpread::of(wear.erase_counts.iter().copied()),
                erase_counts: wear.erase_counts.clone(),
            })
            .collect();
        let all = zones.iter().flat_map(|zone| zone.erase_counts.iter().copied());
        Self {
            settings,
            erase_blocks: EraseSpread::of(all),
            zone_maxima: EraseSpread::of(zones.iter().map(|zone| zone.spread.max)),
            zones,
            written_bytes: written_blocks * BLOCK_BYTES as u64,
        }
    }

    /// An estimate from the wear per block written so far. `None` without an endurance limit or
    /// before the first erase.
    #[must_use]
    pub fn lifetime(&self) -> Option<Lifetime> {
        let endurance = f64::from(self.settings.endurance_cycles?);
        if self.erase_blocks.max == 0 {
            return None;
        }
        let written = self.written_bytes as f64;
        Some(Lifetime {
            first_worn_bytes: written * endurance / f64::from(self.erase_blocks.max),
            levelled_bytes: written * endurance / self.erase_blocks.mean,
        })
    }
}

impl Wear {
    /// The wear in figures, after the host wrote `written_blocks`.
    #[must_use]
    pub fn report(&self, written_blocks: u64) -> WearReport {
        WearReport::of(self.settings, &self.zones, written_blocks)
    }
}
