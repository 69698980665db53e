//! One client from its greeting to its last reply.

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use thiserror::Error;
use zoneweave_linux::stream::{HandshakePlace, Input, Output};
use zoneweave_linux::{Descriptor, timeout};
use zoneweave_runtime::Semaphore;

use super::request::{self, Session};
use super::{GREETING_TIME, Shared};
use crate::client::IN_FLIGHT_BYTES;
use crate::wire::{
    DATA_BYTES_MAX, FRAME_HEADER_BYTES, FrameError, FrameHeader, Greeting, Reply, Request, VERSION,
    frame,
};

/// The least that a request takes from the budget, so that there are at most 256 of them.
const REQUEST_BYTES_MIN: u64 = IN_FLIGHT_BYTES / 256;

/// Why a connection ended before the client closed it.
#[derive(Debug, Error)]
enum Broken {
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("no greeting of this version in time")]
    Greeting,
}

/// Serves a client until it leaves, breaks the rules or the server closes.
pub(super) async fn run(shared: &Rc<Shared>, socket: &Descriptor, handshake: HandshakePlace) {
    let mut input = Input::new(shared.clients.ring(), socket);
    let greeting = greet(shared, socket, &mut input);
    let greeted = timeout(shared.clients.handle(), GREETING_TIME, greeting).await;
    drop(handshake);
    let outcome = match greeted.unwrap_or(Err(Broken::Greeting)) {
        Ok(Some(tag)) => answer_all(shared, socket, &mut input, tag).await,
        Ok(None) => Ok(()),
        Err(broken) => Err(broken),
    };
    // A client that merely vanishes breaks no rule.
    if !matches!(outcome, Ok(()) | Err(Broken::Socket(_))) {
        shared.clients.count_misbehaviour();
    }
}

/// Greets; returns the tag of the client's greeting, or `None` if it left.
async fn greet(
    shared: &Shared,
    socket: &Descriptor,
    input: &mut Input,
) -> Result<Option<u64>, Broken> {
    let greeting = Greeting { version: VERSION, volume: shared.volume.clone() };
    shared.clients.ring().send_all(socket, frame(0, &greeting, Bytes::new())).await?;
    let Some((header, request)) = receive(input).await? else { return Ok(None) };
    match request {
        Request::Greet { version: VERSION } if header.data_bytes == 0 => Ok(Some(header.tag)),
        _ => Err(Broken::Greeting),
    }
}

/// The next request, without its data; `None` at the end of the stream.
async fn receive(input: &mut Input) -> Result<Option<(FrameHeader, Request)>, Broken> {
    let Some(header) = input.take::<FRAME_HEADER_BYTES>().await? else { return Ok(None) };
    let header = FrameHeader::parse(header)?;
    let message = input.payload(header.message_bytes).await?;
    let request = serde_json::from_slice(&message).map_err(FrameError::Malformed)?;
    Ok(Some((header, request)))
}

/// Answers the greeting, reads requests and starts them, then waits for all of their replies.
async fn answer_all(
    shared: &Rc<Shared>,
    socket: &Descriptor,
    input: &mut Input,
    greeted: u64,
) -> Result<(), Broken> {
    let output = Rc::new(Output::default());
    let writer = shared.clients.handle().spawn("store writer", {
        let (ring, socket, output) =
            (shared.clients.ring().clone(), socket.clone(), output.clone());
        async move { output.run(&ring, &socket).await }
    });
    let budget = Semaphore::new(IN_FLIGHT_BYTES);
    let permit = budget.acquire_many(REQUEST_BYTES_MIN).await;
    output.push(frame(greeted, &Reply::Done, Bytes::new()), permit);
    let outcome = read_requests(shared, input, &output, &budget).await;
    // The whole budget is back when every reply was sent or given up.
    drop(budget.acquire_many(IN_FLIGHT_BYTES).await);
    output.close();
    writer.await;
    outcome
}

async fn read_requests(
    shared: &Rc<Shared>,
    input: &mut Input,
    output: &Rc<Output>,
    budget: &Semaphore,
) -> Result<(), Broken> {
    let session = Rc::new(Session::new(shared));
    while !shared.clients.is_closing() {
        let Some((header, request)) = receive(input).await? else { return Ok(()) };
        shared.requests.set(shared.requests.get() + 1);
        let share = share_of(&header, &request);
        let permit = budget.acquire_many(share).await;
        let data = input.payload(header.data_bytes).await?;
        let (session, output) = (session.clone(), output.clone());
        shared.clients.handle().spawn_alone("store request", async move {
            let (reply, data) = request::answer(&session, request, data).await;
            output.push(frame(header.tag, &reply, data), permit);
        });
    }
    Ok(())
}

/// The share of a request in the budget: its own data, and that of its reply.
fn share_of(header: &FrameHeader, request: &Request) -> u64 {
    let own = (header.message_bytes + header.data_bytes) as u64;
    let answer = request.answer_bytes().min(DATA_BYTES_MAX as u64);
    let share = (own + answer).max(REQUEST_BYTES_MIN);
    assert!(share <= IN_FLIGHT_BYTES, "frames are far below the budget");
    share
}
