//! The options of every verb: how results are printed.

use clap::{Args, ValueEnum};

/// Their heading in the help: clap would mix them with the options of a verb.
const GLOBAL: &str = "Global options";

/// Options of every verb.
#[derive(Args)]
pub(crate) struct Globals {
    /// Print one JSON document instead of text (sizes in bytes, times in ns)
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Print only results, warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = GLOBAL)]
    pub quiet: bool,
    /// Also print details, e.g. of recovery
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub verbose: bool,
    /// When to colour the output
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, help_heading = GLOBAL)]
    pub color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
