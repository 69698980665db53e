//! The blocks of open zones that no record knows, found by their tags.
//!
//! A block counts if it is no copy made by relocation, its file exists in the version of the tag,
//! and its bytes follow the end of the file. So a file is a prefix of what was appended to it. The
//! next snapshot puts the blocks on record, and moves the part of each zone that is known behind
//! them: blocks that did not count are never looked at again.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_journal::Seed;
use zoneweave_zoned::{Payload, ZoneAddress, ZoneId, ZonedDevice, is_zero};

use super::claims::{Claims, Found, TailReport};
use super::read::read_each;
use crate::format::{BlockLayout, Tag};
use crate::ids::{FileId, Incarnation};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::state::{Namespace, Phase, ZoneTable};

/// What a scan of the open zones finds.
#[derive(Default)]
struct Scanned {
    /// Blocks by file and first byte.
    blocks: BTreeMap<(FileId, u64), Found>,
    /// Blocks that do not verify and that no file has.
    damaged: BTreeSet<ZoneAddress>,
}

impl Scanned {
    /// Behind the first block that no record knows, others may be on record.
    fn forget_recorded(&mut self, namespace: &Namespace) {
        let runs = namespace.files().flat_map(|(_, file)| file.extents.runs());
        for run in runs {
            let behind = ZoneAddress { offset: run.at.offset.plus(run.blocks), ..run.at };
            let recorded: Vec<ZoneAddress> = self.damaged.range(run.at..behind).copied().collect();
            for at in recorded {
                mark(Mark::TailDamageRecorded);
                self.damaged.remove(&at);
            }
        }
    }

    /// Adds a block that was written; its tag may be lost.
    fn add(&mut self, at: ZoneAddress, opened: Option<Found>, namespace: &Namespace) {
        if !opened.is_some_and(|found| found.is_intact) {
            mark(Mark::TailDamaged);
            self.damaged.insert(at);
        }
        let Some(found) = opened else { return };
        if !is_of_file(namespace, &found.tag) {
            return mark(Mark::TailRejected);
        }
        // Of two intact copies, written before and after a failed write, either will do.
        let kept = self.blocks.entry((found.tag.file, found.tag.offset)).or_insert(found);
        if found.is_intact {
            *kept = found;
        }
    }
}

/// Scans the open zones of a store, and extends its files.
pub(crate) struct Tail<'a> {
    pub(crate) device: &'a dyn ZonedDevice,
    pub(crate) layout: BlockLayout,
    pub(crate) seed: Seed,
}

impl Tail<'_> {
    /// Reads what no record knows, and adds to each file the blocks that continue it.
    pub(crate) async fn recover(
        &self,
        namespace: &mut Namespace,
        zones: &mut ZoneTable,
    ) -> TailReport {
        let mut scanned = Scanned::default();
        let open: Vec<ZoneId> = {
            let open = zones.iter().filter(|(_, zone)| zone.phase == Phase::Open);
            open.map(|(zone, _)| zone).collect()
        };
        for zone in open {
            self.scan(zone, namespace, zones, &mut scanned).await;
        }
        if !scanned.damaged.is_empty() {
            scanned.forget_recorded(namespace);
        }
        let Scanned { blocks, damaged } = scanned;
        let (layout, report) = (self.layout, TailReport::default());
        Claims { namespace, zones, layout, damaged, report }.settle(blocks)
    }

    /// Reads the blocks of a zone from the first that is not known up to the write pointer.
    async fn scan(
        &self,
        zone: ZoneId,
        namespace: &Namespace,
        zones: &ZoneTable,
        scanned: &mut Scanned,
    ) {
        let entry = zones.get(zone);
        let most = self.device.geometry().max_transfer.0;
        assert!(entry.known <= entry.next.0, "{zone}: {} known of {}", entry.known, entry.next.0);
        let mut start = entry.known;
        let mut blank = Vec::new();
        while start < entry.next.0 {
            let count = most.min(entry.next.0 - start);
            let first = ZoneAddress::new(zone, start);
            for (offset, block) in (start..).zip(read_each(self.device, first, count).await) {
                let at = ZoneAddress::new(zone, offset);
                if block.as_ref().is_some_and(is_blank) {
                    blank.push(at);
                    continue;
                }
                scanned.damaged.extend(blank.drain(..));
                let opened = block.and_then(|payload| self.open(at, entry.incarnation, &payload));
                scanned.add(at, opened, namespace);
            }
            start += count;
        }
        // The write pointer of a zone that was finished passed blocks that nobody wrote.
        let may_be_finished = entry.next.0 == zones.capacity().0 || entry.is_read_only;
        if !may_be_finished {
            scanned.damaged.extend(blank);
        }
    }

    /// The tag of a block, if it can be read.
    fn open(&self, at: ZoneAddress, incarnation: Incarnation, payload: &Payload) -> Option<Found> {
        let (data, metadata) = (payload.block(0), payload.block_oob(0));
        let opened = Tag::open(self.layout, self.seed, at, incarnation, &data, &metadata);
        if let Ok((tag, _)) = opened {
            return Some(Found { at, tag, is_intact: true });
        }
        let tag = unverified(payload, self.layout)?;
        Some(Found { at, tag, is_intact: false })
    }
}

/// Whether a block reads as one that was never written.
fn is_blank(payload: &Payload) -> bool {
    is_zero(&payload.block(0)) && is_zero(&payload.block_oob(0))
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
