//! What the laws of this repository are checked against: its files, and what cargo knows about its
//! crates. The laws themselves are the tests in `tests/laws`.
//!
//! Nothing here is part of the product. A question that cannot be answered (no git, a manifest that does
//! not parse) is a panic: it fails the law that asked.

mod circles;
mod imports;
mod licence;
mod markdown;
mod metadata;
mod ratchets;
mod repository;
mod tokens;

pub use circles::{Circle, Edge};
pub use imports::ImportGraph;
pub use licence::licence_is_allowed;
pub use markdown::{Link, anchors, links};
pub use metadata::{Dependency, DependencyKind, Package, Workspace};
pub use ratchets::{Count, Ratchets};
pub use repository::{Repository, TextFile};
pub use tokens::{Comment, Token, Tokens};
