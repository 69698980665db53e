//! Volumes that lack a column: what they return, and how it is rebuilt.

mod degraded;
mod rebuilds;
mod sources;

use zoneweave_raid::raizn::Volume;
use zoneweave_zoned::{BlockCount, ZoneAddress, ZoneId, ZonedDeviceExt};

use super::model::block;

/// Checks the first blocks of the first zone.
async fn holds(volume: &Volume, blocks: u32) {
    let at = ZoneAddress::new(ZoneId(0), 0);
    let read = volume.read_in_pieces(at, BlockCount(blocks)).await.unwrap();
    assert!((1..).zip(read.iter_blocks()).all(|(tag, found)| found == block(tag)));
}
