//! The core that writes and appends pass through, and the latency behind it.
//!
//! The core works on one command at a time, in the order in which they are fetched. Its work is
//! longer while others are in flight, as measured; with deterministic queues alone, two writers
//! would be a fifth faster than measured.
//!
//! An append closes its zone to the next append for a little longer than the core's work. The
//! core's calendar counts only work, not waiting for such a zone: commands for other zones use that
//! time, whatever the order of submission.

use zoneweave_runtime::Random;
use zoneweave_zoned::{BlockCount, ZoneId};

use super::buffer::Buffer;
use super::parameters::{AppendParameters, WriteParameters};
use crate::{Picos, Spread};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    Append,
}

#[derive(Clone, Debug)]
pub(super) struct WriteCore {
    write: WriteParameters,
    append: AppendParameters,
    core_free: Picos,
    path_free: Picos,
    path_block: Option<Picos>,
    zone_free: Vec<Picos>,
}

impl WriteCore {
    pub(super) fn new(write: WriteParameters, append: AppendParameters, zones: usize) -> Self {
        let path_block = write.path_mib_per_s.map(|rate| rate.block_time());
        let zone_free = vec![Picos::ZERO; zones];
        let (core_free, path_free) = (Picos::ZERO, Picos::ZERO);
        Self { write, append, core_free, path_free, path_block, zone_free }
    }

    pub(super) fn clear(&mut self) {
        (self.core_free, self.path_free) = (Picos::ZERO, Picos::ZERO);
        self.zone_free.fill(Picos::ZERO);
    }

    /// A command in the buffer; returns when it completes.
    pub(super) fn plan(
        &mut self,
        kind: Kind,
        zone: ZoneId,
        blocks: BlockCount,
        now: Picos,
        buffer: &mut Buffer,
        random: &mut Random,
    ) -> Picos {
        let mut start = now.max(self.core_free);
        if kind == Kind::Append {
            start = start.max(self.zone_free[zone.index()]);
        }
        let zones = buffer.zones_in_flight(zone, now);
        let alone = self.work(kind, blocks);
        let mut work = alone;
        if buffer.is_contended(start) {
            work += self.write.contention_us.picos();
        }
        if kind == Kind::Append && zones > self.append.contexts {
            work += self.append.context_miss_us.picos();
        }
        let work = varied(work, self.write.core_jitter.get(), random);
        self.core_free = now.max(self.core_free) + work;
        let worked = start + work;
        if kind == Kind::Append {
            self.zone_free[zone.index()] = worked + self.append.section_us.picos();
        }
        let rest = self.latency(kind, blocks).since(alone);
        let visible = worked + varied(rest, self.write.latency_jitter.get(), random);
        visible.max(self.transferred(worked, blocks))
    }

    fn transferred(&mut self, worked: Picos, blocks: BlockCount) -> Picos {
        let Some(block) = self.path_block else { return worked };
        self.path_free = self.path_free.max(worked) + block.times(u64::from(blocks.0));
        self.path_free
    }

    fn work(&self, kind: Kind, blocks: BlockCount) -> Picos {
        let count = u64::from(blocks.0);
        let AppendParameters { core_us, core_block_us, core_single_us, .. } = &self.append;
        match kind {
            Kind::Write => {
                self.write.core_us.picos() + self.write.core_block_us.picos().times(count)
            }
            Kind::Append if blocks.0 == 1 => {
                core_us.picos() + core_block_us.picos() + core_single_us.picos()
            }
            Kind::Append => core_us.picos() + core_block_us.picos().times(count),
        }
    }

    fn latency(&self, kind: Kind, blocks: BlockCount) -> Picos {
        let count = u64::from(blocks.0);
        let WriteParameters { small_us, small_kib, large_us, large_block_us, single_us, .. } =
            &self.write;
        let single = if blocks.0 == 1 { single_us.picos() } else { Picos::ZERO };
        let latency = match blocks.0 * 4 <= *small_kib {
            true => small_us.picos() + single,
            false => large_us.picos() + large_block_us.picos().times(count) + single,
        };
        match (kind, blocks.0) {
            (Kind::Write, _) => latency,
            (Kind::Append, 1) => latency + self.append.latency_us[0].picos(),
            (Kind::Append, 2) => latency + self.append.latency_us[1].picos(),
            (Kind::Append, _) => latency + self.append.latency_us[2].picos(),
        }
    }
}

fn varied(mean: Picos, fraction: f64, random: &mut Random) -> Picos {
    Spread::around(mean, fraction).draw(random)
}
