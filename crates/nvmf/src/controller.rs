//! A controller: its host, its properties, its queues and its timer.

use std::collections::BTreeSet;

use crate::admin::values::Features;
use crate::connect::{ConnectRequest, QUEUE_ENTRIES_MAX, Refusal};
use crate::status::Status;
use crate::subsystem::CommandSets;

/// I/O queues of a controller, at most.
pub const IO_QUEUES_MAX: u16 = 16;
/// NVMe 1.4. With 2.0 come log pages and structures that no host needs from us.
pub(crate) const VERSION: u32 = 0x0001_0400;
/// Unit of the keep-alive timer, in units of 100 ms.
pub(crate) const KEEP_ALIVE_UNITS: u16 = 10;
const KEEP_ALIVE_UNIT_MS: u64 = 1000;
/// Time for enabling and for shutting down, in units of 500 ms: a shutdown flushes the volume.
const TIMEOUT_UNITS: u64 = 120;

/// Offsets of properties.
mod property {
    pub(super) const CAPABILITIES: u32 = 0x00;
    pub(super) const VERSION: u32 = 0x08;
    pub(super) const CONFIGURATION: u32 = 0x14;
    pub(super) const STATUS: u32 = 0x1C;
}

/// Bit of the configuration that enables the controller.
const ENABLE: u32 = 1;
/// Command set selection: NVM only, or all that are supported.
const ONLY_NVM: u32 = 0;
const ALL_SETS: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Disabled,
    /// The configuration cannot be had.
    Failed,
    Ready,
    /// The host has announced its end; data is being made durable.
    ShuttingDown {
        serial: u64,
    },
    ShutDown,
}

/// A change of the configuration that others must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    Enabled,
    /// Everything written must become durable, for the shutdown of this serial number.
    ShuttingDown(u64),
}

/// Commands and blocks since the controller was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) read_blocks: u64,
    pub(crate) written_blocks: u64,
}

pub(crate) struct Controller {
    pub(crate) is_discovery: bool,
    host_nqn: String,
    pub(crate) host_id: [u8; 16],
    /// Serial numbers of the admin queue, and of the I/O queues since the controller was enabled.
    admin_serial: u64,
    io_serial: Option<u64>,
    configuration: u32,
    phase: Phase,
    queues: BTreeSet<u16>,
    /// I/O queues that the host has asked for.
    pub(crate) queue_limit: u16,
    keep_alive_ms: u32,
    seen_ms: u64,
    pub(crate) features: Features,
    pub(crate) counters: Counters,
}

impl Controller {
    pub(crate) fn new(
        request: &ConnectRequest,
        is_discovery: bool,
        serial: u64,
        now_ms: u64,
    ) -> Self {
        Self {
            is_discovery,
            host_nqn: request.host_nqn.clone(),
            host_id: request.host_id,
            admin_serial: serial,
            io_serial: None,
            configuration: 0,
            phase: Phase::Disabled,
            queues: BTreeSet::new(),
            queue_limit: IO_QUEUES_MAX,
            keep_alive_ms: request.keep_alive_ms,
            seen_ms: now_ms,
            features: Features::default(),
            counters: Counters::default(),
        }
    }

    /// The serial number of a queue that is connected now; 0, which no queue has, if there are no
    /// I/O queues.
    pub(crate) fn serial(&self, queue: u16) -> u64 {
        if queue == 0 { self.admin_serial } else { self.io_serial.unwrap_or(0) }
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::ShuttingDown { .. } | Phase::ShutDown)
    }

    /// The command sets that the host has selected.
    pub(crate) fn command_sets(&self) -> CommandSets {
        if self.configuration >> 4 & 7 == ALL_SETS { CommandSets::All } else { CommandSets::Nvm }
    }

    pub(crate) fn has_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    pub(crate) fn admit_queue(&mut self, request: &ConnectRequest) -> Result<(), Refusal> {
        assert!(request.queue > 0, "the admin queue came with the controller");
        if self.host_nqn != request.host_nqn || self.host_id != request.host_id {
            return Err(Refusal::Status(Status::CONNECT_HOST));
        }
        if self.is_discovery || request.queue > self.queue_limit {
            return Err(Refusal::Parameter { offset: 42, in_data: false });
        }
        if self.phase != Phase::Ready || !self.queues.insert(request.queue) {
            return Err(Refusal::Status(Status::COMMAND_SEQUENCE));
        }
        Ok(())
    }

    pub(crate) fn release_queue(&mut self, queue: u16) {
        self.queues.remove(&queue);
    }

    /// The host has shown that it lives: any command counts, as announced (CTRATT.TBKAS).
    pub(crate) fn see(&mut self, now_ms: u64) {
        self.seen_ms = self.seen_ms.max(now_ms);
    }

    pub(crate) fn keep_alive_ms(&self) -> u32 {
        self.keep_alive_ms
    }

    pub(crate) fn set_keep_alive_ms(&mut self, time_ms: u32) {
        self.keep_alive_ms = time_ms;
    }

    pub(crate) fn is_expired(&self, now_ms: u64) -> bool {
        let promised = u64::from(self.keep_alive_ms).next_multiple_of(KEEP_ALIVE_UNIT_MS);
        promised > 0 && now_ms.saturating_sub(self.seen_ms) > promised
    }

    /// Ends the shutdown of this serial number. A reset has ended it already, and the host may have
    /// begun another one, whose writes are not durable yet.
    pub(crate) fn finish_shutdown(&mut self, serial: u64) {
        if (self.phase == Phase::ShuttingDown { serial }) {
            self.phase = Phase::ShutDown;
        }
    }

    /// A property, of 8 bytes if `is_wide`.
    pub(crate) fn property(&self, offset: u32, is_wide: bool) -> Result<u64, Status> {
        match (offset, is_wide) {
            (property::CAPABILITIES, true) => Ok(capabilities()),
            (property::VERSION, false) => Ok(VERSION.into()),
            (property::CONFIGURATION, false) => Ok(self.configuration.into()),
            (property::STATUS, false) => Ok(match self.phase {
                Phase::Disabled => 0,
                Phase::Failed => 1 << 1,
                Phase::Ready => 1,
                Phase::ShuttingDown { .. } => 1 | 1 << 2,
                Phase::ShutDown => 1 | 2 << 2,
            }),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Changes a property; only the configuration can be changed. `serial` is that of the shutdown
    /// which this may begin.
    pub(crate) fn set_property(
        &mut self,
        offset: u32,
        is_wide: bool,
        value: u64,
        serial: u64,
    ) -> Result<Change, Status> {
        let value = u32::try_from(value).map_err(|_| Status::INVALID_FIELD)?;
        if offset != property::CONFIGURATION || is_wide {
            return Err(Status::INVALID_FIELD);
        }
        let before = std::mem::replace(&mut self.configuration, value);
        let is_enabled = value & ENABLE != 0;
        let is_ending = value >> 14 & 3 != 0;
        if before & ENABLE != 0 && !is_enabled {
            self.reset();
        } else if before & ENABLE == 0 && is_enabled {
            self.phase = if is_possible(value) { Phase::Ready } else { Phase::Failed };
            if self.phase == Phase::Ready && !is_ending {
                return Ok(Change::Enabled);
            }
        }
        if is_ending && self.phase == Phase::Ready {
            self.phase = Phase::ShuttingDown { serial };
            return Ok(Change::ShuttingDown(serial));
        }
        Ok(Change::None)
    }

    /// The serial number of the I/O queues from now on.
    pub(crate) fn enable(&mut self, serial: u64) {
        assert!(self.phase == Phase::Ready, "the host has enabled it");
        self.io_serial = Some(serial);
    }

    /// A controller reset: I/O queues are gone, and features as they were at first.
    fn reset(&mut self) {
        self.phase = Phase::Disabled;
        self.io_serial = None;
        self.queues.clear();
        self.queue_limit = IO_QUEUES_MAX;
        self.features = Features::default();
    }
}

fn capabilities() -> u64 {
    let entries = u64::from(QUEUE_ENTRIES_MAX - 1);
    let contiguous_queues = 1 << 16;
    let nvm_commands = 1 << 37;
    let command_sets = 1 << 43;
    entries | contiguous_queues | TIMEOUT_UNITS << 24 | nvm_commands | command_sets
}

/// Whether a configuration that enables the controller can be had: 4 KiB pages, round robin, a
/// known command set, and entries of 64 and 16 bytes.
fn is_possible(configuration: u32) -> bool {
    let field = |shift: u32, bits: u32| configuration >> shift & ((1 << bits) - 1);
    let sizes = (field(16, 4), field(20, 4));
    matches!(field(4, 3), ONLY_NVM | ALL_SETS)
        && field(7, 4) == 0
        && field(11, 3) == 0
        // Discovery controllers have no I/O queues whose entries could have a size.
        && matches!(sizes, (6, 4) | (0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(controller: &Controller) -> u64 {
        controller.property(property::STATUS, false).unwrap()
    }

    /// The flush of a shutdown before a reset knows nothing of the writes after it.
    #[test]
    fn a_late_flush_ends_no_newer_shutdown() {
        let request = ConnectRequest {
            queue: 0,
            entries: 32,
            controller: 0xFFFF,
            keep_alive_ms: 0,
            host_id: [1; 16],
            subsystem_nqn: String::new(),
            host_nqn: String::new(),
        };
        let mut controller = Controller::new(&request, false, 1, 0);
        let mut set = |value: u64, serial| {
            let change = controller.set_property(property::CONFIGURATION, false, value, serial);
            (change.unwrap(), status(&controller))
        };
        let enabled = 6 << 16 | 4 << 20 | 1;
        let ending = enabled | 1 << 14;
        assert_eq!(set(enabled, 2), (Change::Enabled, 1));
        assert_eq!(set(ending, 3), (Change::ShuttingDown(3), 1 | 1 << 2));
        assert_eq!(set(0, 4), (Change::None, 0));
        assert_eq!(set(enabled, 5), (Change::Enabled, 1));
        assert_eq!(set(ending, 6), (Change::ShuttingDown(6), 1 | 1 << 2));
        controller.finish_shutdown(3);
        assert_eq!(status(&controller), 1 | 1 << 2);
        controller.finish_shutdown(6);
        assert_eq!(status(&controller), 1 | 2 << 2);
    }
}
