//! The semantics of zoned namespaces: every operation in every state, the order of checks, and
//! random histories against a naive model.

#![expect(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod histories;
mod limits;
mod model;
mod random_writes;
mod reports;
mod table;

use zoneweave_zoned::{
    BlockCount, Geometry, ZoneAction, ZoneAddress, ZoneId, ZoneOffset, ZoneSet, ZoneState,
    ZrwaGeometry,
};

/// The zone that tests look at.
const ZONE: ZoneId = ZoneId(1);

/// A drive with everything: 6 zones of 12 blocks in 16, 2 open and 3 active, extensions, two random
/// write areas of 4 blocks in steps of 2.
fn geometry() -> Geometry {
    Geometry {
        zone_size: BlockCount(16),
        max_open: Some(2),
        max_active: Some(3),
        append_limit: BlockCount(8),
        max_transfer: BlockCount(14),
        descriptor_extension_bytes: 64,
        zrwa: Some(ZrwaGeometry {
            size: BlockCount(4),
            flush_granularity: BlockCount(2),
            resources: 2,
        }),
        ..Geometry::new(6, BlockCount(12))
    }
}

fn at(zone: u32, offset: u32) -> ZoneAddress {
    ZoneAddress::new(ZoneId(zone), offset)
}

/// A drive whose zone 1 is in the given state, with four blocks written where possible.
fn drive(state: ZoneState) -> ZoneSet {
    let mut set = ZoneSet::new(geometry()).unwrap();
    if state != ZoneState::Empty {
        set.write(at(ZONE.0, 0), BlockCount(4)).unwrap();
    }
    match state {
        ZoneState::Empty | ZoneState::ImplicitlyOpen => {}
        ZoneState::ExplicitlyOpen => set.manage(ZONE, ZoneAction::Open).unwrap(),
        ZoneState::Closed => set.manage(ZONE, ZoneAction::Close).unwrap(),
        ZoneState::Full => set.manage(ZONE, ZoneAction::Finish).unwrap(),
        ZoneState::ReadOnly => set.set_read_only(ZONE),
        ZoneState::Offline => set.set_offline(ZONE),
    }
    assert_eq!(set.record(ZONE).state, state);
    set
}

/// A drive whose zone 1 has a random write area behind `written` blocks.
fn drive_with_area(written: u32) -> ZoneSet {
    let mut set = ZoneSet::new(geometry()).unwrap();
    if written > 0 {
        set.write(at(ZONE.0, 0), BlockCount(written)).unwrap();
    }
    set.manage(ZONE, ZoneAction::OpenWithZrwa).unwrap();
    set
}

fn flush_to(last: u32) -> ZoneAction {
    ZoneAction::FlushZrwa { last: ZoneOffset(last) }
}
