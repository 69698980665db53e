//! RAM drives in the file format of [`media_format`](crate::media_format): images of a crashed
//! drive, to be reopened here, or served and examined like any drive in a file.
//!
//! An image holds zones, blocks, wear, and the list of unreadable blocks. Commands in flight,
//! planned faults and counters are not part of it, and everything in it is durable.

use std::io::{self, Read, Seek, SeekFrom, Write};

use bytes::Bytes;
use thiserror::Error;
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Geometry, ImportError, Payload, ZoneAddress, ZoneAttributes, ZoneId,
    ZoneOffset, ZoneSet,
};

use super::core::Core;
use super::drive::RamDrive;
use crate::media_format::{
    DEFECTS_MAX, Defect, DriveLayout, Extension, FormatError, HEADER_BYTES, StoredRecord,
};
use crate::{Controller, Timing};

/// Blocks copied at once: 1 MiB.
const STEP_BLOCKS: u32 = 256;

/// Why a drive cannot be saved or opened.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The bytes are not those of a drive, or no image can hold this one.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The zone records contradict each other.
    #[error(transparent)]
    Records(#[from] ImportError),
    /// The list of unreadable blocks is limited.
    #[error(
        "{found} unreadable blocks do not fit an image: reset zones until at most {DEFECTS_MAX} remain"
    )]
    TooManyUnreadable {
        /// Unreadable blocks.
        found: usize,
    },
    /// The image could not be read or written.
    #[error("the image cannot be read or written: {0}")]
    Io(#[from] io::Error),
}

impl RamDrive {
    /// Writes an image of the drive, with an identity. `image` must be empty; places that hold
    /// zeros are not written, so that a file is sparse. The header comes last: an image with a
    /// header is whole.
    ///
    /// # Errors
    /// If no image can hold the drive, or writing fails.
    pub fn save(&self, uuid: [u8; 16], image: &mut (impl Write + Seek)) -> Result<(), ImageError> {
        let core = self.shared.core.borrow();
        let layout = layout_of(&core.controller, uuid)?;
        write_at(image, layout.file_bytes() - 1, &[0])?;
        let records: Vec<u8> = (0..)
            .map(ZoneId)
            .zip(core.controller.zones().export())
            .flat_map(|(zone, record)| layout.encode_record(zone, 0, record))
            .collect();
        write_at(image, layout.table(0).start, &records)?;
        save_extension(&core.controller, &layout, image)?;
        for zone in zones(core.controller.zones().geometry()) {
            save_zone(&core, zone, &layout, image)?;
        }
        write_at(image, 0, &layout.header())?;
        image.flush()?;
        Ok(())
    }

    /// A drive with the contents of an image.
    ///
    /// # Errors
    /// If it is not an image of a drive, or reading fails.
    pub fn open(
        image: &mut (impl Read + Seek),
        timing: impl Timing + 'static,
    ) -> Result<Self, ImageError> {
        let image_bytes = image.seek(SeekFrom::End(0))?;
        let mut header = [0; HEADER_BYTES];
        let header_bytes = header.len().min(usize::try_from(image_bytes).unwrap_or(usize::MAX));
        read_at(image, 0, &mut header[..header_bytes])?;
        let layout = DriveLayout::parse(&header[..header_bytes], image_bytes)?;
        let tables = [0, 1].map(|index| read_range(image, layout.table(index)));
        let [even, odd] = tables;
        let records = layout.decode_records([&even?, &odd?])?;
        let controller = open_controller(&records, &layout, image)?;
        let mut core = Core::holding(controller, Box::new(timing));
        for zone in zones(layout.geometry()) {
            open_zone(&mut core, zone, &layout, image)?;
        }
        let geometry = layout.geometry().clone();
        Ok(Self::of_core(geometry, core))
    }
}

fn zones(geometry: &Geometry) -> impl Iterator<Item = ZoneId> + use<> {
    (0..geometry.zones).map(ZoneId)
}

fn layout_of(controller: &Controller, uuid: [u8; 16]) -> Result<DriveLayout, ImageError> {
    let geometry = controller.zones().geometry().clone();
    let wear = controller.wear().map(|wear| *wear.settings());
    if wear.is_none() && controller.unreadable().next().is_none() {
        return Ok(DriveLayout::new(geometry, uuid)?);
    }
    Ok(DriveLayout::extended(geometry, uuid, Extension { wear, preset: None })?)
}

fn save_extension(
    controller: &Controller,
    layout: &DriveLayout,
    image: &mut (impl Write + Seek),
) -> Result<(), ImageError> {
    if let Some(defects) = layout.defects() {
        let resets = |at: ZoneAddress| controller.zones().record(at.zone).resets;
        let unreadable = controller.unreadable().map(|at| Defect { at, resets: resets(at) });
        let unreadable: Vec<_> = unreadable.collect();
        if unreadable.len() > DEFECTS_MAX {
            return Err(ImageError::TooManyUnreadable { found: unreadable.len() });
        }
        write_at(image, defects.start, &layout.encode_defects(&unreadable))?;
    }
    for (zone, record) in (0..).map(ZoneId).zip(controller.zones().export()) {
        if record.attributes.contains(ZoneAttributes::EXTENDED) {
            let position = layout.descriptor_extension(zone).start;
            write_at(image, position, &controller.zones().extension(zone))?;
        }
    }
    if let Some(wear) = controller.wear() {
        for zone in zones(layout.geometry()) {
            if let Some((position, bytes)) = layout.encode_wear(zone, wear.zone(zone)) {
                write_at(image, position, &bytes)?;
            }
        }
    }
    Ok(())
}

fn open_controller(
    records: &[StoredRecord],
    layout: &DriveLayout,
    image: &mut (impl Read + Seek),
) -> Result<Controller, ImageError> {
    let current: Vec<_> = records.iter().map(|stored| stored.record).collect();
    let mut zones = ZoneSet::import(layout.geometry().clone(), &current)?;
    for (zone, record) in (0..).map(ZoneId).zip(current) {
        if record.attributes.contains(ZoneAttributes::EXTENDED) {
            let extension = read_range(image, layout.descriptor_extension(zone))?;
            zones.store_extension(zone, extension.into());
        }
    }
    let mut controller = Controller::with_zones(zones);
    if let Some(defects) = layout.defects() {
        for defect in layout.decode_defects(&read_range(image, defects)?, records)? {
            controller.set_unreadable(defect.at, BlockCount(1));
        }
    }
    let wear_table = read_range(image, layout.wear_table())?;
    if let Some(wear) = layout.decode_wear(&wear_table, records)? {
        controller.restore_wear(wear);
    }
    Ok(controller)
}

fn save_zone(
    core: &Core,
    zone: ZoneId,
    layout: &DriveLayout,
    image: &mut (impl Write + Seek),
) -> Result<(), ImageError> {
    for (at, blocks) in steps(zone, core.media.len(zone)) {
        let payload = core.media.read(at, blocks);
        let mut position = layout.data_position(at);
        for piece in &payload.data {
            write_at(image, position, piece)?;
            position += piece.len() as u64;
        }
        if let Some(position) = layout.oob_position(at) {
            write_at(image, position, &payload.oob)?;
        }
    }
    Ok(())
}

fn open_zone(
    core: &mut Core,
    zone: ZoneId,
    layout: &DriveLayout,
    image: &mut (impl Read + Seek),
) -> Result<(), ImageError> {
    let end = core.controller.zones().record(zone).write_pointer;
    for (at, blocks) in steps(zone, end) {
        let mut data = AlignedBuffer::unfilled(blocks);
        read_at(image, layout.data_position(at), data.as_mut())?;
        let mut oob = Vec::new();
        if let Some(position) = layout.oob_position(at) {
            oob.resize(blocks.oob_bytes(), 0);
            read_at(image, position, &mut oob)?;
        }
        core.hold(at, &Payload::new(data.freeze(), Bytes::from(oob)));
    }
    Ok(())
}

/// The blocks of a zone up to `end`, in steps.
fn steps(zone: ZoneId, end: ZoneOffset) -> impl Iterator<Item = (ZoneAddress, BlockCount)> {
    (0..end.0).step_by(STEP_BLOCKS as usize).map(move |first| {
        (ZoneAddress::new(zone, first), BlockCount(STEP_BLOCKS.min(end.0 - first)))
    })
}

fn write_at(image: &mut (impl Write + Seek), at: u64, bytes: &[u8]) -> io::Result<()> {
    // The end of the file is written although it is a zero: it sets the length.
    if bytes.len() > 1 && bytes.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    image.seek(SeekFrom::Start(at))?;
    image.write_all(bytes)
}

fn read_at(image: &mut (impl Read + Seek), at: u64, bytes: &mut [u8]) -> io::Result<()> {
    image.seek(SeekFrom::Start(at))?;
    image.read_exact(bytes)
}

/// The range lies in the image, and its size was checked by the layout.
fn read_range(image: &mut (impl Read + Seek), range: std::ops::Range<u64>) -> io::Result<Vec<u8>> {
    let length = usize::try_from(range.end - range.start);
    let mut bytes = vec![0; length.map_err(|_| io::ErrorKind::FileTooLarge)?];
    read_at(image, range.start, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
