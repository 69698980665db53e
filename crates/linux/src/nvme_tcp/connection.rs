//! One queue of a host, from the first byte to the last reply.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use rustix::net::{Shutdown, getsockname};
use thiserror::Error;
use zoneweave_nvmf::{End, Step};

use super::link::Link;
use super::request;
use super::shared::{Open, Shared};
use crate::host::timeout::timeout;
use crate::ring::Descriptor;
use crate::stream::{HandshakePlace, Input};

/// Why a connection ended before the host left.
#[derive(Debug, Error)]
enum Broken {
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    #[error("the host connected no queue in time")]
    Slow,
    #[error("{0}")]
    Protocol(#[from] End),
}

/// Serves a host until it leaves, breaks the rules or the server closes.
pub(super) async fn run(shared: Rc<Shared>, socket: Descriptor, handshake: HandshakePlace) {
    // Either fails only if the host is gone already.
    let Ok(Ok(local)) = getsockname(&socket).map(SocketAddr::try_from) else { return };
    let link = Rc::new(Link::new(local, shared.limits.in_flight_bytes));
    let open = Open { socket: socket.clone(), link: link.clone() };
    let key = shared.open.borrow_mut().insert(open);
    run_open(&shared, &socket, &link, handshake).await;
    shared.open.borrow_mut().remove(key);
}

async fn run_open(
    shared: &Rc<Shared>,
    socket: &Descriptor,
    link: &Rc<Link>,
    handshake: HandshakePlace,
) {
    let writer = shared.clients.handle().spawn("NVMe/TCP writer", {
        let (ring, socket, output) =
            (shared.clients.ring().clone(), socket.clone(), link.output.clone());
        async move { output.run(&ring, &socket).await }
    });
    let mut input = Input::new(shared.clients.ring(), socket);
    let is_connected = || link.connection.borrow().is_connected();
    let connecting = serve(shared, link, &mut input, is_connected);
    let connected =
        timeout(shared.clients.handle(), shared.limits.handshake_time, connecting).await;
    drop(handshake);
    let outcome = match connected.unwrap_or(Err(Broken::Slow)) {
        Ok(true) => serve(shared, link, &mut input, || false).await.map(drop),
        Ok(false) => Ok(()),
        Err(broken) => Err(broken),
    };
    link.end();
    let (handle, patience) = (shared.clients.handle(), shared.limits.shutdown_time);
    // The whole budget is back when every reply was sent or given up.
    let all = shared.limits.in_flight_bytes;
    if timeout(handle, patience, link.budget.acquire_many(all)).await.is_none() {
        give_up(socket);
        drop(link.budget.acquire_many(all).await);
    }
    link.connection.borrow_mut().close(&mut shared.target.borrow_mut());
    shared.end_stale(Some(link));
    link.output.close();
    if timeout(handle, patience, writer).await.is_none() {
        give_up(socket);
    }
    if matches!(outcome, Err(Broken::Slow | Broken::Protocol(End::Violation(_)))) {
        shared.clients.count_misbehaviour();
        let ending = drain(socket, &mut input);
        timeout(shared.clients.handle(), shared.limits.handshake_time, ending).await;
    }
}

/// Ends both sides: a host that takes no answers must not keep its place. Its replies are lost.
fn give_up(socket: &Descriptor) {
    // It fails if the host is gone; that is harmless.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// Ends our side, and takes what the host still sends: bytes that are left in a socket which is
/// closed end it with a reset, and the host might not see why.
async fn drain(socket: &Descriptor, input: &mut Input) {
    // It fails if the host is gone; that is harmless.
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    loop {
        input.consume(input.available().len());
        if !matches!(input.receive().await, Ok(true)) {
            return;
        }
    }
}

/// Takes what the host sends, until `is_enough` (true) or the end of the stream (false).
async fn serve(
    shared: &Rc<Shared>,
    link: &Rc<Link>,
    input: &mut Input,
    is_enough: impl Fn() -> bool,
) -> Result<bool, Broken> {
    while !is_enough() {
        if shared.clients.is_closing() {
            return Ok(false);
        }
        let step = step(shared, link, input);
        link.send_answers().await;
        match step? {
            Step::Answered => {}
            Step::NeedsInput => {
                if !input.receive().await? {
                    return Ok(false);
                }
            }
            Step::Request(request) => {
                let running = request::run(shared.clone(), link.clone(), request);
                shared.clients.handle().spawn_alone("NVMe/TCP request", running);
            }
            Step::Data(tag, data) => link.arrived(tag, data),
            Step::ShutDown(shutdown) => {
                if link.begin_flush(shutdown) {
                    let flushing = shared.clone().shut_down(link.clone());
                    shared.clients.handle().spawn_alone("NVMe/TCP shutdown", flushing);
                }
            }
        }
    }
    Ok(true)
}

/// One step over the bytes that were received.
fn step(shared: &Shared, link: &Link, input: &mut Input) -> Result<Step, End> {
    let mut bytes = input.available();
    let before = bytes.len();
    let target = &mut *shared.target.borrow_mut();
    let step = link.connection.borrow_mut().receive(target, shared.now_ms(), &mut bytes);
    let taken = before - bytes.len();
    input.consume(taken);
    step
}
