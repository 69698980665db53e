//! The load of a soak: reads, writes, trims and flushes of several sizes.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use zoneweave_raid::log::Volume;
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BLOCK_BYTES, BlockDevice, Lba};

use super::array::Array;
use super::content::{Content, Version, data_of};
use super::outcome::Outcome;
use super::sample::{Sample, Sampler};
use crate::error::CliError;

/// Request sizes in blocks, equally likely: most requests are small, most bytes are in large ones.
const SIZES: [u32; 24] =
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4, 4, 4, 4, 7, 8, 8, 16, 16, 64, 256];

/// Shares of requests, per mille; the rest, as many as writes, are reads.
const WRITES_PER_MILLE: u64 = 480;
const TRIMS_PER_MILLE: u64 = 25;
const FLUSHES_PER_MILLE: u64 = 5;

/// Share of writes with FUA, per mille.
const FUA_PER_MILLE: u64 = 20;

/// Request size of the fill and of the final verification, in blocks.
const WHOLE_BLOCKS: usize = 64;

/// A limit or a period.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    Requests(u64),
    Time(Nanos),
}

impl Until {
    /// The limit after this one.
    fn and(self, every: Self) -> Self {
        match (self, every) {
            (Self::Requests(last), Self::Requests(more)) => Self::Requests(last + more),
            (Self::Time(last), Self::Time(more)) => Self::Time(last + more),
            (last, _) => last,
        }
    }

    fn is_over(self, requests: u64, time: Nanos) -> bool {
        match self {
            Self::Requests(end) => requests >= end,
            Self::Time(end) => time >= end,
        }
    }
}

/// A volume's users.
pub(super) struct Load {
    volume: Volume,
    handle: Handle,
    content: RefCell<Content>,
    outcome: Cell<Outcome>,
    /// A worker failed, or the limit is reached.
    over: Cell<bool>,
    seed: u64,
}

impl Load {
    pub(super) fn new(array: &Array, seed: u64) -> Rc<Self> {
        Rc::new(Self {
            volume: array.volume().clone(),
            handle: array.session().handle.clone(),
            content: RefCell::new(Content::new(array.blocks())),
            outcome: Cell::default(),
            over: Cell::new(false),
            seed,
        })
    }

    /// Writes every block.
    pub(super) fn fill(&self, array: &Array) -> Result<(), CliError> {
        array.session().executor.run(async {
            for range in whole(array.blocks()) {
                let version = self.content.borrow_mut().draw();
                self.write(range, version, false).await?;
            }
            self.outcome.take();
            Ok(())
        })
    }

    /// Reads every block.
    pub(super) fn verify(&self, array: &Array) -> Result<(), CliError> {
        array.session().executor.run(async {
            for range in whole(array.blocks()) {
                self.read(range).await?;
            }
            Ok(())
        })
    }

    /// Keeps `depth` requests in flight until the limit; hands over a sample every period.
    pub(super) fn run(
        self: &Rc<Self>,
        array: &Array,
        depth: u32,
        until: Until,
        every: Until,
        mut tell: impl FnMut(Sample),
    ) -> Result<Outcome, CliError> {
        let started = self.handle.now();
        let elapsed = || self.handle.now().since(started);
        let mut sampler = Sampler::new(&self.volume, array.drives_memory_bytes());
        let worker = |number| {
            let seed = self.seed.wrapping_mul(0x1_0000).wrapping_add(u64::from(number));
            self.handle.spawn("soak worker", self.clone().work(Random::new(seed)))
        };
        let workers: Vec<_> = (0..depth).map(worker).collect();
        array.session().executor.run(async {
            let mut next = every;
            while !self.over.get() {
                self.handle.yield_now().await;
                let (requests, time) = (self.outcome.get().requests(), elapsed());
                if until.is_over(requests, time) {
                    self.over.set(true);
                }
                if self.over.get() || next.is_over(requests, time) {
                    next = next.and(every);
                    tell(sampler.take(&self.volume, time, &self.outcome.get())?);
                }
            }
            for worker in workers {
                worker.await?;
            }
            Ok::<_, CliError>(())
        })?;
        Ok(Outcome { nanoseconds: elapsed().0, ..self.outcome.get() })
    }

    async fn work(self: Rc<Self>, mut random: Random) -> Result<(), CliError> {
        while !self.over.get() {
            let done = self.request(&mut random).await;
            if done.is_err() {
                self.over.set(true);
                return done;
            }
            // Yields even after requests that completed at once.
            self.handle.yield_now().await;
        }
        Ok(())
    }

    /// One request of a random kind, if a free range is found.
    async fn request(&self, random: &mut Random) -> Result<(), CliError> {
        let kind = random.below(1000);
        if kind < FLUSHES_PER_MILLE {
            self.volume.flush().await?;
            self.count(|outcome| outcome.flushes += 1);
            return Ok(());
        }
        let blocks = SIZES[usize::try_from(random.below(SIZES.len() as u64)).unwrap_or(0)];
        let Some(range) = self.content.borrow_mut().claim(random, blocks) else { return Ok(()) };
        if kind < FLUSHES_PER_MILLE + TRIMS_PER_MILLE {
            self.trim(range.clone()).await?;
        } else if kind < FLUSHES_PER_MILLE + TRIMS_PER_MILLE + WRITES_PER_MILLE {
            let version = self.content.borrow_mut().draw();
            self.write(range.clone(), version, random.per_mille(FUA_PER_MILLE)).await?;
        } else {
            self.read(range.clone()).await?;
        }
        self.content.borrow_mut().release(range);
        Ok(())
    }

    async fn read(&self, range: Range<usize>) -> Result<(), CliError> {
        let pieces = self.volume.read(lba(&range), length(&range)).await?;
        let pieces = || pieces.iter().map(|piece| &piece[..]);
        let read: usize = pieces().map(<[u8]>::len).sum();
        let wrong = self.content.borrow().first_wrong(range.start, pieces());
        if wrong.is_some() || read != range.len() * BLOCK_BYTES {
            return Err(CliError::ReadWrong { at: wrong.unwrap_or(lba(&range)) });
        }
        self.count(|outcome| {
            outcome.reads += 1;
            outcome.read_bytes += read as u64;
        });
        Ok(())
    }

    async fn write(
        &self,
        range: Range<usize>,
        version: Version,
        fua: bool,
    ) -> Result<(), CliError> {
        let data = data_of(version, range.clone());
        let written = data.len() as u64;
        self.volume.write(lba(&range), vec![data], fua).await?;
        self.content.borrow_mut().set(range, version);
        self.count(|outcome| {
            outcome.writes += 1;
            outcome.written_bytes += written;
        });
        Ok(())
    }

    async fn trim(&self, range: Range<usize>) -> Result<(), CliError> {
        self.volume.trim(lba(&range), length(&range).into(), false).await?;
        self.content.borrow_mut().set(range, Version::default());
        self.count(|outcome| outcome.trims += 1);
        Ok(())
    }

    fn count(&self, add: impl FnOnce(&mut Outcome)) {
        let mut outcome = self.outcome.get();
        add(&mut outcome);
        self.outcome.set(outcome);
    }
}

/// All blocks of a volume, in ranges.
fn whole(blocks: u64) -> impl Iterator<Item = Range<usize>> {
    let blocks = usize::try_from(blocks).expect("an in-memory volume is addressable");
    (0..blocks).step_by(WHOLE_BLOCKS).map(move |first| first..blocks.min(first + WHOLE_BLOCKS))
}

fn lba(range: &Range<usize>) -> Lba {
    Lba(range.start as u64)
}

fn length(range: &Range<usize>) -> u32 {
    u32::try_from(range.len()).expect("a short request")
}
