//! Scenarios as files: JSON, one action per line.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use thiserror::Error;

use super::{FORMAT, Scenario};

/// Lists and objects nested deeper than this are on one line.
const OPEN_LEVELS: usize = 6;

/// Why a text is not a scenario.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Malformed JSON.
    #[error("malformed scenario: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Another format.
    #[error("the scenario has format {found}; this release reads format {FORMAT}")]
    Format {
        /// The format of the file.
        found: u32,
    },
    /// A number of it is out of range.
    #[error("{field} is {value} in the scenario; allowed are {least} to {most}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// The number.
        value: u64,
        /// The minimum.
        least: u64,
        /// The maximum that fits into memory and finishes.
        most: u64,
    },
}

impl Scenario {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// If the text is not a scenario.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let scenario: Self = serde_json::from_str(text)?;
        if scenario.format != FORMAT {
            return Err(TraceError::Format { found: scenario.format });
        }
        for (field, value, least, most) in scenario.numbers() {
            if !(least..=most).contains(&value) {
                return Err(TraceError::OutOfRange { field, value, least, most });
            }
        }
        Ok(scenario)
    }

    /// Fields with a limited range.
    fn numbers(&self) -> [(&'static str, u64, u64, u64); 9] {
        let shape = &self.shape;
        let (data, parity) = (shape.data as u64, shape.parity as u64);
        let (parity_least, parity_most) = shape.layout.parity_range(data);
        [
            ("data", data, 1, 32),
            ("parity", parity, parity_least, parity_most),
            ("zones", shape.zones.into(), 1, 256),
            ("zone_blocks", shape.zone_blocks.into(), 1, 4096),
            ("chunk_blocks", shape.chunk_blocks.into(), 1, 256),
            ("group_rows", shape.group_rows.into(), 1, 4096),
            ("active_zones", shape.active_zones.into(), 1, 256),
            ("latency_us", shape.latency_us, 1, 1_000_000),
            ("the number of lives", self.lives.len() as u64, 0, 1000),
        ]
    }

    /// The scenario as the text of a file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = Vec::new();
        let formatter = Outline { depth: 0, open: PrettyFormatter::new() };
        let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
        self.serialize(&mut serializer).expect("a scenario has a text");
        text.push(b'\n');
        String::from_utf8(text).expect("JSON is UTF-8")
    }
}

/// Indents the outer levels and keeps the inner ones on a line.
struct Outline {
    depth: usize,
    open: PrettyFormatter<'static>,
}

macro_rules! by_depth {
    ($self:ident, $method:ident, $($argument:expr),*) => {
        if $self.depth < OPEN_LEVELS {
            $self.open.$method($($argument),*)
        } else {
            CompactFormatter.$method($($argument),*)
        }
    };
}

impl Formatter for Outline {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        by_depth!(self, begin_array, writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let result = by_depth!(self, end_array, writer);
        self.depth -= 1;
        result
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        by_depth!(self, begin_array_value, writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        by_depth!(self, end_array_value, writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        by_depth!(self, begin_object, writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let result = by_depth!(self, end_object, writer);
        self.depth -= 1;
        result
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        by_depth!(self, begin_object_key, writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        by_depth!(self, begin_object_value, writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        by_depth!(self, end_object_value, writer)
    }
}
