//! An array of this thread, before and in service: the volume, its control socket and its spares.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::rc::Rc;

use zoneweave_linux::unix_seconds;
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_raid::log::{Hedging, OpenOptions, Volume};
use zoneweave_runtime::Nanos;

use super::fronts::stop_servers;
use super::orders::Order;
use crate::control::{ControlServer, ControlSocket, Schedule, Servers, Service};
use crate::error::CliError;
use crate::events::{Receivers, What};
use crate::output::Output;
use crate::session::{Access, NamedDrive, Session};
use crate::start::{INDEX_PAGES, Started, prepare};
use crate::status::ArrayStatus;
use crate::writing::with_spares;

/// Period of the health check.
const WATCH_PERIOD: Nanos = Nanos::from_secs(1);

/// Why a former member is no spare.
const USELESS_SPARE: &str = "it was a member of this array: it returns to its slot, or takes another one by `zoneweave array replace`";

/// An array that is about to start: its drives are locked, and its control socket listens. Nothing
/// is written yet.
pub(super) struct Prepared {
    start: crate::start::Prepared,
    control: ControlSocket,
    spares: Vec<NamedDrive>,
    useless_spares: Vec<PathBuf>,
    rebuild_limit: Option<NonZeroU64>,
    schedule: Option<Schedule>,
    receivers: Receivers,
}

/// An array in service.
pub(super) struct Engine {
    pub(super) config: ArrayConfig,
    pub(super) service: Rc<Service>,
    control: ControlServer,
    spares: Vec<NamedDrive>,
    receivers: Receivers,
}

impl Prepared {
    /// Opens the drives and the control socket of the array.
    pub(super) fn new(session: &Session, order: &Order, output: &Output) -> Result<Self, CliError> {
        let Order { served, drives, spares, useless_spares, index_memory, .. } = order;
        let spares = spares.iter().map(|path| Ok(session.open(path, Access::Exclusive)?));
        let spares: Vec<_> = spares.collect::<Result<_, CliError>>()?;
        let geometries = spares.iter().map(|spare| spare.member.geometry());
        let options = OpenOptions {
            force: served.force,
            writes: with_spares(served.writing.choice()?, geometries),
            index_memory: *index_memory,
            index_on_demand: (!served.whole_index).then_some(INDEX_PAGES),
            hedging: if served.no_hedging { Hedging::OFF } else { Hedging::default() },
            ..OpenOptions::default()
        };
        let accept = |found: &ArrayConfig| order.accept(found);
        let start = prepare(session, drives, served.unusable(), options, accept, output)?;
        // Fails if another server has this array, for example with the originals of these drives.
        let control = ControlSocket::listen(start.config().array)?;
        let (useless_spares, rebuild_limit) = (useless_spares.clone(), served.rebuild_limit);
        let (schedule, receivers) = (served.scrub, order.receivers.clone());
        Ok(Self { start, control, spares, useless_spares, rebuild_limit, schedule, receivers })
    }

    pub(super) const fn config(&self) -> &ArrayConfig {
        self.start.config()
    }

    /// Starts the array; `stop` ends the start.
    pub(super) fn assemble(
        self,
        session: &Session,
        stop: impl Future<Output = CliError>,
        output: &Output,
    ) -> Result<Engine, CliError> {
        let Self { start, control, spares, useless_spares, rebuild_limit, schedule, receivers } =
            self;
        let (ring, handle) = (&session.ring, &session.handle);
        // A large array takes a while to assemble, and its status says so.
        let control = control.serve(ring, handle, start.starting()?);
        let Started { volume, config, slots, former, others } =
            start.assemble(session, stop, output)?;
        volume.limit_rebuild(rebuild_limit);
        let service = Service::new(ring, handle, config.clone(), volume, slots, others);
        service.expect_back(former)?;
        schedule.into_iter().for_each(|schedule| service.schedule_scrubs(schedule));
        let service = Rc::new(service);
        for path in &useless_spares {
            service.refuse_spare(path, USELESS_SPARE);
        }
        control.started(service.clone());
        Ok(Engine { config, service, control, spares, receivers })
    }
}

impl Engine {
    pub(super) fn volume(&self) -> &Volume {
        self.service.volume()
    }

    /// Registers the front ends, resumes an interrupted rebuild, re-adds former members and adds
    /// the spares. Returns the status.
    pub(super) fn serve(
        &mut self,
        session: &Session,
        servers: Servers,
        exports: Vec<String>,
    ) -> Result<ArrayStatus, CliError> {
        self.service.note(What::Started { exports: exports.clone() });
        self.service.adopt(servers, exports);
        // Before the status is taken, so that it shows the rebuild.
        session.handle.spawn("resume rebuild", self.service.clone().resume());
        self.spares.drain(..).try_for_each(|spare| self.service.keep_spare(spare))?;
        Ok(session.executor.run(self.service.status()))
    }

    /// Checks the array every second, reports changes, and begins what is due: scrubs, and rebuilds
    /// that have stopped.
    pub(super) async fn watch(&self, session: &Session, output: &Output) {
        loop {
            self.service.scrub_on_schedule(unix_seconds());
            self.service.retry_rebuild();
            self.tell_news(output);
            session.handle.sleep(WATCH_PERIOD).await;
        }
    }

    pub(super) fn tell_news(&self, output: &Output) {
        for news in self.service.look_around() {
            self.receivers.receive(&news, output);
        }
    }

    /// Closes the control socket and the servers, then shuts the volume down.
    pub(super) fn close(self, session: &Session, output: &Output) -> Result<(), CliError> {
        self.service.note(What::Stopping);
        self.control.close();
        let closed = session.executor.run(async {
            stop_servers(self.service.release(), output).await;
            self.service.volume().close().await
        });
        // Jobs that this has ended, too.
        self.tell_news(output);
        Ok(closed?)
    }
}
