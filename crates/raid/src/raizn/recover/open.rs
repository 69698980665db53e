//! Opens the volume of an array.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_erasure::Code;
use zoneweave_runtime::{Gate, Handle, Semaphore};
use zoneweave_zoned::{Geometry, ImportError, Latencies, ZoneSet};

use crate::array::error::AssemblyError;
use crate::array::format::config::ArrayConfig;
use crate::array::format::faults::Faults;
use crate::array::format::numbers::{Epoch, Lineage};
use crate::array::format::record::{MemberState, SuperblockRecord};
use crate::array::offered::OfferedDrive;
use crate::array::probe::Probe;
use crate::array::repair::faults;
use crate::array::repair::rebuild::RebuildState;
use crate::array::repair::scrub::ScrubState;
use crate::array::start::assemble::{
    Drive, DriveVerdict, assembled, check_numbers, name_other_version, newest_records,
    place_members, read_drives,
};
use crate::array::start::destroyed::refuse_destroyed;
use crate::array::start::history::History;
use crate::array::start::quorum::{choose, too_few};
use crate::array::superblock_logs::SuperblockLog;
use crate::instrument::marks::{Mark, mark};
use crate::raizn::core::{Core, State};
use crate::raizn::doubtful::DoubtfulPlaces;
use crate::raizn::format::body::{Mount, ZonedBody};
use crate::raizn::format::zone_record::ZoneRecord;
use crate::raizn::layout::{Layout, volume_geometry};
use crate::raizn::parity_log::ParityLog;
use crate::raizn::recover::decisions::Decisions;
use crate::raizn::recover::error::OpenError;
use crate::raizn::recover::unpublished::{evict_missing, may_wait, missing, wait};
use crate::raizn::recover::unread::GivenUp;
use crate::raizn::recover::zones::recover;
use crate::raizn::volume::Volume;
use crate::raizn::zone::LogicalZone;

/// How to start a zoned volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Start with half of the members or fewer, as long as data can be read. This mints a new
    /// lineage, so members left out can join again only as new drives.
    ///
    /// Also give up what drives do not read now at the ends of zones.
    pub force: bool,
    /// A random number, used where a new lineage is minted.
    pub lineage: Lineage,
}

/// What a start found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReport {
    /// The role of each drive, in the order offered.
    pub drives: Vec<DriveVerdict>,
    /// Blocks that are in parity logs because a crash left something in their places.
    pub relocated_blocks: u64,
    /// Zones that were cut short by force, as drives gave no answer about blocks of them.
    pub given_up: Vec<GivenUp>,
}

/// Starts the volume of an array.
///
/// # Errors
/// An [`OpenError`] with the reason; nothing is lost.
pub async fn open(
    handle: &Handle,
    offered: Vec<OfferedDrive>,
    options: OpenOptions,
) -> Result<(Volume, OpenReport), OpenError> {
    let (drives, mut verdicts) = read_drives::<ZonedBody>(offered).await;
    assert!(drives.len() == verdicts.len(), "each drive has a verdict");
    let newest = newest_records(&drives);
    refuse_destroyed(&newest)?;
    let chosen = choose(&newest, options.force);
    let (chosen, forced) = chosen.map_err(|error| name_other_version(error, &verdicts))?;
    let chosen = chosen.clone();
    let slots = place_members(&chosen, &drives, &newest, &mut verdicts)?;
    check_members(&chosen, &slots)?;
    let forced = forced.then_some(options.lineage);
    let assemble = || assemble(handle, &chosen, &drives, &slots, forced);
    let (mut core, mount, published) = assemble()?;
    let is_clean = may_wait(&core, &chosen, &drives, &slots, published);
    let probe = {
        // A clean stop counts while it is the newest record.
        let body = if is_clean { ZonedBody::Stopped(published) } else { ZonedBody::State };
        Probe::of(&chosen, &drives, &slots, &core.state.borrow().array, body).map(Rc::new)
    };
    let may_wait = is_clean && !options.force;
    let mut given_up = Vec::new();
    if !may_wait || !wait(&core, mount, published, probe.as_ref()).await? {
        if may_wait {
            // What was found is entered in the state: the zones are recovered from the beginning.
            mark(Mark::ZonedWaitGivenUp);
            (core, ..) = assemble()?;
        }
        match missing(&core) {
            0 => core.end_columns().await,
            _ => evict_missing(&core, probe.as_ref()).await?,
        }
        core.superblock.commit_snapshot(&core).await.map_err(OpenError::Stopped)?;
        given_up = recover(&core, mount, published, options.force).await?;
        faults::begin(&*core);
    }
    let columns = |zone: &LogicalZone| -> u64 {
        zone.columns.iter().map(|column| column.relocated.len() as u64).sum()
    };
    let relocated_blocks = core.state.borrow().logical.iter().map(columns).sum();
    Ok((Volume::new(core), OpenReport { drives: verdicts, relocated_blocks, given_up }))
}

/// Checks that enough members are there.
pub(super) fn check_members(
    chosen: &SuperblockRecord<ZonedBody>,
    slots: &[Option<usize>],
) -> Result<(), AssemblyError> {
    let scheme = chosen.config.scheme;
    assert!(slots.len() == scheme.columns(), "{} slots of {scheme}", slots.len());
    let missing = scheme.iter().filter(|column| slots[column.index()].is_none()).collect();
    match scheme.survives(missing) {
        true => Ok(()),
        false => Err(too_few(chosen, slots.iter().flatten().count())),
    }
}

/// The shape of the logical zones, and the volume as a drive, on members with these geometries.
pub(super) fn shape<'a>(
    config: &ArrayConfig,
    geometries: impl Iterator<Item = &'a Geometry> + Clone,
) -> Result<(Layout, Geometry), OpenError> {
    let unit_blocks = config.zoned().unit_blocks;
    let layout = Layout::new(config.scheme, unit_blocks, config.zone_capacity, config.zones);
    let layout = layout.expect("records of impossible volumes do not decode");
    let too_few_active = || OpenError::TooFewActiveZones { name: config.name.clone() };
    let mut geometry = volume_geometry(&layout, geometries).ok_or_else(too_few_active)?;
    // The drive that limited the volume when it was created may be away, and the parity logs have
    // room for as many zones as then.
    let most = layout.active_most(config.zone_capacity);
    if most == 0 {
        return Err(too_few_active());
    }
    if geometry.max_active.unwrap_or(geometry.zones).min(geometry.zones) > most {
        geometry.max_active = Some(most);
        geometry.max_open = geometry.max_open.map(|open| open.min(most));
    }
    Ok((layout, geometry))
}

/// The volume of an array as a drive, without starting it.
///
/// # Errors
/// If the drives allow too few open or active zones.
///
/// # Panics
/// If the array has another kind of volume.
pub fn geometry<'a>(
    config: &ArrayConfig,
    members: impl Iterator<Item = &'a Geometry> + Clone,
) -> Result<Geometry, OpenError> {
    shape(config, members).map(|(_, geometry)| geometry)
}

/// The shared parts of the volume that the chosen record describes, the number of this mount, and
/// the published one.
fn assemble(
    handle: &Handle,
    chosen: &SuperblockRecord<ZonedBody>,
    drives: &[Option<Drive<ZonedBody>>],
    slots: &[Option<usize>],
    forced: Option<Lineage>,
) -> Result<(Rc<Core>, Mount, Mount), OpenError> {
    let config = &chosen.config;
    let zoned = config.zoned();
    let ours: Vec<_> = slots.iter().flatten().filter_map(|at| drives[*at].as_ref()).collect();
    let geometries = ours.iter().map(|drive| drive.offered.device.geometry());
    let (layout, geometry) = shape(config, geometries)?;
    let records =
        || ours.iter().flat_map(|drive| drive.records.scan.records.iter().map(|(_, r)| r));
    let newest = |of: fn(&SuperblockRecord<ZonedBody>) -> u64| records().map(of).max().unwrap_or(0);
    let record_sequence = newest(|record| record.record_sequence);
    let newest_epoch = Epoch(newest(|record| record.epoch.0));
    let closed = ours.iter().filter_map(|drive| drive.records.scan.since_snapshot()).flatten();
    let decisions = Decisions::of(closed);
    let published = decisions.published.unwrap_or(Mount::NONE);
    let mount_ceiling = newest(|record| record.sequence_ceiling.0);
    let generations = decisions.zones.values().map(|zone| zone.generation.0);
    check_numbers(&[
        ("epoch", newest_epoch.0),
        ("record sequence", record_sequence),
        ("mount ceiling", mount_ceiling),
        ("published mount", published.0),
        ("generation of a zone", generations.max().unwrap_or(0)),
    ])?;
    // A record may name a published mount above its own ceiling only if it is not of our making.
    let mount = Mount(mount_ceiling.max(published.0 + 1));
    assert!(mount > published, "{mount:?} follows {published:?}");
    let logs = slots.iter().map(|at| drives[(*at)?].as_ref()?.records.log()).collect();
    let mut array = assembled(chosen, drives, slots, newest_epoch, forced.is_some());
    if let Some(lineage) = forced {
        array.version.lineage = lineage;
        array.membership_dirty = true;
    }
    History::of(chosen, drives, slots).enter(&mut array);
    let capacity = config.zone_capacity.0;
    let parity_logs = config.scheme.iter().map(|_| ParityLog::at(0, 0, capacity)).collect();
    let state = State {
        zones: ZoneSet::new(geometry).map_err(ImportError::from)?,
        logical: logical_zones(&layout, &decisions, &array),
        logs: parity_logs,
        published,
        next_mount: mount.0 + 1,
        starved: BTreeSet::new(),
        admitted: 0,
        reads: 0,
        doubtful: DoubtfulPlaces::default(),
        unlisted: Faults::default(),
        activations: BTreeSet::new(),
        array,
    };
    let core = Rc::new_cyclic(|this| Core {
        handle: handle.clone(),
        latencies: Rc::new(Latencies::new(handle)),
        code: Code::new(config.scheme.data(), config.scheme.parity()).expect("1 to 32 chunks"),
        array: config.array,
        seed: state.array.seed,
        checksums: zoned.checksums,
        layout,
        state: RefCell::new(state),
        superblock: SuperblockLog::new(logs, record_sequence),
        changed: Gate::new(),
        admin: Semaphore::new(1),
        clearing: Semaphore::new(1),
        rebuild: RebuildState::default(),
        scrub: ScrubState::default(),
        closing: Cell::new(false),
        unpublished: RefCell::new(None),
        recorder: Cell::default(),
        this: this.clone(),
    });
    Ok((core, mount, published))
}

/// The zones as records have them, without contents.
fn logical_zones(
    layout: &Layout,
    decisions: &Decisions,
    array: &crate::array::state::Array,
) -> Vec<LogicalZone> {
    let columns = layout.scheme().columns();
    let zones = (0..layout.zones()).map(|zone| {
        let mut record = decisions.zones.get(&zone).cloned().unwrap_or(ZoneRecord::new(zone));
        record.finished = record.finished.map(|end| end.min(layout.zone_blocks()));
        let mut logical = LogicalZone::new(record, 0, columns);
        let members = layout.scheme().iter().zip(&array.members);
        let lacks = members.filter(|(column, member)| {
            member.entry.state == MemberState::Rebuilding && !decisions.is_rebuilt(*column, zone)
        });
        logical.absent = lacks.map(|(column, _)| column).collect();
        logical
    });
    zones.collect()
}
