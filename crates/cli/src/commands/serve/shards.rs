//! The shards of a volume that run in threads of their own.
//!
//! A thread owns its drives, its engine and its control socket, and shares nothing. Requests for
//! its part of the volume arrive over a link. The thread of the front ends runs the first shard. A
//! panic in any thread ends the process, as with a single thread.
//!
//! No shard starts before all of them, and the front ends, have everything that they need.

use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use zoneweave_linux::{DeviceLink, RemoteDevice};
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_raid::shards::Shards;
use zoneweave_zoned::BlockDevice;

use super::engine::{Engine, Prepared};
use super::lifecycle::{Lifecycle, Pulse};
use super::orders::Order;
use super::stop::Stop;
use crate::control::Servers;
use crate::error::CliError;
use crate::output::Output;
use crate::session::Session;
use crate::status::{ArrayStatus, VolumeStatus};
use crate::wait::until;

/// A shard in another thread.
struct Other {
    news: Receiver<Result<News, CliError>>,
    /// Lets the prepared array start; dropping it ends the shard.
    go: Option<Sender<()>>,
    /// Counts while its loop turns.
    pulse: Pulse,
    thread: JoinHandle<Result<(), CliError>>,
}

/// The progress of a shard that starts.
enum News {
    /// It has its drives and its control socket; nothing is written.
    Prepared(ArrayConfig),
    /// It is in service.
    Started(DeviceLink, Box<ArrayStatus>),
}

/// The shards in other threads. Drop ends them and waits.
#[derive(Default)]
pub(super) struct Others {
    threads: Vec<Other>,
    devices: Vec<Rc<RemoteDevice>>,
    /// Status of each at its start.
    statuses: Vec<ArrayStatus>,
}

/// Period at which a wait for a shard looks for a signal.
const LOOKING: Duration = Duration::from_millis(50);

impl Others {
    /// Starts threads, which prepare their arrays.
    pub(super) fn prepare(orders: Vec<Order>, output: &Output) -> Result<Self, CliError> {
        let mut others = Self::default();
        for order in orders {
            let (telling, news) = channel();
            let (go, going) = channel();
            let output = order.output(output);
            let pulse = Pulse::default();
            let own = pulse.clone();
            let run = move || run(&order, &output, &telling, &going, &own);
            let thread = std::thread::Builder::new().name("shard".to_owned()).spawn(run);
            let thread =
                thread.map_err(|error| CliError::System { action: "start a thread", error })?;
            others.threads.push(Other { news, go: Some(go), pulse, thread });
        }
        Ok(others)
    }

    /// Waits until all are prepared; returns their arrays.
    ///
    /// # Errors
    /// The error of the first shard that cannot start, or a signal.
    pub(super) fn prepared(&self, stop: &Stop<'_>) -> Result<Vec<ArrayConfig>, CliError> {
        assert!(self.threads.iter().all(|other| other.go.is_some()), "no shard has started");
        let prepared = self.threads.iter().map(|other| match other.hear(stop)? {
            News::Prepared(config) => Ok(config),
            News::Started(..) => unreachable!("a shard starts after it was prepared"),
        });
        prepared.collect()
    }

    /// Lets all of them start.
    pub(super) fn go(&mut self) {
        for go in self.threads.iter_mut().filter_map(|other| other.go.take()) {
            // A shard that has ended reports why.
            let _ = go.send(());
        }
    }

    /// Waits until all are in service.
    ///
    /// # Errors
    /// The error of the first shard that did not start, or a signal.
    pub(super) fn connect(&mut self, session: &Session, stop: &Stop<'_>) -> Result<(), CliError> {
        assert!(self.threads.iter().all(|other| other.go.is_none()), "every shard may start");
        for other in &self.threads {
            let News::Started(link, status) = other.hear(stop)? else {
                unreachable!("a shard is prepared once");
            };
            self.devices.push(session.reach(link)?);
            self.statuses.push(*status);
        }
        Ok(())
    }

    /// The volume; `first` is its first shard.
    pub(super) fn volume(&self, first: Rc<dyn BlockDevice>) -> Rc<dyn BlockDevice> {
        if self.devices.is_empty() {
            return first;
        }
        let mut parts = vec![first];
        for device in &self.devices {
            parts.push(device.clone());
        }
        Rc::new(Shards::new(parts))
    }

    /// Status of the volume; `first` is that of the first shard.
    pub(super) fn with_first(&self, first: ArrayStatus) -> VolumeStatus {
        if self.statuses.is_empty() {
            return VolumeStatus::One(Box::new(first));
        }
        let all: Vec<_> = std::iter::once(first).chain(self.statuses.iter().cloned()).collect();
        VolumeStatus::of_shards(all.len(), all)
    }

    /// Counts of the threads' loops.
    pub(super) fn pulses(&self) -> Vec<Pulse> {
        self.threads.iter().map(|other| other.pulse.clone()).collect()
    }

    /// Ends the threads and waits for them, with the manager's patience.
    ///
    /// # Errors
    /// The error of the first shard that did not shut down in order.
    pub(super) fn end(mut self, lifecycle: &Lifecycle) -> Result<(), CliError> {
        self.close(|other| {
            let mut waits = lifecycle.waits_for(other.pulse.clone());
            while !other.thread.is_finished() {
                waits.turn();
                std::thread::sleep(LOOKING);
            }
        })
    }

    fn close(&mut self, wait: impl Fn(&Other)) -> Result<(), CliError> {
        self.devices.drain(..).for_each(|device| device.close());
        let mut outcome = Ok(());
        for mut other in self.threads.drain(..) {
            // Dropping a link that was never received ends the shard as well.
            drop((std::mem::replace(&mut other.news, channel().1), other.go.take()));
            wait(&other);
            let ended = other.thread.join().unwrap_or(Ok(()));
            outcome = outcome.and(ended);
        }
        outcome
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        // An earlier error is reported already.
        let _ = self.close(|_| {});
    }
}

/// Ends the process if the thread panics.
struct Fatal<'a>(&'a Output);

impl Drop for Fatal<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The end of the process drops nothing of other threads.
            self.0.end();
            // The exit code of a panic in the main thread.
            std::process::exit(101);
        }
    }
}

impl Other {
    /// The next news of the shard.
    fn hear(&self, stop: &Stop<'_>) -> Result<News, CliError> {
        let mut waits = stop.lifecycle.waits_for(self.pulse.clone());
        loop {
            match self.news.recv_timeout(LOOKING) {
                Ok(news) => return news,
                Err(RecvTimeoutError::Timeout) => {
                    stop.check()?;
                    waits.turn();
                }
                Err(RecvTimeoutError::Disconnected) => panic!("a thread reports before it ends"),
            }
        }
    }
}

/// Runs a shard until its link is given back.
fn run(
    order: &Order,
    output: &Output,
    telling: &Sender<Result<News, CliError>>,
    going: &Receiver<()>,
    pulse: &Pulse,
) -> Result<(), CliError> {
    let _fatal = Fatal(output);
    // If the receiver is gone, another shard failed first.
    let tell = |news| drop(telling.send(news));
    let started = start(order, output, tell, going, pulse);
    let (session, engine, status) = match started {
        Ok(Some(started)) => started,
        Ok(None) => return Ok(()),
        Err(error) => {
            tell(Err(order.failed(error)));
            return Ok(());
        }
    };
    match session.lend(Rc::new(engine.volume().clone())) {
        Ok((link, given_back)) => {
            tell(Ok(News::Started(link, Box::new(status))));
            session.executor.run(until(given_back, engine.watch(&session, output)));
        }
        Err(error) => tell(Err(error)),
    }
    engine.tell_news(output);
    engine.close(&session, output)
}

/// Starts a shard once all are prepared; `None` if they are not to start.
fn start(
    order: &Order,
    output: &Output,
    tell: impl Fn(Result<News, CliError>),
    going: &Receiver<()>,
    pulse: &Pulse,
) -> Result<Option<(Session, Engine, ArrayStatus)>, CliError> {
    let session = Session::new()?;
    pulse.start(&session.handle);
    let prepared = Prepared::new(&session, order, output)?;
    tell(Ok(News::Prepared(prepared.config().clone())));
    if going.recv().is_err() {
        return Ok(None);
    }
    let mut engine = prepared.assemble(&session, std::future::pending(), output)?;
    let status = engine.serve(&session, Servers::default(), Vec::new())?;
    Ok(Some((session, engine, status)))
}
