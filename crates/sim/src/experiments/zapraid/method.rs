//! The common method of all experiments of the paper, for their reports.

/// The method.
pub(crate) const METHOD: &str = "\
Random writes to a volume of 3 + 1 drives `zn540-4tb`, unless another array is named. Zones have \
their real size. A run writes a part of the paper's 64 GiB, given by the scale, to an array with \
so many zones that nothing is relocated. Each drive command takes 0.95 us of one host thread: 0.5 \
us to submit it, 0.45 us to complete it. No other host time is modelled.

`adaptive` is this engine's choice for the drives, on the segments of the point: one Zone Write \
of the whole backlog of a zone, or Zone Append where that was measured to be faster. Groups of \
zone-append have the largest size of the format, 16,384 rows. No index checkpoints are written \
(at most 2 % of user writes), as the paper has none; Exp#9 has them.

Values are means of runs with different seeds, with the half-width of the 95 % confidence \
interval (Student's t). Results without a number in the paper's text are not compared.";

/// The measured part of a run of random writes (`writes.rs`).
pub(crate) const STEADY: &str = "\
The measurement is of a steady state. Four GiB are written as a warm-up. By then a drive's write \
buffer of 40 MiB is full if it ever is (after 0.4 GiB at most), so writes that a drive merely \
keeps in memory do not count. `adaptive` has learnt the drain rate of the drives, and writes no \
faster. The measured part is at least one whole segment.

Where the flash behind a zone is the bound (1,050 MiB/s; three drives 3,150), an array is faster \
for a moment when it moves to the next zones. These are on other dies, which accept writes while \
those of the last zones empty the buffer. That happens once per segment of 3.1 GiB, in the \
paper's 64 GiB as well, so it counts as often here: 40 MiB per zone of 1,077, which turns 3,150 \
MiB/s into about 3,235. The full-scale points of Exp#5 show that scaling changes results by less \
than 2 %.";

/// So many blocks in the paper's units.
pub(crate) fn kib(blocks: u32) -> String {
    format!("{} KiB", blocks * 4)
}
