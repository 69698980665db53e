//! The options of every verb: how results are printed.

use clap::{Args, ValueEnum};

/// Options of every verb.
#[derive(Args)]
pub(crate) struct Globals {
    /// Print one JSON document instead of text (sizes in bytes, times in ns)
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only results, warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also print details, e.g. of recovery
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// When to colour the output
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}
