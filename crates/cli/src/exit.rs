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
    /// A scrub has not read everything.
    Incomplete,
    /// `status --check`: members are being rebuilt, and no other is missing.
    ArrayRebuilding,
    /// `status --check`: degraded.
    ArrayDegraded,
    /// `status --check`: too few members.
    ArrayFailed,
    /// `status --check`: blocks could not be read.
    ArrayDamaged,
    /// `status --check`: too few drives given, or served by somebody else.
    ArrayUnknown,
    /// `status --check`: a server is assembling the array.
    ArrayStarting,
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
            Self::Incomplete => 7,
            Self::ArrayRebuilding => 10,
            Self::ArrayDegraded => 11,
            Self::ArrayFailed => 12,
            Self::ArrayDamaged => 13,
            Self::ArrayUnknown => 14,
            Self::ArrayStarting => 15,
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
            7 => Self::Incomplete,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
