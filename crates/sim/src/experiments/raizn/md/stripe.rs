//! The stripe cache: gathers writes to a stripe, and writes it with its parity.

use std::ops::Range;
use std::rc::Rc;

use futures_util::future::try_join_all;
use zoneweave_runtime::{Nanos, Sender, oneshot};
use zoneweave_zoned::BlockError;

use super::{Inner, LOCKS, Span, index};

/// A part of a stripe without new blocks for so long is written as it is. Requests of a sequential
/// stream follow each other faster. md waits until its queue is unplugged, or until too many
/// stripes wait.
const QUIET: Nanos = Nanos::from_micros(200);

/// Blocks of a stripe that were written, and the writes that wait for them.
pub(super) struct Gathered {
    /// By their number in the stripe.
    has: Vec<bool>,
    waiting: Vec<Sender<Result<(), BlockError>>>,
    newest: Nanos,
}

impl Gathered {
    fn is_whole(&self) -> bool {
        self.has.iter().all(|has| *has)
    }
}

/// The commands that write some blocks of a stripe.
pub(super) struct Plan {
    pub(super) reads: Vec<Span>,
    pub(super) writes: Vec<Span>,
}

impl Inner {
    /// Adds blocks to a stripe; returns when they are written.
    pub(super) async fn gather(
        self: Rc<Self>,
        stripe: u64,
        part: Range<u64>,
    ) -> Result<(), BlockError> {
        let (sender, written) = oneshot();
        if let Some(whole) = self.add(stripe, part, sender) {
            self.finish(stripe, whole).await;
        }
        written.await.expect("a gathered stripe is written")
    }

    /// Adds blocks; returns the stripe if it is whole now.
    fn add(
        self: &Rc<Self>,
        stripe: u64,
        part: Range<u64>,
        sender: Sender<Result<(), BlockError>>,
    ) -> Option<Gathered> {
        let now = self.handle.now();
        let (is_new, whole) = {
            let mut gathered = self.gathered.borrow_mut();
            let is_new = !gathered.contains_key(&stripe);
            let one = gathered.entry(stripe).or_insert_with(|| Gathered {
                has: vec![false; index(self.stripe_blocks())],
                waiting: Vec::new(),
                newest: now,
            });
            one.has[index(part.start)..index(part.end)].fill(true);
            one.waiting.push(sender);
            one.newest = now;
            let is_whole = one.is_whole();
            (is_new, if is_whole { gathered.remove(&stripe) } else { None })
        };
        if is_new && whole.is_none() {
            self.handle.spawn_alone("stripe cache", self.clone().give_up(stripe));
        }
        whole
    }

    /// Writes a stripe once it gets no more blocks.
    async fn give_up(self: Rc<Self>, stripe: u64) {
        let mut due = self.handle.now() + QUIET;
        loop {
            self.handle.sleep_until(due).await;
            let now = self.handle.now();
            let partial = {
                let mut gathered = self.gathered.borrow_mut();
                let Some(one) = gathered.get(&stripe) else { return };
                due = one.newest + QUIET;
                if due <= now { gathered.remove(&stripe) } else { None }
            };
            if let Some(partial) = partial {
                self.finish(stripe, partial).await;
                return;
            }
        }
    }

    /// Writes gathered blocks, and answers their writes.
    async fn finish(&self, stripe: u64, gathered: Gathered) {
        let outcome = self.write_stripe(stripe, &gathered.has).await;
        for waiting in gathered.waiting {
            waiting.send(outcome.clone());
        }
    }

    async fn write_stripe(&self, stripe: u64, has: &[bool]) -> Result<(), BlockError> {
        assert!(self.lost.get().is_none(), "degraded writes are not modelled");
        let _alone = self.locks[index(stripe) % LOCKS].acquire().await;
        let Plan { reads, writes } = self.plan(stripe, has);
        try_join_all(reads.into_iter().map(|span| self.read_span(span))).await?;
        try_join_all(writes.into_iter().map(|span| self.write_span(span))).await.map(drop)
    }

    /// The reads and writes for some blocks of a stripe: the old blocks and their parity are read,
    /// or the other blocks, if these are fewer.
    pub(super) fn plan(&self, stripe: u64, has: &[bool]) -> Plan {
        let parts = || (0_u64..).zip(has.chunks(index(self.unit)));
        let written = |has: &bool| *has;
        let ends = parts().filter_map(|(_, part)| {
            let first = part.iter().position(written)?;
            Some((first, part.iter().rposition(written)? + 1))
        });
        let (first, end) =
            ends.fold((usize::MAX, 0_usize), |(a, b), (first, end)| (a.min(first), b.max(end)));
        assert!(first < end, "nothing is written");
        let parity = self.span(self.parity_drive(stripe), stripe, &(first as u64..end as u64));
        let spans = |wanted: bool| -> Vec<Span> {
            let of_unit = |(number, part): (u64, &[bool])| {
                let drive = self.data_drive(stripe, number);
                let runs = runs(&part[first..end], wanted).into_iter();
                runs.map(move |run| (drive, run.start + first as u64..run.end + first as u64))
                    .collect::<Vec<_>>()
            };
            let places = parts().flat_map(of_unit);
            places.map(|(drive, within)| self.span(drive, stripe, &within)).collect()
        };
        let blocks = |spans: &[Span]| spans.iter().map(|span| span.blocks).sum::<u32>();
        let (new, others) = (spans(true), spans(false));
        let reads = match blocks(&others) < blocks(&new) + parity.blocks {
            true => others,
            false => new.iter().copied().chain([parity]).collect(),
        };
        Plan { reads, writes: new.into_iter().chain([parity]).collect() }
    }
}

/// The runs of a value.
fn runs(values: &[bool], wanted: bool) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for (at, value) in (0_u64..).zip(values) {
        if *value != wanted {
            continue;
        }
        match runs.last_mut().filter(|run| run.end == at) {
            Some(run) => run.end = at + 1,
            None => runs.push(at..at + 1),
        }
    }
    runs
}
