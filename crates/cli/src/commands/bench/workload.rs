//! The workloads on arrays in this process.

use zoneweave_raid::scheme::Scheme;

use super::median::median;
use super::volume::{Bench as Drives, Measure, Requests};
use super::{DEPTH, DEPTHS, SIZES};
use crate::error::CliError;

/// Size of a volume in percent of all zones.
pub(super) const USED_PERCENT: u64 = 60;

/// Percentage of all zones that can be written before relocation begins.
pub(super) const FRESH_PERCENT: u64 = 45;

/// Blocks of a chunk, as servers choose them; unfilled chunks of a stripe are padding.
const CHUNK_BLOCKS: u64 = 2;

/// Size of a volume that is overwritten, in percent of all zones.
const FULL_PERCENT: u64 = 77;

/// Warm-up of reads from an array that has just lost a drive.
const SETTLING_SECONDS: f64 = 0.3;

/// Request sizes for file-backed drives.
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
    /// Writes to an array with enough free space that nothing is relocated.
    Fresh,
    /// Reads.
    Read,
    /// Reads of an array without one of its drives.
    Degraded,
    /// Writes to a full volume, with every block written at random before.
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

/// The scheme of the arrays behind NBD servers and of shards.
pub(super) fn scheme() -> Scheme {
    Scheme::new(3, 1).expect("3+1 is a scheme")
}

/// The label of such a workload.
pub(super) fn label_of(name: &str) -> String {
    format!("{name} {}", scheme())
}

/// Block counts and depths of requests.
pub(super) fn requests_of(
    kinds: impl IntoIterator<Item = (u32, u32)>,
    write: bool,
) -> impl Iterator<Item = Requests> {
    kinds.into_iter().map(move |(blocks, depth)| Requests { write, blocks, depth })
}

/// Single-block requests at depth, to 3+1 on in-memory drives.
const fn of(name: &'static str, kind: Kind) -> Workload {
    Workload { name, scheme: (3, 1), kind, sizes: &[1], depths: &[DEPTH], in_files: false }
}

impl Workload {
    /// The label.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.name, self.scheme())
    }

    pub(super) fn in_files(&self) -> bool {
        self.in_files
    }

    pub(super) fn scheme(&self) -> Scheme {
        Scheme::new(self.scheme.0, self.scheme.1).expect("a possible scheme")
    }

    /// The requests to measure.
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
            // Open segments are abandoned and relocated first; steady reads do not have that cost.
            let requests = Requests { write: false, blocks: 1, depth: DEPTH };
            array.measure(requests, SETTLING_SECONDS, u64::MAX)?;
        }
        if overwrites {
            // Until the valid share of segments and the estimates of lifetimes are steady.
            let requests = Requests { write: true, blocks: 1, depth: DEPTH };
            array.measure(requests, f64::from(u16::MAX), 2 * array.blocks)?;
        }
        for (requests, measured) in measures {
            measured.push(array.measure(*requests, seconds, u64::MAX)?);
        }
        array.close()
    }
}
