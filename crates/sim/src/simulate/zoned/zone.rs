//! The allowed states of one zone.
//!
//! Each reset begins an *era*. Until the reset is acknowledged, a crash may leave the zone in the
//! era before it. In every era the zone holds a prefix of the blocks submitted in it: at least the
//! promised ones, and never a hole.

use crate::simulate::oracle::Survives;

/// The number of an era of a zone.
pub(crate) type EraNumber = u64;

/// A zone between two resets.
#[derive(Clone, Debug)]
struct Era {
    number: EraNumber,
    /// The versions of the submitted blocks.
    blocks: Vec<u64>,
    /// Blocks that survive a process kill: acknowledged, or read.
    acknowledged: usize,
    /// Blocks that survive a power loss.
    durable: usize,
    /// Whether a finish was submitted, and whether it was acknowledged.
    finish: Option<bool>,
}

impl Era {
    fn new(number: EraNumber) -> Self {
        Self { number, blocks: Vec::new(), acknowledged: 0, durable: 0, finish: None }
    }

    fn floor(&self, survives: Survives) -> usize {
        match survives {
            Survives::Acknowledged => self.acknowledged.max(self.durable),
            Survives::Durable => self.durable,
        }
    }
}

/// The history of a zone, as far as it matters.
#[derive(Clone, Debug)]
pub(crate) struct ZoneHistory {
    /// The possible eras, in order. The last one is that of the newest reset.
    eras: Vec<Era>,
}

/// A zone as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundZone {
    /// The versions of its blocks, up to the last one that is not zeros.
    pub blocks: Vec<u64>,
    /// Whether it is full.
    pub is_full: bool,
    /// The reported write pointer of a zone that is not full.
    pub pointer: Option<usize>,
    /// Whether the volume finished it by itself.
    pub finished_by_volume: bool,
}

/// The promises for a zone when a read of it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    era: EraNumber,
    acknowledged: usize,
}

/// A zone that a report shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    era: EraNumber,
    end: usize,
    is_full: bool,
}

impl ZoneHistory {
    /// A zone of a new volume.
    pub(crate) fn new() -> Self {
        Self { eras: vec![Era::new(0)] }
    }

    fn newest(&self) -> &Era {
        self.eras.last().expect("a zone has an era")
    }

    fn newest_mut(&mut self) -> &mut Era {
        self.eras.last_mut().expect("a zone has an era")
    }

    fn era(&mut self, number: EraNumber) -> Option<&mut Era> {
        self.eras.iter_mut().find(|era| era.number == number)
    }

    /// Blocks submitted since the newest reset.
    pub(crate) fn submitted(&self) -> usize {
        self.newest().blocks.len()
    }

    /// Whether a zone of so many blocks takes no more writes.
    pub(crate) fn is_full(&self, capacity: usize) -> bool {
        self.newest().finish.is_some() || self.submitted() == capacity
    }

    /// A write was submitted.
    pub(crate) fn submit(&mut self, versions: &[u64]) -> EraNumber {
        let era = self.newest_mut();
        assert!(era.finish.is_none(), "a finished zone takes no writes");
        era.blocks.extend(versions);
        era.number
    }

    /// Blocks up to `end` were acknowledged in an era; `durable` if that promises durability.
    pub(crate) fn acknowledge(&mut self, era: EraNumber, end: usize, durable: bool) {
        // A block of this era is there, so the reset that began it has happened.
        self.eras.retain(|one| one.number >= era);
        let Some(era) = self.era(era) else { return };
        assert!(end <= era.blocks.len(), "acknowledged blocks were submitted");
        era.acknowledged = era.acknowledged.max(end);
        if durable {
            era.durable = era.durable.max(end);
        }
    }

    /// What a flush that begins now makes durable.
    pub(crate) fn acknowledged(&self) -> (EraNumber, usize) {
        let era = self.newest();
        (era.number, era.acknowledged)
    }

    /// A flush was acknowledged that began when this was.
    pub(crate) fn flushed(&mut self, (number, end): (EraNumber, usize)) {
        if let Some(era) = self.era(number) {
            era.durable = era.durable.max(end);
        }
    }

    /// A reset was submitted.
    pub(crate) fn submit_reset(&mut self) -> EraNumber {
        let number = self.newest().number + 1;
        self.eras.push(Era::new(number));
        number
    }

    /// A reset was acknowledged: it is durable.
    pub(crate) fn acknowledge_reset(&mut self, era: EraNumber) {
        self.eras.retain(|one| one.number >= era);
        assert!(!self.eras.is_empty(), "the era of a reset that ends has begun");
    }

    /// A finish was submitted.
    pub(crate) fn submit_finish(&mut self) -> EraNumber {
        let era = self.newest_mut();
        era.finish.get_or_insert(false);
        era.number
    }

    /// A finish was acknowledged: it is durable, with the blocks before it.
    pub(crate) fn acknowledge_finish(&mut self, number: EraNumber) {
        self.eras.retain(|one| one.number >= number);
        if let Some(era) = self.era(number) {
            era.finish = Some(true);
            era.acknowledged = era.blocks.len();
            era.durable = era.blocks.len();
        }
    }

    /// A read begins.
    pub(crate) fn begin_read(&self) -> Before {
        let era = &self.eras[0];
        Before { era: era.number, acknowledged: era.acknowledged }
    }

    /// A read returned these versions, 0 for zeros.
    ///
    /// # Errors
    ///
    /// If they are not allowed, with the reason.
    pub(crate) fn read(
        &mut self,
        before: Before,
        offset: usize,
        found: &[u64],
    ) -> Result<(), String> {
        for (at, version) in (offset..).zip(found) {
            // Eras that ended before the read did are not known any more, but have had a successor
            // when the read began, or a reset during it.
            let was_reset = self.newest().number > before.era;
            let is_zero_allowed = was_reset || at >= before.acknowledged;
            let is_known = self.eras.iter().any(|era| era.blocks.get(at) == Some(version));
            let is_of_ended_era = self.eras[0].number > before.era;
            if !(is_known || *version == 0 && is_zero_allowed || is_of_ended_era) {
                return Err(format!("block {at} reads as version {version}: {}", self.describe()));
            }
        }
        // Blocks that were read do not vanish when the process is killed.
        if let [era] = &mut self.eras[..] {
            let read = found.iter().rposition(|version| *version > 0);
            let end = read.map_or(0, |last| offset + last + 1);
            if end <= era.blocks.len() {
                era.acknowledged = era.acknowledged.max(end);
            }
        }
        Ok(())
    }

    /// The zone was found after a crash; from now on it is as found.
    ///
    /// # Errors
    ///
    /// If that is not allowed, with the reason.
    pub(crate) fn settle(
        &mut self,
        found: &FoundZone,
        capacity: usize,
        survives: Survives,
    ) -> Result<(), String> {
        let allows = |era: &&Era| {
            let end = found.blocks.len();
            let is_full = found.is_full || found.finished_by_volume;
            let fullness = match era.finish {
                Some(true) => is_full,
                Some(false) => true,
                None => is_full == (end == capacity) || found.finished_by_volume,
            };
            let pointer = found.pointer.is_none_or(|pointer| pointer == end);
            fullness
                && pointer
                && (era.floor(survives)..=era.blocks.len()).contains(&end)
                && era.blocks[..end] == found.blocks
        };
        let Some(era) = self.eras.iter().rev().find(allows) else {
            return Err(format!(
                "it has {} blocks{}{}, although {survives:?} data survives: {}; found {:?}",
                found.blocks.len(),
                if found.is_full { " and is full" } else { "" },
                found.pointer.map_or(String::new(), |at| format!(" and its write pointer at {at}")),
                self.describe(),
                found.blocks,
            ));
        };
        let end = found.blocks.len();
        let settled = Era {
            number: self.newest().number + 1,
            blocks: era.blocks[..end].to_vec(),
            acknowledged: end,
            durable: end,
            finish: (found.is_full && end < capacity).then_some(true),
        };
        self.eras = vec![settled];
        Ok(())
    }

    /// Whether a zone that is used by nobody is as it must be.
    ///
    /// # Errors
    ///
    /// If not, with the reason.
    pub(crate) fn is_exactly(&self, found: &FoundZone, capacity: usize) -> Result<(), String> {
        let era = self.newest();
        let is_full = self.is_full(capacity);
        let pointer = found.pointer.is_none_or(|pointer| pointer == era.blocks.len());
        if found.blocks == era.blocks && found.is_full == is_full && pointer {
            return Ok(());
        }
        Err(format!(
            "it is full: {}, has its write pointer at {:?} and {:?}: {}",
            found.is_full,
            found.pointer,
            found.blocks,
            self.describe()
        ))
    }

    /// A report is submitted: it shows the zone as it is now.
    pub(crate) fn begin_report(&self, capacity: usize) -> Shown {
        let era = self.newest();
        Shown { era: era.number, end: era.blocks.len(), is_full: self.is_full(capacity) }
    }

    /// A report was answered: a killed process takes back nothing that it shows.
    ///
    /// # Errors
    ///
    /// If the report is wrong, with the reason.
    pub(crate) fn reported(&mut self, shown: Shown, found: &FoundZone) -> Result<(), String> {
        let pointer = found.pointer.is_none_or(|pointer| pointer == shown.end);
        if found.is_full != (shown.is_full || found.finished_by_volume) || !pointer {
            return Err(format!("{shown:?} is reported as {found:?}: {}", self.describe()));
        }
        if shown.is_full && self.era(shown.era).is_some_and(|era| era.finish.is_some()) {
            self.acknowledge_finish(shown.era);
        } else {
            self.acknowledge(shown.era, shown.end, false);
        }
        Ok(())
    }

    /// The states that a crash now may leave, as numbers.
    pub(crate) fn allowed(&self, survives: Survives) -> Vec<u64> {
        let mut numbers = Vec::new();
        for era in &self.eras {
            let finish = era.finish.map_or(0, |acknowledged| 1 + u64::from(acknowledged));
            let lengths = [era.floor(survives) as u64, era.blocks.len() as u64];
            numbers.extend([era.number, finish]);
            numbers.extend(lengths);
            numbers.extend(&era.blocks);
        }
        numbers
    }

    fn describe(&self) -> String {
        let describe = |era: &Era| {
            format!(
                "era {} with {} blocks {:?}, {} acknowledged, {} durable{}",
                era.number,
                era.blocks.len(),
                era.blocks,
                era.acknowledged,
                era.durable,
                match era.finish {
                    None => "",
                    Some(false) => ", finish submitted",
                    Some(true) => ", finished",
                }
            )
        };
        self.eras.iter().map(describe).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 8;

    fn found(blocks: &[u64]) -> FoundZone {
        FoundZone {
            blocks: blocks.to_vec(),
            is_full: blocks.len() == CAPACITY,
            pointer: (blocks.len() < CAPACITY).then_some(blocks.len()),
            finished_by_volume: false,
        }
    }

    fn allows(zone: &ZoneHistory, blocks: &[u64], survives: Survives) -> bool {
        zone.clone().settle(&found(blocks), CAPACITY, survives).is_ok()
    }

    #[test]
    fn a_crash_leaves_a_prefix_with_what_was_promised() {
        let mut zone = ZoneHistory::new();
        let era = zone.submit(&[1, 2, 3, 4]);
        zone.acknowledge(era, 2, true);
        zone.acknowledge(era, 3, false);
        for (blocks, killed, lost_power) in [
            (&[1][..], false, false),
            (&[1, 2], false, true),
            (&[1, 2, 3], true, true),
            (&[1, 2, 3, 4], true, true),
            (&[1, 2, 3, 5], false, false),
            (&[1, 2, 4], false, false),
        ] {
            assert_eq!(allows(&zone, blocks, Survives::Acknowledged), killed, "{blocks:?}");
            assert_eq!(allows(&zone, blocks, Survives::Durable), lost_power, "{blocks:?}");
        }
    }

    #[test]
    fn a_reset_happens_or_not_until_it_is_acknowledged() {
        let mut zone = ZoneHistory::new();
        let era = zone.submit(&[1, 2]);
        zone.acknowledge(era, 2, true);
        let reset = zone.submit_reset();
        zone.submit(&[3]);
        for blocks in [&[1, 2][..], &[], &[3]] {
            assert!(allows(&zone, blocks, Survives::Durable), "{blocks:?}");
        }
        assert!(!allows(&zone, &[1], Survives::Durable), "half of a reset");
        zone.acknowledge_reset(reset);
        assert!(!allows(&zone, &[1, 2], Survives::Durable));
        assert!(allows(&zone, &[], Survives::Durable));
    }

    #[test]
    fn an_acknowledged_write_proves_the_reset_before_it() {
        let mut zone = ZoneHistory::new();
        let era = zone.submit(&[1]);
        zone.acknowledge(era, 1, true);
        let reset = zone.submit_reset();
        let era = zone.submit(&[2]);
        assert_eq!(era, reset);
        zone.acknowledge(era, 1, false);
        assert!(!allows(&zone, &[1], Survives::Durable));
        assert!(allows(&zone, &[], Survives::Durable), "the write was not durable");
        assert!(!allows(&zone, &[], Survives::Acknowledged));
    }

    #[test]
    fn what_was_found_is_pinned() {
        let mut zone = ZoneHistory::new();
        zone.submit(&[1, 2, 3]);
        zone.settle(&found(&[1, 2]), CAPACITY, Survives::Durable).unwrap();
        assert!(!allows(&zone, &[1], Survives::Durable));
        assert!(!allows(&zone, &[1, 2, 3], Survives::Durable));
        assert!(allows(&zone, &[1, 2], Survives::Durable));
    }

    #[test]
    fn an_acknowledged_finish_stays() {
        let mut zone = ZoneHistory::new();
        zone.submit(&[1, 2]);
        let era = zone.submit_finish();
        let finished = FoundZone { is_full: true, pointer: None, ..found(&[1, 2]) };
        assert!(zone.clone().settle(&finished, CAPACITY, Survives::Durable).is_ok());
        assert!(allows(&zone, &[1, 2], Survives::Durable), "not acknowledged");
        zone.acknowledge_finish(era);
        assert!(!allows(&zone, &[1, 2], Survives::Durable));
        zone.settle(&finished, CAPACITY, Survives::Durable).unwrap();
    }

    #[test]
    fn a_report_proves_what_it_shows() {
        let mut zone = ZoneHistory::new();
        let era = zone.submit(&[1, 2]);
        zone.acknowledge(era, 2, true);
        zone.submit_reset();
        zone.submit(&[3]);
        let shown = zone.begin_report(CAPACITY);
        zone.submit(&[4]);
        zone.clone().reported(shown, &found(&[3, 4])).unwrap_err();
        zone.reported(shown, &found(&[3])).unwrap();
        assert!(!allows(&zone, &[1, 2], Survives::Durable), "the reset was reported");
        assert!(!allows(&zone, &[], Survives::Acknowledged), "the write was reported");
        assert!(allows(&zone, &[3], Survives::Acknowledged));
    }

    #[test]
    fn a_read_returns_acknowledged_blocks() {
        let mut zone = ZoneHistory::new();
        let era = zone.submit(&[1, 2]);
        zone.acknowledge(era, 1, false);
        let before = zone.begin_read();
        zone.read(before, 0, &[0, 0]).unwrap_err();
        zone.read(before, 0, &[1, 0]).unwrap();
        zone.read(before, 0, &[1, 3]).unwrap_err();
        zone.read(before, 0, &[1, 2]).unwrap();
        assert!(!allows(&zone, &[1], Survives::Acknowledged), "both were read");
    }
}
