//! The control socket of one virtual machine, from its first message until it hangs up.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use thiserror::Error;
use vhost::vhost_user::{BackendReqHandler, Error as ProtocolError};
use zoneweave_runtime::Nanos;

use super::frontend::Frontend;
use super::shared::Shared;
use crate::host::timeout::unless;
use crate::ring::Descriptor;

/// Every message begins with its number, flags and payload size, each four bytes.
const HEADER_BYTES: usize = 12;
/// No message is larger.
const BODY_BYTES_MAX: u32 = 4096;
/// How long the rest of a message may take to come.
const MESSAGE_TIME: Nanos = Nanos::from_secs(10);
/// How often it is looked for; senders send messages as a whole.
const LOOKING: Nanos = Nanos::from_millis(2);

/// Numbers of messages that ask, or replace an event counter, and leave queues as they are: from
/// `GET_FEATURES` to `GET_CONFIG`.
const HARMLESS: [u32; 7] = [1, 13, 14, 15, 16, 17, 24];

/// Why a connection ended before the virtual machine hung up.
#[derive(Debug, Error)]
enum Broken {
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    #[error("a message is truncated")]
    CutShort,
    #[error("a message of {0} bytes is too long")]
    TooLong(u32),
    #[error("the peer does not receive answers")]
    Deaf,
    #[error("{0}")]
    Protocol(ProtocolError),
}

/// Serves a virtual machine until it hangs up, breaks the rules or the server closes.
pub(super) async fn run(shared: &Rc<Shared>, socket: OwnedFd) {
    let Ok(copy) = socket.try_clone() else { return };
    let (frontend, copy) = (Frontend::new(shared), Rc::new(copy));
    let outcome = converse(shared, UnixStream::from(socket), &copy, &frontend).await;
    frontend.rest().await;
    // Not earlier: after a hang-up, QEMU takes the answers so far as complete, and sends the rest
    // to the next server.
    drop(copy);
    // A client that disconnects breaks no rule.
    if !matches!(outcome, Ok(()) | Err(Broken::Socket(_))) {
        shared.count_misbehaviour();
    }
}

async fn converse(
    shared: &Rc<Shared>,
    stream: UnixStream,
    socket: &Descriptor,
    frontend: &Arc<Frontend>,
) -> Result<(), Broken> {
    let mut handler = BackendReqHandler::from_stream(stream, frontend.clone());
    loop {
        let Some(number) = unless(shared.closed(), next_message(shared, socket)).await else {
            return Ok(());
        };
        let Some(number) = number? else { return Ok(()) };
        if !HARMLESS.contains(&number) {
            frontend.rest().await;
        }
        if !has_room(socket)? {
            return Err(Broken::Deaf);
        }
        match handler.handle_request() {
            Ok(()) => frontend.resume(),
            Err(ProtocolError::Disconnected) => return Ok(()),
            Err(error) => return Err(Broken::Protocol(error)),
        }
    }
}

/// Waits until a whole message is there, without receiving it, and returns its number; `None` at
/// the end of the stream.
async fn next_message(shared: &Shared, socket: &Descriptor) -> Result<Option<u32>, Broken> {
    shared.ring.readable(socket).await?;
    let until = shared.handle.now() + MESSAGE_TIME;
    loop {
        let mut header = [0_u8; HEADER_BYTES];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(socket, &mut header, flags) {
            Ok((0, _)) => return Ok(None),
            Ok((HEADER_BYTES, _)) => {
                let field = |at: usize| {
                    u32::from_ne_bytes(header[at..at + 4].try_into().expect("four bytes"))
                };
                let (number, size) = (field(0), field(8));
                if size > BODY_BYTES_MAX {
                    return Err(Broken::TooLong(size));
                }
                let there = rustix::io::ioctl_fionread(socket).map_err(io::Error::from)?;
                if there >= HEADER_BYTES as u64 + u64::from(size) {
                    return Ok(Some(number));
                }
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        if shared.handle.now() >= until {
            return Err(Broken::CutShort);
        }
        shared.handle.sleep(LOOKING).await;
    }
}

/// Whether an answer can be sent without waiting: the kernel says so while three quarters of its
/// room are free.
fn has_room(socket: &Descriptor) -> io::Result<bool> {
    let mut sockets = [PollFd::new(socket, PollFlags::OUT)];
    loop {
        match poll(&mut sockets, Some(&Timespec::default())) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
