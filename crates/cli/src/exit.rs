//! The exit code of a command.

use std::process::ExitCode;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success, or nothing to do.
    Done,
    /// Failed.
    Failed,
    /// Usage error.
    Usage,
    /// A file, drive or array does not exist.
    NotFound,
    /// Refused for safety.
    Refused,
    /// A server does not answer, or is needed and not running.
    Unreachable,
    /// Data is lost.
    DataLost,
    /// `status --check`: degraded, and a rebuild is running.
    DegradedRebuilding,
    /// `status --check`: degraded.
    Degraded,
    /// `status --check`: too few members, or too few drives given.
    ArrayFailed,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unreachable => 5,
            Self::DataLost => 6,
            Self::DegradedRebuilding => 10,
            Self::Degraded => 11,
            Self::ArrayFailed => 12,
        }
    }

    /// The exit of a number that another process sent.
    pub(crate) const fn of_code(code: u8) -> Self {
        match code {
            0 => Self::Done,
            2 => Self::Usage,
            3 => Self::NotFound,
            4 => Self::Refused,
            5 => Self::Unreachable,
            6 => Self::DataLost,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
