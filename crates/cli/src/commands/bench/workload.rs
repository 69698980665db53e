//! What is measured of arrays in this process.

use zoneweave_raid::scheme::Scheme;

use super::median::median;
use super::volume::{Bench as Drives, Measure, Requests};
use super::{DEPTH, DEPTHS, SIZES};
use crate::error::CliError;

/// The part of all zones that a volume has, in percent.
pub(super) const USED_PERCENT: u64 = 60;

/// The part of all zones that may be written before anything has to be moved, in percent.
pub(super) const FRESH_PERCENT: u64 = 45;

/// Blocks of a chunk, as servers choose them: what is left empty of a stripe is padding.
const CHUNK_BLOCKS: u64 = 2;

/// The part of all zones that a volume has whose blocks are written again and again.
const FULL_PERCENT: u64 = 77;

/// How long is read from an array that has just lost a drive, before it counts.
const SETTLING_SECONDS: f64 = 0.3;

/// Sizes of requests to drives in files.
const ENDS: [u32; 2] = [1, 16];

/// A load on a kind of array.
pub(super) struct Workload {
    pub(super) name: &'static str,
    scheme: (usize, usize),
    kind: Kind,
    sizes: &'static [u32],
    depths: &'static [u32],
    /// Whether the drives are files.
    in_files: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Writes to an array with so much room that nothing has to be moved.
    Fresh,
    /// Reads.
    Read,
    /// Reads of an array without one of its drives.
    Degraded,
    /// Writes to a full volume, of which every block was written at random before.
    Overwrite,
}

/// All of them, in order.
pub(super) const WORKLOADS: [Workload; 8] = [
    Workload { sizes: &SIZES, depths: &DEPTHS, ..of("write", Kind::Fresh) },
    Workload { scheme: (4, 1), ..of("write", Kind::Fresh) },
    Workload { scheme: (4, 2), ..of("write", Kind::Fresh) },
    Workload { sizes: &SIZES, depths: &DEPTHS, ..of("read", Kind::Read) },
    Workload { sizes: &SIZES, ..of("degraded read", Kind::Degraded) },
    of("overwrite", Kind::Overwrite),
    Workload { in_files: true, sizes: &ENDS, depths: &[1, DEPTH], ..of("file-write", Kind::Fresh) },
    Workload { in_files: true, sizes: &ENDS, depths: &[1, DEPTH], ..of("file-read", Kind::Read) },
];

/// What arrays are of that are not measured by themselves, but behind or beside something.
pub(super) fn scheme() -> Scheme {
    Scheme::new(3, 1).expect("3+1 is a scheme")
}

/// What people call a workload of these.
pub(super) fn label_of(name: &str) -> String {
    format!("{name} {}", scheme())
}

/// Requests of each kind: blocks, and how many at a time.
pub(super) fn requests_of(
    kinds: impl IntoIterator<Item = (u32, u32)>,
    write: bool,
) -> impl Iterator<Item = Requests> {
    kinds.into_iter().map(move |(blocks, depth)| Requests { write, blocks, depth })
}

/// Requests of one block, many at a time, to 3+1 on drives in memory.
const fn of(name: &'static str, kind: Kind) -> Workload {
    Workload { name, scheme: (3, 1), kind, sizes: &[1], depths: &[DEPTH], in_files: false }
}

impl Workload {
    /// What people call it.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.name, self.scheme())
    }

    pub(super) fn in_files(&self) -> bool {
        self.in_files
    }

    pub(super) fn scheme(&self) -> Scheme {
        Scheme::new(self.scheme.0, self.scheme.1).expect("a possible scheme")
    }

    /// What is measured of it.
    pub(super) fn requests(&self) -> impl Iterator<Item = Requests> {
        let write = matches!(self.kind, Kind::Fresh | Kind::Overwrite);
        let of_size = move |blocks| {
            self.depths.iter().map(move |depth| Requests { write, blocks, depth: *depth })
        };
        self.sizes.iter().copied().flat_map(of_size)
    }

    /// The median of some runs for each size and depth.
    pub(super) fn measure(
        &self,
        drives: &Drives,
        seconds: f64,
        runs: u32,
        of: impl Fn(&Requests) -> bool,
    ) -> Result<Vec<(Requests, Measure)>, CliError> {
        let mut measures: Vec<_> =
            self.requests().filter(of).map(|requests| (requests, Vec::new())).collect();
        for _ in 0..runs {
            self.measure_once(drives, seconds, &mut measures)?;
        }
        Ok(measures.into_iter().map(|(requests, runs)| (requests, median(&runs))).collect())
    }

    fn measure_once(
        &self,
        drives: &Drives,
        seconds: f64,
        measures: &mut [(Requests, Vec<Measure>)],
    ) -> Result<(), CliError> {
        let physical = drives.physical_blocks(self.scheme());
        if let Kind::Fresh = self.kind {
            let stripe = CHUNK_BLOCKS * self.scheme().data() as u64;
            for (requests, measured) in measures {
                let together = u64::from(requests.blocks) * u64::from(requests.depth);
                let most = physical * FRESH_PERCENT / 100 / stripe.div_ceil(together);
                let array = drives.array(self.scheme(), USED_PERCENT)?;
                measured.push(array.measure(*requests, seconds, most)?);
                array.close()?;
            }
            return Ok(());
        }
        let overwrites = matches!(self.kind, Kind::Overwrite);
        let array =
            drives.array(self.scheme(), if overwrites { FULL_PERCENT } else { USED_PERCENT })?;
        array.fill()?;
        if let Kind::Degraded = self.kind {
            array.lose_drive()?;
            // What was being filled is given up and moved: that is not what reads cost from then on.
            let requests = Requests { write: false, blocks: 1, depth: DEPTH };
            array.measure(requests, SETTLING_SECONDS, u64::MAX)?;
        }
        if overwrites {
            // Until segments hold as much that counts as they will, and it is known whether lives tell.
            let requests = Requests { write: true, blocks: 1, depth: DEPTH };
            array.measure(requests, f64::from(u16::MAX), 2 * array.blocks)?;
        }
        for (requests, measured) in measures {
            measured.push(array.measure(*requests, seconds, u64::MAX)?);
        }
        array.close()
    }
}
