//! Exclusive or read-only access to a drive.

/// The purpose for which a drive is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading and writing, by this process alone.
    Exclusive,
    /// Reading, while another process may write.
    ReadOnly,
}
