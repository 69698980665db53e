//! Experiments of the ZapRAID paper (J. Li et al., "The Design and Implementation of a High-Performance
//! Log-Structured RAID System for ZNS SSDs"), side by side with what it publishes.

mod baseline;
mod beyond;
pub(super) mod exp10;
pub(super) mod exp11;
pub(super) mod exp12;
pub(super) mod exp13;
pub(super) mod exp4;
pub(super) mod exp5;
pub(super) mod exp6;
pub(super) mod exp7;
pub(super) mod exp8;
pub(super) mod exp9;
pub(super) mod fig2;
pub(super) mod gc;
mod host;
mod load;
mod overwrites;
mod raizn_spdk;
mod reads;
mod rmw_raid5;
pub(crate) mod testbed;
mod writes;
mod zipf;

/// What all of them have in common.
const METHOD: &str = "\
Random writes to a volume of 3 + 1 drives `zn540-4tb`, unless another array is named. Zones have their real size; a run \
writes a part of the paper's 64 GiB, as the scale says, to an array with so many zones that nothing has to be moved. \
Each command to a drive takes 0.95 us of one thread of the host (0.5 us to submit it, 0.45 us when it is done); nothing \
else of the host takes time. `adaptive` is what this engine chooses for the drives, to the segments of the point: Zone Write of everything that \
waits for a zone, in one command, or Zone Append where that is measured to be faster. Groups of zone-append are as large as the format lets them be, 16,384 rows. \
Nothing is kept of the index on drives (checkpoints, at most 2 % of what users write), as the paper has none; Exp#9 has them. Values are \
means of runs with different seeds, with the half-width of the 95 % confidence interval (Student's t). Where the \
paper gives no number in its text, none is compared.";

/// What counts of a run of random writes (`writes.rs`).
const STEADY: &str = "\
What is measured is a steady state. Before anything counts four GiB are written: a drive's write buffer of 40 MiB is full by then if \
it ever is (after 0.4 GiB at most), so that nothing counts that a drive merely keeps in memory, and adaptive has learnt how fast drives \
empty it, and writes no faster. What counts then is as much as whole \
segments hold, at least one. Where the flash behind a zone is the bound (1,050 MiB/s; three drives 3,150) an array is faster for a moment \
when it goes on to the next zones: these are on other dies, which take what comes while those of the last zones empty the buffer. That \
happens once for each segment of 3.1 GiB, in the paper's 64 GiB as well, so it counts as often here: 40 MiB a zone of 1,077, which makes \
3,150 MiB/s about 3,235. Exp#5 has points of full scale, which prove that scaling changes results by less than 2 %.";

/// So many blocks, as the paper calls them.
fn kib(blocks: u32) -> String {
    format!("{} KiB", blocks * 4)
}
