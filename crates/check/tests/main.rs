//! Tests of the checker through its public interface, in one binary.

#![expect(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod arrays;
mod engine;
mod golden;
#[path = "../../raid/tests/golden/image.rs"]
mod golden_image;
mod image;
mod zoned;
