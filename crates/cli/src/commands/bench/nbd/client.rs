//! A load over NBD: one thread keeps requests in flight over one connection.
//!
//! The client reads all available answers with one call and sends as many requests with another, to
//! be cheap next to the server. A load is all reads or all writes, so that one direction is always
//! short and fits the socket buffer: the two sides cannot block each other while both send.

use std::io::{self, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use zoneweave_nbd::client::{
    Ask, EXPORT_BYTES, GREETING_BYTES, REPLY_HEADER_BYTES, ask_for, export_size, reply, request,
};
use zoneweave_nbd::{Cookie, REQUEST_HEADER_BYTES};
use zoneweave_runtime::Random;

use super::Counted;
use crate::commands::bench::volume::{LATENCY_MOST_NS, Requests};

/// Blocks and depth of the requests of the fill.
const FILL: (u32, u32) = (16, 8);

/// The requests of a load, and their limits.
pub(super) struct Load {
    pub(super) requests: Requests,
    pub(super) volume_bytes: u64,
    pub(super) seconds: f64,
    /// Maximum number of requests.
    pub(super) most: u64,
}

/// A connection to the default export.
struct Connection {
    stream: UnixStream,
    volume_bytes: u64,
}

impl Connection {
    fn open(socket: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        let mut greeting = [0; GREETING_BYTES];
        stream.read_exact(&mut greeting)?;
        stream.write_all(&ask_for(&greeting, "").map_err(io::Error::other)?)?;
        let mut answer = [0; EXPORT_BYTES];
        stream.read_exact(&mut answer)?;
        Ok(Self { stream, volume_bytes: export_size(&answer) })
    }

    fn close(mut self) -> io::Result<()> {
        self.stream.write_all(&request(Ask::Disconnect, Cookie(0), 0, 0))
    }
}

/// Whether a server answers at a socket.
pub(super) fn try_out(socket: &Path) -> io::Result<()> {
    Connection::open(socket)?.close()
}

/// Runs a load.
pub(super) fn run(socket: &Path, load: &Load) -> io::Result<Counted> {
    let connection = Connection::open(socket)?;
    let mut random = Random::new(1);
    let places = connection.volume_bytes / (u64::from(load.requests.blocks) * 4096);
    let mut flight = Flight::new(connection, load.requests);
    let limit = Duration::from_secs_f64(load.seconds);
    let started = Instant::now();
    flight.run(load.most, || random.below(places), || started.elapsed() < limit)?;
    let seconds = started.elapsed().as_secs_f64();
    let latencies = flight.close()?;
    Ok(Counted {
        requests: latencies.len(),
        seconds,
        latency_p50_ns: latencies.value_at_quantile(0.5),
        latency_p99_ns: latencies.value_at_quantile(0.99),
    })
}

/// Writes every block once.
pub(super) fn fill(socket: &Path) -> io::Result<()> {
    let connection = Connection::open(socket)?;
    let (blocks, depth) = FILL;
    let places = connection.volume_bytes / (u64::from(blocks) * 4096);
    let mut next = 0..places;
    let mut flight = Flight::new(connection, Requests { write: true, blocks, depth });
    flight.run(places, || next.next().unwrap_or(0), || true)?;
    flight.close().map(drop)
}

/// Requests in flight, each in a slot whose number is its cookie.
struct Flight {
    connection: Connection,
    requests: Requests,
    /// Time at which each was sent.
    sent: Vec<Instant>,
    /// Free slots.
    free: Vec<usize>,
    headers: Vec<[u8; REQUEST_HEADER_BYTES]>,
    /// Data of every write.
    data: Vec<u8>,
    received: Vec<u8>,
    filled: usize,
    latencies: Histogram<u64>,
}

impl Flight {
    fn new(connection: Connection, requests: Requests) -> Self {
        let depth = requests.depth as usize;
        let mut data = vec![0; requests.blocks as usize * 4096];
        Random::new(2).fill(&mut data);
        let answer = REPLY_HEADER_BYTES + if requests.write { 0 } else { data.len() };
        Self {
            connection,
            requests,
            sent: vec![Instant::now(); depth],
            free: (0..depth).collect(),
            headers: Vec::with_capacity(depth),
            data,
            received: vec![0; answer * depth],
            filled: 0,
            latencies: Histogram::new_with_max(LATENCY_MOST_NS, 3).expect("three digits"),
        }
    }

    /// Sends up to `most` requests while `goes_on`, at least one per slot, and waits for all
    /// answers.
    fn run(
        &mut self,
        most: u64,
        mut place: impl FnMut() -> u64,
        goes_on: impl Fn() -> bool,
    ) -> io::Result<()> {
        let depth = self.sent.len();
        let mut left = most;
        self.send(&mut left, &mut place)?;
        while self.free.len() < depth {
            self.receive()?;
            if goes_on() {
                self.send(&mut left, &mut place)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, left: &mut u64, place: &mut impl FnMut() -> u64) -> io::Result<()> {
        let length = u32::try_from(self.data.len()).expect("requests are short");
        let ask = if self.requests.write { Ask::Write } else { Ask::Read };
        self.headers.clear();
        let now = Instant::now();
        while *left > 0
            && let Some(slot) = self.free.pop()
        {
            *left -= 1;
            let offset = place() * u64::from(length);
            self.headers.push(request(ask, Cookie(slot as u64), offset, length));
            self.sent[slot] = now;
        }
        let mut slices = Vec::with_capacity(2 * self.headers.len());
        for header in &self.headers {
            slices.push(IoSlice::new(header));
            if self.requests.write {
                slices.push(IoSlice::new(&self.data));
            }
        }
        let mut slices = &mut slices[..];
        while !slices.is_empty() {
            let count = self.connection.stream.write_vectored(slices)?;
            IoSlice::advance_slices(&mut slices, count);
        }
        Ok(())
    }

    /// Takes the available answers; waits if there are none.
    fn receive(&mut self) -> io::Result<()> {
        let count = self.connection.stream.read(&mut self.received[self.filled..])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.filled += count;
        let now = Instant::now();
        let answer = self.received.len() / self.sent.len();
        let mut at = 0;
        while let Some(header) = self.received[at..self.filled].first_chunk() {
            let (cookie, error) = reply(header).map_err(io::Error::other)?;
            if error != 0 {
                return Err(io::Error::other(format!("a request failed with error {error}")));
            }
            if at + answer > self.filled {
                break;
            }
            let slot = usize::try_from(cookie.0).ok().filter(|slot| *slot < self.sent.len());
            let slot = slot.ok_or_else(|| io::Error::other("an answer without a request"))?;
            let latency = now.duration_since(self.sent[slot]).as_nanos();
            self.latencies.saturating_record(u64::try_from(latency).unwrap_or(u64::MAX));
            self.free.push(slot);
            at += answer;
        }
        self.received.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(())
    }

    fn close(self) -> io::Result<Histogram<u64>> {
        self.connection.close()?;
        Ok(self.latencies)
    }
}
