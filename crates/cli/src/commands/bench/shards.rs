//! A sharded volume, each shard with its own thread: scaling over CPUs.
//!
//! This thread runs the load and the first shard, as the thread of front ends does in a server. The
//! other shards have drives, an engine and a thread each, and receive requests over a link.

use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use zoneweave_linux::DeviceLink;
use zoneweave_raid::shards::Shards;
use zoneweave_zoned::BlockDevice;

use super::DEPTH;
use super::median::median;
use super::volume::{Bench as Drives, Measure, Requests};
use super::workload::{FRESH_PERCENT, USED_PERCENT, label_of, requests_of, scheme};
use crate::error::CliError;
use crate::memory::refuse_too_large;
use crate::session::Session;

/// Block counts and depths of requests.
const REQUESTS: [(u32, u32); 2] = [(1, DEPTH), (16, DEPTH)];

/// Requests of one kind.
pub(super) struct Workload {
    pub(super) name: &'static str,
    write: bool,
}

/// All of them, in order.
pub(super) const WORKLOADS: [Workload; 2] = [
    Workload { name: "shards-write", write: true },
    Workload { name: "shards-read", write: false },
];

/// Settings of all measurements.
pub(super) struct Settings {
    pub(super) zones: u32,
    pub(super) drive_bytes: u64,
    pub(super) seconds: f64,
    pub(super) runs: u32,
}

/// The measurement of a number of shards.
pub(super) struct Row {
    pub(super) array: String,
    pub(super) requests: Requests,
    pub(super) measure: Measure,
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

    /// The medians of runs, for one shard up to one per CPU.
    pub(super) fn measure(
        &self,
        settings: &Settings,
        of: impl Fn(&Requests) -> bool,
    ) -> Result<Vec<Row>, CliError> {
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = shard_counts(most);
        let drives = scheme().columns() * shards.last().expect("one shard at least");
        refuse_too_large(drives, settings.drive_bytes)?;
        let own = Drives::new(scheme().columns(), settings.zones)?;
        let others: Vec<_> = (1..drives / scheme().columns())
            .map(|_| Other::start(settings.zones))
            .collect::<Result<_, _>>()?;
        let of_counts = |shards: usize| {
            self.requests().filter(&of).map(move |requests| (shards, requests, Vec::new()))
        };
        let mut rows: Vec<_> = shards.into_iter().flat_map(of_counts).collect();
        for _ in 0..settings.runs {
            for (shards, requests, runs) in &mut rows {
                runs.push(measure_once(&own, &others[..*shards - 1], *requests, settings.seconds)?);
            }
        }
        let row = |(shards, requests, runs): (usize, Requests, Vec<Measure>)| Row {
            array: format!("{shards} x {}", scheme()),
            requests,
            measure: median(&runs),
        };
        Ok(rows.into_iter().map(row).collect())
    }
}

/// Powers of two, up to the number of CPUs.
fn shard_counts(most: usize) -> Vec<usize> {
    std::iter::successors(Some(1), |shards| Some(shards * 2))
        .take_while(|shards| *shards <= most.max(1))
        .collect()
}

fn measure_once(
    own: &Drives,
    others: &[Other],
    requests: Requests,
    seconds: f64,
) -> Result<Measure, CliError> {
    let array = own.array(scheme(), USED_PERCENT)?;
    let fill = !requests.write;
    if fill {
        array.fill()?;
    }
    let mut parts = vec![array.device()];
    for other in others {
        parts.push(other.device(&own.session, fill)?);
    }
    let shards = parts.len() as u64;
    let most = match requests.write {
        true => own.physical_blocks(scheme()) * FRESH_PERCENT / 100 * shards,
        false => u64::MAX,
    };
    let volume: Rc<dyn BlockDevice> = Rc::new(Shards::new(parts));
    let measured = array.measure_as(volume, requests, seconds, most)?;
    array.close()?;
    Ok(measured)
}

/// A thread with drives, which runs arrays on them one after the other.
struct Other {
    /// Whether to write every block first.
    orders: Option<Sender<bool>>,
    links: Receiver<Result<DeviceLink, CliError>>,
    thread: Option<JoinHandle<()>>,
}

impl Other {
    fn start(zones: u32) -> Result<Self, CliError> {
        let ((orders, ordered), (linking, links)) = (channel(), channel());
        let run = move || {
            let worked = work(zones, &ordered, &linking);
            if let Err(error) = worked {
                // The receiver of the next link gets the error.
                let _ = linking.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("bench shard".to_owned()).spawn(run);
        let thread =
            thread.map_err(|error| CliError::System { action: "start a thread", error })?;
        Ok(Self { orders: Some(orders), links, thread: Some(thread) })
    }

    /// Starts a new array on the drives of this thread; it ends when the returned link is dropped.
    fn device(&self, session: &Session, fill: bool) -> Result<Rc<dyn BlockDevice>, CliError> {
        let orders = self.orders.as_ref().expect("there until this is dropped");
        // If the thread has ended, it has left an error.
        let _ = orders.send(fill);
        let link = self.links.recv().expect("a thread answers every order")?;
        Ok(session.reach(link)?)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported already.
            let _ = thread.join();
        }
    }
}

fn work(
    zones: u32,
    orders: &Receiver<bool>,
    links: &Sender<Result<DeviceLink, CliError>>,
) -> Result<(), CliError> {
    let drives = Drives::new(scheme().columns(), zones)?;
    for fill in orders {
        let array = drives.array(scheme(), USED_PERCENT)?;
        if fill {
            array.fill()?;
        }
        let (link, given_back) = drives.session.lend(array.device())?;
        // The sender of the order waits for it.
        let _ = links.send(Ok(link));
        drives.session.executor.run(given_back);
        array.close()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_a_processor() {
        assert_eq!(shard_counts(1), [1]);
        assert_eq!(shard_counts(2), [1, 2]);
        assert_eq!(shard_counts(7), [1, 2, 4]);
    }
}
