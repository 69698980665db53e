//! Reads the parity log of a member.
//!
//! Blocks are hostile: a record counts if its header and all its blocks verify, it is of the
//! published mount, and its places exist. Behind a damaged block the next header is looked for.

use bytes::Bytes;
use zoneweave_zoned::{BlockCount, Status, ZoneAddress, ZonedDevice, ZonedDeviceExt};

use crate::array::io::is_answer;
use crate::instrument::marks::{Mark, mark_if};
use crate::raizn::core::Core;
use crate::raizn::format::body::Mount;
use crate::raizn::format::log_record::{LogHeader, LogKind};
use crate::raizn::layout::LOG_ZONES;
use crate::raizn::parity_log::ParityLog;
use crate::raizn::recover::media::{LogRecord, LogScan};
use crate::raizn::recover::unread::Patience;
use crate::raizn::stripe::Block;
use crate::raizn::write::column::write_pointer;

/// Blocks read at a time.
const READ_BLOCKS: u32 = 1024;

impl Core {
    /// Reads a member's parity log, again while the drive gives no answer about blocks of it.
    ///
    /// # Errors
    /// If the drive does not report its zones, or is gone.
    pub(crate) async fn scan_log_in_tries(
        &self,
        device: &dyn ZonedDevice,
        published: Mount,
    ) -> Result<LogScan, Status> {
        let mut patience = Patience::default();
        loop {
            let scan = self.scan_log(device, published).await?;
            if scan.unread.is_none() || !patience.wait(&self.handle).await {
                return Ok(scan);
            }
        }
    }

    /// Reads a member's parity log.
    ///
    /// # Errors
    /// If the drive does not report its zones, or is gone.
    async fn scan_log(
        &self,
        device: &dyn ZonedDevice,
        published: Mount,
    ) -> Result<LogScan, Status> {
        let mut scan = LogScan::default();
        for index in 0..LOG_ZONES {
            let zone = ParityLog::zone(index);
            let written = write_pointer(device, zone).await?;
            if written == 0 {
                continue;
            }
            scan.written.insert(index);
            let mut blocks: Vec<Option<Bytes>> = Vec::new();
            let (mut is_damaged, mut unread) = (false, None);
            for first in (0..written).step_by(READ_BLOCKS as usize) {
                let count = READ_BLOCKS.min(written - first);
                let at = ZoneAddress::new(zone, first);
                for read in read_blocks(device, at, count).await {
                    match read {
                        Err(status) if status.is_fatal() => return Err(status),
                        Err(status) if !is_answer(status) => unread = Some(status),
                        Err(_) => is_damaged = true,
                        Ok(_) => {}
                    }
                    blocks.push(read.ok());
                }
                // Records of other mounts are not worth reading on.
                if first == 0 && !self.is_published(&blocks, published) {
                    blocks.clear();
                    (is_damaged, unread) = (false, None);
                    break;
                }
            }
            let before = scan.records.len();
            self.take_records(&blocks, published, &mut scan.records);
            if scan.records.len() > before || unread.is_some() {
                scan.used.insert(index);
            }
            scan.is_damaged |= is_damaged;
            scan.unread = scan.unread.or(unread);
        }
        Ok(scan)
    }

    /// Whether any of these blocks is a header of the published mount, or none is a header at all.
    fn is_published(&self, blocks: &[Option<Bytes>], published: Mount) -> bool {
        let headers = blocks.iter().flatten();
        let mut mounts = headers
            .filter_map(|block| LogHeader::decode(block, self.array).ok())
            .map(|header| header.mount)
            .peekable();
        let is_published = mounts.peek().is_none() || mounts.any(|mount| mount == published);
        mark_if(Mark::ZonedOtherMount, || !is_published);
        is_published
    }

    fn take_records(
        &self,
        blocks: &[Option<Bytes>],
        published: Mount,
        records: &mut Vec<LogRecord>,
    ) {
        let mut at = 0;
        while at < blocks.len() {
            let header = blocks[at].as_ref().and_then(|b| LogHeader::decode(b, self.array).ok());
            at += 1;
            let Some(header) = header.filter(|header| self.has_places(header)) else { continue };
            let count = header.sums.len();
            let Some(behind) = blocks.get(at..at + count) else { break };
            let verified = behind.iter().enumerate().map(|(index, block)| {
                let block = block.clone().filter(|b| header.verifies(self.seed, index, b))?;
                Some(Block { data: block, sum: header.sums[index][1] })
            });
            if let Some(blocks) = verified.collect::<Option<Vec<_>>>() {
                at += count;
                if header.mount == published {
                    records.push(LogRecord { header, blocks });
                }
            }
        }
    }

    /// Whether the places that a header names exist.
    fn has_places(&self, header: &LogHeader) -> bool {
        let layout = &self.layout;
        header.zone < layout.zones()
            && match header.kind {
                LogKind::Parity { parity, end, within } => {
                    usize::from(parity) < layout.scheme().parity()
                        && end < layout.zone_blocks()
                        && end % layout.stripe_blocks() != 0
                        && within.saturating_add(header.blocks()) <= layout.unit()
                }
                LogKind::Relocated { at } => {
                    at.saturating_add(header.blocks()) <= layout.column_blocks()
                }
            }
    }
}

/// Blocks of a zone, or why each was not read.
async fn read_blocks(
    device: &dyn ZonedDevice,
    at: ZoneAddress,
    count: u32,
) -> Vec<Result<Bytes, Status>> {
    if let Ok(payload) = device.read_in_pieces(at, BlockCount(count)).await {
        return payload.iter_blocks().map(Ok).collect();
    }
    let mut blocks = Vec::with_capacity(count as usize);
    for offset in at.offset.0..at.offset.0 + count {
        let read = device.read(ZoneAddress::new(at.zone, offset), BlockCount(1)).await;
        blocks.push(read.map(|payload| payload.block(0)));
    }
    blocks
}
