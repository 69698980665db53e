//! Reads the files, crates, imports, prose and history of this repository. The tests in
//! `tests` hold them against its laws.
//!
//! Nothing here is part of the product. A question that cannot be answered (no git, a manifest that
//! does not parse) is a panic: it fails the law that asked.

mod circles;
pub mod commits;
pub mod house;
mod imports;
pub mod layers;
mod licence;
mod markdown;
mod metadata;
mod product;
pub mod prose;
mod ratchets;
mod repository;
mod tokens;

pub use circles::{Circle, Edge};
pub use imports::ImportGraph;
pub use licence::licence_is_allowed;
pub use markdown::{Link, anchors, links};
pub use metadata::{Dependency, DependencyKind, Package, Workspace};
pub use product::Product;
pub use ratchets::{Count, Ratchets};
pub use repository::{Repository, TextFile};
pub use tokens::{Comment, Token, Tokens};
