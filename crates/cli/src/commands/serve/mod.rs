//! `zoneweave serve`: serves a volume to clients, until SIGTERM, SIGINT or SIGHUP.

mod descriptors;
mod engine;
mod fronts;
mod lifecycle;
mod named;
mod nvme_tcp;
mod options;
mod orders;
mod place;
mod shards;
mod startup_drives;
mod stop;
mod store;
mod verbs;
mod zoned;

use std::rc::Rc;

use clap::Subcommand;
use serde::Serialize;
use zoneweave_linux::Signals;
use zoneweave_raid::log::format::ArrayConfig;
use zoneweave_raid::shards::volume_blocks;
use zoneweave_zoned::BlockDevice;

use crate::control::Servers;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::status::{VolumeStatus, render_volume};
use crate::wait::until;
use crate::zoned::find;
use engine::{Engine, Prepared};
use fronts::{Fronts, Places, look, start_servers, stop_servers};
pub(crate) use fronts::{identity, start_ublk, stop_ublk, uri};
use lifecycle::{Lifecycle, summary};
pub(crate) use named::{ConfigFile, VolumeTable};
pub(crate) use options::{ByName, Served};
use orders::orders;
pub(crate) use place::{parse_buffer, parse_policy};
use shards::Others;
use startup_drives::startup_drives;
use stop::{Stop, end_if_stopped};
pub(crate) use store::tell_report;
use verbs::FrontVerb;
pub(crate) use verbs::{Nbd, StoreServer};

#[derive(Subcommand)]
pub(crate) enum Verb {
    #[command(flatten)]
    Front(Box<FrontVerb>),
    /// Serve a volume as the configuration file describes it
    Named(named::Named),
}

/// The document printed once clients can connect.
#[derive(Serialize)]
struct Serving<'a> {
    uris: &'a [String],
    status: &'a VolumeStatus,
}

pub(crate) fn run(verb: Verb, output: &Output) -> Result<Exit, CliError> {
    let (served, places) = match verb {
        Verb::Named(named) => named.request()?,
        Verb::Front(front) => front.request()?,
    };
    serve(&served, &places, &[], output)
}

/// Serves over NBD until a signal; prints `hints` when clients can connect.
pub(crate) fn serve_nbd(
    request: &Nbd,
    hints: &[String],
    output: &Output,
) -> Result<Exit, CliError> {
    serve(&request.array, &request.places()?, hints, output)
}

/// Serves a file store until a signal.
pub(crate) fn serve_store(request: StoreServer, output: &Output) -> Result<Exit, CliError> {
    let (served, places) = request.request()?;
    serve(&served, &places, &[], output)
}

fn serve(
    request: &Served,
    places: &Places,
    hints: &[String],
    output: &Output,
) -> Result<Exit, CliError> {
    let session = Session::new()?;
    // Before any thread starts: a thread started earlier would still take the signals.
    let signals = Signals::new(&session.ring)
        .map_err(|error| CliError::System { action: "receive signals", error })?;
    let lifecycle = Lifecycle::starting(&session.handle);
    let stop = Stop { session: &session, signals: &signals, lifecycle: &lifecycle };
    let started = start(&stop, request, places, output);
    let started = started.inspect_err(|error| {
        if let CliError::Stopped { .. } = error {
            output.note(error);
        }
        end_if_stopped(error);
    });
    signals.serving();
    output.go_to_background()?;
    let Running { mut engine, others, servers, exports, own } = match started? {
        Started::Blocks(running) => *running,
        Started::Zones(running) => return running.serve(&stop, output),
        Started::Store(running) => return running.serve(&stop, output),
    };
    // However serving ends, the front ends are shut down.
    let served = engine.serve(&session, servers, exports).and_then(|status| {
        let status = others.with_first(status);
        announce(&status, hints, output);
        lifecycle.watch(others.pulses());
        lifecycle.serving(&summary(&status));
        // The other shards have their status in their threads.
        if let VolumeStatus::One(_) = status {
            let service = engine.service.clone();
            lifecycle.describe(async move || service.status().await);
        }
        // Unmounting the file ends the server.
        let watching = async {
            until(engine.watch(&session, &own), engine.service.unmounted()).await;
            output.note("the file was unmounted");
        };
        let signal = session.executor.run(until(watching, signals.next())).transpose();
        signal.map_err(|error| CliError::System { action: "wait for a signal", error })
    });
    signals.stopping();
    lifecycle.stopping();
    engine.tell_news(&own);
    output.note("stopping: finishing requests in flight");
    let closed = engine.close(&session, output);
    others.end(&lifecycle)?;
    closed?;
    served?;
    output.note("stopped; all acknowledged writes are on the drives");
    Ok(Exit::Done)
}

/// A volume in service.
enum Started {
    Blocks(Box<Running>),
    Zones(zoned::Running),
    Store(store::Running),
}

/// A block volume whose front ends answer.
struct Running {
    engine: Engine,
    others: Others,
    servers: Servers,
    exports: Vec<String>,
    /// Output of the first shard.
    own: Output,
}

/// Starts a volume: first everything is opened that can fail, then the arrays start, then clients
/// are answered. Until the arrays start, nothing is written.
fn start(
    stop: &Stop<'_>,
    request: &Served,
    places: &Places,
    output: &Output,
) -> Result<Started, CliError> {
    descriptors::raise_limit();
    let session = stop.session;
    let receivers = request.events.open(output)?;
    let drives = startup_drives(stop, request, output)?;
    if find(session, &drives)?.is_some() {
        let running = zoned::start(stop, request, places, &drives, output)?;
        return Ok(Started::Zones(running.with_receivers(receivers)));
    }
    if let Some(place) = &places.store {
        request.events.refuse_without_array()?;
        return store::start(stop, (request, place), &drives, output).map(Started::Store);
    }
    if places.are_none() {
        return Err(CliError::NotZoned);
    }
    let mut orders =
        orders(session, request, &drives, &receivers, output).map_err(few_descriptors)?;
    assert!(!orders.is_empty(), "a volume has an array");
    let first = orders.remove(0);
    let own = first.output(output);
    let mut others = Others::prepare(orders, output)?;
    let prepared = Prepared::new(session, &first, &own)
        .map_err(|error| first.failed(few_descriptors(error)))?;
    let config = prepared.config();
    let configs = others.prepared(stop).map_err(few_descriptors)?;
    let least = configs.iter().chain([config]).map(|config| config.log().volume_blocks).min();
    let blocks = volume_blocks(least.unwrap_or(0), configs.len() + 1);
    assert!(blocks > 0, "a volume has blocks");
    let fronts = places.open(stop, config, blocks).map_err(few_descriptors)?;
    descriptors::check()?;
    stop.check()?;
    others.go();
    let engine = prepared.assemble(session, stop.wait(), &own);
    let engine = engine.map_err(|error| first.failed(error))?;
    others.connect(session, stop)?;
    let device = others.volume(Rc::new(engine.volume().clone()));
    let (servers, exports) = start_fronts(session, &engine.config, device, fronts, output)?;
    Ok(Started::Blocks(Box::new(Running { engine, others, servers, exports, own })))
}

/// Where descriptors have run out, that is the error to report.
fn few_descriptors(error: CliError) -> CliError {
    if matches!(error, CliError::Stopped { .. }) {
        return error;
    }
    descriptors::check().err().unwrap_or(error)
}

/// Starts the front ends of a volume.
fn start_fronts(
    session: &Session,
    config: &ArrayConfig,
    device: Rc<dyn BlockDevice>,
    fronts: Fronts<'_>,
    output: &Output,
) -> Result<(Servers, Vec<String>), CliError> {
    let (mut servers, mut exports) = (Servers::default(), Vec::new());
    let all = (&mut servers, &mut exports);
    if let Err(error) = start_servers(session, config, device, fronts, all, output) {
        // Leaves no socket and no disk behind.
        session.executor.run(stop_servers(servers, output));
        return Err(error);
    }
    Ok((servers, exports))
}

fn announce(status: &VolumeStatus, hints: &[String], output: &Output) {
    let server = status.arrays().first().and_then(|first| first.server.as_ref());
    let uris = server.map(|server| server.exports.clone()).unwrap_or_default();
    output.result("serving", &Serving { uris: &uris, status }, |output| {
        render_volume(status, output);
        output.line("");
        for hint in hints {
            output.line(hint);
        }
        for uri in &uris {
            output.line(look(uri));
        }
        output.line("ready; stop with Ctrl-C");
    });
}
