//! Sizes, times and tables as text.

use std::borrow::Cow;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

const UNITS: [(&str, u64); 4] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// The error for a size that does not parse.
const SIZES: &str = "a size is a whole number of bytes, or a number with K, M, G or T (KiB, MiB, GiB, TiB; powers \
     of 1024), such as 16M";

/// Parses a size in bytes: `4096`, `16K`, `1MiB`, `2GiB`. All units are binary.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    // Too many digits, or none.
    let number = number.parse::<u64>().map_err(|_| match number {
        "" => SIZES.to_owned(),
        _ => format!("{text:?} is too large"),
    })?;
    let unit = unit.trim().to_ascii_uppercase();
    if unit.starts_with(['.', ',']) {
        return Err(format!("{SIZES}; write a fraction in a smaller unit, 1.5G as 1536M"));
    }
    let scale = match unit.as_str() {
        "" | "B" => 1,
        "K" | "KIB" => 1 << 10,
        "M" | "MIB" => 1 << 20,
        "G" | "GIB" => 1 << 30,
        "T" | "TIB" => 1 << 40,
        _ => return Err(SIZES.to_owned()),
    };
    number.checked_mul(scale).ok_or_else(|| format!("{text:?} is too large"))
}

/// Parses a time such as `30s` or `2min`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text)
        .map_err(|error| format!("{text:?} is not a time such as 30s or 2min: {error}"))
}

/// Parses a size; returns 4 KiB blocks.
pub(crate) fn parse_blocks(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if bytes == 0 || !bytes.is_multiple_of(4096) {
        return Err(format!("{text:?} is not a positive multiple of the block size (4KiB)"));
    }
    Ok(bytes / 4096)
}

/// As [`parse_blocks`], for sizes up to that of a zone.
pub(crate) fn parse_small_blocks(text: &str) -> Result<u32, String> {
    u32::try_from(parse_blocks(text)?).map_err(|_| format!("{text:?} is too large"))
}

/// An offset in blocks, which may be 0.
pub(crate) fn parse_offset(text: &str) -> Result<u32, String> {
    if parse_bytes(text)? == 0 { Ok(0) } else { parse_small_blocks(text) }
}

/// The size of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeSize {
    /// As large as the drives allow.
    Largest,
    /// Size in blocks.
    Blocks(u64),
}

/// `max`, or a size.
pub(crate) fn parse_volume_size(text: &str) -> Result<VolumeSize, String> {
    if text.eq_ignore_ascii_case("max") {
        return Ok(VolumeSize::Largest);
    }
    let blocks = parse_blocks(text).map_err(|problem| format!("{problem}; or use `max`"))?;
    Ok(VolumeSize::Blocks(blocks))
}

/// Bytes to three digits, such as `1.49 GiB`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn bytes(count: u64) -> String {
    let unit = UNITS.iter().rev().find(|(_, size)| count >= *size);
    let Some((name, size)) = unit else { return format!("{count} B") };
    let value = count as f64 / *size as f64;
    let digits = match value {
        v if count.is_multiple_of(*size) || v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {name}")
}

/// A duration in its two largest units.
pub(crate) fn span(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes:02}m"),
        _ => format!("{days}d {hours:02}:{minutes:02}"),
    }
}

/// A time in nanoseconds since 1970, as 2026-01-31T12:00:00Z.
pub(crate) fn time(unix_ns: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_nanos(unix_ns);
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Rows under headings, as wide as needed. Columns whose heading starts with `>` are set flush
/// right.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let right: Vec<bool> = headings.iter().map(|heading| heading.starts_with('>')).collect();
    let headings: Vec<String> =
        headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&headings]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..headings.len()).map(width).collect();
    let render = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if right[column] { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(&headings).chain(rows).map(render).collect()
}

/// Columns of a terminal that all text fits, but for paths and commands to be pasted.
pub(crate) const COLUMNS: usize = 80;

/// Lines of at most 80 columns that begin with `head`, and continue below its end. A command of
/// this program after a colon gets a line of its own, to be pasted whole.
pub(crate) fn wrapped(head: &str, text: &str) -> Vec<String> {
    let indent = columns(head);
    let (text, command) = match text.find(": zoneweave ") {
        Some(at) => (&text[..=at], Some(&text[at + 2..])),
        None => (text, None),
    };
    let words: Vec<_> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let mut lines = broken(&format!("{head}{}", words.join(" ")), indent);
    lines.extend(command.map(|command| format!("{:indent$}{command}", "")));
    lines
}

/// A line, broken so that it fits a terminal; the lines behind the first begin at column `indent`,
/// and nothing is broken before it.
pub(crate) fn broken(text: &str, indent: usize) -> Vec<String> {
    broken_at(COLUMNS, text, indent)
}

/// As [`broken`], at another width.
pub(crate) fn broken_at(width_columns: usize, text: &str, indent: usize) -> Vec<String> {
    let (mut lines, mut line, mut column) = (Vec::new(), String::new(), 0);
    for (at, word) in text.split(' ').enumerate() {
        let (gap, width) = (usize::from(at > 0), columns(word));
        if column > indent && column + gap + width > width_columns {
            line.truncate(line.trim_end_matches(' ').len());
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            column = indent;
        } else {
            line.push_str(&" "[..gap]);
            column += gap;
        }
        line.push_str(word);
        column += width;
    }
    lines.push(line);
    lines
}

/// Width of a text, without its colours.
pub(crate) fn columns(text: &str) -> usize {
    let (mut count, mut is_colour) = (0, false);
    for character in text.chars() {
        match character {
            '\x1b' => is_colour = true,
            'm' if is_colour => is_colour = false,
            _ => count += usize::from(!is_colour),
        }
    }
    count
}

/// A path for people: relative if it is below the working directory.
pub(crate) fn shown(path: &Path) -> String {
    let below = std::env::current_dir().ok().filter(|here| here.parent().is_some());
    let below = below.and_then(|here| Some(path.strip_prefix(here).ok()?.to_owned()));
    below.as_deref().unwrap_or(path).display().to_string()
}

/// An argument quoted for a shell, if it needs quotes.
pub(crate) fn word(argument: impl Display) -> String {
    let argument = argument.to_string();
    // A NUL cannot be quoted.
    shlex::try_quote(&argument).map_or_else(|_| argument.clone(), Cow::into_owned)
}

/// Paths quoted for a shell, separated by spaces. One that begins with a dash is no option.
pub(crate) fn words(paths: &[PathBuf]) -> String {
    let shown = |path: &PathBuf| {
        let path = path.display().to_string();
        word(if path.starts_with('-') { format!("./{path}") } else { path })
    };
    paths.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// A text in one line: control characters, which would break it, or change a terminal, are shown as
/// escapes.
pub(crate) fn printable(text: &str) -> String {
    let mut told = String::new();
    for character in text.chars() {
        match character.is_control() {
            true => told.extend(character.escape_default()),
            false => told.push(character),
        }
    }
    told
}

/// The state of a slot with its reason, if there is one.
pub(crate) fn slot_state(slot: u8, state: impl Display, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("slot {slot} {state}: {reason}"),
        None => format!("slot {slot} {state}"),
    }
}

/// Slots as text: `slot 1` or `slots 1, 3`.
pub(crate) fn slots(slots: &[u8]) -> String {
    let plural = if slots.len() == 1 { "" } else { "s" };
    let numbers: Vec<_> = slots.iter().map(u8::to_string).collect();
    format!("slot{plural} {}", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_a_line() {
        assert_eq!(printable("a\nb \u{1b}[1m\u{e4}"), "a\\nb \\u{1b}[1m\u{e4}");
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("16k"), Ok(16 << 10));
        assert_eq!(parse_bytes("1 MiB"), Ok(1 << 20));
        assert_eq!(parse_bytes("3T"), Ok(3 << 40));
        for wrong in ["", "MiB", "-1", "1.5G", "10MB", "99999999999T"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        let complaint = |text| parse_bytes(text).unwrap_err();
        assert_eq!(complaint("16 MB"), SIZES);
        assert!(complaint("10.3M").ends_with("1.5G as 1536M"), "{}", complaint("10.3M"));
        assert!(complaint("99999999999999999999").ends_with("is too large"));
        assert!(parse_volume_size("largest").unwrap_err().ends_with("or use `max`"));
        assert!(parse_blocks("4095").is_err() && parse_blocks("0").is_err());
        assert_eq!(parse_volume_size("MAX"), Ok(VolumeSize::Largest));
    }

    #[test]
    fn sizes_are_shown_to_three_digits() {
        let shown = [0, 4096, 1 << 20, 1_600_000_000, 123 << 30, 5 << 39].map(bytes);
        assert_eq!(shown, ["0 B", "4 KiB", "1 MiB", "1.49 GiB", "123 GiB", "2.50 TiB"]);
    }

    #[test]
    fn times_are_shown_in_the_units_that_matter() {
        let second = 1_000_000_000;
        let shown = [4, 64, 3700, 90_000].map(|seconds| span(seconds * second));
        assert_eq!(shown, ["4s", "1m 04s", "1h 01m", "1d 01:00"]);
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        let paths = ["/dev/ng0n1", "d/drive0", "a b/drive0", "$x", "it's", "-d"].map(PathBuf::from);
        assert_eq!(words(&paths), "/dev/ng0n1 d/drive0 'a b/drive0' '$x' \"it's\" ./-d");
        assert_eq!(word(""), "''");
    }

    #[test]
    fn lines_fit_a_terminal_and_commands_are_whole() {
        let text = format!(
            "{} end: zoneweave array replace {} --slot 1",
            "word ".repeat(30),
            "/d".repeat(60)
        );
        let lines = wrapped("  action    ", &text);
        let (command, lines) = lines.split_last().unwrap();
        assert!(command.starts_with("            zoneweave array replace /d/d"));
        assert!(lines.iter().all(|line| line.len() <= 80) && lines.len() == 3, "{lines:?}");
        assert!(
            lines[0].starts_with("  action    word word")
                && lines[1].starts_with("            word")
        );
        assert_eq!(
            wrapped("  x ", "\x1b[31;1mFAILED\x1b[0m now"),
            ["  x \x1b[31;1mFAILED\x1b[0m now"]
        );
        assert_eq!(columns("\x1b[31;1mFAILED\x1b[0m"), 6);
        assert_eq!(wrapped("  x ", ""), ["  x "]);
    }

    #[test]
    fn tables_align() {
        let rows =
            vec![vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "22".to_owned()]];
        assert_eq!(table(&["X", ">N"], &rows), ["X     N", "a     1", "bcd  22"]);
    }
}
