//! Writing one record.

use bytes::Bytes;
use zoneweave_zoned::{
    BlockCount, OobKind, Payload, ReportOptions, Status, ZoneAddress, ZonedDevice, ZonedDeviceExt,
};

use crate::event::{Event, Observer};

/// Attempts at writing a record that the drive rejects with a transient error, and at writing a
/// snapshot of which a record was written in part.
pub(crate) const RECORD_TRIES: u32 = 3;

/// The outcome of a record's write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Whole,
    /// A unit takes several blocks, and the drive wrote some: its zone takes no more.
    InPart,
}

/// Writes a record, with retries if a write fails (as during a controller reset) and the drive then
/// reports that nothing was written. Losing a drive for one record could lose all redundancy.
///
/// # Errors
/// The drive's status.
pub(crate) async fn write_record(
    device: &dyn ZonedDevice,
    at: ZoneAddress,
    record: Payload,
    observe: Observer,
) -> Result<Written, Status> {
    assert!(record.blocks() == BlockCount(1), "a record of {}", record.blocks());
    let unit = device.geometry().write_unit.0;
    // Drives without metadata reject it.
    let oob = match device.geometry().oob {
        OobKind::None => Bytes::new(),
        _ => record.oob,
    };
    let record = Payload { oob, ..record };
    assert!(at.offset.0.is_multiple_of(unit), "a record within a unit, at {at}");
    let written = write_in_tries(device, at, record, unit, observe).await?;
    if written == Written::InPart {
        observe(Event::RecordInPart);
    }
    Ok(written)
}

async fn write_in_tries(
    device: &dyn ZonedDevice,
    at: ZoneAddress,
    record: Payload,
    unit: u32,
    observe: Observer,
) -> Result<Written, Status> {
    let mut tries = 1..RECORD_TRIES;
    loop {
        let Err(status) = device.write(at, record.clone(), true).await else {
            return Ok(Written::Whole);
        };
        // The write before left less than a unit, which reports round down to nothing.
        if status == Status::ZoneInvalidWrite && tries.start > 1 && unit > 1 {
            return Ok(Written::InPart);
        }
        if status.is_fatal() || status.is_of_zone_state() || tries.next().is_none() {
            return Err(status);
        }
        observe(Event::RecordWrittenAgain);
        let report = device.report_by(at.zone, 1, ReportOptions::default()).await?;
        let written = report.zones.first().and_then(|info| {
            info.write_pointer.0.checked_sub(at.offset.0).filter(|_| info.zone == at.zone)
        });
        match written {
            Some(0) => {}
            Some(blocks) if blocks == unit => {
                // It was written, but may be in the drive's cache only.
                let found = device.read(at, BlockCount(1)).await?;
                device.flush().await?;
                return if is_same(&found, &record) { Ok(Written::Whole) } else { Err(status) };
            }
            Some(blocks) if blocks < unit => return Ok(Written::InPart),
            _ => return Err(status),
        }
    }
}

fn is_same(found: &Payload, record: &Payload) -> bool {
    found.blocks() == record.blocks()
        && found.block(0) == record.block(0)
        && (record.oob.is_empty() || found.block_oob(0) == record.block_oob(0))
}
