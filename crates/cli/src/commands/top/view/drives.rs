//! The drives of a volume: a table whose columns give way on a narrow terminal.

use ratatui::text::Line;
use zoneweave_raid::log::MemberHealth;

use super::told;
use crate::format::{bytes, columns as width, table as aligned};
use crate::metrics::rates::{ArrayRates, DriveRates};
use crate::output::Tone;
use crate::status::{ArrayStatus, MemberStatus, drive_names, member_tone};

/// A column: its heading, and how soon it gives way; 0 stays.
type Column = (&'static str, u8);

const COLUMNS: [Column; 8] = [
    (">SLOT", 0),
    ("STATE", 0),
    ("ERRORS", 0),
    (">READ/s", 1),
    (">WRITE/s", 2),
    (">R p50/p99", 3),
    (">W p50/p99", 4),
    ("DRIVE", 5),
];

/// The table in so many lines. If the drives do not fit, drives out of service come first.
pub(super) fn table(
    status: &ArrayStatus,
    rates: Option<&ArrayRates>,
    columns: usize,
    lines: usize,
) -> Vec<Line<'static>> {
    if lines < 2 {
        return Vec::new();
    }
    let (_, names) = drive_names(status);
    let mut drives: Vec<_> = status.members.iter().zip(names).collect();
    let (all, most) = (drives.len(), lines - 1);
    if all > most {
        drives.sort_by_key(|(member, _)| (member.state == MemberHealth::Online, member.slot));
        // The last line says how many are not shown.
        drives.truncate(most - 1);
    }
    let rate = |member: &MemberStatus| {
        rates.and_then(|rates| rates.drives.iter().find(|drive| drive.slot == member.slot))
    };
    let rows = drives.iter().map(|(member, name)| row(member, rate(member), name.clone()));
    let text = fitted(&rows.collect::<Vec<_>>(), columns);
    let mut text = text.into_iter();
    let heading = text.next().map(|heading| Line::from(told(heading, Tone::Faint)));
    let tones = drives.iter().map(|(member, _)| member_tone(member.state));
    let drawn = text.zip(tones).map(|(line, tone)| Line::from(told(line, tone)));
    let hidden = all - drives.len();
    let more =
        (hidden > 0).then(|| Line::from(told(format!("  {hidden} more drives"), Tone::Faint)));
    heading.into_iter().chain(drawn).chain(more).collect()
}

fn row(member: &MemberStatus, rates: Option<&DriveRates>, name: String) -> Vec<String> {
    let unknown = || "-".to_owned();
    let io = member.io;
    let errors =
        io.map(|io| format!("{}/{}/{}", io.read_errors, io.write_errors, io.checksum_errors));
    let rate = |of: fn(&DriveRates) -> u64| rates.map_or_else(unknown, |rates| bytes(of(rates)));
    let percentiles =
        |of: fn(&DriveRates) -> Option<String>| rates.and_then(of).unwrap_or_else(unknown);
    vec![
        member.slot.to_string(),
        member.state.to_string(),
        errors.unwrap_or_else(unknown),
        rate(|rates| rates.read_bytes_per_s),
        rate(|rates| rates.written_bytes_per_s),
        percentiles(DriveRates::reads),
        percentiles(DriveRates::writes),
        name,
    ]
}

/// The lines of a table with as many columns as fit; the name of a drive may be cut.
fn fitted(rows: &[Vec<String>], columns: usize) -> Vec<String> {
    let lines = |kept: u8| {
        let is_kept = |at: usize| COLUMNS[at].1 <= kept;
        let headings: Vec<_> =
            (0..COLUMNS.len()).filter(|at| is_kept(*at)).map(|at| COLUMNS[at].0).collect();
        let part = |row: &Vec<String>| {
            assert_eq!(row.len(), COLUMNS.len(), "a cell for each column");
            let cells = row.iter().enumerate().filter(|(at, _)| is_kept(*at));
            cells.map(|(_, cell)| cell.clone()).collect::<Vec<_>>()
        };
        let rows: Vec<_> = rows.iter().map(part).collect();
        aligned(&headings, &rows)
    };
    let fits = |lines: &Vec<String>| lines.iter().all(|line| width(line) <= columns);
    let narrower = (0..5).rev().map(lines).find(fits);
    let all = lines(5);
    // A name that is cut at the edge says more than none, if its beginning is there.
    let begins = all.first().is_some_and(|heading| width(heading) <= columns);
    if fits(&all) || begins { all } else { narrower.unwrap_or_else(|| lines(0)) }
}
