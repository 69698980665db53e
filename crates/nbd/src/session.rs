//! The agreement of a finished handshake.

use std::sync::Arc;

use crate::export::{ExportDescription, ExportIndex, ExportList};
use crate::flags::TransmissionFlags;

/// Number by which block-status replies name a metadata context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextId(pub u32);

impl ContextId {
    /// Number of `base:allocation`, the only context. Not 0, which `LIST_META_CONTEXT` replies use
    /// to say "no number".
    pub const BASE_ALLOCATION: Self = Self(1);
}

/// One client's agreed terms, fixed for the life of the connection. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    exports: Arc<ExportList>,
    index: ExportIndex,
    structured_replies: bool,
    base_allocation: Option<ContextId>,
    flags: TransmissionFlags,
}

impl Session {
    /// Terms for the export at `index`. `base_allocation` needs `structured_replies`.
    #[must_use]
    pub fn new(
        exports: Arc<ExportList>,
        index: ExportIndex,
        structured_replies: bool,
        base_allocation: Option<ContextId>,
    ) -> Self {
        assert!(
            structured_replies || base_allocation.is_none(),
            "metadata contexts need structured replies"
        );
        let flags = effective_flags(exports.get(index), structured_replies);
        Self { exports, index, structured_replies, base_allocation, flags }
    }

    /// The chosen export.
    #[must_use]
    pub fn export(&self) -> &ExportDescription {
        self.exports.get(self.index)
    }

    /// Its position in the list the handshake was given.
    #[must_use]
    pub fn export_index(&self) -> ExportIndex {
        self.index
    }

    /// Whether reads and errors are answered with structured chunks.
    #[must_use]
    pub fn structured_replies(&self) -> bool {
        self.structured_replies
    }

    /// The number of `base:allocation` if the client selected it for this export.
    #[must_use]
    pub fn base_allocation(&self) -> Option<ContextId> {
        self.base_allocation
    }

    /// The flags sent to the client, which decide the requests it may send.
    #[must_use]
    pub fn flags(&self) -> TransmissionFlags {
        self.flags
    }
}

/// The flags a client is told: always `HAS_FLAGS`, and `SEND_DF` only with structured replies.
pub(crate) fn effective_flags(
    export: &ExportDescription,
    structured_replies: bool,
) -> TransmissionFlags {
    let flags = export.flags | TransmissionFlags::HAS_FLAGS;
    if structured_replies { flags } else { flags.without(TransmissionFlags::SEND_DF) }
}
