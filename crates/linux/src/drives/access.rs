//! What a drive is opened for.

/// What a drive is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading and writing, by this process alone.
    Exclusive,
    /// Reading, beside others.
    ReadOnly,
}
