//! The control protocol of a server: one JSON document per line, each way, over a unix socket.
//!
//! The socket is named by the UUID of the array, which the client reads from the superblock of any
//! drive, so that no command needs its path. A client sends one request and reads `hello`, any
//! number of `progress`, then `done` or `failed`.
//!
//! Fault model: the directory, the mode of the socket and the peer's credentials admit only root
//! and the server's own user. Requests are bounded in size all the same.

mod all;
mod client;
mod directory;
mod jobs;
mod pace;
mod retries;
mod schedule;
mod served;
mod server;
mod service;
mod slots;
mod stop;
mod waiting;
mod zoned;
mod zones;

use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zoneweave_raid::log::ScrubOrder;

use crate::error::CliError;
use crate::job::Job;

pub(crate) use all::{Answer, ask_all, refuse_of_siblings};
pub(crate) use client::{Client, only_served, refuse_locked};
pub(crate) use directory::{
    array_of, has_store_sockets, listen, socket_of, sockets, store_socket_of_array,
    store_socket_of_drive,
};
pub(crate) use schedule::{Schedule, parse_schedule};
pub(crate) use served::{Claim, GivenDrive, ServedDrive, claim};
pub(crate) use server::{ControlServer, ControlSocket, Starting};
pub(crate) use service::{Servers, Service};
pub(crate) use waiting::Waiting;
pub(crate) use zoned::{ZonedFronts, ZonedService};
pub(crate) use zones::{Shape, ZoneAnswer, ZoneCommand};

/// Time limit of a client for a server to take a connection, and for each of its messages. A
/// working server answers at once, and reports the progress of a job several times a second.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// The longest request, newline included.
pub(crate) const REQUEST_BYTES: usize = 8192;

/// The longest answer that a client accepts: the segments of a large array.
pub(crate) const RESPONSE_BYTES: u64 = 256 << 20;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// The array's status.
    Status,
    /// The slots in service whose drives no start would have, by a look at what is on media.
    LostOnMedia,
    /// The segments: their zones and valid blocks.
    Segments,
    /// The events after that of a number.
    Events {
        /// The number; 0 for all that the server remembers.
        after: u64,
    },
    /// Take a member out of service.
    Fail {
        /// Its slot.
        slot: usize,
        /// Whether even if the array would not start again from what is on media.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Take a member out of service and close its drive, which is to be put back.
    Offline {
        /// Its slot.
        slot: usize,
        /// As for `Fail`; also if its drive would not open again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Put the former drive of a slot back, with what it has.
    Online {
        /// The slot.
        slot: usize,
        /// Absolute path of the drive; that of the last drive of the slot by default.
        drive: Option<PathBuf>,
    },
    /// Put a drive into a slot and rebuild it.
    Replace {
        /// The slot.
        slot: usize,
        /// Absolute path of the drive.
        drive: PathBuf,
        /// Whether zoneweave data on an emulated drive may be overwritten.
        destroy: bool,
        /// Whether the drive may be overwritten whatever it holds (`--destroy`).
        #[serde(default)]
        by_name: bool,
    },
    /// Check such a replacement, and say what it would overwrite.
    TryReplace {
        /// The slot.
        slot: usize,
        /// Absolute path of the drive.
        drive: PathBuf,
        /// Whether zoneweave data on an emulated drive may be overwritten.
        destroy: bool,
    },
    /// Verify all data and parity.
    Scrub,
    /// Forget errors and lost ranges.
    Clear,
    /// End the server, as SIGTERM does. The answer comes first.
    Stop,
    /// Add a hot spare, which must be blank.
    AddSpare {
        /// Absolute path of the drive.
        drive: PathBuf,
    },
    /// Give a hot spare back that was not used.
    RemoveSpare {
        /// Absolute path of the drive.
        drive: PathBuf,
    },
    /// Give an order to the scrub.
    OrderScrub {
        /// The order.
        order: Order,
    },
    /// The zoned volume as a drive.
    Shape,
    /// A command to the zones of the volume; data of a write follows the line.
    Zones {
        /// The command.
        command: ZoneCommand,
    },
}

/// An order to the scrub of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    Resume,
    Pause,
    Stop,
}

impl From<Order> for ScrubOrder {
    fn from(order: Order) -> Self {
        match order {
            Order::Resume => Self::Run,
            Order::Pause => Self::Pause,
            Order::Stop => Self::Stop,
        }
    }
}

impl Request {
    /// Blocks of data behind the line of the request.
    const fn sent_blocks(&self) -> u32 {
        match self {
            Self::Zones { command } => command.sent_blocks(),
            _ => 0,
        }
    }
}

impl Response {
    /// The end of a request.
    fn of(outcome: Result<serde_json::Value, CliError>) -> Self {
        match outcome {
            Ok(result) => Self::Done { result },
            Err(error) => Self::Failed { exit: error.exit().code(), message: error.to_string() },
        }
    }
}

/// The version of requests and answers.
pub(crate) const PROTOCOL_VERSION: u32 = 2;

/// An array in service, as clients of its control socket see it.
pub(crate) trait ServedArray {
    /// The drives that are open, for clients to compare with theirs.
    fn drives(&self) -> Vec<ServedDrive>;

    /// Progress of the rebuild, or of the scrub.
    fn progress(&self, rebuild: bool) -> Option<Job>;

    /// Answers a request, with the data behind it.
    fn respond(self: Rc<Self>, request: Request, data: Bytes) -> Responding;
}

/// The result of a request.
pub(crate) struct Answered {
    result: serde_json::Value,
    /// Data behind the line of the answer.
    data: Vec<Bytes>,
}

impl From<serde_json::Value> for Answered {
    fn from(result: serde_json::Value) -> Self {
        Self { result, data: Vec::new() }
    }
}

/// The future of an answer.
pub(crate) type Responding = Pin<Box<dyn Future<Output = Result<Answered, CliError>>>>;

/// An answer of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(crate) enum Response {
    /// Sent to every client first.
    Hello {
        /// [`PROTOCOL_VERSION`] of the server.
        version: u32,
        /// The drives that it has open.
        #[serde(default)]
        drives: Vec<ServedDrive>,
    },
    /// The work is in progress.
    Progress {
        /// The progress.
        job: Job,
    },
    /// The work is done.
    Done {
        /// The result.
        result: serde_json::Value,
    },
    /// The work failed, or was refused.
    Failed {
        /// The exit code for the client.
        exit: u8,
        /// The error.
        message: String,
    },
}
