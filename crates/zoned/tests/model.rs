//! The semantics once more, as naively as possible: a table, a flag for every block, and counts
//! that are taken anew whenever somebody asks.

use zoneweave_zoned::Geometry;

const ZSE: u16 = 0x1;
const ZSIO: u16 = 0x2;
const ZSEO: u16 = 0x3;
const ZSC: u16 = 0x4;
const ZSRO: u16 = 0xD;
const ZSF: u16 = 0xE;
const ZSO: u16 = 0xF;

const ZFC: u8 = 1;
const FZR: u8 = 2;
const RZR: u8 = 4;
const ZRWAV: u8 = 8;
const ZDEV: u8 = 128;

/// States in the order of the table's columns.
const COLUMNS: [u16; 7] = [ZSE, ZSIO, ZSEO, ZSC, ZSF, ZSRO, ZSO];

/// Entries below 100h are the next state, others the status.
#[rustfmt::skip]
const TABLE: [[u16; 7]; 7] = [
    [ZSIO,  ZSIO,  ZSEO,  ZSIO,  0x1B9, 0x1BA, 0x1BB], // write, append
    [0x1BF, ZSC,   ZSC,   ZSC,   0x1BF, 0x1BF, 0x1BF], // 1: close
    [ZSF,   ZSF,   ZSF,   ZSF,   ZSF,   0x1BF, 0x1BF], // 2: finish
    [ZSEO,  ZSEO,  ZSEO,  ZSEO,  0x1BF, 0x1BF, 0x1BF], // 3: open
    [ZSE,   ZSE,   ZSE,   ZSE,   ZSE,   0x1BF, 0x1BF], // 4: reset
    [0x1BF, 0x1BF, 0x1BF, 0x1BF, 0x1BF, ZSO,   ZSO  ], // 5: offline
    [ZSC,   0x1BF, 0x1BF, 0x1BF, 0x1BF, 0x1BF, 0x1BF], // 10h: set extension
];
pub(super) const CLOSE: usize = 1;
pub(super) const FINISH: usize = 2;
pub(super) const OPEN: usize = 3;
pub(super) const RESET: usize = 4;
pub(super) const OFFLINE: usize = 5;

#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) state: u16,
    pub(super) pointer: u32,
    pub(super) resets: u64,
    pub(super) attributes: u8,
    /// The step at which the zone got its state.
    since: u64,
    written: Vec<bool>,
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    shape: Geometry,
    pub(super) zones: Vec<Zone>,
    changed: Vec<u32>,
    step: u64,
}

fn open(state: u16) -> bool {
    state == ZSIO || state == ZSEO
}

fn active(state: u16) -> bool {
    open(state) || state == ZSC
}

impl Model {
    pub(super) fn new(shape: &Geometry) -> Self {
        let written = vec![false; shape.zone_size.0 as usize];
        let zone = Zone { state: ZSE, pointer: 0, resets: 0, attributes: 0, since: 0, written };
        let zones = vec![zone; shape.zones as usize];
        Self { shape: shape.clone(), zones, changed: Vec::new(), step: 0 }
    }

    fn count(&self, counted: fn(u16) -> bool) -> usize {
        self.zones.iter().filter(|zone| counted(zone.state)).count()
    }

    pub(super) fn open_zones(&self) -> usize {
        self.count(open)
    }

    pub(super) fn active_zones(&self) -> usize {
        self.count(active)
    }

    fn areas(&self) -> usize {
        self.zones.iter().filter(|zone| zone.attributes & ZRWAV != 0).count()
    }

    fn exists(&self, zone: u32) -> Result<usize, u16> {
        if zone < self.shape.zones { Ok(zone as usize) } else { Err(0x080) }
    }

    fn set(&mut self, zone: usize, state: u16) {
        if self.zones[zone].state == state {
            return;
        }
        self.step += 1;
        let entry = &mut self.zones[zone];
        (entry.state, entry.since) = (state, self.step);
        entry.attributes &= !ZFC;
        match state {
            ZSE | ZSO => entry.attributes = 0,
            ZSF | ZSRO => entry.attributes &= !(ZRWAV | FZR),
            _ => {}
        }
    }

    /// Looks the cell up, checks limits, and closes a zone if that is what it takes.
    fn transit(&mut self, row: usize, zone: usize, area: bool) -> Result<(), u16> {
        let state = self.zones[zone].state;
        let column = COLUMNS.iter().position(|column| *column == state).unwrap();
        let next = TABLE[row][column];
        if next >= 0x100 {
            return Err(next);
        }
        let full =
            |count: usize, limit: Option<u32>| limit.is_some_and(|limit| count >= limit as usize);
        if active(next) && !active(state) && full(self.active_zones(), self.shape.max_active) {
            return Err(0x1BD);
        }
        let mut victim = None;
        if open(next) && !open(state) && full(self.open_zones(), self.shape.max_open) {
            let implicit = |zone: &usize| self.zones[*zone].state == ZSIO;
            let oldest =
                (0..self.zones.len()).filter(implicit).min_by_key(|zone| self.zones[*zone].since);
            victim = Some(oldest.ok_or(0x1BE_u16)?);
        }
        let takes = area && self.zones[zone].attributes & ZRWAV == 0;
        if takes && self.areas() >= self.shape.zrwa.unwrap().resources as usize {
            return Err(0x1B7);
        }
        if let Some(victim) = victim {
            self.set(victim, ZSC);
        }
        self.set(zone, next);
        if takes {
            self.zones[zone].attributes |= ZRWAV;
        }
        Ok(())
    }

    fn transfer(&self, zone: u32, offset: u32, blocks: u32) -> Result<usize, u16> {
        if blocks == 0 || blocks > self.shape.max_transfer.0 {
            return Err(0x002);
        }
        let index = self.exists(zone)?;
        let (size, zones) = (self.shape.zone_size.0, self.shape.zones);
        if offset >= size || zone * size + offset + blocks > zones * size {
            return Err(0x080);
        }
        Ok(index)
    }

    /// What a write would be told about the state, leaving limits aside.
    fn writable(&self, zone: usize) -> Result<(), u16> {
        match self.zones[zone].state {
            ZSF => Err(0x1B9),
            ZSRO => Err(0x1BA),
            ZSO => Err(0x1BB),
            _ => Ok(()),
        }
    }

    pub(super) fn write(&mut self, zone: u32, offset: u32, blocks: u32) -> Result<u64, u16> {
        let zone = self.transfer(zone, offset, blocks)?;
        self.writable(zone)?;
        let (pointer, end) = (self.zones[zone].pointer, offset + blocks);
        let zrwa = self.shape.zrwa.filter(|_| self.zones[zone].attributes & ZRWAV != 0);
        let right = match zrwa {
            Some(zrwa) => offset >= pointer && end <= pointer + 2 * zrwa.size.0,
            None => offset == pointer,
        };
        if !right {
            return Err(0x1BC);
        }
        if end > self.shape.zone_capacity.0 {
            return Err(0x1B8);
        }
        self.transit(0, zone, false)?;
        let entry = &mut self.zones[zone];
        entry.written[offset as usize..end as usize].fill(true);
        match zrwa {
            None => entry.pointer = end,
            Some(zrwa) => {
                while end > entry.pointer + zrwa.size.0 {
                    entry.pointer += zrwa.flush_granularity.0;
                }
            }
        }
        self.fill(zone);
        Ok(0)
    }

    pub(super) fn append(&mut self, zone: u32, blocks: u32) -> Result<u64, u16> {
        let index = self.transfer(zone, 0, blocks)?;
        if blocks > self.shape.append_limit.0 {
            return Err(0x002);
        }
        if self.zones[index].attributes & ZRWAV != 0 {
            return Err(0x1B6);
        }
        let pointer = self.zones[index].pointer;
        // A write at the pointer has nothing else to be wrong about; only a zone without room has a
        // pointer where no write may start.
        self.writable(index)?;
        if pointer + blocks > self.shape.zone_capacity.0 {
            return Err(0x1B8);
        }
        self.transit(0, index, false)?;
        self.zones[index].written[pointer as usize..(pointer + blocks) as usize].fill(true);
        self.zones[index].pointer += blocks;
        self.fill(index);
        Ok(pointer.into())
    }

    fn fill(&mut self, zone: usize) {
        if self.zones[zone].pointer == self.shape.zone_capacity.0 {
            self.set(zone, ZSF);
        }
    }

    pub(super) fn manage(&mut self, zone: u32, row: usize) -> Result<u64, u16> {
        let zone = self.exists(zone)?;
        self.manage_one(zone, row)?;
        Ok(0)
    }

    fn manage_one(&mut self, zone: usize, row: usize) -> Result<(), u16> {
        let before = self.zones[zone].state;
        self.transit(row, zone, false)?;
        if row == FINISH && before != ZSF {
            self.behind_written(zone);
        }
        if row == RESET && before != ZSE {
            let entry = &mut self.zones[zone];
            entry.written.fill(false);
            entry.pointer = 0;
            entry.resets += 1;
        }
        Ok(())
    }

    fn behind_written(&mut self, zone: usize) {
        let entry = &mut self.zones[zone];
        let end = entry.written.iter().rposition(|written| *written).map_or(0, |last| last + 1);
        entry.pointer = entry.pointer.max(u32::try_from(end).unwrap());
    }

    pub(super) fn open_with_area(&mut self, zone: u32) -> Result<u64, u16> {
        let zone = self.exists(zone)?;
        let zrwa = self.shape.zrwa.ok_or(0x1B6_u16)?;
        if matches!(self.zones[zone].state, ZSF | ZSRO | ZSO) {
            return Err(0x1BF);
        }
        if !self.zones[zone].pointer.is_multiple_of(zrwa.flush_granularity.0) {
            return Err(0x002);
        }
        self.transit(OPEN, zone, true)?;
        Ok(0)
    }

    pub(super) fn flush(&mut self, zone: u32, last: u32) -> Result<u64, u16> {
        let zone = self.exists(zone)?;
        let zrwa = self.shape.zrwa.ok_or(0x1B6_u16)?;
        if self.zones[zone].attributes & ZRWAV == 0 {
            return Err(0x002);
        }
        let pointer = self.zones[zone].pointer;
        let in_area = last >= pointer && last < pointer + zrwa.size.0;
        if !in_area || last >= self.shape.zone_capacity.0 {
            return Err(0x1B8);
        }
        if !(last + 1 - pointer).is_multiple_of(zrwa.flush_granularity.0) {
            return Err(0x002);
        }
        self.transit(0, zone, false)?;
        self.zones[zone].pointer = last + 1;
        self.fill(zone);
        Ok(0)
    }

    /// Select All; answers how many zones it was for.
    pub(super) fn manage_all(&mut self, row: usize) -> Result<u64, u16> {
        let chosen: &[u16] = match row {
            CLOSE => &[ZSIO, ZSEO],
            FINISH => &[ZSIO, ZSEO, ZSC],
            OPEN => &[ZSC],
            RESET => &[ZSIO, ZSEO, ZSC, ZSF],
            _ => &[ZSRO],
        };
        let zones = (0..self.zones.len()).filter(|zone| chosen.contains(&self.zones[*zone].state));
        let zones: Vec<_> = zones.collect();
        let explicit = self.count(|state| state == ZSEO);
        let limit = self.shape.max_open.map_or(usize::MAX, |limit| limit as usize);
        if row == OPEN && explicit + zones.len() > limit {
            return Err(0x1BE);
        }
        for zone in &zones {
            self.manage_one(*zone, row)?;
        }
        Ok(zones.len() as u64)
    }

    pub(super) fn extend(&mut self, zone: u32, bytes: u32) -> Result<u64, u16> {
        if self.shape.descriptor_extension_bytes == 0
            || bytes != self.shape.descriptor_extension_bytes
        {
            return Err(0x002);
        }
        let zone = self.exists(zone)?;
        self.transit(6, zone, false)?;
        self.zones[zone].attributes = ZDEV;
        Ok(0)
    }

    /// Answers which blocks of the range are written, as bits.
    pub(super) fn read(&self, zone: u32, offset: u32, blocks: u32) -> Result<u64, u16> {
        let index = self.transfer(zone, offset, blocks)?;
        let size = self.shape.zone_size.0;
        if self.zones[index].state == ZSO {
            return Err(0x1BB);
        }
        if offset + blocks > size && !self.shape.reads_across_zones {
            return Err(0x1B8);
        }
        let mut bits = 0;
        for block in zone * size + offset..zone * size + offset + blocks {
            let zone = &self.zones[(block / size) as usize];
            if zone.state == ZSO {
                return Err(0x1BB);
            }
            bits = bits << 1 | u64::from(zone.written[(block % size) as usize]);
        }
        if self.shape.unwritten_read_error && bits.count_ones() != blocks {
            return Err(0x287);
        }
        Ok(bits)
    }

    /// The bytes of a report.
    pub(super) fn report(
        &self,
        first: u32,
        count: u32,
        filter: u8,
        partial: bool,
    ) -> Result<Vec<u8>, u16> {
        let first = self.exists(first)?;
        let wanted = [0, ZSE, ZSIO, ZSEO, ZSC, ZSF, ZSRO, ZSO][usize::from(filter)];
        let (mut bytes, mut matching, mut listed) = (vec![0; 64], 0_u64, 0);
        for (index, zone) in self.zones.iter().enumerate().skip(first) {
            if wanted != 0 && zone.state != wanted || partial && listed == count {
                continue;
            }
            matching += 1;
            if listed == count {
                continue;
            }
            listed += 1;
            let start = index as u64 * u64::from(self.shape.zone_size.0);
            let pointer = match zone.state {
                ZSF | ZSRO | ZSO => u64::MAX,
                _ => start + u64::from(zone.pointer),
            };
            let state = u8::try_from(zone.state << 4).unwrap();
            bytes.extend([2, state, zone.attributes, 0, 0, 0, 0, 0]);
            for value in [self.shape.zone_capacity.0.into(), start, pointer] {
                bytes.extend(value.to_le_bytes());
            }
            bytes.extend([0; 32]);
        }
        bytes[..8].copy_from_slice(&matching.to_le_bytes());
        Ok(bytes)
    }

    /// Something happens to a zone by itself.
    pub(super) fn befall(&mut self, zone: u32, what: u8) {
        let index = zone as usize;
        let (state, attributes) = (self.zones[index].state, self.zones[index].attributes);
        match what {
            0 if state != ZSRO && state != ZSO => self.set(index, ZSRO),
            1 if state != ZSO => self.set(index, ZSO),
            2 if active(state) => {
                self.behind_written(index);
                self.set(index, ZSF);
                self.zones[index].attributes |= ZFC;
            }
            3 if active(state) => self.zones[index].attributes |= FZR,
            4 if active(state) || state == ZSF => self.zones[index].attributes |= RZR,
            _ => {}
        }
        let now = &self.zones[index];
        if now.state != state || now.attributes != attributes {
            self.changed.push(zone);
        }
    }

    pub(super) fn take_changed(&mut self) -> Vec<u32> {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    pub(super) fn restart(&mut self) {
        self.changed.clear();
        for zone in 0..self.zones.len() {
            let Zone { state, attributes, ref written, .. } = self.zones[zone];
            let holds = written.contains(&true) || self.zones[zone].pointer > 0;
            if active(state) {
                self.set(zone, if holds || attributes & ZDEV != 0 { ZSC } else { ZSE });
            }
        }
    }
}
