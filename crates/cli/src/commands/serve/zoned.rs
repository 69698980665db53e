//! Serves an array with a zoned volume: as a zoned disk of the kernel, and to `zoneweave zoned`.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use zoneweave_linux::nvme_tcp::NvmeTcpDevice;
use zoneweave_linux::ublk::{UblkDisk, UblkOptions, UblkServer};
use zoneweave_linux::unix_seconds;
use zoneweave_raid::log::DriveRole;
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::raizn::{
    GivenUp, OpenOptions, OpenReport, Unread, UnreadPart, Volume, open, survey,
};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::ZonedDevice;

use super::fronts::{Places, identity, start_ublk, stop_ublk};
use super::lifecycle::summary;
use super::nvme_tcp::Subsystem;
use super::options::{ByName, Served, parse_rate};
use super::stop::Stop;
use super::store::ServedStore;
use super::{announce, descriptors, few_descriptors};
use crate::control::{
    ControlServer, ControlSocket, Schedule, ZonedFronts, ZonedService, parse_schedule,
};
use crate::drives::strangers::refuse_strangers;
use crate::error::{CliError, usage};
use crate::events::{EventOptions, Receivers, What};
use crate::exit::Exit;
use crate::format::{parse_time, word};
use crate::output::Output;
use crate::session::{Access, Drives, NamedDrive, Session, random_number};
use crate::start::{
    Unusable, refuse_full_disk, refuse_others, refuse_unopened, refuse_unreadable, starting,
    tell_others,
};
use crate::status::{OtherDrive, VolumeStatus, describe_drives, inactive_zoned_status};
use crate::wait::{unless, until};
use crate::writing::WriteMode;
use crate::zoned::{Found, offer, relocated};

/// Period of the health check.
const WATCH_PERIOD: Nanos = Nanos::from_secs(1);

/// A zoned volume to serve.
#[derive(Args, Clone, Debug)]
pub(crate) struct Zoned {
    /// Drives of the array, in any order
    #[arg(value_name = "DRIVE", required_unless_present = "array")]
    drives: Vec<PathBuf>,
    /// Also serve the volume as the zoned kernel disk /dev/ublkbN [default N: the first free
    /// number]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub(super) ublk: Option<Option<u32>>,
    #[command(flatten)]
    start: ZonedStart,
}

/// How the array of a zoned volume is started.
#[derive(Args, Clone, Debug)]
pub(crate) struct ZonedStart {
    #[command(flatten)]
    by_name: ByName,
    /// Start without this drive, which takes it out of service; `any`: without all drives that
    /// cannot be opened. By default such a drive makes the start fail
    #[arg(long, value_name = "DRIVE|any")]
    without: Vec<PathBuf>,
    /// Wait this long for drives that do not exist yet, e.g. 30s at boot. Members that were not
    /// given are looked for beside the others [default: 0]
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0s", hide_default_value = true)]
    wait: Duration,
    /// Start without a majority of the drives (re-add the missing ones with `array replace`)
    #[arg(long)]
    force: bool,
    /// Scrub every so often, e.g. 30d from one begin to the next, or at a time of the week in UTC,
    /// "sun 02:00" [default: only by `array scrub`]. Each array has an offset of its own. A scrub
    /// that is due waits for missing members
    #[arg(long, value_name = "SCHEDULE", value_parser = parse_schedule)]
    scrub: Option<Schedule>,
    /// Limit the write rate of a rebuild, in bytes per second, e.g. 200M (at least 1M)
    /// [default: unlimited]
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rebuild_limit: Option<NonZeroU64>,
    #[command(flatten)]
    events: EventOptions,
}

impl Zoned {
    /// The request in the form that all servers share.
    pub(super) fn array(&self) -> Served {
        self.start.clone().of(self.drives.clone())
    }
}

impl ZonedStart {
    /// The request to start these drives.
    pub(crate) fn of(self, drives: Vec<PathBuf>) -> Served {
        let Self { by_name, without, wait, force, scrub, rebuild_limit, events } = self;
        let others = Served::default();
        Served { drives, by_name, without, wait, force, scrub, rebuild_limit, events, ..others }
    }
}

/// A zoned volume in service.
pub(super) struct Running {
    service: Rc<ZonedService>,
    control: ControlServer,
    hints: Vec<String>,
    store: Option<ServedStore>,
    receivers: Receivers,
}

/// A zoned volume whose start can only fail by its drives: they are locked, and nothing is written.
struct Prepared {
    found: Found,
    others: Vec<OtherDrive>,
    control: ControlSocket,
}

/// Starts a zoned volume. Until everything is opened that can fail, nothing is written.
///
/// # Errors
/// If it cannot be started, or not in the way that was asked for.
pub(super) fn start(
    stop: &Stop<'_>,
    request: &Served,
    places: &Places,
    paths: &[PathBuf],
    output: &Output,
) -> Result<Running, CliError> {
    refuse_options(request)?;
    let session = stop.session;
    let prepared = prepare(session, request, paths, output).map_err(few_descriptors)?;
    let config = prepared.found.membership.config.clone();
    places.refuse_blocks(&config.name)?;
    let options = places.ublk.map(|number| {
        let identity = identity(config.array.0);
        UblkOptions { number, identity, optimal_bytes: 0 }
    });
    if let Some(options) = &options {
        let geometry = prepared.found.geometry()?;
        let (ring, handle) = (&session.ring, &session.handle);
        stop.run(UblkServer::check_zoned(ring, handle, &geometry, options))??;
    }
    if places.store.is_some() && request.without.is_empty() && !request.force {
        // A store of other drives, or none, is found only after a start: it must cost no member.
        prepared.found.refuse_missing(None)?;
    }
    let sockets = places.store.as_ref().map(|place| place.listen_for(config.array)).transpose()?;
    let listener = places.nvme_tcp.as_ref().map(Subsystem::listen).transpose()?;
    descriptors::check()?;
    stop.check()?;
    let Prepared { found, others, control } = prepared;
    let status = inactive_zoned_status(&found)?;
    let Found { drives, survey, membership } = found;
    let starting = starting(&drives, &survey.drives, &membership.members, status);
    let (ring, handle) = (&session.ring, &session.handle);
    let control = control.serve(ring, handle, starting);
    let named: Vec<_> = drives.opened.iter().map(|drive| drive.path.clone()).collect();
    let (volume, slots) = assemble(stop, &drives, config.scheme.columns(), request.force, output)?;
    volume.limit_rebuild(request.rebuild_limit);
    let store = match sockets {
        None => None,
        Some(sockets) => {
            let starting = sockets.start(session, Rc::new(volume.clone()), &named, output);
            match session.executor.run(starting) {
                Ok(store) => Some(store),
                Err(error) => {
                    session.executor.run(volume.close());
                    return Err(error);
                }
            }
        }
    };
    let array = config.array;
    let drive: Rc<dyn ZonedDevice> = Rc::new(volume.clone());
    let service = ZonedService::new(ring, handle, config, volume, slots, others);
    request.scrub.into_iter().for_each(|schedule| service.schedule_scrubs(schedule));
    let service = Rc::new(service);
    control.started(service.clone());
    let ublk = UblkDisk::Zoned(drive.clone());
    let disk = options.map(|options| start_ublk(session, ublk, options, output)).transpose()?;
    let hosts = places.nvme_tcp.as_ref().zip(listener).map(|(subsystem, listener)| {
        let device = NvmeTcpDevice::Zones(drive);
        let server = subsystem.start(session, array, device, 0, listener, output);
        (subsystem.export(&server, array), server)
    });
    let (export, nvme_tcp) = hosts.unzip();
    let path = disk.as_ref().map(|disk| disk.path().display().to_string());
    let exports: Vec<_> = path.into_iter().chain(export).collect();
    let hints = match &store {
        Some(store) => store.hints(),
        None => hints(disk.as_ref(), &drives),
    };
    if let Some(store) = &store {
        service.holds_store(store.uris().to_vec(), store.clients());
    }
    service.note(What::Started { exports: exports.clone() });
    service.adopt(ZonedFronts { disk, nvme_tcp }, exports);
    Ok(Running { service, control, hints, store, receivers: Receivers::default() })
}

/// Opens the drives and the control socket, and checks that the volume would start.
fn prepare(
    session: &Session,
    request: &Served,
    paths: &[PathBuf],
    output: &Output,
) -> Result<Prepared, CliError> {
    assert!(!paths.is_empty(), "the start has gathered drives");
    let mut drives = session.open_some(paths, Access::Exclusive)?;
    if request.unusable() == Unusable::Refuse {
        refuse_unopened(session, &mut drives)?;
    }
    let mut survey = session.executor.run(survey(offer(&drives.opened)));
    let membership = survey.membership.clone();
    let refusal = survey.refusal.take_if(|_| !request.force || membership.is_none());
    let verdicts = &survey.drives;
    if let Some(membership) = &membership {
        refuse_others(&membership.config, verdicts)?;
    }
    if let Some(refusal) = refusal {
        return Err(refusal.into());
    }
    if request.unusable() == Unusable::Refuse {
        refuse_unreadable(verdicts, true)?;
    }
    let membership = membership.ok_or(CliError::NoArray)?;
    if request.unusable() == Unusable::Refuse && !request.force {
        refuse_strangers(&membership.config, &membership.members, verdicts)?;
    }
    refuse_full_disk(&drives.opened, verdicts)?;
    let array = membership.config.array;
    let others = describe_drives(&drives, verdicts, &membership.config);
    tell_others(&others, output);
    // Fails if another server has this array, for example with the originals of these drives.
    let control = ControlSocket::listen(array)?;
    Ok(Prepared { found: Found { drives, survey, membership }, others, control })
}

/// Starts the volume, with its drives by slot. Missing members are taken out of service: after a
/// clean stop by the first change, otherwise at once.
fn assemble(
    stop: &Stop<'_>,
    drives: &Drives,
    columns: usize,
    force: bool,
    output: &Output,
) -> Result<(Volume, Vec<Option<NamedDrive>>), CliError> {
    let session = stop.session;
    let options = OpenOptions { force, lineage: Lineage(random_number()?) };
    let opening = open(&session.handle, offer(&drives.opened), options);
    let (volume, report) = session.executor.run(unless(stop.wait(), opening))??;
    let OpenReport { drives: verdicts, relocated_blocks, given_up } = report;
    relocated(relocated_blocks, output);
    tell_given_up(&given_up, output);
    assert_eq!(verdicts.len(), drives.opened.len(), "a role for each drive");
    let mut slots = vec![None; columns];
    for (verdict, named) in verdicts.iter().zip(&drives.opened) {
        if let DriveRole::Member { slot, .. } = verdict.role {
            slots[slot.index()] = Some(named.clone());
        }
    }
    Ok((volume, slots))
}

/// Zones that are named one by one.
const ZONES_TOLD: usize = 16;

/// Warns of zones that lost their ends by force: drives that gave no answer may have had them.
fn tell_given_up(given_up: &[GivenUp], output: &Output) {
    for GivenUp { zone, unread: Unread { part, slot, status } } in given_up.iter().take(ZONES_TOLD)
    {
        let part = match part {
            UnreadPart::ParityLog => "parity log",
            UnreadPart::Zone(_) => "column",
        };
        output.warning(format_args!(
            "zone {zone} may have lost blocks at its end: --force gave up the {part} of slot \
             {slot}, which was not read ({status})"
        ));
    }
    if let Some(more @ 1..) = given_up.len().checked_sub(ZONES_TOLD) {
        output.warning(format_args!("{more} more zones may have lost blocks at their ends"));
    }
}

/// Refuses options of block volumes.
fn refuse_options(request: &Served) -> Result<(), CliError> {
    let writing = &request.writing;
    let options = [
        ("spare", !request.spare.is_empty()),
        ("no-hedging", request.no_hedging),
        ("index-memory", request.index_memory.is_some()),
        ("whole-index", request.whole_index),
        ("write-mode", writing.write_mode != WriteMode::default()),
        ("small", writing.small.is_some()),
        ("large", writing.large.is_some()),
        ("group-rows", writing.group_rows.is_some()),
        ("profile", writing.profile.is_some()),
    ];
    match options.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            let problem = "is for block volumes, and this array has a zoned volume: leave it out";
            Err(usage(option)(problem.to_owned()))
        }
    }
}

/// Commands that show or use the volume.
fn hints(disk: Option<&UblkServer>, drives: &Drives) -> Vec<String> {
    let disk = disk.map(|disk| format!("blkzone report {}", word(disk.path().display())));
    let first = drives.opened.first();
    let zones = first.map(|named| format!("zoneweave zoned report {}", word(&named.label)));
    disk.into_iter().chain(zones).collect()
}

impl Running {
    /// The same, with receivers of its events.
    pub(super) fn with_receivers(self, receivers: Receivers) -> Self {
        Self { receivers, ..self }
    }

    /// Serves until a signal, then shuts the volume down.
    pub(super) fn serve(self, stop: &Stop<'_>, output: &Output) -> Result<Exit, CliError> {
        let Stop { session, signals, lifecycle } = stop;
        let Self { service, control, hints, store, receivers } = self;
        let tell_news = || {
            service.look_around().iter().for_each(|event| receivers.receive(event, output));
        };
        // Before the status is taken, so that it shows the rebuild.
        session.handle.spawn("resume rebuild", service.clone().resume());
        let status = session.executor.run(service.status());
        let status = VolumeStatus::One(Box::new(status));
        announce(&status, &hints, output);
        lifecycle.serving(&summary(&status));
        let described = service.clone();
        lifecycle.describe(async move || described.status().await);
        let watching = async {
            loop {
                service.scrub_on_schedule(unix_seconds());
                service.retry_rebuild();
                tell_news();
                session.handle.sleep(WATCH_PERIOD).await;
            }
        };
        let mut signal = None;
        let stopped = async { signal = Some(signals.next().await) };
        session.executor.run(until(stopped, watching));
        signals.stopping();
        lifecycle.stopping();
        tell_news();
        service.note(What::Stopping);
        output.note("stopping: finishing requests in flight");
        control.close();
        session.executor.run(async {
            if let Some(store) = store {
                store.stop().await;
            }
            let ZonedFronts { disk, nvme_tcp } = service.release();
            if let Some(disk) = disk {
                stop_ublk(disk, output).await;
            }
            if let Some(server) = nvme_tcp {
                server.shutdown().await;
            }
            service.volume().clone().close().await;
        });
        // Jobs that this has ended, too.
        tell_news();
        if let Some(Err(error)) = signal {
            return Err(CliError::System { action: "wait for a signal", error });
        }
        if let Some(reason) = service.volume().status().stopped {
            return Err(CliError::StoppedZoned { reason });
        }
        output.note("stopped; all acknowledged writes are on the drives");
        Ok(Exit::Done)
    }
}

impl Places {
    /// Refuses front ends that have no zones.
    fn refuse_blocks(&self, name: &str) -> Result<(), CliError> {
        let fronts = [
            ("NBD", !self.endpoints.is_empty()),
            ("vhost-user", self.vhost_user.is_some()),
            ("FUSE", self.fuse.is_some()),
        ];
        let front = fronts.into_iter().find(|(_, is_given)| *is_given).map(|(front, _)| front);
        match front {
            None => Ok(()),
            Some(front) => Err(CliError::WithoutZones { front, name: name.to_owned() }),
        }
    }
}
