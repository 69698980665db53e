//! A drive that answers no writes to some of its zones while it is told to.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use zoneweave_zoned::{Command, Completion, Geometry, Responder, ZoneId, ZonedDevice, completion};

pub(super) struct Stalling {
    inner: Rc<dyn ZonedDevice>,
    zones: Range<u32>,
    stalls: Rc<Cell<bool>>,
    waiting: RefCell<Vec<Responder>>,
}

impl Stalling {
    pub(super) fn of(
        inner: Rc<dyn ZonedDevice>,
        zones: Range<u32>,
        stalls: &Rc<Cell<bool>>,
    ) -> Rc<dyn ZonedDevice> {
        Rc::new(Self { inner, zones, stalls: stalls.clone(), waiting: RefCell::default() })
    }
}

impl ZonedDevice for Stalling {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&self, command: Command) -> Completion {
        let zone = match &command {
            Command::Write { at, .. } => at.zone,
            Command::Append { zone, .. } => *zone,
            _ => ZoneId(u32::MAX),
        };
        if !self.stalls.get() || !self.zones.contains(&zone.0) {
            return self.inner.submit(command);
        }
        let (responder, completion) = completion();
        self.waiting.borrow_mut().push(responder);
        completion
    }
}
