//! The shards of a volume that run in threads of their own.
//!
//! A thread owns its drives, its engine and its control socket, and shares nothing. Requests for
//! its part of the volume arrive over a link. The thread of the front ends runs the first shard. A
//! panic in any thread ends the process, as with a single thread.

use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use zoneweave_linux::{DeviceLink, RemoteDevice};
use zoneweave_raid::shards::Shards;
use zoneweave_zoned::BlockDevice;

use super::engine::Engine;
use super::orders::Order;
use crate::control::Servers;
use crate::error::CliError;
use crate::output::Output;
use crate::session::Session;
use crate::status::{ArrayStatus, VolumeStatus};
use crate::wait::until;

/// A shard in another thread.
struct Other {
    /// Its link and status once it has started.
    told: Receiver<Result<(DeviceLink, ArrayStatus), CliError>>,
    thread: JoinHandle<Result<(), CliError>>,
}

/// The shards in other threads. Drop ends them and waits.
#[derive(Default)]
pub(super) struct Others {
    threads: Vec<Other>,
    devices: Vec<Rc<RemoteDevice>>,
    /// Status of each at its start.
    statuses: Vec<ArrayStatus>,
}

impl Others {
    /// Starts threads, which start their arrays.
    pub(super) fn start(orders: Vec<Order>, output: &Output) -> Result<Self, CliError> {
        let mut others = Self::default();
        for order in orders {
            let (telling, told) = channel();
            let output = order.output(output);
            let run = move || run(&order, &output, &telling);
            let thread = std::thread::Builder::new().name("shard".to_owned()).spawn(run);
            let thread =
                thread.map_err(|error| CliError::System { action: "start a thread", error })?;
            others.threads.push(Other { told, thread });
        }
        Ok(others)
    }

    /// Waits until all are started.
    ///
    /// # Errors
    /// The error of the first shard that did not start.
    pub(super) fn connect(&mut self, session: &Session) -> Result<(), CliError> {
        for other in &self.threads {
            let (link, status) = other.told.recv().expect("a thread tells before it ends")?;
            self.devices.push(session.reach(link)?);
            self.statuses.push(status);
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

    /// Ends the threads and waits for them.
    ///
    /// # Errors
    /// The error of the first shard that did not shut down in order.
    pub(super) fn end(mut self) -> Result<(), CliError> {
        self.close()
    }

    fn close(&mut self) -> Result<(), CliError> {
        self.devices.drain(..).for_each(|device| device.close());
        let mut outcome = Ok(());
        for Other { told, thread } in self.threads.drain(..) {
            // Dropping a link that was never received ends the shard as well.
            drop(told);
            let ended = thread.join().unwrap_or(Ok(()));
            outcome = outcome.and(ended);
        }
        outcome
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        // An earlier error is reported already.
        let _ = self.close();
    }
}

/// Ends the process if the thread panics.
struct Fatal;

impl Drop for Fatal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The exit code of a panic in the main thread.
            std::process::exit(101);
        }
    }
}

/// Runs a shard until its link is given back.
fn run(
    order: &Order,
    output: &Output,
    telling: &Sender<Result<(DeviceLink, ArrayStatus), CliError>>,
) -> Result<(), CliError> {
    let _fatal = Fatal;
    let started = Session::new().and_then(|session| {
        let mut engine = Engine::start(&session, order, output)?;
        let status = engine.serve(&session, Servers::default(), Vec::new())?;
        Ok((session, engine, status))
    });
    let (session, engine, status) = match started {
        Ok(started) => started,
        Err(error) => {
            // If the receiver is gone, another shard failed first.
            let _ = telling.send(Err(order.failed(error)));
            return Ok(());
        }
    };
    match session.lend(Rc::new(engine.volume().clone())) {
        Ok((link, given_back)) => {
            let _ = telling.send(Ok((link, status)));
            session.executor.run(until(given_back, engine.watch(&session, output)));
        }
        Err(error) => drop(telling.send(Err(error))),
    }
    engine.tell_news(output);
    engine.close(&session, output)
}
