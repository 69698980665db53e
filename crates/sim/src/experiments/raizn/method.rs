//! The common method and the common metrics of all experiments of the paper.

use zoneweave_zoned::BlockCount;

use crate::experiments::Values;
use crate::experiments::suite::Metric;
use crate::workload::Figures;

/// The method.
pub(super) const METHOD: &str = "\
`raizn` is the zoned volume of this project in RAID-5 over 4 + 1 drives `zn540-1tb`, whose zones \
have their real size. The drives have no metadata beside their blocks, as those of the paper, so \
blocks have no checksums. Units have 64 KiB unless another size is named.

`md` is a model of Linux md in RAID-5 over 4 + 1 conventional drives of the same dies, with 7 % \
spare. It has md's left-symmetric layout and a stripe cache without a limit (the paper's has 128 \
MiB). Writes that fill a stripe together are written with their parity, without reads. A stripe \
that gets no more blocks for 200 us is completed by the fewer of two sets of reads: its old blocks \
and old parity, or its other blocks. Reads go to the drives directly; degraded reads of a request \
read each unit of a stripe once. The model neither computes parity nor keeps contents, and it \
takes no time of the host.

Nothing else takes time of the host either, so all results are those of the drives. The paper's \
arrays have drives of 2 TB, eight threads, md and a kernel. Everything runs in virtual time. \
Values are means of runs with different seeds, with the half-width of the 95 % confidence interval \
(Student's t). The text of the paper has few numbers; its figures are not read off.";

pub(super) const THROUGHPUT: Metric = Metric { name: "throughput", unit: "MiB/s" };
pub(super) const P50: Metric = Metric { name: "p50 latency", unit: "us" };
pub(super) const P999: Metric = Metric { name: "p99.9 latency", unit: "us" };

/// Blocks that drives are given for each block of users: data, parity, and parity logs.
pub(super) const AMPLIFICATION: Metric =
    Metric { name: "amplification", unit: "blocks written for each" };

/// Findings without a statement in the paper.
pub(super) const NOT_IN_PAPER: &str = "not in the paper";

/// So many blocks in the paper's units.
pub(super) fn size(blocks: u32) -> String {
    BlockCount(blocks).to_string()
}

/// Rates and latencies.
pub(super) fn figures_of(figures: &Figures) -> Values {
    let mut values = Values::default();
    values.put(THROUGHPUT.name, figures.mib_per_second);
    values.put(P50.name, figures.p50_us);
    values.put(P999.name, figures.p999_us);
    values
}

/// A number of blocks over another.
#[expect(clippy::cast_precision_loss, reason = "fewer blocks than 2^53")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
