//! `--write-mode`: which segments a server keeps open, and how it writes to them.

use clap::{Args, ValueEnum};
use zoneweave_raid::log::format::MAX_SEAL_ROWS;
use zoneweave_raid::log::{Lanes, WritePolicy};

use crate::format::parse_small_blocks;

/// How a server writes.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Writing {
    /// Keep several segments open, and write to them like this; one, as the array was made for, if not given
    #[arg(long, value_enum, value_name = "MODE")]
    pub write_mode: Option<WriteMode>,
    /// Segments for small requests, and the size of their chunks
    #[arg(long, value_name = "NxSIZE", default_value = "3x8KiB", value_parser = parse_lanes, requires = "write_mode")]
    pub small: Lanes,
    /// Segments for requests of a chunk of theirs or more, and the size of those
    #[arg(long, value_name = "NxSIZE", default_value = "1x16KiB", value_parser = parse_lanes, requires = "write_mode")]
    pub large: Lanes,
    /// Stripes of a segment that may be written in any order (zapraid)
    #[arg(long, value_name = "ROWS", default_value_t = 256, requires = "write_mode",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SEAL_ROWS)))]
    pub group_rows: u32,
}

/// By which commands segments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WriteMode {
    /// Zone Write: one chunk of a zone at a time
    ZoneWrite,
    /// Zone Append: many at a time
    ZoneAppend,
    /// Zone Append in groups for one of the segments with small chunks, Zone Write for the others
    Zapraid,
    /// Zone Write of everything that waits for a zone
    Adaptive,
}

impl Writing {
    /// The same, for the engine.
    pub(crate) fn policy(&self) -> Option<WritePolicy> {
        let Self { small, large, .. } = *self;
        Some(match self.write_mode? {
            WriteMode::ZoneWrite => WritePolicy::zone_write(small, large),
            WriteMode::ZoneAppend => WritePolicy::zone_append(small, large),
            WriteMode::Zapraid => WritePolicy::zapraid(small, large, self.group_rows),
            WriteMode::Adaptive => WritePolicy::adaptive(small, large),
        })
    }
}

/// A number of segments and the size of their chunks: `3x8KiB`, or `0` for none.
fn parse_lanes(text: &str) -> Result<Lanes, String> {
    if text == "0" {
        return Ok(Lanes::default());
    }
    let parts =
        text.split_once(['x', 'X']).and_then(|(count, size)| Some((count.parse().ok()?, size)));
    let (count, size) = parts.ok_or_else(|| format!("{text:?}: write for example 3x8KiB, or 0"))?;
    Ok(Lanes { count, chunk_blocks: parse_small_blocks(size)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_a_number_and_a_size() {
        assert_eq!(parse_lanes("3x8K"), Ok(Lanes { count: 3, chunk_blocks: 2 }));
        assert_eq!(parse_lanes("0"), Ok(Lanes::default()));
        assert!(
            parse_lanes("3").is_err() && parse_lanes("x8K").is_err() && parse_lanes("1x7").is_err()
        );
    }
}
