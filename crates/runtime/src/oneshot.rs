//! A value handed from one place to one waiting task, once.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

enum State<T> {
    Empty(Option<Waker>),
    Full(T),
    /// The value was taken, or will never come.
    Closed,
}

/// The giving end. Dropping it without sending tells the receiver that nothing will come.
pub struct Sender<T>(Option<Rc<RefCell<State<T>>>>);

/// The waiting end: a future of the value, or `None` if the sender was dropped.
pub struct Receiver<T>(Source<T>);

enum Source<T> {
    /// There already, or taken.
    Ready(Option<T>),
    Shared(Rc<RefCell<State<T>>>),
}

// Nothing in it is ever pinned.
impl<T> Unpin for Receiver<T> {}

/// A connected pair.
#[must_use]
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let state = Rc::new(RefCell::new(State::Empty(None)));
    (Sender(Some(state.clone())), Receiver(Source::Shared(state)))
}

impl<T> Sender<T> {
    /// Hands over the value. Nobody waiting is no error: the receiver may have been dropped.
    pub fn send(mut self, value: T) {
        if let Some(state) = self.0.take() {
            finish(&state, State::Full(value));
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            finish(&state, State::Closed);
        }
    }
}

fn finish<T>(state: &RefCell<State<T>>, with: State<T>) {
    let before = state.replace(with);
    if let State::Empty(Some(waker)) = before {
        waker.wake();
    }
}

impl<T> Receiver<T> {
    /// A receiver whose value is already there.
    #[must_use]
    pub fn ready(value: T) -> Self {
        Self(Source::Ready(Some(value)))
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let state = match &mut self.0 {
            Source::Ready(value) => return Poll::Ready(value.take()),
            Source::Shared(state) => state,
        };
        let mut state = state.borrow_mut();
        match &mut *state {
            State::Empty(waker) => {
                match waker {
                    Some(known) => known.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            State::Closed => Poll::Ready(None),
            State::Full(_) => match std::mem::replace(&mut *state, State::Closed) {
                State::Full(value) => Poll::Ready(Some(value)),
                State::Empty(_) | State::Closed => unreachable!("matched above"),
            },
        }
    }
}
