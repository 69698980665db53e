//! Opening, closing and resetting zones, and finishing them by padding.
//!
//! Resets unmap written blocks, one after the other, without the dies. A finish programs the rest
//! of the zone, with the programs of two rows in flight, and so competes with all other commands.

use zoneweave_runtime::Random;
use zoneweave_zoned::{ZoneId, ZoneRecord, ZoneState};

use super::layout::Layout;
use super::model::CommandId;
use super::parameters::ManagementParameters;
use super::write_core::Kind;
use crate::flash::Flash;
use crate::{Picos, Spread};

/// Marks a program as padding; the zone is in the low bits.
const PADDING: u64 = 1 << 63;

/// Commands are counted over spans of this length to know their rate.
const RATE_WINDOW: Picos = Picos(10_000_000_000);

#[derive(Clone, Debug)]
pub(super) struct Management {
    pub(super) parameters: ManagementParameters,
    padding: Picos,
    reset_free: Picos,
    finishing: Vec<Finishing>,
    rate: CommandRate,
}

#[derive(Clone, Copy, Debug)]
struct Finishing {
    id: CommandId,
    zone: ZoneId,
    next_chunk: u32,
    end_chunk: u32,
    in_flight: u32,
}

/// Commands in the window before, and so far in the present one.
#[derive(Clone, Copy, Debug, Default)]
struct CommandRate {
    window: u64,
    before: u64,
    present: u64,
}

impl CommandRate {
    fn count(&mut self, now: Picos) {
        let window = now.0 / RATE_WINDOW.0;
        if window != self.window {
            self.before = if window == self.window + 1 { self.present } else { 0 };
            (self.window, self.present) = (window, 0);
        }
        self.present += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "commands of 10 ms")]
    fn per_micro(self) -> f64 {
        self.before.max(self.present) as f64 / RATE_WINDOW.as_micros()
    }
}

impl Management {
    pub(super) fn new(parameters: ManagementParameters, padding: Picos) -> Self {
        Self {
            parameters,
            padding,
            reset_free: Picos::ZERO,
            finishing: Vec::new(),
            rate: CommandRate::default(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.reset_free = Picos::ZERO;
        self.finishing.clear();
        self.rate = CommandRate::default();
    }

    /// Counts a read, write or append, which slows down concurrent resets.
    pub(super) fn count(&mut self, now: Picos) {
        self.rate.count(now);
    }

    /// The extra time of a zone's first write or append.
    pub(super) fn opening(&self, kind: Kind, state: ZoneState) -> Picos {
        match (state, kind) {
            (ZoneState::Empty, Kind::Write) => self.parameters.implicit_write_us.picos(),
            (ZoneState::Empty, Kind::Append) => self.parameters.implicit_append_us.picos(),
            (ZoneState::Closed, _) => self.parameters.reopen_us.picos(),
            _ => Picos::ZERO,
        }
    }

    /// A reset; returns when it is done.
    pub(super) fn reset(
        &mut self,
        zone: ZoneRecord,
        capacity: u32,
        layout: &Layout,
        now: Picos,
        random: &mut Random,
    ) -> Picos {
        let parameters = &self.parameters;
        let written = f64::from(zone.write_pointer.0) / f64::from(capacity);
        let mut micros = parameters.reset_us.get() + parameters.reset_full_us.get() * written;
        if zone.state.is_active() && zone.write_pointer.0 >= layout.row_blocks() {
            micros += parameters.reset_active_us.get();
        }
        micros *= 1.0 + parameters.reset_interference_us.get() * self.rate.per_micro();
        let work = Spread::new(micros, parameters.reset_jitter.get()).draw(random);
        self.reset_free = self.reset_free.max(now) + work;
        self.reset_free
    }

    /// A finish of a zone whose chunks from `next_chunk` up to `end_chunk` must be padded.
    pub(super) fn finish(
        &mut self,
        id: CommandId,
        zone: ZoneId,
        chunks: std::ops::Range<u32>,
        layout: &Layout,
        flash: &mut Flash,
        now: Picos,
    ) {
        let (next_chunk, end_chunk) = (chunks.start, chunks.end);
        self.finishing.push(Finishing { id, zone, next_chunk, end_chunk, in_flight: 0 });
        let last = self.finishing.len() - 1;
        self.pad(last, layout, flash, now);
    }

    /// Whether finishes are under way.
    pub(super) fn is_padding(&self) -> bool {
        !self.finishing.is_empty()
    }

    /// An operation of the dies has ended: `None` if it was not a padding program; otherwise the
    /// finish that is complete with it, if one is.
    pub(super) fn padded(
        &mut self,
        tag: u64,
        at: Picos,
        layout: &Layout,
        flash: &mut Flash,
    ) -> Option<Option<(CommandId, Picos)>> {
        if tag & PADDING == 0 {
            return None;
        }
        let is_it = |one: &Finishing| tag == PADDING | u64::from(one.zone.0);
        let index = self.finishing.iter().position(is_it).expect("a finish has its padding");
        self.finishing[index].in_flight -= 1;
        self.pad(index, layout, flash, at);
        if self.finishing[index].in_flight > 0 {
            return Some(None);
        }
        let done = self.finishing.swap_remove(index);
        Some(Some((done.id, at + self.parameters.finish_us.picos())))
    }

    fn pad(&mut self, index: usize, layout: &Layout, flash: &mut Flash, now: Picos) {
        let finishing = &mut self.finishing[index];
        let zone = finishing.zone;
        let window = u32::try_from(layout.group(zone).len()).unwrap_or(u32::MAX).saturating_mul(2);
        let tag = PADDING | u64::from(zone.0);
        while finishing.in_flight < window && finishing.next_chunk < finishing.end_chunk {
            let chunk = finishing.next_chunk;
            finishing.next_chunk += 1;
            let data = std::iter::once(layout.die_of(zone, chunk));
            for die in data.chain(layout.parity_after(zone, chunk)) {
                flash.operate(die, now, self.padding, tag);
                finishing.in_flight += 1;
            }
        }
    }
}
