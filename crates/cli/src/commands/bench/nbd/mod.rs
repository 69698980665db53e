//! The engine behind an NBD server, compared with nbdkit's memory plugin, which only copies.
//!
//! A thread serves an array of in-memory drives over a unix socket, as `zoneweave serve nbd` does.
//! The load comes from [`client`], and again from fio, for figures comparable to those of others.
//! If fio or nbdkit is not installed, a warning says so and its rows are left out. The servers that
//! are compared run one after the other in each run, so that the machine is equally fast.

mod client;
mod fio;
mod nbdkit;
mod server;

use std::path::Path;

use tempfile::TempDir;

use super::DEPTH;
use super::median::{Beside, beside, median};
use super::volume::{Measure, Requests, ratio};
use super::workload::{FRESH_PERCENT, label_of, requests_of, scheme};
use crate::error::CliError;
use crate::output::Output;
use client::Load;
use fio::Fio;
use nbdkit::Nbdkit;
use server::Host;

/// Block counts and depths of requests.
const REQUESTS: [(u32, u32); 3] = [(1, DEPTH), (16, DEPTH), (1, 1)];

/// Requests of one kind.
pub(super) struct Workload {
    name: &'static str,
    by_fio: &'static str,
    write: bool,
}

/// All of them, in order.
pub(super) const WORKLOADS: [Workload; 2] = [
    Workload { name: "NBD-write", by_fio: "NBD-write by fio", write: true },
    Workload { name: "NBD-read", by_fio: "NBD-read by fio", write: false },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    Ours,
    Nbdkit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    Ours,
    Fio,
}

/// The measurement of a server by a client.
pub(super) struct Row {
    pub(super) array: String,
    pub(super) workload: &'static str,
    pub(super) requests: Requests,
    pub(super) measure: Measure,
    /// For our own server: ratios to nbdkit.
    pub(super) beside: Option<Beside>,
}

struct Measured {
    server: Server,
    client: Client,
    requests: Requests,
    runs: Vec<Measure>,
}

/// Settings of all measurements.
pub(super) struct Settings {
    pub(super) zones: u32,
    pub(super) seconds: f64,
    pub(super) runs: u32,
}

/// Sockets, servers and the installed programs.
struct Bench {
    host: Host,
    nbdkit: Option<Nbdkit>,
    fio: Option<Fio>,
    /// Removed when dropped, after the servers.
    _directory: TempDir,
}

impl Workload {
    /// The label.
    pub(super) fn label(&self) -> String {
        label_of(self.name)
    }

    /// The requests to measure.
    pub(super) fn requests(&self) -> impl Iterator<Item = Requests> {
        requests_of(REQUESTS, self.write)
    }

    /// The medians of runs for each server, client, size and depth.
    pub(super) fn measure(
        &self,
        settings: &Settings,
        of: impl Fn(&Requests) -> bool,
        output: &Output,
    ) -> Result<Vec<Row>, CliError> {
        let requests: Vec<_> = self.requests().filter(of).collect();
        let bench = Bench::new(settings, output)?;
        let mut measured = bench.rows(&requests);
        for _ in 0..settings.runs {
            for row in &mut measured {
                row.runs.push(bench.measure(row, settings.seconds)?);
            }
        }
        Ok(self.reported(&measured))
    }

    fn reported(&self, measured: &[Measured]) -> Vec<Row> {
        let of_nbdkit = |of: &Measured| {
            let same = |row: &&Measured| {
                row.server == Server::Nbdkit
                    && (row.client, row.requests) == (of.client, of.requests)
            };
            measured.iter().find(same).filter(|_| of.server == Server::Ours)
        };
        let row = |of: &Measured| Row {
            array: match of.server {
                Server::Ours => scheme().to_string(),
                Server::Nbdkit => "nbdkit memory".to_owned(),
            },
            workload: match of.client {
                Client::Ours => self.name,
                Client::Fio => self.by_fio,
            },
            requests: of.requests,
            measure: median(&of.runs),
            beside: of_nbdkit(of).map(|nbdkit| beside(&of.runs, &nbdkit.runs)),
        };
        measured.iter().map(row).collect()
    }
}

impl Bench {
    fn new(settings: &Settings, output: &Output) -> Result<Self, CliError> {
        let directory = tempfile::tempdir()
            .map_err(|error| CliError::System { action: "make a folder for sockets", error })?;
        let host = Host::start(settings.zones, directory.path().join("ours.sock"))?;
        let nbdkit = Nbdkit::start(directory.path().join("nbdkit.sock"), host.volume_bytes())?;
        if let Some(nbdkit) = &nbdkit {
            client::fill(nbdkit.socket()).map_err(talking)?;
        } else {
            output.warning(
                "nbdkit is not installed, or lacks its memory plugin: no comparison with it",
            );
        }
        let fio = Fio::find(directory.path().join("fio.json"));
        if fio.is_none() {
            output.warning(
                "fio is not installed, or lacks its engine nbd: measuring with the built-in load only",
            );
        }
        Ok(Self { host, nbdkit, fio, _directory: directory })
    }

    /// The measurements, with the servers that are compared in sequence.
    fn rows(&self, requests: &[Requests]) -> Vec<Measured> {
        let mut rows = Vec::new();
        for requests in requests {
            for client in [Client::Ours, Client::Fio] {
                for server in [Server::Ours, Server::Nbdkit] {
                    let there = (client == Client::Ours || self.fio.is_some())
                        && (server == Server::Ours || self.nbdkit.is_some());
                    if there {
                        rows.push(Measured { server, client, requests: *requests, runs: vec![] });
                    }
                }
            }
        }
        rows
    }

    fn measure(&self, row: &Measured, seconds: f64) -> Result<Measure, CliError> {
        match (&self.nbdkit, row.server) {
            (Some(nbdkit), Server::Nbdkit) => {
                let clock = || nbdkit.processor_time();
                self.load(nbdkit.socket(), row, seconds, &clock)
            }
            _ => {
                let serving = self.host.serve(!row.requests.write)?;
                let clock = || self.host.processor_time();
                let measure = self.load(self.host.socket(), row, seconds, &clock)?;
                serving.stop()?;
                Ok(measure)
            }
        }
    }

    fn load(
        &self,
        socket: &Path,
        row: &Measured,
        seconds: f64,
        processor_ns: &dyn Fn() -> Result<u64, CliError>,
    ) -> Result<Measure, CliError> {
        let volume_bytes = self.host.volume_bytes();
        // Writes end before relocation begins; nbdkit gets the same number.
        let most = self.host.physical_blocks() * FRESH_PERCENT / 100;
        let most =
            if row.requests.write { most / u64::from(row.requests.blocks) } else { u64::MAX };
        let load = Load { requests: row.requests, volume_bytes, seconds, most };
        let before = processor_ns()?;
        let counted = match (&self.fio, row.client) {
            (Some(fio), Client::Fio) => fio.run(socket, &load)?,
            _ => client::run(socket, &load).map_err(talking)?,
        };
        let processor_ns = processor_ns()? - before;
        Ok(Measure {
            blocks_per_second: ratio(counted.requests * u64::from(row.requests.blocks), 1)
                / counted.seconds,
            processor_ns_per_request: ratio(processor_ns.max(1), counted.requests.max(1)),
            latency_p50_ns: counted.latency_p50_ns,
            latency_p99_ns: counted.latency_p99_ns,
            counted: None,
            amplification: None,
            full: None,
            volume_blocks: volume_bytes / 4096,
        })
    }
}

/// The result of a load.
struct Counted {
    requests: u64,
    seconds: f64,
    latency_p50_ns: u64,
    latency_p99_ns: u64,
}

fn talking(error: std::io::Error) -> CliError {
    CliError::System { action: "talk to the NBD server that is measured", error }
}
