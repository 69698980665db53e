//! Requests of the host and their answers: a request completes with the last of its commands.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_runtime::Sender;
use zoneweave_zoned::BlockError;

use crate::Picos;

/// The receiver of the answer.
pub(in crate::conventional) enum Responder {
    Read(Sender<Result<Vec<Bytes>, BlockError>>),
    Done(Sender<Result<(), BlockError>>),
}

/// A request, shared by its commands.
#[derive(Clone)]
pub(in crate::conventional) struct Request(Rc<RefCell<State>>);

struct State {
    parts_left: usize,
    done: Picos,
    read: Vec<Bytes>,
    responder: Responder,
}

/// A request that is answered at some time.
pub(in crate::conventional) struct Due {
    pub(in crate::conventional) at: Picos,
    responder: Responder,
    read: Vec<Bytes>,
}

impl Request {
    pub(in crate::conventional) fn new(parts: usize, responder: Responder) -> Self {
        let state = State { parts_left: parts, done: Picos::ZERO, read: Vec::new(), responder };
        Self(Rc::new(RefCell::new(state)))
    }

    /// A command took effect and completes at some time. Commands of one request do so in order.
    pub(super) fn part_done(&mut self, at: Picos, read: Vec<Bytes>) {
        let mut state = self.0.borrow_mut();
        state.parts_left -= 1;
        state.done = state.done.max(at);
        state.read.extend(read);
    }

    /// The answer, if this was the last command.
    pub(super) fn into_due(self) -> Option<Due> {
        let last = self.0.borrow().parts_left == 0;
        let state = Rc::into_inner(self.0).filter(|_| last)?.into_inner();
        Some(Due { at: state.done, responder: state.responder, read: state.read })
    }
}

impl Due {
    pub(in crate::conventional) fn answer(self) {
        match self.responder {
            Responder::Read(sender) => sender.send(Ok(self.read)),
            Responder::Done(sender) => sender.send(Ok(())),
        }
    }
}
