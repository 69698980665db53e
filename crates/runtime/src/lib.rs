//! A small single-threaded async executor with an external clock.
//!
//! Engine code is written once, as async functions over a [`Handle`], and runs on any
//! [`Reactor`]: [`VirtualTime`] (discrete events, deterministic, as fast as the processor allows)
//! or a real one that waits for the kernel. Everything here is single-threaded except wakers,
//! which the standard library requires to be `Send`.
//!
//! Invariants: tasks run in the order in which they were woken. With the same reactor history the
//! same program takes the same steps. Dropping the [`Executor`] drops every task at its current
//! `.await`: to the devices this is a killed process.

mod executor;
mod gate;
mod oneshot;
mod random;
mod reactor;
mod semaphore;
mod sleep;
mod time;
mod timer;
mod virtual_time;

pub use executor::{Executor, Handle, JoinHandle};
pub use gate::Gate;
pub use oneshot::{Receiver, Sender, oneshot};
pub use random::Random;
pub use reactor::{Progress, Reactor, Wait};
pub use semaphore::{Permit, Semaphore};
pub use sleep::Sleep;
pub use time::Nanos;
pub use timer::{Alarm, TimerQueue};
pub use virtual_time::VirtualTime;
