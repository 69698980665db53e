//! A zoned device as naive as possible, without the optional features: one command at a time, and
//! counts taken anew for each decision.

use zoneweave_zoned::{Geometry, Status, ZoneAction, ZoneState};

use super::image::ZoneImage;

/// The device.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub geometry: Geometry,
    pub zones: Vec<ZoneImage>,
    /// Blocks of each zone that survive a power loss.
    pub durable: Vec<u32>,
    /// When each zone was last opened by a write.
    opened: Vec<u64>,
    step: u64,
}

impl Model {
    /// A blank device.
    pub(super) fn new(geometry: &Geometry) -> Self {
        let zones = geometry.zones as usize;
        Self {
            geometry: geometry.clone(),
            zones: ZoneImage::blank(geometry),
            durable: vec![0; zones],
            opened: vec![0; zones],
            step: 0,
        }
    }

    fn count(&self, counted: fn(ZoneState) -> bool) -> u32 {
        let zones = self.zones.iter().filter(|zone| counted(zone.state));
        u32::try_from(zones.count()).expect("a zone number has 32 bits")
    }

    fn check_transfer(&self, zone: u32, offset: u32, blocks: u32) -> Result<usize, Status> {
        if blocks == 0 || blocks > self.geometry.max_transfer.0 {
            return Err(Status::InvalidField);
        }
        let size = self.geometry.zone_size.0;
        let end = u64::from(zone) * u64::from(size) + u64::from(offset) + u64::from(blocks);
        let blocks = u64::from(self.geometry.zones) * u64::from(size);
        if zone >= self.geometry.zones || offset >= size || end > blocks {
            return Err(Status::LbaOutOfRange);
        }
        Ok(zone as usize)
    }

    /// Writes blocks at `offset`, or wherever the write pointer is.
    pub(super) fn write(
        &mut self,
        zone: u32,
        offset: Option<u32>,
        numbers: &[u64],
        fua: bool,
    ) -> Result<u32, Status> {
        let blocks = u32::try_from(numbers.len()).expect("a transfer has 32 bits of blocks");
        let index = self.check_transfer(zone, offset.unwrap_or(0), blocks)?;
        if offset.is_none() && blocks > self.geometry.append_limit.0 {
            return Err(Status::InvalidField);
        }
        match self.zones[index].state {
            ZoneState::Full => return Err(Status::ZoneFull),
            ZoneState::ReadOnly => return Err(Status::ZoneReadOnly),
            ZoneState::Offline => return Err(Status::ZoneOffline),
            _ => {}
        }
        let pointer = self.zones[index].pointer;
        if offset.is_some_and(|offset| offset != pointer) {
            return Err(Status::ZoneInvalidWrite);
        }
        if pointer + blocks > self.geometry.zone_capacity.0 {
            return Err(Status::ZoneBoundary);
        }
        if !self.zones[index].state.is_open() {
            self.open(index, ZoneState::ImplicitlyOpen)?;
        }
        let image = &mut self.zones[index];
        image.write(numbers);
        if image.pointer == self.geometry.zone_capacity.0 {
            image.state = ZoneState::Full;
        }
        if fua || !self.geometry.volatile_cache {
            self.durable[index] = image.pointer;
        }
        Ok(pointer)
    }

    fn open(&mut self, index: usize, to: ZoneState) -> Result<(), Status> {
        let state = self.zones[index].state;
        let active = self.count(ZoneState::is_active);
        if !state.is_active() && self.geometry.max_active.is_some_and(|most| active >= most) {
            return Err(Status::TooManyActive);
        }
        let open = self.count(ZoneState::is_open);
        if !state.is_open() && self.geometry.max_open.is_some_and(|most| open >= most) {
            let victim = self.oldest().ok_or(Status::TooManyOpen)?;
            self.zones[victim].state = ZoneState::Closed;
        }
        if state != to {
            self.step += 1;
            self.opened[index] = self.step;
        }
        self.zones[index].state = to;
        Ok(())
    }

    /// The zone that was opened by a write the longest ago.
    fn oldest(&self) -> Option<usize> {
        let zones = 0..self.zones.len();
        zones
            .filter(|zone| self.zones[*zone].state == ZoneState::ImplicitlyOpen)
            .min_by_key(|zone| self.opened[*zone])
    }

    /// Changes the state of a zone.
    pub(super) fn manage(&mut self, zone: u32, action: ZoneAction) -> Result<(), Status> {
        if zone >= self.geometry.zones {
            return Err(Status::LbaOutOfRange);
        }
        let index = zone as usize;
        let state = self.zones[index].state;
        let writable = state.is_active() || state == ZoneState::Empty;
        match action {
            ZoneAction::Open if writable => self.open(index, ZoneState::ExplicitlyOpen),
            ZoneAction::Close if state.is_active() => {
                self.zones[index].state = ZoneState::Closed;
                Ok(())
            }
            ZoneAction::Finish if writable || state == ZoneState::Full => {
                self.zones[index].state = ZoneState::Full;
                Ok(())
            }
            ZoneAction::Reset if writable || state == ZoneState::Full => {
                self.zones[index] = ZoneImage::empty();
                self.durable[index] = 0;
                Ok(())
            }
            _ => Err(Status::InvalidTransition),
        }
    }

    /// Changes the state of all zones that the action selects.
    pub(super) fn manage_all(&mut self, action: ZoneAction) -> Result<(), Status> {
        let selects = |state: ZoneState| match action {
            ZoneAction::Open => state == ZoneState::Closed,
            ZoneAction::Close => state.is_open(),
            ZoneAction::Finish => state.is_active(),
            ZoneAction::Reset => state.is_active() || state == ZoneState::Full,
            _ => false,
        };
        let selected: Vec<u32> = (0..self.geometry.zones)
            .filter(|zone| selects(self.zones[*zone as usize].state))
            .collect();
        if let (ZoneAction::Open, Some(most)) = (action, self.geometry.max_open) {
            let explicit = self.count(|state| state == ZoneState::ExplicitlyOpen);
            if explicit as usize + selected.len() > most as usize {
                return Err(Status::TooManyOpen);
            }
            while self.count(ZoneState::is_open) as usize + selected.len() > most as usize {
                let victim = self.oldest().expect("the others leave room");
                self.zones[victim].state = ZoneState::Closed;
            }
        }
        for zone in selected {
            self.manage(zone, action)?;
        }
        Ok(())
    }

    /// The numbers of blocks, 0 for zeros.
    pub(super) fn read(&self, zone: u32, offset: u32, blocks: u32) -> Result<Vec<u64>, Status> {
        let index = self.check_transfer(zone, offset, blocks)?;
        if offset + blocks > self.geometry.zone_size.0 {
            return Err(Status::ZoneBoundary);
        }
        let number = |offset: u32| self.zones[index].blocks.get(offset as usize);
        Ok((offset..offset + blocks).map(|at| number(at).copied().unwrap_or(0)).collect())
    }

    /// Everything becomes durable.
    pub(super) fn flush(&mut self) {
        for (durable, zone) in self.durable.iter_mut().zip(&self.zones) {
            *durable = zone.pointer;
        }
    }
}
