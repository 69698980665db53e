//! Publishes a start: whatever counts is on media under its mount, then the mount counts.

use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_zoned::{ZoneAddress, ZonedDevice};

use crate::array::health::Members;
use crate::array::io::MemberIo;
use crate::array::stop::StopReason;
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::Core;
use crate::raizn::format::body::Mount;
use crate::raizn::layout::LOG_ZONES;
use crate::raizn::parity_log::ParityLog;
use crate::raizn::recover::media::LogScan;
use crate::raizn::write::log::log_payload;
use crate::scheme::Column;

impl Core {
    /// Writes each member's checkpoint to a zone of its log without records that count, makes
    /// everything durable, and records the mount with the states of all zones.
    ///
    /// # Errors
    /// If too few members are left.
    pub(crate) async fn publish(
        self: &Rc<Self>,
        mount: Mount,
        logs: &[LogScan],
    ) -> Result<(), StopReason> {
        let columns = self.layout.scheme().columns();
        assert!(logs.len() == columns, "{} logs were read of {columns}", logs.len());
        assert!(mount > Mount::NONE, "a start has the number of no mount");
        // The number in the headers of the records to come.
        self.state.borrow_mut().published = mount;
        self.count_relocated();
        let members = self.state.borrow().array.writable_members();
        let logs_of = |column: Column| &logs[column.index()];
        let writes = members.iter().map(|(column, device)| async {
            self.begin_log(*column, device, logs_of(*column)).await;
        });
        join_all(writes).await;
        if !mutant(Mutant::ZonedRepairNotFlushed) {
            self.flush_members().await?;
        }
        self.superblock.commit_snapshot(self).await?;
        let published = self.state.borrow().published;
        assert!(published == mount, "{mount:?} became {published:?} while it was recorded");
        // Records of the last mount count for nothing now.
        let resets = members.iter().map(|(column, device)| async {
            let current = self.state.borrow().logs[column.index()].current_zone();
            for index in logs_of(*column).written.iter().filter(|index| **index != current) {
                let reset = self.reset_zone(*column, ParityLog::zone(*index)).await;
                if let Err(status) = reset
                    && self.is_of_member(*column, device)
                {
                    self.fail_member(*column, status);
                }
            }
        });
        join_all(resets).await;
        self.membership_settled().await;
        self.state.borrow().array.stopped.map_or(Ok(()), Err)
    }

    /// Counts the relocated blocks of each member.
    fn count_relocated(&self) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        for (column, log) in self.layout.scheme().iter().zip(&mut state.logs) {
            let zones = state.logical.iter();
            let relocated = zones.map(|zone| zone.columns[column.index()].relocated.len());
            log.relocated = u32::try_from(relocated.sum::<usize>()).expect("it fits the log");
        }
    }

    /// Begins a member's log with a checkpoint. A member that does not take it is evicted.
    async fn begin_log(
        self: &Rc<Self>,
        column: Column,
        device: &Rc<dyn ZonedDevice>,
        scan: &LogScan,
    ) {
        // At most two zones hold records of the published mount. If the third was not read, any of
        // them may count until the mount does.
        let free = (0..LOG_ZONES).find(|index| !scan.used.contains(index));
        let index = match (free, scan.unread) {
            (Some(free), _) => free,
            (None, None) => 0,
            (None, Some(status)) => return self.fail_member(column, status),
        };
        let zone = ParityLog::zone(index);
        if scan.written.contains(&index)
            && let Err(status) = self.reset_zone(column, zone).await
        {
            if self.is_of_member(column, device) {
                self.fail_member(column, status);
            }
            return;
        }
        let records = self.checkpoint_records(&self.state.borrow(), column);
        let blocks: u32 = records.iter().map(|record| record.blocks).sum();
        if blocks > 0 {
            let payload = log_payload(self.seed, &**device, &records);
            self.write_in_tries(column, device, ZoneAddress::new(zone, 0), payload).await;
        }
        let capacity = self.state.borrow().array.config.zone_capacity.0;
        let mut state = self.state.borrow_mut();
        let former = &state.logs[column.index()];
        // Its records would be lost, with the writes that wait for them.
        assert!(
            former.queue.is_empty() && former.checkpoint.is_empty() && former.outstanding() == 0,
            "a log on {column} begins with {} blocks of records to be written",
            former.outstanding()
        );
        let relocated = former.relocated;
        state.logs[column.index()] = ParityLog::at(index, blocks, capacity);
        state.logs[column.index()].relocated = relocated;
    }
}
