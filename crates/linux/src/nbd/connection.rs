//! One client from its handshake to its last reply.

use std::io;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use zoneweave_nbd::{
    BadMagic, Command, Handshake, HandshakeError, HandshakeStep, REQUEST_HEADER_BYTES,
    RequestError, Session,
};
use zoneweave_runtime::{Permit, Semaphore};

use super::request::{self, Outlet};
use super::shared::Shared;
use crate::host::timeout::timeout;
use crate::ring::Descriptor;
use crate::stream::{HandshakePlace, Input, Output};

/// The least a request takes from the budget, so that there are at most 1,024 of them.
const REQUEST_BYTES_MIN: u64 = 64 << 10;

/// Why a connection ended before the client said goodbye.
#[derive(Debug, Error)]
enum Broken {
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    #[error("the handshake failed: {0}")]
    Handshake(#[from] HandshakeError),
    #[error("the handshake took too long")]
    Slow,
    #[error("{0}")]
    Framing(#[from] BadMagic),
}

/// Serves a client until it leaves, breaks the rules or the server closes.
pub(super) async fn run(shared: &Rc<Shared>, socket: &Descriptor, handshake: HandshakePlace) {
    let mut input = Input::new(shared.clients.ring(), socket);
    let negotiating = negotiate(shared, socket, &mut input);
    let negotiated =
        timeout(shared.clients.handle(), shared.limits.handshake_time, negotiating).await;
    drop(handshake);
    let outcome = match negotiated.unwrap_or(Err(Broken::Slow)) {
        Ok(Some(session)) => transmit(shared, socket, &mut input, session).await,
        Ok(None) => Ok(()),
        Err(broken) => Err(broken),
    };
    // A client that merely vanishes breaks no rule.
    if !matches!(outcome, Ok(()) | Err(Broken::Socket(_))) {
        shared.clients.count_misbehaviour();
    }
}

/// Agrees on an export; `None` if the client wanted none.
async fn negotiate(
    shared: &Shared,
    socket: &Descriptor,
    input: &mut Input,
) -> Result<Option<Session>, Broken> {
    let greeting = Bytes::from_owner(Handshake::greeting());
    shared.clients.ring().send_all(socket, vec![greeting]).await?;
    let mut handshake = Handshake::new(shared.exports.clone());
    loop {
        let mut output = BytesMut::new();
        let mut bytes = input.available();
        let before = bytes.len();
        let step = handshake.advance(&mut bytes, &mut output)?;
        let taken = before - bytes.len();
        input.consume(taken);
        shared.clients.ring().send_all(socket, vec![output.freeze()]).await?;
        handshake = match step {
            HandshakeStep::Ready(session) => return Ok(Some(session)),
            HandshakeStep::Aborted => return Ok(None),
            HandshakeStep::Continue(handshake) => handshake,
        };
        if input.available().is_empty() && !input.receive().await? {
            return Ok(None);
        }
    }
}

/// Reads requests and starts them, then waits for all of them to be answered.
async fn transmit(
    shared: &Rc<Shared>,
    socket: &Descriptor,
    input: &mut Input,
    session: Session,
) -> Result<(), Broken> {
    let output = Rc::new(Output::default());
    let writer = shared.clients.handle().spawn("NBD writer", {
        let (ring, socket, output) =
            (shared.clients.ring().clone(), socket.clone(), output.clone());
        async move { output.run(&ring, &socket).await }
    });
    let budget = Semaphore::new(shared.limits.in_flight_bytes);
    let outcome = read_requests(shared, input, &session, &output, &budget).await;
    // The whole budget is back when every reply was sent or given up.
    drop(budget.acquire_many(shared.limits.in_flight_bytes).await);
    output.close();
    writer.await;
    outcome
}

/// A share of the budget, without waiting if one is free.
async fn acquire(budget: &Semaphore, share: u64) -> Permit {
    match budget.try_acquire_many(share) {
        Some(permit) => permit,
        None => budget.acquire_many(share).await,
    }
}

async fn read_requests(
    shared: &Rc<Shared>,
    input: &mut Input,
    session: &Session,
    output: &Rc<Output>,
    budget: &Semaphore,
) -> Result<(), Broken> {
    let device = shared.device(session.export_index());
    while !shared.clients.is_closing() {
        let Some(header) = input.take::<REQUEST_HEADER_BYTES>().await? else { return Ok(()) };
        shared.requests.set(shared.requests.get() + 1);
        match session.parse_request(&header) {
            Ok(request) if request.command == Command::Disconnect => return Ok(()),
            Ok(request) => {
                let share = u64::from(request.length_bytes).clamp(REQUEST_BYTES_MIN, share_max());
                let budget = acquire(budget, share).await;
                let length = usize::try_from(request.payload_bytes()).expect("at most 32 MiB");
                let payload = input.payload(length).await?;
                let outlet = Outlet::new(session, output, budget);
                let running = request::run(device.clone(), request, payload, outlet);
                shared.clients.handle().spawn_alone("NBD request", running);
            }
            Err(RequestError::Rejected(rejection)) => {
                let budget = acquire(budget, REQUEST_BYTES_MIN).await;
                // Clients do not look for an answer before they have sent everything.
                input.skip(u64::from(rejection.payload_bytes)).await?;
                output.push(vec![session.replies().reject(&rejection)], budget);
            }
            Err(RequestError::BadMagic(magic)) => return Err(magic.into()),
        }
    }
    Ok(())
}

/// Trims and the like span up to 4 GiB without holding any of it in memory.
fn share_max() -> u64 {
    u64::from(zoneweave_nbd::PAYLOAD_BYTES_MAX)
}
