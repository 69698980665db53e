//! The blocks of open zones that no record knows, found by their tags.
//!
//! A block counts if it verifies in its place, is no copy made by relocation, its file exists in
//! the version of the tag, and its bytes follow the end of the file. So a file is always a prefix
//! of what was appended to it. The next snapshot puts the blocks on record, and moves the part of
//! each zone that is known behind them: blocks that did not count are never looked at again.

use std::collections::BTreeMap;

use zoneweave_journal::Seed;
use zoneweave_zoned::{BlockCount, Payload, ZoneAddress, ZoneId, ZonedDevice, ZonedDeviceExt};

use crate::format::{BlockLayout, Tag};
use crate::ids::FileId;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::state::{BlockRun, Namespace, Phase, ZoneTable};

/// A block that verifies.
#[derive(Clone, Copy, Debug)]
struct Found {
    at: ZoneAddress,
    tag: Tag,
}

/// Scans the open zones of a store, and extends its files.
pub(crate) struct Tail<'a> {
    pub(crate) device: &'a dyn ZonedDevice,
    pub(crate) layout: BlockLayout,
    pub(crate) seed: Seed,
}

impl Tail<'_> {
    /// Reads what no record knows, and adds to each file the blocks that continue it. Returns how
    /// many blocks were added.
    pub(crate) async fn recover(&self, namespace: &mut Namespace, zones: &mut ZoneTable) -> u64 {
        let mut found = BTreeMap::new();
        let open: Vec<ZoneId> = {
            let open = zones.iter().filter(|(_, zone)| zone.phase == Phase::Open);
            open.map(|(zone, _)| zone).collect()
        };
        for zone in open {
            self.scan(zone, namespace, zones, &mut found).await;
        }
        let mut added = 0;
        let starts: Vec<(FileId, u64)> = found.keys().copied().collect();
        for (id, offset) in starts {
            let block: &Found = &found[&(id, offset)];
            if extend(namespace, zones, block) {
                added += 1;
                mark(Mark::TailFound);
            } else {
                mark(Mark::TailRejected);
            }
        }
        added
    }

    /// Reads the blocks of a zone from the first that is not known up to the write pointer.
    async fn scan(
        &self,
        zone: ZoneId,
        namespace: &Namespace,
        zones: &ZoneTable,
        found: &mut BTreeMap<(FileId, u64), Found>,
    ) {
        let entry = zones.get(zone);
        let most = self.device.geometry().max_transfer.0;
        let mut start = entry.known;
        while start < entry.next.0 {
            let count = most.min(entry.next.0 - start);
            for (offset, block) in (start..).zip(self.read(zone, start, count).await) {
                let at = ZoneAddress::new(zone, offset);
                let Some(payload) = block else { continue };
                let (data, metadata) = (payload.block(0), payload.block_oob(0));
                let (layout, seed) = (self.layout, self.seed);
                let opened = Tag::open(layout, seed, at, entry.incarnation, &data, &metadata);
                let opened = match opened {
                    Err(_) if mutant(Mutant::TailNotVerified) => unverified(&payload, layout),
                    opened => opened.ok().map(|(tag, _)| tag),
                };
                let Some(tag) = opened else {
                    mark(Mark::TailDamaged);
                    continue;
                };
                if !is_of_file(namespace, &tag) {
                    mark(Mark::TailRejected);
                    continue;
                }
                // Of two copies, written before and after a failed write, either will do.
                found.insert((tag.file, tag.offset), Found { at, tag });
            }
            start += count;
        }
    }

    /// Reads blocks, one by one if they cannot be read together.
    async fn read(&self, zone: ZoneId, start: u32, count: u32) -> Vec<Option<Payload>> {
        let whole = self.device.read(ZoneAddress::new(zone, start), BlockCount(count)).await;
        if let Ok(payload) = whole {
            let one = |index| Payload::new(payload.block(index), payload.block_oob(index));
            return (0..count as usize).map(|index| Some(one(index))).collect();
        }
        let mut blocks = Vec::new();
        for offset in start..start + count {
            let at = ZoneAddress::new(zone, offset);
            blocks.push(zoneweave_journal::read_stubbornly(self.device, at).await.ok());
        }
        blocks
    }
}

/// The tag of a block, whatever its checksum.
fn unverified(payload: &Payload, layout: BlockLayout) -> Option<Tag> {
    let (block, metadata) = (payload.block(0), payload.block_oob(0));
    let raw = match layout {
        BlockLayout::Separate => metadata.get(..Tag::BYTES)?,
        BlockLayout::Inline => block.get(layout.payload_bytes()..)?,
    };
    Tag::unverified(raw, layout)
}

/// Whether a block may continue its file, in the version that the file has.
fn is_of_file(namespace: &Namespace, tag: &Tag) -> bool {
    let file = namespace.file(tag.file).filter(|_| !tag.is_copy);
    file.is_some_and(|file| file.version == tag.version || mutant(Mutant::VersionIgnored))
}

/// Adds a block to its file if it continues it.
fn extend(namespace: &mut Namespace, zones: &mut ZoneTable, block: &Found) -> bool {
    let Some(file) = namespace.file_mut(block.tag.file) else { return false };
    let is_next = block.tag.offset == file.extents.length()
        || (mutant(Mutant::GapIgnored) && block.tag.offset > file.extents.length());
    if !is_next {
        return false;
    }
    let run = BlockRun { at: block.at, blocks: BlockCount(1) };
    file.extents.push(u64::from(block.tag.bytes), run);
    file.durable = file.extents.length();
    file.recorded = file.durable;
    zones.add_live(run);
    true
}
