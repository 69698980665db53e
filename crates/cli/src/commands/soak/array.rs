//! The array of a soak: RAID-5 of four drives in memory, started as a server would.

use std::rc::Rc;

use zoneweave_emulator::MemoryDrive;
use zoneweave_raid::log::create::plan;
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::{
    Auto, CreateOptions, OfferedDrive, OpenOptions, Volume, WriteChoice, create, open_array,
};
use zoneweave_raid::scheme::Scheme;
use zoneweave_raid::shards::Shard;
use zoneweave_zoned::{BlockCount, Geometry};

use crate::commands::array::create::GROUP_ROWS;
use crate::error::CliError;
use crate::format;
use crate::memory::refuse_too_large;
use crate::session::{Session, random_number, random_uuid};

/// Blocks of a zone: 2 MiB, so that there are hundreds of segments.
const ZONE_BLOCKS: u32 = 512;

/// Minimum number of zones: for the write layout of servers and garbage collection.
const ZONES_LEAST: u32 = 32;

/// Size of the volume in percent of all zones.
const VOLUME_PERCENT: u64 = 77;

/// A volume and its session.
pub(super) struct Array {
    volume: Volume,
    blocks: u64,
    drives_memory_bytes: u64,
    session: Session,
}

impl Array {
    /// An array of drives of `drive_blocks` blocks each.
    pub(super) fn new(drive_blocks: u64) -> Result<Self, CliError> {
        let zones = u32::try_from(drive_blocks / u64::from(ZONE_BLOCKS)).unwrap_or(u32::MAX);
        let geometry = Geometry::new(zones, BlockCount(ZONE_BLOCKS));
        if zones < ZONES_LEAST || !MemoryDrive::fits(&geometry) {
            let zone = format::bytes(u64::from(ZONE_BLOCKS) * 4096);
            let problem = format!(
                "drives must have at least {ZONES_LEAST} zones of {zone}, and less than 16 TiB"
            );
            return Err(CliError::Usage { option: "drive", problem });
        }
        let scheme = Scheme::new(3, 1).expect("a possible scheme");
        refuse_too_large(scheme.columns(), drive_blocks.saturating_mul(4096))?;
        let offer = |number| OfferedDrive {
            device: Rc::new(MemoryDrive::new(geometry.clone()).expect("a possible drive")),
            label: format!("memory {number}"),
        };
        let offered: Vec<_> = (0..scheme.columns()).map(offer).collect();
        let of_drive = BlockCount(zones * ZONE_BLOCKS);
        let drive_bytes = of_drive.data_bytes() + of_drive.oob_bytes();
        let mut options = CreateOptions {
            name: "soak".to_owned(),
            scheme,
            volume_blocks: None,
            chunk_blocks: 1,
            group_rows: GROUP_ROWS,
            tabled: true,
            writethrough: None,
            array: ArrayUuid(random_uuid()?),
            members: Vec::new(),
            lineage: Lineage(random_number()?),
            shard: Shard::WHOLE,
            wipe: false,
        };
        for _ in &offered {
            options.members.push(MemberUuid(random_uuid()?));
        }
        let physical = u64::from(zones) * u64::from(ZONE_BLOCKS) * scheme.data() as u64;
        let blocks =
            plan(&offered, &options)?.log().volume_blocks.min(physical * VOLUME_PERCENT / 100);
        options.volume_blocks = Some(blocks);
        let drives_memory_bytes = (drive_bytes * offered.len()) as u64;
        let session = Session::new()?;
        session.executor.run(create(&offered, &options))?;
        let writes = WriteChoice::Auto(Auto::default());
        let options = OpenOptions { writes, ..OpenOptions::default() };
        let (volume, _) = session.executor.run(open_array(&session.handle, offered, options))?;
        Ok(Self { volume, blocks, drives_memory_bytes, session })
    }

    pub(super) const fn session(&self) -> &Session {
        &self.session
    }

    pub(super) const fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Blocks of the volume.
    pub(super) const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Memory of the drives, blocks and metadata, allocated from the start.
    pub(super) const fn drives_memory_bytes(&self) -> u64 {
        self.drives_memory_bytes
    }

    /// Shuts the volume down.
    pub(super) fn close(self) -> Result<(), CliError> {
        Ok(self.session.executor.run(self.volume.close())?)
    }
}
