//! The exports that a client may list and choose.
//!
//! Invariants of an [`ExportList`], checked once when it is made: at least one export, unique
//! names, strings and sizes within the protocol's limits, and no flag this crate could not honour.

use crate::flags::TransmissionFlags;

/// Longest export name: the protocol says names SHOULD stay within 256 bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Longest description: the protocol's limit for any string.
pub const DESCRIPTION_BYTES_MAX: usize = 4096;
/// Longest read or write: 2^25 bytes, the assumption of clients that negotiate nothing.
pub const PAYLOAD_BYTES_MAX: u32 = 1 << 25;
/// Largest export: clients hold sizes in signed 64-bit integers.
pub const EXPORT_SIZE_BYTES_MAX: u64 = i64::MAX as u64;

/// Position of an export in its [`ExportList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExportIndex(pub usize);

/// Block-size constraints told to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Every offset and length must be a multiple of this; 1 means any.
    pub minimum_bytes: u32,
    /// Requests aligned to this avoid a read-modify-write.
    pub preferred_bytes: u32,
    /// Longest read or write: 2^25 bytes, the assumption of clients that negotiate nothing.
    pub maximum_bytes: u32,
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self { minimum_bytes: 1, preferred_bytes: 4096, maximum_bytes: PAYLOAD_BYTES_MAX }
    }
}

impl BlockSizes {
    /// Constraints from the protocol: powers of two, 1 ≤ minimum ≤ 64 KiB, preferred ≥ 512.
    fn is_valid(&self) -> bool {
        let Self { minimum_bytes, preferred_bytes, maximum_bytes } = *self;
        minimum_bytes.is_power_of_two()
            && minimum_bytes <= 1 << 16
            && preferred_bytes.is_power_of_two()
            && preferred_bytes >= minimum_bytes.max(512)
            && maximum_bytes >= preferred_bytes
            && maximum_bytes.is_multiple_of(minimum_bytes)
            && maximum_bytes <= PAYLOAD_BYTES_MAX
    }
}

/// One export, as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportDescription {
    /// Name the client selects it by.
    pub name: String,
    /// Text for humans; may be empty.
    pub description: String,
    /// Size of the export.
    pub size_bytes: u64,
    /// Features of the export. `HAS_FLAGS` is implied; `SEND_DF` is withheld from clients that did
    /// not agree to structured replies.
    pub flags: TransmissionFlags,
    /// Block-size constraints.
    pub block_sizes: BlockSizes,
}

/// Why a list of exports cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// There is nothing to serve.
    #[error("the list of exports is empty; name at least one")]
    NoExports,
    /// Two exports share a name.
    #[error("two exports are named {name:?}; rename one")]
    DuplicateName {
        /// The shared name.
        name: String,
    },
    /// A name or description cannot be sent.
    #[error(
        "export {index}: the name may have {NAME_BYTES_MAX} bytes and the description \
         {DESCRIPTION_BYTES_MAX}, both without NUL; shorten them"
    )]
    BadText {
        /// Position in the list.
        index: usize,
    },
    /// The size is out of range or not a multiple of the minimum block size.
    #[error(
        "export {name:?}: {size_bytes} bytes is over {EXPORT_SIZE_BYTES_MAX} or not a multiple of \
         the minimum block size"
    )]
    BadSize {
        /// Name of the export.
        name: String,
        /// Its size.
        size_bytes: u64,
    },
    /// The block sizes break the protocol's rules.
    #[error(
        "export {name:?}: block sizes {block_sizes:?} must be powers of two with minimum ≤ 64 KiB, \
         512 ≤ preferred ≤ maximum ≤ {PAYLOAD_BYTES_MAX}"
    )]
    BadBlockSizes {
        /// Name of the export.
        name: String,
        /// The sizes asked for.
        block_sizes: BlockSizes,
    },
    /// A flag promises a command that this server does not have.
    #[error("export {name:?}: flags {flags:?} cannot be honoured together; remove them")]
    BadFlags {
        /// Name of the export.
        name: String,
        /// The flags in question.
        flags: TransmissionFlags,
    },
}

/// The exports of a server. The first is the default: clients reach it by the empty name too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportList(Vec<ExportDescription>);

impl ExportList {
    /// Checks and keeps the exports.
    ///
    /// # Errors
    /// [`ExportError`] names the export and the rule it breaks.
    pub fn new(exports: Vec<ExportDescription>) -> Result<Self, ExportError> {
        if exports.is_empty() {
            return Err(ExportError::NoExports);
        }
        for (index, export) in exports.iter().enumerate() {
            check(index, export)?;
            if exports[..index].iter().any(|earlier| earlier.name == export.name) {
                return Err(ExportError::DuplicateName { name: export.name.clone() });
            }
        }
        Ok(Self(exports))
    }

    /// Finds an export by the name a client sent, which need not be UTF-8.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<ExportIndex> {
        let exact = self.0.iter().position(|export| export.name.as_bytes() == name);
        exact.or(name.is_empty().then_some(0)).map(ExportIndex)
    }

    /// The export at `index`, which must come from this list.
    #[must_use]
    pub fn get(&self, index: ExportIndex) -> &ExportDescription {
        &self.0[index.0]
    }

    /// All exports in order.
    pub fn iter(&self) -> impl Iterator<Item = &ExportDescription> {
        self.0.iter()
    }
}

fn check(index: usize, export: &ExportDescription) -> Result<(), ExportError> {
    let ExportDescription { name, description, size_bytes, flags, block_sizes } = export;
    let (size_bytes, flags, block_sizes) = (*size_bytes, *flags, *block_sizes);
    if name.len() > NAME_BYTES_MAX
        || description.len() > DESCRIPTION_BYTES_MAX
        || name.contains('\0')
        || description.contains('\0')
    {
        return Err(ExportError::BadText { index });
    }
    if !block_sizes.is_valid() {
        return Err(ExportError::BadBlockSizes { name: name.clone(), block_sizes });
    }
    if size_bytes > EXPORT_SIZE_BYTES_MAX
        || !size_bytes.is_multiple_of(u64::from(block_sizes.minimum_bytes))
    {
        return Err(ExportError::BadSize { name: name.clone(), size_bytes });
    }
    let unsupported = flags.without(TransmissionFlags::SUPPORTED);
    if !unsupported.is_empty() {
        return Err(ExportError::BadFlags { name: name.clone(), flags: unsupported });
    }
    if flags.contains(TransmissionFlags::SEND_FAST_ZERO)
        && !flags.contains(TransmissionFlags::SEND_WRITE_ZEROES)
    {
        return Err(ExportError::BadFlags { name: name.clone(), flags });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(name: &str) -> ExportDescription {
        ExportDescription {
            name: name.into(),
            description: String::new(),
            size_bytes: 1 << 20,
            flags: TransmissionFlags::NONE,
            block_sizes: BlockSizes::default(),
        }
    }

    #[test]
    fn empty_name_reaches_the_first_export_unless_one_is_named_so() {
        let list = ExportList::new(vec![export("a"), export("b")]).unwrap();
        assert_eq!(list.find(b""), Some(ExportIndex(0)));
        assert_eq!(list.find(b"b"), Some(ExportIndex(1)));
        assert_eq!(list.find(b"c"), None);
        assert_eq!(list.find(&[0xff]), None);
        let list = ExportList::new(vec![export("a"), export("")]).unwrap();
        assert_eq!(list.find(b""), Some(ExportIndex(1)));
    }

    #[test]
    fn unservable_lists_are_refused() {
        assert_eq!(ExportList::new(vec![]), Err(ExportError::NoExports));
        let twice = ExportList::new(vec![export("a"), export("a")]);
        assert!(matches!(twice, Err(ExportError::DuplicateName { .. })));
        let long = ExportList::new(vec![export(&"n".repeat(257))]);
        assert!(matches!(long, Err(ExportError::BadText { index: 0 })));
        let nul = ExportList::new(vec![export("a\0b")]);
        assert!(matches!(nul, Err(ExportError::BadText { .. })));
        let huge = ExportDescription { size_bytes: u64::MAX, ..export("a") };
        assert!(matches!(ExportList::new(vec![huge]), Err(ExportError::BadSize { .. })));
        let resize = ExportDescription { flags: TransmissionFlags::SEND_RESIZE, ..export("a") };
        assert!(matches!(ExportList::new(vec![resize]), Err(ExportError::BadFlags { .. })));
        let fast = ExportDescription { flags: TransmissionFlags::SEND_FAST_ZERO, ..export("a") };
        assert!(matches!(ExportList::new(vec![fast]), Err(ExportError::BadFlags { .. })));
    }

    #[test]
    fn block_sizes_follow_the_protocol() {
        let valid = |minimum_bytes, preferred_bytes, maximum_bytes| {
            BlockSizes { minimum_bytes, preferred_bytes, maximum_bytes }.is_valid()
        };
        assert!(valid(1, 4096, 1 << 25));
        assert!(valid(4096, 4096, 4096));
        assert!(!valid(0, 4096, 1 << 25));
        assert!(!valid(3, 4096, 1 << 25));
        assert!(!valid(1, 256, 1 << 25));
        assert!(!valid(1 << 17, 1 << 17, 1 << 25));
        assert!(!valid(1, 4096, (1 << 25) + 1));
        assert!(!valid(512, 512, 1000));
    }
}
