//! A counter in a log, on a drive with any write unit.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_journal::{
    Appended, Codec, Envelope, EnvelopeError, Event, Record, Scan, TwinLog, Uuid,
};
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Command, Completion, Geometry, Payload, Reply, Status, ZoneAction,
    ZoneAddress, ZoneId, ZonedDevice, ZonedDeviceExt, zero_blocks,
};

const ENVELOPE: Envelope = Envelope::new(*b"COUNTER\0", 1);
const RECORD: u16 = 1;
const OWNER: Uuid = [7; 16];

/// Records of a snapshot before the closing one. The counter is their sum.
const PARTS: u32 = 2;

/// A record of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub sequence: u64,
    /// 0: adds `value`; 1: part of a snapshot; 2: closes a snapshot.
    pub kind: u64,
    pub value: u64,
}

impl Record for Step {
    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn snapshot_records(&self) -> Option<u32> {
        (self.kind == 2).then_some(PARTS)
    }
}

pub(crate) struct Steps;

impl Codec for Steps {
    type Record = Step;
    type Error = EnvelopeError;

    fn decode(&self, data: &[u8], _metadata: &[u8]) -> Result<Step, EnvelopeError> {
        let (owner, body) = ENVELOPE.open(data, RECORD)?;
        let (words, _) = body.as_chunks::<8>();
        match *words {
            [sequence, kind, value] if owner == OWNER => Ok(Step {
                sequence: u64::from_le_bytes(sequence),
                kind: u64::from_le_bytes(kind),
                value: u64::from_le_bytes(value),
            }),
            _ => Err(EnvelopeError::Length),
        }
    }
}

pub(crate) fn encode(step: Step) -> Payload {
    let mut block = AlignedBuffer::zeroed(BlockCount(1));
    let words = [step.sequence, step.kind, step.value];
    let body = &mut block.as_mut()[Envelope::BYTES..];
    for (bytes, word) in body.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    ENVELOPE.seal(block.as_mut(), RECORD, OWNER, 24);
    Payload { data: vec![block.freeze()], ..Payload::default() }
}

thread_local! {
    static SEEN: RefCell<BTreeSet<Event>> = const { RefCell::new(BTreeSet::new()) };
}

pub(crate) fn observe(event: Event) {
    SEEN.with_borrow_mut(|seen| seen.insert(event));
}

pub(crate) fn assert_seen(events: &[Event]) {
    SEEN.with_borrow(|seen| {
        for event in events {
            assert!(seen.contains(event), "{event:?} was never reached");
        }
    });
}

/// A counter in a log, as its user keeps it in memory.
pub(crate) struct Counter {
    pub log: TwinLog,
    pub value: u64,
    pub sequence: u64,
}

impl Counter {
    /// A new counter on an empty drive.
    pub(crate) async fn create(device: &dyn ZonedDevice) -> Result<Self, Status> {
        let log = TwinLog::begin([ZoneId(0), ZoneId(1)], observe);
        let mut counter = Self { log, value: 0, sequence: 0 };
        counter.switch(device).await?;
        Ok(counter)
    }

    /// The counter of a drive; `None` if it was never created.
    pub(crate) async fn open(device: &dyn ZonedDevice) -> Result<Option<Self>, Status> {
        let scan = Scan::read(device, &Steps, observe).await?;
        let Some(found) = scan.since_snapshot() else { return Ok(None) };
        let value = found.iter().map(|step| step.value).sum();
        let sequence = scan.records.iter().map(|(_, step)| step.sequence).max().unwrap();
        let mut counter = Self { log: scan.resume().unwrap(), value, sequence };
        counter.switch(device).await?;
        Ok(Some(counter))
    }

    fn step(sequence: &mut u64, kind: u64, value: u64) -> Payload {
        *sequence += 1;
        encode(Step { sequence: *sequence, kind, value })
    }

    pub(crate) async fn switch(&mut self, device: &dyn ZonedDevice) -> Result<ZoneId, Status> {
        let (value, sequence) = (self.value, &mut self.sequence);
        let parts = [value / 2, value - value / 2, 0];
        let record = |index: u32| {
            let kind = if index < PARTS { 1 } else { 2 };
            Self::step(sequence, kind, parts[index as usize])
        };
        self.log.switch(device, PARTS + 1, record).await
    }

    /// Adds to the counter, durably. Every third old zone is left to the next switch.
    pub(crate) async fn add(&mut self, device: &dyn ZonedDevice, by: u64) -> Result<(), Status> {
        self.value += by;
        if self.log.has_room(device.geometry()) {
            let record = Self::step(&mut self.sequence, 0, by);
            if self.log.append(device, record).await? == Appended::Written {
                return Ok(());
            }
        }
        let old = self.switch(device).await?;
        assert_ne!(old, self.log.current());
        if !self.sequence.is_multiple_of(3) {
            self.log.reset_old(device).await?;
        }
        Ok(())
    }
}

/// A drive with a write unit of several blocks: pads writes, and rounds write pointers down in
/// reports.
struct Padded {
    inner: Rc<dyn ZonedDevice>,
    geometry: Geometry,
}

impl ZonedDevice for Padded {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&self, command: Command) -> Completion {
        let unit = self.geometry.write_unit.0;
        match command {
            Command::Write { at, mut payload, fua } => {
                assert!(payload.oob.is_empty(), "the counter has no metadata");
                payload.data.push(zero_blocks(BlockCount(unit - payload.blocks().0)));
                self.inner.submit(Command::Write { at, payload, fua })
            }
            Command::Report { .. } => {
                // The emulated drive answers at once.
                let reply = futures_now(self.inner.submit(command));
                Completion::ready(reply.map(|reply| match reply {
                    Reply::Zones(mut report) => {
                        for info in &mut report.zones {
                            info.write_pointer.0 -= info.write_pointer.0 % unit;
                        }
                        Reply::Zones(report)
                    }
                    other => other,
                }))
            }
            other => self.inner.submit(other),
        }
    }
}

fn futures_now(completion: Completion) -> Result<Reply, Status> {
    let mut completion = std::pin::pin!(completion);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match completion.as_mut().poll(&mut context) {
        std::task::Poll::Ready(outcome) => outcome,
        std::task::Poll::Pending => panic!("an immediate drive does not wait"),
    }
}

/// An emulated drive, and what a process sees of it.
#[derive(Clone)]
pub(crate) struct Drive {
    pub ram: RamDrive,
    unit: u32,
}

impl Drive {
    /// A drive whose zones take six records of `unit` blocks.
    pub(crate) fn new(unit: u32, volatile: bool) -> Self {
        let mut geometry = Geometry::new(4, BlockCount(6 * unit + unit - 1));
        geometry.volatile_cache = volatile;
        Self { ram: RamDrive::new(geometry, Immediate).unwrap(), unit }
    }

    pub(crate) fn fork(&self) -> Self {
        Self { ram: self.ram.fork(Immediate), unit: self.unit }
    }

    /// Runs a process on the drive.
    pub(crate) fn run<T>(&self, process: impl AsyncFnOnce(&dyn ZonedDevice) -> T) -> T {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let inner = self.ram.attach(&executor.handle());
        let mut geometry = inner.geometry().clone();
        geometry.write_unit = BlockCount(self.unit);
        let device: Rc<dyn ZonedDevice> = match self.unit {
            1 => inner,
            _ => Rc::new(Padded { inner, geometry }),
        };
        executor.run(process(&*device))
    }

    pub(crate) fn empty(&self) {
        self.run(async |device| {
            for zone in [ZoneId(0), ZoneId(1)] {
                device.manage(zone, ZoneAction::Reset).await.unwrap();
            }
        });
    }

    pub(crate) fn address(&self, zone: u32, record: u32) -> ZoneAddress {
        ZoneAddress::new(ZoneId(zone), record * self.unit)
    }
}
