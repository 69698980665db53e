//! The findings of an offline check: listed as ranges, counted, and judged.

use zoneweave_check::Tally;

use crate::exit::Exit;
use crate::output::Output;
use crate::ranges::Line;

/// Findings collected before ranges are merged, about 20 MB.
const FOR_RANGES: usize = 1 << 16;

/// How many findings to collect if so many lines are listed: consecutive ones merge into a line.
pub(crate) fn collected(listed: usize) -> usize {
    listed.max(FOR_RANGES)
}

/// Prints the first lines, and how many findings are left.
pub(crate) fn list(lines: &[Line], most: usize, tally: &Tally, output: &Output) {
    for line in lines.iter().take(most) {
        output.line(line.text());
    }
    let told: u64 = lines.iter().take(most).map(Line::findings).sum();
    let left = tally.notes + tally.damage + tally.losses + tally.violations - told;
    if left > 0 {
        output.line(format_args!("and {left} more; see --findings"));
    }
}

/// The exit code of a check that found something to check.
pub(crate) fn exit_of(tally: &Tally, is_clean: bool) -> Exit {
    match (tally.losses, is_clean) {
        (0, true) => Exit::Done,
        (0, false) => Exit::Failed,
        _ => Exit::DataLost,
    }
}
