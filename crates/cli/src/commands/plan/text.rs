//! A plan in text: a table of the plan beside the same drives without arrays.

use zoneweave_plan::outcome::{Lasting, Outcome};
use zoneweave_plan::repair::Repair;
use zoneweave_plan::spec::Spec;

use crate::format::{bytes, table};

/// A row: its name, and its figure of an outcome.
type Row = (&'static str, fn(&Outcome) -> String);

const ROWS: &[(&str, &[Row])] = &[
    (
        "space",
        &[
            ("raw", |of| size(of.capacity.raw_bytes)),
            ("volumes", |of| size(of.capacity.volume_bytes)),
            ("usable", |of| size(of.capacity.usable_bytes)),
            ("raw for each usable byte", |of| times(of.capacity.raw_for_each)),
        ],
    ),
    (
        "blocks written for each",
        &[
            ("by the pool", |of| times(of.amplification.pool)),
            ("by relocation", |of| times(of.amplification.relocation)),
            ("by parity", |of| times(of.amplification.parity)),
            ("in all", |of| times(of.amplification.drives)),
            ("drive writes a day", |of| format!("{:.3}", of.amplification.drive_writes_per_day)),
        ],
    ),
    (
        "each host",
        &[
            ("memory in use", |of| bytes(of.host.index_bytes)),
            ("memory at most", |of| bytes(of.host.memory_bytes)),
            ("cores", |of| format!("{:.2}", of.host.cores)),
        ],
    ),
    (
        "repairs",
        &[
            ("drives that fail, a year", |of| format!("{:.1}", of.repairs.drives_per_year)),
            ("rebuild of a drive", |of| repair(&of.repairs.drive)),
            ("healing of an OSD", |of| repair(&of.repairs.array)),
            ("healing of a host", |of| repair(&of.repairs.host)),
            ("within hosts, a year", |of| size(of.repairs.local_bytes_per_year)),
            ("over the network, a year", |of| size(of.repairs.network_bytes_per_year)),
        ],
    ),
    (
        "years to the loss of an OSD",
        &[
            ("Markov chain", |of| count(of.durability.array.chain_years)),
            ("Monte-Carlo, as the chain", |of| count(of.durability.array.like_chain_years)),
            ("Monte-Carlo", |of| simulated(&of.durability.array)),
        ],
    ),
    (
        "years to the loss of objects",
        &[
            ("Markov chain", |of| count(of.durability.pool.chain_years)),
            ("Monte-Carlo, as the chain", |of| count(of.durability.pool.like_chain_years)),
            ("Monte-Carlo", |of| simulated(&of.durability.pool)),
            ("share lost then", |of| count(of.durability.pool.lost_share)),
            ("nines of durability, a year", |of| format!("{:.1}", of.durability.nines)),
        ],
    ),
];

/// The lines of the text.
pub(super) fn lines(spec: &Spec, plan: &Outcome, without: Option<&Outcome>) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{} drives {} in {} arrays of {}+{}, {} hosts, {} racks; {} copies by {}",
            spec.drives(),
            spec.drive.name,
            spec.arrays(),
            spec.array.data,
            spec.array.parity,
            spec.cluster.hosts,
            spec.cluster.racks,
            spec.pool.copies,
            spec.pool.domain
        ),
        String::new(),
    ];
    let mut rows = Vec::new();
    for (section, figures) in ROWS {
        rows.push(vec![(*section).to_owned(), String::new(), String::new()]);
        for (name, figure) in *figures {
            let other = without.map_or_else(|| "-".to_owned(), figure);
            rows.push(vec![format!("  {name}"), figure(plan), other]);
        }
    }
    lines.extend(table(&["", ">this plan", ">drives as OSDs, 3 copies"], &rows));
    lines.push(String::new());
    lines.push(
        "As the chain: with repairs of exponential length. The assumptions and their\nsources: zoneweave plan --template".into(),
    );
    lines
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a figure for people")]
fn size(of: f64) -> String {
    bytes(of.max(0.0) as u64)
}

fn times(factor: f64) -> String {
    format!("{factor:.2}")
}

/// A number of any size, in three digits.
fn count(number: f64) -> String {
    match number {
        n if n.is_infinite() => "never".to_owned(),
        n if (0.1..1e4).contains(&n) => format!("{n:.1}"),
        n => format!("{n:.2e}"),
    }
}

fn simulated(lasting: &Lasting) -> String {
    match lasting.losses {
        0 => "never seen".to_owned(),
        seen @ ..100 => format!("{}, seen {seen} times", count(lasting.years)),
        _ => format!("{} ±{:.0} %", count(lasting.years), lasting.error * 100.0),
    }
}

fn repair(repair: &Repair) -> String {
    format!("{} in {:.1} h", size(repair.bytes), repair.hours)
}
