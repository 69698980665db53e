//! Asking a running server: one JSON document a line, each way, over a unix socket.
//!
//! The socket is named by the array's UUID, which the client reads from the superblock of any
//! drive, so that nobody has to say where the server is. A client sends one request and reads
//! answers until the last: `hello`, any number of `progress`, then `done` or `failed`.
//!
//! Fault model: only the server's own user and root get past the socket (its directory, its mode
//! and the peer's credentials say who that is); what they send is bounded all the same.

mod all;
mod client;
mod directory;
mod seats;
mod server;
mod service;
mod watch;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::job::Job;

pub(crate) use all::{Answer, ask_all};
pub(crate) use client::Client;
pub(crate) use directory::{socket_of, sockets};
pub(crate) use server::ControlServer;
pub(crate) use service::{Servers, Service, refuse_working};

/// The longest request, newline included.
pub(crate) const REQUEST_BYTES: usize = 8192;

/// The longest answer that a client takes: a status of 32 members, or the segments of a large
/// array.
pub(crate) const RESPONSE_BYTES: u64 = 256 << 20;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// The array's status.
    Status,
    /// Which zones hold what.
    Segments,
    /// Take a member out of service.
    Fail {
        /// Its slot.
        slot: usize,
    },
    /// Put a drive into a slot and rebuild it.
    Replace {
        /// The slot.
        slot: usize,
        /// The drive, as the server finds it.
        drive: PathBuf,
        /// Whether what it holds may be destroyed, if it is ours and on an emulated drive.
        destroy: bool,
        /// Whether it may be destroyed whatever it is, as the drive was named for that.
        #[serde(default)]
        by_name: bool,
    },
    /// Read and verify everything.
    Scrub,
}

/// The version of requests and answers.
pub(crate) const PROTOCOL_VERSION: u32 = 1;

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(crate) enum Response {
    /// Sent to every client first: somebody is there.
    Hello {
        /// [`PROTOCOL_VERSION`] of the server.
        version: u32,
    },
    /// The work goes on.
    Progress {
        /// How far it is.
        job: Job,
    },
    /// The work is done.
    Done {
        /// What was asked for.
        result: serde_json::Value,
    },
    /// The work failed, or was refused.
    Failed {
        /// The exit code for the client.
        exit: u8,
        /// Why.
        message: String,
    },
}
