//! The blocks of files, and those that no record knows: docs/format.md, sections S4 and S5.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::{
    BlockCount, Payload, ZoneAddress, ZoneId, ZoneInfo, ZoneState, ZonedDevice, ZonedDeviceExt,
    is_zero,
};

use super::record::Address;
use super::report::{Findings, StoreProblem};
use super::state::{Extent, State};
use crate::format::fields::{Array, Fields};

const BLOCK_BYTES: usize = 4096;
const TAG_BYTES: usize = 32;

/// Where a block belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag {
    file: u64,
    offset: u64,
    bytes: u64,
    version: u32,
    is_copy: bool,
}

impl Tag {
    fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// The blocks of a store.
pub(super) struct Blocks<'a> {
    pub(super) device: &'a dyn ZonedDevice,
    pub(super) owner: Array,
    pub(super) state: &'a State,
    pub(super) zones: &'a BTreeMap<u32, ZoneInfo>,
    /// Blocks of extents that were seen.
    pub(super) seen: BTreeMap<u32, BTreeSet<u32>>,
}

/// Bytes of files in a block.
pub(super) const fn payload_bytes(is_inline: bool) -> u64 {
    let tag = if is_inline { TAG_BYTES } else { 0 };
    (BLOCK_BYTES - tag) as u64
}

impl Blocks<'_> {
    /// Verifies the extents of all files.
    pub(super) async fn check_files(&mut self, findings: &mut Findings) {
        let paths = self.state.paths();
        for (id, node) in &self.state.nodes {
            let counts = &mut findings.report.counts;
            if node.names.is_some() {
                counts.directories += 1;
                continue;
            }
            counts.files += 1;
            counts.bytes += node.length();
            counts.extents += node.extents.len() as u64;
            let path = paths.get(id).cloned().unwrap_or_else(|| format!("file {id}"));
            for extent in &node.extents {
                self.check_extent(*id, &path, extent, findings).await;
            }
        }
    }

    async fn check_extent(
        &mut self,
        id: u64,
        path: &str,
        extent: &Extent,
        findings: &mut Findings,
    ) {
        let (zone, first) = extent.at;
        let at = Some(extent.at);
        let problem = |offset| (path.to_owned(), offset);
        let end = u64::from(first) + u64::from(extent.blocks);
        let written = self.zones.get(&zone).map_or(0, |info| u64::from(info.write_pointer.0));
        let Some(usage) = self.state.zones.get(&zone).map(|zone| zone.usage) else {
            let (path, offset) = problem(extent.offset);
            return findings.add(at, StoreProblem::ExtentOutside { path, offset });
        };
        if end > written.min(u64::from(self.state.superblock.zone_capacity)) {
            let (path, offset) = problem(extent.offset);
            return findings.add(at, StoreProblem::ExtentOutside { path, offset });
        }
        let seen = self.seen.entry(zone).or_default();
        let shared = (first..first + extent.blocks).filter(|block| !seen.insert(*block)).count();
        if shared > 0 {
            let (path, offset) = problem(extent.offset);
            findings.add(at, StoreProblem::ExtentsOverlap { path, offset });
        }
        assert!(extent.blocks > 0, "an extent without blocks was accepted");
        let mut before = None;
        let mut next = first;
        while u64::from(next) < end {
            let count = self.device.geometry().max_transfer.0.min(first + extent.blocks - next);
            for (block, read) in (next..).zip(self.read((zone, next), count).await) {
                let tag = read.and_then(|read| self.open((zone, block), usage, &read));
                match self.judge((id, path), extent, block - first, before, tag) {
                    Some(problem) => findings.add(Some((zone, block)), problem),
                    None => findings.report.counts.verified_blocks += 1,
                }
                before = tag;
            }
            next += count;
        }
    }

    /// What is wrong with a block of an extent, given the block before.
    fn judge(
        &self,
        (id, path): (u64, &str),
        extent: &Extent,
        index: u32,
        before: Option<Tag>,
        tag: Option<Tag>,
    ) -> Option<StoreProblem> {
        let payload = payload_bytes(self.state.superblock.is_inline);
        // In a dense extent the place follows from the number of the block.
        let offset = match (extent.is_sparse && index > 0, before) {
            (false, _) => extent.offset + u64::from(index) * payload,
            (true, Some(before)) => before.end(),
            (true, None) => extent.offset,
        };
        let path = path.to_owned();
        let Some(tag) = tag else { return Some(StoreProblem::BlockDamaged { path, offset }) };
        let is_placed = match (extent.is_sparse && index > 0, before) {
            (false, _) => tag.offset == offset,
            // A block that was cut names more bytes than it has.
            (true, Some(before)) => before.offset < tag.offset && tag.offset <= before.end(),
            (true, None) => tag.offset > extent.offset,
        };
        // A block has all its bytes; in a sparse extent the next one tells how many.
        let is_last = index + 1 == extent.blocks;
        let needed = match (extent.is_sparse, is_last) {
            (_, true) => extent.end(),
            (false, false) => offset + payload,
            (true, false) => tag.offset,
        };
        let reaches = tag.end() >= needed;
        let is_right = tag.file == id && is_placed && tag.offset < extent.end() && reaches;
        let (file, found) = (tag.file, tag.offset);
        (!is_right).then_some(StoreProblem::BlockElsewhere { path, offset, file, found })
    }

    /// Looks at blocks of open zones that no record knows, and at zones that are not on record.
    pub(super) async fn check_rest(&self, findings: &mut Findings) {
        for (number, info) in self.zones {
            let is_metadata = self.state.superblock.metadata_zones.contains(number);
            match self.state.zones.get(number) {
                Some(zone) if !zone.is_sealed => {
                    self.check_tail(*number, zone.known, zone.usage, info, findings).await;
                }
                None if !is_metadata && info.write_pointer.0 > 0 && is_readable(info) => {
                    findings.add(Some((*number, 0)), StoreProblem::ZoneUnknown);
                }
                _ => {}
            }
        }
    }

    async fn check_tail(
        &self,
        zone: u32,
        known: u32,
        usage: u64,
        info: &ZoneInfo,
        findings: &mut Findings,
    ) {
        let capacity = self.state.superblock.zone_capacity;
        let written = info.write_pointer.0.min(capacity);
        // The write pointer of a finished zone passed blocks that nobody wrote.
        let may_be_finished = written == capacity || info.state == ZoneState::ReadOnly;
        let mut blank = Vec::new();
        let seen = self.seen.get(&zone);
        let mut next = known;
        while next < written {
            let count = self.device.geometry().max_transfer.0.min(written - next);
            for (block, read) in (next..).zip(self.read((zone, next), count).await) {
                if seen.is_some_and(|seen| seen.contains(&block)) {
                    continue;
                }
                if read.as_ref().is_some_and(is_blank) {
                    blank.push((zone, block));
                    continue;
                }
                tail_damaged(&mut blank, findings);
                match read.and_then(|read| self.open((zone, block), usage, &read)) {
                    Some(tag) => {
                        let file = self.state.nodes.get(&tag.file).filter(|_| !tag.is_copy);
                        let counts = file.is_some_and(|file| {
                            file.version == tag.version && tag.offset >= file.length()
                        });
                        findings.report.counts.unrecorded_blocks += u64::from(counts);
                    }
                    None => findings.add(Some((zone, block)), StoreProblem::TailDamaged),
                }
            }
            next += count;
        }
        if !may_be_finished {
            tail_damaged(&mut blank, findings);
        }
    }

    /// The tag of a block, if it verifies.
    fn open(&self, at: Address, usage: u64, read: &Payload) -> Option<Tag> {
        let (block, metadata) = (read.block(0), read.block_oob(0));
        let payload = usize::try_from(payload_bytes(self.state.superblock.is_inline)).ok()?;
        let (data, inline) = block.split_at_checked(payload)?;
        let stored = match self.state.superblock.is_inline {
            true => inline,
            false => metadata.get(..TAG_BYTES)?,
        };
        let mut place = [0; 16];
        place[..4].copy_from_slice(&at.0.to_le_bytes());
        place[4..8].copy_from_slice(&at.1.to_le_bytes());
        place[8..].copy_from_slice(&usage.to_le_bytes());
        let fields = Fields(stored);
        let tag = Tag {
            file: fields.u64(8),
            offset: fields.u64(16),
            bytes: u64::from(fields.u32(4)),
            version: fields.u32(24),
            is_copy: fields.u32(28) == 1,
        };
        let is_intact = self.owner.checksum(&[&place, &stored[4..], data]) == fields.u32(0);
        let is_possible = (1..=payload as u64).contains(&tag.bytes)
            && tag.offset.checked_add(tag.bytes).is_some()
            && fields.u32(28) <= 1;
        (is_intact && is_possible).then_some(tag)
    }

    /// Reads blocks, one by one if they cannot be read together.
    async fn read(&self, (zone, first): Address, count: u32) -> Vec<Option<Payload>> {
        assert!(count > 0, "a read of no blocks");
        let at = |block| ZoneAddress::new(ZoneId(zone), block);
        if let Ok(read) = self.device.read(at(first), BlockCount(count)).await {
            let one = |block| Payload::new(read.block(block), read.block_oob(block));
            return (0..count as usize).map(|block| Some(one(block))).collect();
        }
        let mut blocks = Vec::new();
        for block in first..first + count {
            let read = self.device.read(at(block), BlockCount(1)).await;
            blocks.push(read.ok().filter(|read| read.blocks() == BlockCount(1)));
        }
        blocks
    }
}

fn tail_damaged(blocks: &mut Vec<Address>, findings: &mut Findings) {
    blocks.drain(..).for_each(|at| findings.add(Some(at), StoreProblem::TailDamaged));
}

fn is_readable(info: &ZoneInfo) -> bool {
    info.state != ZoneState::Offline
}

/// Whether a block reads as one that was never written.
fn is_blank(read: &Payload) -> bool {
    is_zero(&read.block(0)) && is_zero(&read.block_oob(0))
}
