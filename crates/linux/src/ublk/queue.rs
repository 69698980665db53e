//! The queue of a device: one task for each request that may be under way.

use std::cell::{Cell, RefCell};
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::io::Errno;
use zerocopy::IntoBytes;
use zoneweave_runtime::{Gate, Handle};

use super::abi::{COMMIT_AND_FETCH, DeviceInfo, FETCH, IoCommand, IoDescriptor};
use super::error::UblkError;
use super::request::{Answer, Data, Disk};
use crate::ring::{Descriptor, Ring};
use crate::sys::shared_records::SharedRecords;

/// The requests of a device, from the first fetch until the driver ends the queue.
pub(super) struct Queue {
    ring: Ring,
    disk: Rc<dyn Disk>,
    /// The character device and the requests' memory, until the queue has ended: the driver deletes
    /// no device that is open.
    device: RefCell<Option<Rc<Device>>>,
    io_bytes_max: u32,
    /// Tasks that have not ended.
    tasks: Cell<u16>,
    /// Why the first of them ended.
    ended: RefCell<Option<io::Error>>,
    changed: Gate,
    requests: Cell<u64>,
    failed: Cell<u64>,
}

struct Device {
    descriptor: Descriptor,
    requests: SharedRecords<IoDescriptor>,
}

impl Queue {
    /// Opens the character device of `info` and fetches requests. The driver accepts fetches only
    /// from the thread that made the first.
    pub(super) fn start(
        ring: &Ring,
        handle: &Handle,
        disk: Rc<dyn Disk>,
        info: &DeviceInfo,
    ) -> Result<Rc<Self>, UblkError> {
        let path = PathBuf::from(format!("/dev/ublkc{}", info.device));
        let open = || {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            let requests = SharedRecords::map(&file, usize::from(info.queue_depth))?;
            Ok(Device { descriptor: Rc::new(file.into()), requests })
        };
        let device = open().map_err(|error| UblkError::Open { path: path.clone(), error })?;
        let device = Rc::new(device);
        let queue = Rc::new(Self {
            ring: ring.clone(),
            disk,
            device: RefCell::new(Some(device.clone())),
            io_bytes_max: info.io_bytes_max,
            tasks: Cell::new(info.queue_depth),
            ended: RefCell::default(),
            changed: Gate::new(),
            requests: Cell::new(0),
            failed: Cell::new(0),
        });
        for tag in 0..info.queue_depth {
            let (queue, device) = (queue.clone(), device.clone());
            handle.spawn("ublk request", async move {
                let error = queue.serve(&device, tag).await;
                drop(device);
                queue.end(error);
            });
        }
        Ok(queue)
    }

    /// Requests answered, and how many of them with an error.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.requests.get(), self.failed.get())
    }

    /// Waits until the driver has given a slot back, and returns its reason.
    pub(super) async fn refusal(&self) -> io::Error {
        loop {
            if let Some(error) = self.ended.take() {
                return error;
            }
            self.changed.wait().await;
        }
    }

    /// Waits until the driver has given every place back, and closes the character device.
    pub(super) async fn all_ended(&self) {
        while self.tasks.get() > 0 {
            self.changed.wait().await;
        }
        self.device.take();
    }

    /// Serves one place after another request, until the driver wants no more.
    async fn serve(&self, device: &Device, tag: u16) -> io::Error {
        let mut fetched = self.command(device, FETCH, tag, 0, 0).await;
        loop {
            match fetched {
                Ok(0) => {}
                Ok(code) => {
                    return io::Error::other(format!("request {tag} came with code {code}"));
                }
                Err(error) => return error,
            }
            let request = device.requests.read(usize::from(tag));
            let data = Data::new(&device.descriptor, tag, self.io_bytes_max);
            let answer = self.disk.take_up(request, data).await;
            let (result, sector) = self.count(answer);
            fetched = self.command(device, COMMIT_AND_FETCH, tag, result, sector).await;
        }
    }

    /// The answer as the driver takes it.
    fn count(&self, answer: Result<Answer, Errno>) -> (i32, u64) {
        self.requests.set(self.requests.get() + 1);
        match answer {
            Ok(Answer { bytes, append_sector }) => {
                (i32::try_from(bytes).expect("at most 32 MiB"), append_sector)
            }
            Err(error) => {
                self.failed.set(self.failed.get() + 1);
                (-error.raw_os_error(), 0)
            }
        }
    }

    async fn command(
        &self,
        device: &Device,
        code: u32,
        tag: u16,
        result: i32,
        append_sector: u64,
    ) -> io::Result<usize> {
        let command = IoCommand { queue: 0, tag, result, append_sector };
        let bytes = command.as_bytes().try_into().expect("16 bytes");
        self.ring.driver_command(&device.descriptor, code, bytes).await
    }

    fn end(&self, error: io::Error) {
        self.tasks.set(self.tasks.get() - 1);
        self.ended.borrow_mut().get_or_insert(error);
        self.changed.open();
    }
}
