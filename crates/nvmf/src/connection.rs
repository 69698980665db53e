//! A connection: one queue of a controller, from its first byte to its last.
//!
//! The front end feeds bytes and gets [`Step`]s. It runs the requests, in any order and together,
//! and completes each of them once. A request whose data is still with the host gets it by
//! [`Connection::fetch`]: the front end decides when it has memory for it. Asking in the order of
//! the requests cannot deadlock, because fetched data needs nothing else to arrive.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::{Buf, Bytes};

use crate::admin::{self, Answer, FABRICS, fabrics};
use crate::command::{Command, Data, Outcome};
use crate::connect::{ConnectRequest, Refusal, capsule_data, check_length};
use crate::nvm::{self, Operation, Plan, Transfer};
use crate::pdu::Violation;
use crate::status::Status;
use crate::target::{ControllerId, QueueKey, Shutdown, Target};
use crate::transport::{Capsule, Intact, Received, Transport};

/// The identifier of a command, while it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u16);

/// An operation for a device.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// Names the request in [`Connection::complete`].
    pub tag: Tag,
    /// Position of the namespace in the subsystem.
    pub namespace: usize,
    /// What to do.
    pub operation: Operation,
    /// The host's data.
    pub data: HostData,
}

/// Where the data of a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostData {
    /// The request has none, or it goes to the host.
    None,
    /// It came with the command.
    Here(Bytes),
    /// So many bytes are with the host: see [`Connection::fetch`].
    Remote(usize),
}

/// How a request succeeded.
#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    /// Without more to say.
    Plain,
    /// With the data that was read, or reported.
    Data(Vec<Bytes>),
    /// With the block where appended data starts.
    At(u64),
}

/// What has happened.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The input is used up.
    NeedsInput,
    /// Something was answered; there may be more input.
    Answered,
    /// The front end has something to do.
    Request(Request),
    /// The data that was fetched for a request. `None` if it was damaged on its way: the request
    /// is over, and needs no completion.
    Data(Tag, Option<Bytes>),
    /// Everything written must become durable; then [`Target::shut_down`] completes it.
    ShutDown(Shutdown),
}

/// Why a connection is over. What is in its output should still be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// The host broke the rules.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The host says that we broke them.
    #[error("the host ended the connection by a termination request")]
    Terminated,
    /// The host has disconnected this queue.
    #[error("the host disconnected the queue")]
    Disconnected,
    /// The controller of this queue is gone, or was reset.
    #[error("the controller of the queue is gone")]
    Stale,
}

/// The queue of a connection.
struct Queue {
    key: QueueKey,
    entries: u16,
    head: u16,
}

/// A request that was given to the front end.
struct Flight {
    transfer: Transfer,
    /// Bytes with the host that can be fetched; may be more than are needed.
    remote_bytes: Option<usize>,
    /// Whether the statistics of reads and writes have it.
    is_counted: bool,
}

/// One connection of a host.
pub struct Connection {
    /// Where the host has reached us.
    reached_at: SocketAddr,
    transport: Transport,
    queue: Option<Queue>,
    flights: BTreeMap<u16, Flight>,
    /// Asynchronous Event Requests.
    events: Vec<u16>,
}

impl Connection {
    /// A connection from which nothing was received; the discovery service announces its address.
    #[must_use]
    pub fn new(reached_at: SocketAddr) -> Self {
        Self {
            reached_at,
            transport: Transport::new(),
            queue: None,
            flights: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Whether the host has connected a queue; until then, its time should be limited.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.queue.is_some()
    }

    /// The controller of the queue.
    #[must_use]
    pub fn controller(&self) -> Option<ControllerId> {
        self.queue.as_ref().map(|queue| queue.key.controller)
    }

    /// Whether the controller of the queue is gone or was reset, so that the connection must end.
    #[must_use]
    pub fn is_stale(&self, target: &Target) -> bool {
        self.queue.as_ref().is_some_and(|queue| !target.has(queue.key))
    }

    /// Requests that the front end has not completed.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Bytes that wait to be sent. The front end should not receive while there are many.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        self.transport.output_bytes()
    }

    /// Takes the bytes that wait to be sent.
    #[must_use]
    pub fn take_output(&mut self) -> Vec<Bytes> {
        self.transport.take_output()
    }

    /// Takes bytes of the host until something has happened.
    ///
    /// # Errors
    /// The end of the connection: the output should be sent, and nothing more received.
    pub fn receive(
        &mut self,
        target: &mut Target,
        now_ms: u64,
        input: &mut impl Buf,
    ) -> Result<Step, End> {
        if self.is_stale(target) {
            return Err(End::Stale);
        }
        match self.transport.receive(input)? {
            None => Ok(Step::NeedsInput),
            Some(Received::Capsule(capsule)) => self.take_capsule(target, now_ms, &capsule),
            Some(Received::Transfer(id, data, Intact(true))) => {
                let flight = self.flights.get(&id).expect("transfers are of requests");
                let Transfer::FromHost(length) = flight.transfer else {
                    unreachable!("only data from the host is fetched");
                };
                Ok(Step::Data(Tag(id), Some(data.slice(..length))))
            }
            Some(Received::Transfer(id, _, Intact(false))) => {
                self.flights.remove(&id).expect("transfers are of requests");
                self.respond(id, Status::TRANSIENT_TRANSPORT.into());
                Ok(Step::Data(Tag(id), None))
            }
            Some(Received::Termination) => {
                self.transport.end();
                Err(End::Terminated)
            }
        }
    }

    /// Asks the host for the data of a request that is [`HostData::Remote`].
    ///
    /// # Panics
    /// If its data was fetched before.
    pub fn fetch(&mut self, tag: Tag) {
        if self.transport.is_over() {
            return;
        }
        let flight = self.flights.get_mut(&tag.0).expect("the request is in flight");
        let length = flight.remote_bytes.take().expect("data is fetched once, if it is remote");
        self.transport.fetch(tag.0, length);
    }

    /// Answers a request.
    ///
    /// # Panics
    /// If the data has another length than was asked for, or the request is not in flight.
    pub fn complete(&mut self, target: &mut Target, tag: Tag, result: Result<Done, Status>) {
        if self.transport.is_over() {
            return;
        }
        let flight = self.flights.remove(&tag.0).expect("the request is in flight");
        let (data, result) = match result {
            Ok(Done::Plain) => (Vec::new(), 0),
            Ok(Done::Data(data)) => (data, 0),
            Ok(Done::At(lba)) => (Vec::new(), lba),
            Err(status) => return self.respond(tag.0, status.into()),
        };
        let length: usize = data.iter().map(Bytes::len).sum();
        let expected = if let Transfer::ToHost(length) = flight.transfer { length } else { 0 };
        assert_eq!(length, expected, "the data of a request has its length");
        if flight.is_counted {
            self.count(target, flight.transfer);
        }
        if length > 0 {
            self.transport.send_data(tag.0, data);
        }
        self.respond(tag.0, Outcome { result, ..Outcome::SUCCESS });
    }

    /// The connection is over: its queue is free, and its requests are forgotten.
    pub fn close(&mut self, target: &mut Target) {
        self.transport.end();
        if let Some(queue) = &self.queue {
            target.disconnect(queue.key);
        }
    }

    fn take_capsule(
        &mut self,
        target: &mut Target,
        now_ms: u64,
        capsule: &Capsule,
    ) -> Result<Step, End> {
        let Capsule { command, data, intact } = capsule;
        let id = command.id();
        let Some(queue) = &mut self.queue else {
            let outcome = match intact {
                Intact(true) => self.connect(target, now_ms, command, data),
                Intact(false) => Status::TRANSIENT_TRANSPORT.into(),
            };
            self.respond(id, outcome);
            return Ok(Step::Answered);
        };
        let key = queue.key;
        queue.head = (queue.head + 1) % queue.entries;
        let violation = if self.flights.contains_key(&id) || self.events.contains(&id) {
            // The identifier of the command.
            Some(Violation::InvalidHeader { offset: 10 })
        } else if self.flights.len() + self.events.len() >= usize::from(queue.entries) {
            Some(Violation::Sequence)
        } else {
            None
        };
        if let Some(violation) = violation {
            self.transport.violate(violation, command.header());
            return Err(violation.into());
        }
        assert!(queue.head < queue.entries, "a head pointer wraps around");
        target.controller(key).ok_or(End::Stale)?.see(now_ms);
        if !intact.0 {
            self.respond(id, Status::TRANSIENT_TRANSPORT.into());
            return Ok(Step::Answered);
        }
        let answer = match command.opcode() {
            FABRICS => admin::fabrics_command(target, key, command),
            _ if key.queue == 0 => {
                let held = self.events.len();
                admin::admin_command(target, key, command, held, self.reached_at)
            }
            _ => match self.request(target, key, command, data) {
                Ok(Some(request)) => return Ok(Step::Request(request)),
                Ok(None) => Answer::Done(Outcome::SUCCESS),
                Err(status) => Answer::Done(status.into()),
            },
        };
        self.answer(id, answer)
    }

    fn answer(&mut self, id: u16, answer: Answer) -> Result<Step, End> {
        match answer {
            Answer::Done(outcome) => self.respond(id, outcome),
            Answer::Data(data) => {
                self.transport.send_data(id, vec![data]);
                self.respond(id, Outcome::SUCCESS);
            }
            Answer::Hold => self.events.push(id),
            Answer::Abort { queue, command } => {
                let held = self.events.iter().position(|event| *event == command);
                let held = held.filter(|_| queue == 0);
                if let Some(index) = held {
                    self.events.remove(index);
                    self.respond(command, Status::ABORT_REQUESTED.into());
                }
                // Bit 0: the command was not aborted.
                let result = u64::from(held.is_none());
                self.respond(id, Outcome { result, ..Outcome::SUCCESS });
            }
            Answer::Disconnect => {
                self.respond(id, Outcome::SUCCESS);
                self.transport.end();
                return Err(End::Disconnected);
            }
            Answer::ShutDown(shutdown) => {
                self.respond(id, Outcome::SUCCESS);
                return Ok(Step::ShutDown(shutdown));
            }
        }
        Ok(Step::Answered)
    }

    /// The first command of a connection.
    fn connect(
        &mut self,
        target: &mut Target,
        now_ms: u64,
        command: &Command,
        data: &Bytes,
    ) -> Outcome {
        if command.opcode() != FABRICS || command.fabrics_type() != fabrics::CONNECT {
            return Status::COMMAND_SEQUENCE.into();
        }
        let admitted: Result<_, Refusal> = ConnectRequest::parse(command, data)
            .and_then(|request| Ok((target.connect(&request, now_ms)?, request.entries)));
        match admitted {
            Ok((key, entries)) => {
                self.queue = Some(Queue { key, entries, head: 1 });
                Outcome { result: key.controller.0.into(), ..Outcome::SUCCESS }
            }
            Err(refusal) => refusal.into(),
        }
    }

    /// A request of an I/O queue; `None` if there is nothing to do.
    fn request(
        &mut self,
        target: &mut Target,
        key: QueueKey,
        command: &Command,
        capsule: &Bytes,
    ) -> Result<Option<Request>, Status> {
        let described = command.data()?;
        let controller = target.controller(key).ok_or(Status::COMMAND_SEQUENCE)?;
        let (write_cache, sets) = (controller.features.write_cache, controller.command_sets());
        let namespace = target.namespace(command.namespace(), sets)?;
        let Some(Plan { operation, transfer }) = nvm::plan(namespace, command, write_cache)? else {
            return Ok(None);
        };
        let data = match (transfer, described) {
            (Transfer::None, _) => HostData::None,
            (Transfer::FromHost(length), Data::Capsule { .. }) => {
                HostData::Here(capsule_data(command, capsule, length, spare(&operation))?)
            }
            (Transfer::ToHost(_), Data::Capsule { .. }) => return Err(Status::SGL_TYPE_INVALID),
            (Transfer::ToHost(length), Data::Host { length_bytes }) => {
                check_length(length, length_bytes, 0)?;
                HostData::None
            }
            (Transfer::FromHost(length), Data::Host { length_bytes }) => {
                check_length(length, length_bytes, spare(&operation))?;
                HostData::Remote(length_bytes as usize)
            }
        };
        let remote_bytes = if let HostData::Remote(bytes) = data { Some(bytes) } else { None };
        let is_counted = matches!(
            operation,
            Operation::Read { .. } | Operation::Write { .. } | Operation::Append { .. }
        );
        self.flights.insert(command.id(), Flight { transfer, remote_bytes, is_counted });
        let namespace = command.namespace() as usize - 1;
        Ok(Some(Request { tag: Tag(command.id()), namespace, operation, data }))
    }

    fn respond(&mut self, command: u16, outcome: Outcome) {
        let head = self.queue.as_ref().map_or(0, |queue| queue.head);
        self.transport.send_completion(&outcome.completion(command, head));
    }

    fn count(&self, target: &mut Target, transfer: Transfer) {
        let queue = self.queue.as_ref().expect("requests come from queues");
        let Some(controller) = target.controller(queue.key) else { return };
        let blocks = |bytes: usize| (bytes / nvm::BLOCK_BYTES) as u64;
        let counters = &mut controller.counters;
        match transfer {
            Transfer::ToHost(bytes) => {
                counters.reads += 1;
                counters.read_blocks += blocks(bytes);
            }
            Transfer::FromHost(bytes) => {
                counters.writes += 1;
                counters.written_blocks += blocks(bytes);
            }
            Transfer::None => unreachable!("reads and writes move data"),
        }
    }
}

/// Bytes that the data of an operation may be described with beyond its own: Linux describes a page
/// for the ranges of Dataset Management, however few they are.
fn spare(operation: &Operation) -> usize {
    if let Operation::Deallocate { .. } = operation { nvm::BLOCK_BYTES } else { 0 }
}
