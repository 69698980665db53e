//! Both ends of a link: the device in the front end's thread, the tasks in the engine's.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{FutureExt, TryFutureExt};
use slab::Slab;
use zoneweave_runtime::{Handle, JoinHandle, Permit, Receiver, Semaphore, Sender, oneshot};
use zoneweave_zoned::{BlockDevice, BlockDeviceInfo, BlockError, BlockFuture, Extent, Lba};

use super::mailbox::Mailbox;
use crate::ring::Ring;

/// Requests under way on one link.
const REQUESTS_MAX: u64 = 4096;

enum Request {
    Read { lba: Lba, blocks: u32 },
    Write { lba: Lba, data: Vec<Bytes>, fua: bool },
    WriteZeroes { lba: Lba, blocks: u64, fua: bool },
    Trim { lba: Lba, blocks: u64, fua: bool },
    Flush,
    Extents { lba: Lba, blocks: u64, limit: usize },
}

enum Answer {
    Data(Vec<Bytes>),
    Extents(Vec<Extent>),
    Done,
}

type Answered = Result<Answer, BlockError>;

/// The mailbox for answers. Dropping the last copy closes it, which the front end notices.
struct Answers(Arc<Mailbox<(usize, Answered)>>);

impl Drop for Answers {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A message to the engine's thread.
enum Letter {
    /// The first of all.
    Hello(Answers),
    Request(usize, Request),
}

/// The way to a device of another thread, to be taken there.
pub struct DeviceLink {
    letters: Arc<Mailbox<Letter>>,
    info: BlockDeviceInfo,
    connected: bool,
}

/// A device of another thread.
pub struct RemoteDevice(Rc<Front>);

struct Front {
    letters: Arc<Mailbox<Letter>>,
    info: BlockDeviceInfo,
    turns: Semaphore,
    waiting: RefCell<Slab<Waiting>>,
}

struct Waiting {
    answer: Sender<Answered>,
    _turn: Permit,
}

impl DeviceLink {
    /// Lends a device to another thread, until the returned task ends: the other thread has closed
    /// the device then.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new(
        ring: &Ring,
        handle: &Handle,
        device: Rc<dyn BlockDevice>,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let letters = Mailbox::new(ring.doorbell()?);
        let link = Self { letters: letters.clone(), info: device.info(), connected: false };
        let work = work(handle.clone(), Taken(letters), device);
        Ok((link, handle.spawn("remote requests", work)))
    }

    /// The device, for tasks of the ring of the calling thread.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn connect(mut self, ring: &Ring, handle: &Handle) -> io::Result<RemoteDevice> {
        let answers = Mailbox::new(ring.doorbell()?);
        // Should the other end be gone, so will be the answers.
        let _ = self.letters.post(Letter::Hello(Answers(answers.clone())));
        self.connected = true;
        let front = Rc::new(Front {
            letters: self.letters.clone(),
            info: self.info.clone(),
            turns: Semaphore::new(REQUESTS_MAX),
            waiting: RefCell::default(),
        });
        handle.spawn_alone("remote answers", front.clone().listen(answers));
        Ok(RemoteDevice(front))
    }
}

impl Drop for DeviceLink {
    fn drop(&mut self) {
        if !self.connected {
            self.letters.close();
        }
    }
}

impl Drop for RemoteDevice {
    fn drop(&mut self) {
        self.close();
    }
}

impl Front {
    /// Takes answers until there can be no more.
    async fn listen(self: Rc<Self>, answers: Arc<Mailbox<(usize, Answered)>>) {
        let mut batch = Vec::new();
        while answers.take(&mut batch).await {
            for (key, answer) in batch.drain(..) {
                let waiting = self.waiting.borrow_mut().remove(key);
                waiting.answer.send(answer);
            }
        }
        // Waiting requests fail, and so do all later ones.
        self.letters.close();
        drop(self.waiting.take());
    }

    fn post(&self, request: Request, turn: Permit) -> Receiver<Answered> {
        let (answer, receiver) = oneshot();
        let key = self.waiting.borrow_mut().insert(Waiting { answer, _turn: turn });
        let waiting = self.waiting.borrow().len() as u64;
        assert!(waiting <= REQUESTS_MAX, "each waiting request holds a turn");
        if self.letters.post(Letter::Request(key, request)).is_err() {
            drop(self.waiting.borrow_mut().remove(key));
        }
        receiver
    }

    async fn post_in_turn(self: Rc<Self>, request: Request) -> Option<Answered> {
        let turn = self.turns.acquire().await;
        self.post(request, turn).await
    }
}

impl RemoteDevice {
    /// Begins a request, in the call itself if it has its turn.
    fn ask<T: 'static>(&self, request: Request, pick: fn(Answer) -> T) -> BlockFuture<T> {
        let picked = move |answered: Option<Answered>| match answered {
            Some(answered) => answered.map(pick),
            None => Err(BlockError::ShuttingDown),
        };
        match self.0.turns.try_acquire() {
            Some(turn) => Box::pin(self.0.post(request, turn).map(picked)),
            None => Box::pin(self.0.clone().post_in_turn(request).map(picked)),
        }
    }

    /// Closes the device. Earlier requests are carried out; later ones fail with
    /// [`BlockError::ShuttingDown`].
    pub fn close(&self) {
        self.0.letters.close();
    }

    fn change(&self, request: Request) -> BlockFuture<()> {
        self.ask(request, |_| ())
    }
}

impl BlockDevice for RemoteDevice {
    fn info(&self) -> BlockDeviceInfo {
        self.0.info.clone()
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        self.ask(Request::Read { lba, blocks }, |answer| match answer {
            Answer::Data(data) => data,
            _ => unreachable!("a read brings data"),
        })
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, fua: bool) -> BlockFuture<()> {
        self.change(Request::Write { lba, data, fua })
    }

    fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.change(Request::WriteZeroes { lba, blocks, fua })
    }

    fn trim(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.change(Request::Trim { lba, blocks, fua })
    }

    fn flush(&self) -> BlockFuture<()> {
        self.change(Request::Flush)
    }

    fn extents(&self, lba: Lba, blocks: u64, limit: usize) -> BlockFuture<Vec<Extent>> {
        self.ask(Request::Extents { lba, blocks, limit }, |answer| match answer {
            Answer::Extents(extents) => extents,
            _ => unreachable!("a query brings extents"),
        })
    }
}

/// The engine's end of the mailbox.
struct Taken(Arc<Mailbox<Letter>>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Begins requests until there can be no more.
async fn work(handle: Handle, letters: Taken, device: Rc<dyn BlockDevice>) {
    let (mut batch, mut answers) = (Vec::new(), None);
    while letters.0.take(&mut batch).await {
        for letter in batch.drain(..) {
            match letter {
                Letter::Hello(to) => {
                    assert!(answers.is_none(), "a link is connected once");
                    answers = Some(Rc::new(to));
                }
                Letter::Request(key, request) => {
                    let to: Rc<Answers> = answers.clone().expect("the first letter says where to");
                    let running = request.begin(&*device);
                    handle.spawn_alone("remote request", async move {
                        // If the front end is gone, the answer is dropped.
                        let _ = to.0.post((key, running.await));
                    });
                }
            }
        }
    }
}

impl Request {
    fn begin(self, device: &dyn BlockDevice) -> BlockFuture<Answer> {
        fn done(running: BlockFuture<()>) -> BlockFuture<Answer> {
            Box::pin(running.map_ok(|()| Answer::Done))
        }
        match self {
            Self::Read { lba, blocks } => Box::pin(device.read(lba, blocks).map_ok(Answer::Data)),
            Self::Write { lba, data, fua } => done(device.write(lba, data, fua)),
            Self::WriteZeroes { lba, blocks, fua } => done(device.write_zeroes(lba, blocks, fua)),
            Self::Trim { lba, blocks, fua } => done(device.trim(lba, blocks, fua)),
            Self::Flush => done(device.flush()),
            Self::Extents { lba, blocks, limit } => {
                Box::pin(device.extents(lba, blocks, limit).map_ok(Answer::Extents))
            }
        }
    }
}

#[cfg(test)]
mod tests;
