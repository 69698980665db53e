//! Reports: filters, ranges and counts, extensions, and the list of changed zones.

use bytes::Bytes;
use zoneweave_zoned::{
    Command, Reply, ReportOptions, Status, ZoneAction, ZoneFilter, ZoneId, ZoneInfo, ZoneState,
};

use super::prepare::Bed;
use super::{Checked, Factory};

/// Tests all of it.
pub(super) fn check(factory: Factory<'_>, checked: &mut Checked) {
    match one_of_each(factory) {
        Ok(bed) => {
            for filter in ZoneFilter::ALL {
                for partial in [false, true] {
                    let options = ReportOptions { filter, partial, extended: false };
                    checked.note(|| format!("a report with {options:?}"), ranges(&bed, options));
                }
            }
        }
        problem => checked.note(|| "zones of each state".to_owned(), problem.map(drop)),
    }
    checked.note(|| "descriptor extensions".to_owned(), extensions(factory));
    checked.note(|| "the list of changed zones".to_owned(), changed(factory));
}

/// A device with a zone of each state that it can have.
fn one_of_each(factory: Factory<'_>) -> Result<Bed, String> {
    let mut bed = Bed::new(factory);
    bed.write(ZoneId(1), 2)?;
    bed.manage_zone(ZoneId(2), ZoneAction::Open)?;
    bed.write(ZoneId(3), 1)?;
    bed.manage_zone(ZoneId(3), ZoneAction::Close)?;
    bed.fill(ZoneId(4))?;
    for (zone, state) in [(5, ZoneState::ReadOnly), (6, ZoneState::Offline)] {
        let is_offline = state == ZoneState::Offline;
        if zone < bed.geometry().zones && bed.hardware.fail_zone(ZoneId(zone), is_offline) {
            bed.zones[zone as usize].state = state;
        }
    }
    bed.session.compare(&bed.zones)?;
    Ok(bed)
}

/// Reports from each zone on, of each length.
fn ranges(bed: &Bed, options: ReportOptions) -> Result<(), String> {
    let zones = bed.geometry().zones;
    for first in 0..zones {
        let admitted = |zone: &u32| options.filter.admits(bed.zones[*zone as usize].state);
        let admitted: Vec<_> = (first..zones).filter(admitted).collect();
        for count in [0, 1, 2, zones, zones + 5] {
            let command = Command::Report { first: ZoneId(first), count, options };
            let Ok(Reply::Zones(report)) = bed.session.run(command) else {
                return Err(format!("the report of {count} zones from {first} on fails"));
            };
            let listed = admitted.len().min(count as usize);
            let found: Vec<_> = report.zones.iter().map(|info| info.zone.0).collect();
            if found != admitted[..listed] {
                return Err(format!("{found:?} are reported, expected {:?}", &admitted[..listed]));
            }
            let matching = if options.partial { listed } else { admitted.len() };
            if report.matching != matching as u64 {
                return Err(format!("{} zones match, expected {matching}", report.matching));
            }
            if let Some(wrong) = report.zones.iter().find(|info| !is_right(bed, info)) {
                return Err(format!("{wrong:?} is reported"));
            }
        }
    }
    Ok(())
}

fn is_right(bed: &Bed, info: &ZoneInfo) -> bool {
    let image = &bed.zones[info.zone.index()];
    let pointer = image.reported_pointer(bed.geometry());
    (info.state, info.write_pointer.0) == (image.state, pointer)
        && info.capacity == bed.geometry().zone_capacity
}

/// Extensions are kept until a reset, or refused by a device without any.
fn extensions(factory: Factory<'_>) -> Result<(), String> {
    let mut bed = Bed::new(factory);
    let options = ReportOptions { extended: true, ..ReportOptions::default() };
    let report = Command::Report { first: ZoneId(0), count: 2, options };
    let bytes = bed.geometry().descriptor_extension_bytes as usize;
    if bytes == 0 {
        return match bed.session.run(report) {
            Err(Status::InvalidField) => Ok(()),
            other => Err(format!("a report with extensions returns {other:?}")),
        };
    }
    let (extension, none) = (Bytes::from(vec![9; bytes]), Bytes::from(vec![0; bytes]));
    let command = Command::SetExtension { zone: ZoneId(0), extension: extension.clone() };
    bed.session.run(command).map_err(|status| format!("an extension is refused: {status}"))?;
    bed.zones[0].extended = true;
    bed.zones[0].state = ZoneState::Closed;
    for expected in [[extension, none.clone()], [none.clone(), none]] {
        match bed.session.run(report.clone()) {
            Ok(Reply::Zones(found)) if found.extensions == expected => {}
            other => return Err(format!("a report with extensions returns {other:?}")),
        }
        bed.session.compare(&bed.zones)?;
        bed.manage_zone(ZoneId(0), ZoneAction::Reset)?;
    }
    Ok(())
}

/// A zone that fails is on the list until it is read.
fn changed(factory: Factory<'_>) -> Result<(), String> {
    let mut bed = Bed::new(factory);
    bed.write(ZoneId(1), 1)?;
    let expect = |zones: &[ZoneId]| match bed.session.run(Command::ChangedZones) {
        Ok(Reply::Changed(changed)) if changed.zones == zones && !changed.overflow => Ok(()),
        other => Err(format!("{other:?} is the list of changed zones, expected {zones:?}")),
    };
    expect(&[])?;
    if !bed.hardware.fail_zone(ZoneId(1), false) {
        return Ok(());
    }
    expect(&[ZoneId(1)])?;
    expect(&[])?;
    bed.hardware.fail_zone(ZoneId(1), true);
    expect(&[ZoneId(1)])?;
    expect(&[])
}
