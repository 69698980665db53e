//! Exp#8: RAID schemes on four drives (Fig. 13).

use zoneweave_raid::scheme::{Arrangement, Scheme};

use crate::experiments::Report;
use crate::experiments::chart::{Chart, Line};
use crate::experiments::suite::{Configuration, Results, Suite, shape};
use crate::experiments::zapraid::loads::writes::{Mode, THROUGHPUT, WRITE_METRICS, Writes};
use crate::experiments::zapraid::method::{METHOD, STEADY, kib};

const CHUNKS: [u32; 3] = [1, 2, 4];

const MODES: [Mode; 2] = [Mode::ZoneWrite, Mode::Zapraid(256)];

/// Arrangement, data chunks and parity chunks of a stripe.
const SCHEMES: [(&str, Arrangement, usize, usize); 5] = [
    ("raid0", Arrangement::Rotated, 4, 0),
    ("raid01", Arrangement::Mirrored, 2, 2),
    ("raid4", Arrangement::Fixed, 3, 1),
    ("raid5", Arrangement::Rotated, 3, 1),
    ("raid6", Arrangement::Rotated, 2, 2),
];

/// ZapRAID's gain over Zone Write in percent, over all schemes.
const PAPER: [(u32, f64, f64); 3] = [(1, 71.5, 72.1), (2, 75.8, 76.4), (4, 5.3, 5.7)];

const OWN_METHOD: &str = "\
Four drives, one segment, 64 requests as large as a chunk. A scheme's stripes have four (RAID-0), \
three (RAID-4 and RAID-5) or two (RAID-01 and RAID-6) data chunks, and its throughput is \
proportional to that.";

fn name(scheme: &str, chunk_blocks: u32, mode: Mode) -> String {
    format!("{scheme} {} {}", kib(chunk_blocks), mode.name())
}

pub(in crate::experiments) fn suite() -> Suite {
    let mut configurations = Vec::new();
    for (scheme_name, arrangement, data, parity) in SCHEMES {
        let scheme = Scheme::arranged(arrangement, data, parity);
        let scheme = scheme.expect("a scheme on four drives");
        for chunk in CHUNKS {
            for mode in MODES {
                let writes = Writes { scheme, ..Writes::one_segment(mode, chunk) };
                let name = name(scheme_name, chunk, mode);
                let work = move |scale, seed| writes.run(scale, seed);
                configurations.push(Configuration::new(name, work));
            }
        }
    }
    Suite {
        title: "ZapRAID, Exp#8: RAID schemes",
        method: format!("{METHOD}\n\n{STEADY}\n\n{OWN_METHOD}"),
        metrics: WRITE_METRICS,
        configurations,
        judge,
    }
}

fn judge(results: &Results<'_>, report: &mut Report) {
    let of =
        |scheme: &str, chunk: u32, mode: Mode| results.mean(&name(scheme, chunk, mode), THROUGHPUT);
    for chunk in CHUNKS {
        // Throughput grows with the data chunks of a stripe.
        let of_data = |data: usize| -> Vec<f64> {
            let schemes = SCHEMES.iter().filter(|(_, _, of_scheme, _)| *of_scheme == data);
            schemes.map(|(scheme, ..)| of(scheme, chunk, MODES[1])).collect()
        };
        let groups = [4, 3, 2].map(of_data);
        let least = |group: &[f64]| group.iter().copied().fold(f64::MAX, f64::min);
        let most = |group: &[f64]| group.iter().copied().fold(0.0, f64::max);
        let told = |group: &Vec<f64>| format!("{:.0} to {:.0}", least(group), most(group));
        let ordered = groups.windows(2).all(|pair| least(&pair[0]) > 1.1 * most(&pair[1]));
        report.findings.push(shape(
            &format!("{}: zapraid, RAID-0 over RAID-4 and 5 over RAID-01 and 6", kib(chunk)),
            "in this order",
            format!("{} MiB/s", groups.each_ref().map(told).join(", ")),
            "each a tenth above the next",
            ordered,
        ));
    }
    for (chunk, low, high) in PAPER {
        for (scheme, ..) in SCHEMES {
            let ahead = of(scheme, chunk, MODES[1]) / of(scheme, chunk, MODES[0]);
            let (least, most) = (0.88 * (1.0 + low / 100.0), 1.12 * (1.0 + high / 100.0));
            report.findings.push(shape(
                &format!("{scheme} {}: zapraid over zone-write", kib(chunk)),
                &format!("{low} to {high} % more"),
                format!("{:.1} % more", 100.0 * (ahead - 1.0)),
                "the ratio within 12 %",
                (least..=most).contains(&ahead),
            ));
        }
    }
    for (mode, file, title) in [
        (MODES[0], "zone_write", "Zone Write, by scheme"),
        (MODES[1], "zapraid", "ZapRAID, by scheme"),
    ] {
        let line = |(scheme, ..): &(&str, Arrangement, usize, usize)| Line {
            name: (*scheme).to_owned(),
            points: CHUNKS
                .iter()
                .map(|chunk| (f64::from(*chunk) * 4.0, of(scheme, *chunk, mode)))
                .collect(),
        };
        let lines = SCHEMES.iter().map(line).collect();
        report.chart(&Chart { name: file, title, x: "chunk, KiB", y: THROUGHPUT.unit, lines });
    }
}
